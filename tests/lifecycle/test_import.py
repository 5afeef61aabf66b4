"""Exported runs that are opened elsewhere show the same steps, values and errors, and run no code of a stranger."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import agf_magics as agf
from agf_magics.catalog import Registry
from agf_magics.journal.database import value_files
from agf_magics.lifecycle.past.past_run import find_past_run
from tests.engine import kept
from tests.languages.loading import write_files
from tests.lifecycle.test_resume_vectors import World, rows

TEXT = """\
pipeline: fruits
steps:
- for_each:
    over: ctx.words
    on_error: continue
    max_parallel: 1
    output: prices
    do: {tool: {name: price, args: {fruit: !expr item}}}
    collect: {transform: {value: pipe}}
- tool: {name: pack, args: {prices: !expr ctx.prices}, output: packed}
"""


@pytest.fixture
def exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A run with a failed element and a value that is not JSON."""
    monkeypatch.chdir(tmp_path)
    registry = Registry()

    @agf.tool(registry=registry)
    def price(fruit: str) -> float:
        return {"pear": 2.5, "fig": 7.0}[fruit]

    @agf.tool(registry=registry)
    def pack(prices: list[float]) -> Any:
        return {*prices}

    with kept.journal_in(tmp_path / "kept"):
        run = agf.run(TEXT, {"words": ["pear", "<b>stone</b>", "fig"]}, registry=registry)
        past = agf.runs(run.run_id)
        past.export("run.json")
    content: dict[str, Any] = json.loads(Path("run.json").read_text())
    return content


def test_an_imported_run_shows_the_same_as_the_exported_run(exported: dict[str, Any]) -> None:
    run = agf.import_run("run.json")
    assert (run.status, run.name, run.input["words"]) == ("ok", "fruits", ["pear", "<b>stone</b>", "fig"])
    assert [call["status"] for call in run.calls] == ["ok", "failed", "ok", "ok"]
    assert "stone" in str(run.calls[1]["error"])
    assert run.note == "from run.json"
    page = run._repr_mimebundle_()
    assert "fruits" in page["text/plain"]
    assert "<b>stone</b>" not in page["text/html"]
    again = json.loads(run.export("again.json").read_text())
    assert again["calls"] == exported["calls"]
    agf.report(run, "run.html")
    assert "fruits" in Path("run.html").read_text()


SECRET = "sk-0123456789abcdef"

NOT_STORED: dict[str, Any] = {
    "quicker to make than to store": lambda: np.full(2_500_000, 1.0),
    "an object with a secret": lambda: {"made": {SECRET}},
    "JSON with a secret": lambda: {"made": [f"Bearer {SECRET}"]},
    "a table with a secret": lambda: pd.DataFrame({"a": [SECRET, "other"]}),
    "no pickle": lambda: (n for n in range(3)),
}


@pytest.mark.parametrize("kind", NOT_STORED)
def test_a_run_with_a_value_that_is_not_stored_is_exported(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SERVICE_API_KEY", SECRET)
    monkeypatch.setattr(value_files, "RATE", 1e-3)
    registry = Registry()
    agf.tool(NOT_STORED[kind], name="make", registry=registry)
    agf.define("pipeline: made\nsteps:\n- tool: {name: make}\n- transform: {value: '1'}", registry=registry)
    with kept.journal_in(tmp_path / "kept"):
        run = agf.run("made", registry=registry)
        text = agf.runs(run.run_id).export("run.json").read_text()
    assert SECRET not in text
    opened = agf.import_run("run.json")
    assert (opened.output, [call["status"] for call in opened.calls]) == (1, ["ok"])


def test_nothing_is_unpickled_resumed_or_reused(exported: dict[str, Any], tmp_path: Path) -> None:
    assert "folder" not in json.loads(exported["journal"]["work"]) or str(tmp_path) not in json.dumps(exported)
    run = agf.import_run("run.json")
    with pytest.raises(agf.DefinitionError, match=r"journal\.unreadable"):
        run.load(trust=True)
    with kept.journal_in(tmp_path / "other"):
        with pytest.raises(agf.DefinitionError, match=r"journal\.unknown-run"):
            agf.resume(run.run_id)
        assert list(agf.runs()) == []


def test_scores_and_labels_go_with_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with kept.journal_in(tmp_path / "kept"):
        run = agf.run("pipeline: p\nsteps: [{transform: {value: ctx.n}}]", over=[{"n": 1}, {"n": 2}])
        agf.score_over(run, lambda output, row: output / 2)
        run.table.label(1, "good")
        find_past_run(run.run_id).export("run.json")
    table = agf.import_run("run.json").table
    assert [row["label"] for row in table] == [None, "good"]
    assert [row["output"] for row in table] == [1, 2]
    assert sorted(table.added) == sorted(run.table.added)


@pytest.mark.law
@pytest.mark.parametrize(("language", "row"), [*rows("pipeline"), *rows("policy"), *rows("plan"), *rows("graph")][::7])
def test_any_run_is_the_same_after_an_import(
    language: str, row: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(row)
    with kept.journal_in(tmp_path / "kept"):
        try:
            run = World(language, row).run()
        except agf.DefinitionError:
            return  # nothing was started
        past = find_past_run(run.run_id)
        past.export("run.json")
        imported = agf.import_run("run.json")
        assert [*imported.calls] == [*past.calls]
        assert (imported.status, imported.output, str(imported.error)) == (past.status, past.output, str(past.error))
        assert str(imported.trace) == str(past.trace)


def _cut(text: str) -> str:
    return text[: len(text) // 2]


def _changed(**keys: Any) -> Callable[[str], str]:
    def change(text: str) -> str:
        whole = json.loads(text)
        whole["journal"] |= keys
        return json.dumps(whole)

    return change


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_cut, "it is not JSON"),
        (lambda text: "", "it is not JSON"),
        (lambda text: "[1]", "it has no key 'journal'"),
        (lambda text: '{"journal": {}}', "it has no key 'format' in 'journal'"),
        (lambda text: "[" * 100_000, "it is nested too deeply"),
        (_changed(columns=[1]), "has no attribute"),
        (_changed(columns={"a": {"x": 1}}), "invalid literal"),
        (_changed(format=99), "it has the format 99, and this version reads 2"),
        (_changed(work="{}"), "its manifest is damaged"),
        (_changed(records=[["finished"]]), "a row of its records has 13 cells, not 1"),
        (_changed(records=[[None] * 13]), "NOT NULL"),
        (_changed(records=[["x" * 9, "[", "", "", "", None, None, None, 1, None, None, None, None]]), "has changed"),
        (_changed(tree="[[1]]"), "is damaged"),
        (_changed(status="odd"), "has changed"),
        (_changed(started="soon"), "has changed"),
        (_changed(run_id=7), "id is text"),
        (_changed(output=[1]), ""),
    ],
)
def test_another_file_is_refused_with_the_reason(
    exported: dict[str, Any], change: Callable[[str], str], why: str
) -> None:
    Path("bad.json").write_text(change(Path("run.json").read_text()))
    with pytest.raises(agf.DefinitionError) as caught:
        agf.import_run("bad.json")
    assert caught.value.code == "run.import"
    assert why in str(caught.value)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(agf.DefinitionError, match=r"run\.import"):
            agf.import_run(path)
