"""Ten graphs like the examples of YAMLGraph, each run from its prompt files to its end.

Their files are in notebooks/graphs, and the notebook graphs.ipynb shows them. A scripted model answers.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.catalog import default as default_registry
from agf_magics.settings.settings import Settings, current

FOLDER = Path(__file__).parents[2] / "notebooks" / "graphs"

CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "greeting": ({"name": "Ada", "style": "formal"}, {"greeting": "Dear Ada, welcome."}),
    "revision": (
        {"topic": "pears"},
        {"draft": "Pears grow in the sun.", "rounds": 1, "critique": {"score": 0.9, "issues": []}},
    ),
    "triage": (
        {"message": "The pears were bad!"},
        {"kind": "complaint", "kind_answer": {"kind": "complaint"}, "reply": "We are sorry."},
    ),
    "postcards": (
        {"country": "Portugal"},
        {
            "album": "\n".join(
                f"{n}. Greetings from {p}, Portugal." for n, p in enumerate(("Porto", "Faro", "Braga"), 1)
            )
        },
    ),
    "librarian": (
        {"question": "Dracula"},
        {
            "answer": "Dracula is on shelf B1.",
            "calls": [
                {
                    "tool": "find_book",
                    "args": {"title": "Dracula"},
                    "output": '{"title":"Dracula","shelf":"B1"}',
                    "success": True,
                },
                {
                    "tool": "announce",
                    "args": {"text": "looking for Dracula"},
                    "output": "looking for Dracula",
                    "success": True,
                },
            ],
        },
    ),
    "interview": (
        {"topic": "tea"},
        {"question": "What do you think of tea?", "answer": "tea", "profile": "Someone who likes tea."},
    ),
    "journey": (
        {"city": "Faro"},
        {"ticket": {"seat": "window", "to": "Faro"}, "summary": "You have a window seat to Faro."},
    ),
    "extraction": (
        {"text": "Dracula, 1897"},
        {
            "facts": {"year": 1897, "author": "Stoker"},
            "rating": {"stars": 4},
            "report": '# Report\n\n{"year": 1897, "author": "Stoker"} with 4 stars.',
        },
    ),
    "briefing": (
        {"topic": "pears", "facts": "Pears are old."},
        {"facts": "Pears are old.", "brief": "Pears are old. Risks: frost, wasps."},
    ),
    "quiz": (
        {"topics": ["pear", "fig"]},
        {"topics": [], "left": 0, "messages": ["What is a pear?", "What is a fig?"]},
    ),
}


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> agf.Registry:
    """The functions and the scripted model of the examples, with imports and the shell allowed."""
    monkeypatch.setattr(current, "settings", Settings(allow_import=True, allow_shell=True, journal=None))
    registry = agf.Registry()
    registry.tools.add(default_registry().tools["shell"])
    spec = importlib.util.spec_from_file_location("scripted_model", FOLDER / "scripted_model.py")
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.register(registry)
    return registry


def run(name: str, registry: agf.Registry, fields: dict[str, Any], **options: Any) -> agf.Run:
    flow = agf.load(FOLDER / name / "graph.yaml", registry=registry)
    return agf.run(flow, fields, registry=registry, **options)


def test_there_is_a_case_for_each_graph() -> None:
    assert sorted(CASES) == sorted(path.parent.name for path in FOLDER.glob("*/graph.yaml"))


@pytest.mark.parametrize("name", CASES)
def test_a_graph_runs_to_its_end(name: str, registry: agf.Registry) -> None:
    fields, expected = CASES[name]
    questions: list[agf.Question] = []

    def ask(question: agf.Question) -> str:
        questions.append(question)
        return question.choices[0]

    ended = run(name, registry, fields, ask=ask)
    assert {key: ended.output.get(key) for key in expected} == expected
    assert not ended.warnings
    assert [question.choices for question in questions] == {
        "interview": [("tea", "coffee")],
        "journey": [("window", "aisle")],
    }.get(name, [])


def test_a_graph_that_waits_shows_keys_of_the_graph_that_asks(registry: agf.Registry) -> None:
    flow = agf.load(FOLDER / "journey" / "graph.yaml", registry=registry)
    with pytest.raises(agf.StepError, match=r"run\.waiting") as caught:
        agf.run(flow, {"city": "Faro"}, registry=registry)
    assert caught.value.partial == {"city": "Faro", "phase": "waiting for a seat"}


def test_the_exports_of_a_graph_are_written_below_a_folder(registry: agf.Registry, tmp_path: Path) -> None:
    ended = run("extraction", registry, CASES["extraction"][0])
    assert [path.relative_to(tmp_path).as_posix() for path in agf.export(ended, tmp_path)] == [
        "report.md",
        "data/facts.json",
    ]
    assert (tmp_path / "report.md").read_text() == CASES["extraction"][1]["report"] + "\n"
    assert json.loads((tmp_path / "data/facts.json").read_text()) == {"year": 1897, "author": "Stoker"}
