"""The report of a run as a file: its content, its size, and what it never contains. (tests/browser/test_report.py opens
it.)"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.__main__ import main
from agf_magics.catalog import Registry
from agf_magics.settings.settings import current
from tests.notebook.conftest import Shell, code
from tests.notebook.test_history import failed as failed

EVIL = "</script><img src=x onerror=alert(1)>"
FAN = """\
pipeline: fan
steps:
- for_each:
    over: ctx.numbers
    on_error: continue
    do: {tool: {name: double, args: {x: !expr item}}}
    collect: {transform: {value: pipe}}
    output: doubled
"""


class Tags(HTMLParser):
    """The elements of a page with their attributes, and the texts in them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append((self.tags[-1][0] if self.tags else "", data))


def doubling(registry: Registry) -> None:
    @agf.tool(registry=registry)
    def double(x: int) -> int:
        if x == 3:
            raise ValueError(f"three {EVIL}")
        return 2 * x


def data_of(page: str) -> dict[str, Any]:
    (answers_text,) = re.findall(r'id="agf-answers">(.*?)</script>', page, re.S)
    answers: dict[str, Any] = json.loads(answers_text)
    return answers


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.fixture
def journaled(tmp_path: Path) -> Path:
    path = tmp_path / "runs.sqlite"
    current.settings = replace(current.settings, journal=str(path))
    return path


@pytest.fixture
def fan(journaled: Path, registry: Registry) -> agf.Run:
    doubling(registry)
    return agf.run(FAN, {"numbers": list(range(5))}, registry=registry)


def test_a_report_has_each_step_error_and_value_without_a_script(fan: agf.Run, tmp_path: Path) -> None:
    page = agf.report(fan, tmp_path / "run.html").read_text(encoding="utf-8")
    visible = re.sub(r"<script.*?</script>", "", page, flags=re.S)
    for part in ("doubled #3", "three &lt;/script&gt;", "double", "for_each", "pipeline: fan", ">8<"):
        assert part in visible, part


def test_the_explorer_of_a_report_shows_each_call_in_full(fan: agf.Run, tmp_path: Path) -> None:
    page = agf.report(fan, tmp_path / "run.html").read_text(encoding="utf-8")
    answers = data_of(page)["answers"]
    # The number of a call is a line of the journal. Marks take up lines there, too.
    call_requests = {key: json.loads(key) for key in answers if key.startswith('["call",')}
    calls = [answers[key]["value"] for key, (_, _, step) in call_requests.items() if step == ["step", "steps[0]"]]
    assert sorted(call["at"] for call in calls) == [f"#{number}" for number in range(5)]
    assert all(call["given"]["parts"] == [["x", {"kind": "text", "text": call["at"][1:]}]] for call in calls)


def test_no_text_of_a_run_becomes_an_element_and_nothing_is_loaded(fan: agf.Run, tmp_path: Path) -> None:
    page = agf.report(fan, tmp_path / "run.html").read_text(encoding="utf-8")
    tags = Tags(page).tags
    assert [attributes.get("type") for tag, attributes in tags if tag == "script"] == ["application/json", None]
    assert not [attributes for _, attributes in tags if any(name.startswith("on") for name in attributes)]
    sources = [
        attributes[name] or ""
        for _, attributes in tags
        for name in ("src", "href", "srcset", "data")
        if name in attributes
    ]
    assert all(source.startswith("data:image/") for source in sources)
    (policy,) = [
        attributes["content"] or ""
        for tag, attributes in tags
        if attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    script = page.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; script-src 'sha256-{digest}';" in policy


def test_a_report_of_a_run_with_secrets_has_none(
    journaled: Path, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVICE_API_KEY", "of-the-environment-77")

    @agf.tool(registry=registry, secret=("token",))
    def fetch(token: str) -> dict[str, str]:
        print(f"using {token}")
        return {"echo": token, "env": "of-the-environment-77"}

    @agf.tool(registry=registry)
    def fails(word: str) -> str:
        raise ValueError(f"{word}: of-the-environment-77, of-the-input-99")

    text = "pipeline: p\nsteps:\n- tool: {name: fetch, args: {token: !expr ctx.token}, output: page}\n"
    text += "- transform: {value: page.echo}\n- tool: {name: fails, args: {word: !expr page.echo}}\n"
    run = agf.run(text, {"token": "of-the-input-99"}, registry=registry, raises=False)
    for either_run in (run, agf.runs(run.run_id), run.run_id):
        page = agf.report(either_run, tmp_path / "run.html").read_text(encoding="utf-8")
        assert "•••" in page
        for secret in ("of-the-environment-77", "of-the-input-99"):
            assert secret not in page
            assert base64.b64encode(secret.encode()).decode()[:-4] not in page


def test_a_literal_secret_is_masked_in_the_definition_and_the_picture(registry: Registry, tmp_path: Path) -> None:
    @agf.tool(registry=registry, secret=("token",))
    def fetch(token: str) -> str:
        return "ok"

    text = "pipeline: p\nsteps:\n- tool: {name: fetch, args: {token: literal-55}}\n"
    run = agf.run(text, registry=registry)
    assert "args: {token: •••}" in agf.report(run, tmp_path / "run.html").read_text(encoding="utf-8")


def test_a_report_has_a_size_limit_and_says_what_it_left_out(fan: agf.Run, tmp_path: Path) -> None:
    whole = agf.report(fan, tmp_path / "whole.html").read_text(encoding="utf-8")
    assert "left out" not in whole
    page = agf.report(fan, tmp_path / "small.html", most=6_000).read_text(encoding="utf-8")
    assert "which has at most 6,000 characters of recorded values" in page
    assert "6,000 characters" in data_of(page)["missing"]
    assert sum(len(json.dumps(answer, ensure_ascii=False)) for answer in data_of(page)["answers"].values()) <= 6_000
    assert "for_each" in agf.report(fan, tmp_path / "none.html", most=0).read_text(encoding="utf-8")


SIZES = "pipeline: sizes\nsteps: [{tool: {name: size, args: {name: !expr ctx.name}}}]"


def test_a_report_of_a_run_over_data_has_its_first_rows_and_its_failed_ones(
    journaled: Path, registry: Registry, tmp_path: Path
) -> None:
    @agf.tool(registry=registry)
    def size(name: str) -> Any:
        if name in ("n7", "n301"):
            raise ValueError(f"no {name} {EVIL}")
        return {"size": f"{len(name)} {EVIL}"}

    run = agf.run(SIZES, over=[{"name": f"n{number}"} for number in range(310)], registry=registry)
    run.table.label(2, f"mine {EVIL}")
    for either_run in (run, agf.runs(run.run_id)):
        page = agf.report(either_run, tmp_path / "run.html").read_text(encoding="utf-8")
        assert EVIL not in page.partition("<script")[0]
        (table,) = re.findall(r"<h2>Rows</h2>.*?</table>", page.replace("<wbr>", ""), re.S)
        names_shown = re.findall(r"<td[^>]*>(?:<[^>]*>)?(n\d+)<", table)
        assert names_shown == [f"n{number}" for number in (*range(200), 301)]
        assert "no n301 &lt;/script&gt;" in table
        assert "mine &lt;/script&gt;" in table
        assert "The first 200 of 310 rows are in this report." in page
        pages = [answer["value"] for key, answer in data_of(page)["answers"].items() if key.startswith('["table"')]
        assert [(len(page["rows"]), page["total"]) for page in pages] == [(50, 200)] * 4 + [(2, 2)]


def test_the_labels_of_rows_have_a_column_of_their_own_beside_one_of_the_table(
    journaled: Path, registry: Registry, tmp_path: Path
) -> None:
    flow = "{pipeline: same, steps: [{transform: {value: '{size: ctx.label}'}}]}"
    run = agf.run(flow, over=[{"label": "red"}, {"label": "blue"}], registry=registry)
    run.table.label(0, "good")
    page = agf.report(run, tmp_path / "run.html").read_text(encoding="utf-8")
    (table,) = re.findall(r"<h2>Rows</h2>.*?</table>", page.replace("<wbr>", ""), re.S)
    heads = re.findall(r"<th scope=.col.[^>]*>([^<]*)<", table)
    assert sorted(name for name in heads if "label" in name) == ["label", "run.label"]


def test_a_secret_is_masked_in_the_rows_of_a_report(journaled: Path, registry: Registry, tmp_path: Path) -> None:
    @agf.tool(registry=registry, secret=("name",))
    def size(name: str) -> Any:
        return {"echo": name}

    run = agf.run(SIZES, over=[{"name": f"tk-4711-{number}", "n": number} for number in range(3)], registry=registry)
    for either_run in (run, agf.runs(run.run_id)):
        page = agf.report(either_run, tmp_path / "run.html").read_text(encoding="utf-8")
        assert "tk-4711" not in page
        assert "•••" in page.partition("<h2>Rows</h2>")[2].partition("</table>")[0]


def test_a_run_without_a_journal_has_a_report_too(registry: Registry, tmp_path: Path) -> None:
    doubling(registry)
    run = agf.run(FAN, {"numbers": [1]}, registry=registry)
    assert "not journaled" in agf.report(run, tmp_path / "run.html").read_text(encoding="utf-8")


def test_a_line_writes_the_report_of_a_run_and_of_a_comparison(failed: Shell) -> None:
    first = failed.good("import agf_magics; agf_magics.runs()[0]").value.run_id
    assert failed.good(f"%runs {first} --report run.html").out == "wrote run.html\n"
    assert "no teacher" in Path("run.html").read_text(encoding="utf-8")
    Path("teacher").touch()
    failed.good("%run_pipeline grading --set 'names=[pears, plums]' --out second")
    result = failed.good(f"%runs {first} --compare {failed.names['second'].run_id} --report both.html")
    assert result.value is None
    page = Path("both.html").read_text(encoding="utf-8")
    assert "Values that differ" in page
    assert "script-src 'none'" in page
    assert code(failed.run(f"%runs {first} --report missing/run.html")) == "file.not-written"


def test_the_command_line_writes_the_report_of_a_failed_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.yaml").write_text("pipeline: p\nsteps:\n- transform: {value: '1 / ctx.n'}\n")
    assert main(["run", "p.yaml", "--set", "n=0", "--report", "run.html"]) == 1
    assert "wrote run.html" in capsys.readouterr().err
    assert "r1." in Path("run.html").read_text(encoding="utf-8")
    assert main(["run", "p.yaml", "--set", "n=1", "--quiet", "--report", "missing/run.html"]) == 2
    assert "'missing/run.html' cannot be written: there is no folder" in capsys.readouterr().err
