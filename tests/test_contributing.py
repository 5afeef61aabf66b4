"""The paths, commands and modules that CONTRIBUTING.md names exist."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

import agf_magics as agf
from agf_magics.languages import keys
from agf_magics.languages.pipeline import document_schema
from agf_magics.languages.pipeline import words as words_module
from agf_magics.languages.pipeline.steps import BUILD
from tests.test_rooms import MAY

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
CODE = re.findall(r"`([^`\n]+)`", PAGE)

MADE = ("build/", "docs/benchmarks.md")
"""The paths that a command writes, which need not exist."""

PLACEHOLDER = re.compile(r"<\w+>")


def section(title: str) -> str:
    match = re.search(rf"^(#+) {re.escape(title)}\n(.*?)(?=^#{{1,3}} |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert match, f"no section {title!r}"
    return match[2]


def paths_in(text: str) -> list[str]:
    """The paths that a text names. A path with a placeholder ends before it.

    >>> paths_in("see `docs/conf.py`, `agf_magics/languages/<name>/` and `make docs`")
    ['docs/conf.py', 'agf_magics/languages/']
    """
    words = [word for code in re.findall(r"`([^`\n]+)`", text) for word in code.split()]
    named = [word for word in words if re.match(r"(?:agf_magics|docs|tests|notebooks|\.ci)/", word)]
    return [PLACEHOLDER.split(word.partition("*")[0])[0] for word in named if not word.startswith(MADE)]


@pytest.mark.parametrize("path", sorted(set(paths_in(PAGE))))
def test_a_path_exists(path: str) -> None:
    place = ROOT / path
    assert place.exists() or any(place.parent.glob(f"{place.name}*")), path


def test_a_new_step_kind_needs_at_most_five_files() -> None:
    listed = "\n".join(re.findall(r"^\d\. .*(?:\n   .*)*", section("A new step kind"), re.MULTILINE))
    assert 1 <= len(paths_in(listed)) <= 5


def test_the_two_tables_are_all_the_code_of_a_new_step_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step kind that is only in these tables loads and runs, is suggested for a typing error, is drawn, and is in the
    JSON Schema."""
    kind = keys.MappingSpec("double", "Doubles a value.", {"value": words_module.STEPS["transform"].keys["value"]})
    monkeypatch.setitem(words_module.STEPS, "double", kind)  # type: ignore[arg-type]
    monkeypatch.setitem(BUILD, "double", BUILD["transform"])  # type: ignore[arg-type]
    flow = agf.load("{pipeline: p, steps: [{double: {value: '21'}}]}")
    run = agf.run(flow, registry=agf.Registry())
    assert run.output == 21
    assert [row.word for row in run.steps.values()] == ["double"]
    assert "double" in agf.draw(flow).outline()
    assert "double" in document_schema()["$defs"]
    with pytest.raises(agf.DefinitionError) as caught:
        agf.load("{pipeline: p, steps: [{duoble: {value: '21'}}]}")
    assert "did you mean double?" in str(caught.value)


def test_the_table_of_rooms_is_that_of_the_imports() -> None:
    rows = re.findall(r"^\| `agf_magics/(\w+)(?:\.py)?` \|", section("Architecture"), re.MULTILINE)
    assert rows == [*MAY, "labextension"]


def test_every_common_change_lists_its_files() -> None:
    for title in ("A new error", "A new step kind", "A new language"):
        assert len(paths_in(section(title))) >= 3, title


def test_a_target_of_make_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {match[1] for code in CODE if (match := re.match(r"make ([a-z-]+)", code))}
    assert named
    assert named <= targets


def test_a_module_that_is_run_exists() -> None:
    named = {match[1] for code in CODE if (match := re.match(r"python -m ([\w.]+)", code))}
    assert named >= {"docs"}
    assert all(importlib.util.find_spec(name) for name in named)
