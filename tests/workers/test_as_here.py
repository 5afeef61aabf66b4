"""Workers give what the kernel gives.

A run whose calls workers make has the same output, stores, rows, failures, journal records (without numbers and times)
and events as the same run without workers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.engine import runner
from agf_magics.engine.host import host
from agf_magics.flow.steps import Each, every
from tests.engine import kept
from tests.engine.pipeline_case import Tools, limits_of
from tests.engine.pipeline_case import registry_of as pipeline_registry
from tests.engine.policy_case import Agents
from tests.engine.virtual_time import run_virtual
from tests.languages.graph_case import registry_of as graph_registry
from tests.languages.test_plan_runs import Case
from tests.workers import laws
from tests.workers.in_process import InProcess

VECTORS = Path(__file__).parents[1] / "vectors"

OUTSIDE = ("meet(", "global ", "__defaults__", "next(", "pop(", "append(", "setdefault(", "busy(")
"""What the tools of a row keep outside of the run: workers have their own."""

OUTSIDE_OF_PIPELINES = (*OUTSIDE, "state[", "state.")
"""In a graph, ``state`` is an argument."""


FAN_OUTS = ("for_each", "type: map", "batch", '"type": "map"', "instances", "parallel")
"""Words of the definitions that have one. Every plan has one: its calls."""

TRAVEL = {"ex-196", "own-005", "map-parent-state", "map-branch-fails", "map-in-loop"}
"""Rows whose calls are certainly made by workers."""


def rows(language: str) -> Iterator[Any]:
    for row in json.loads((VECTORS / f"{language}_runs.json").read_text("utf-8"))["rows"]:
        if language != "plan" and not any(word in row["text"] for word in FAN_OUTS):
            continue
        sources = json.dumps([row.get("tools"), row.get("agents"), row.get("agent")])
        outside = OUTSIDE_OF_PIPELINES if language == "pipeline" else OUTSIDE
        if "model" not in row and not any(word in sources for word in outside):
            yield pytest.param(language, row, id=f"{language}: {row['id']}")


def registry_of(language: str, row: dict[str, Any]) -> agf.Registry:
    """The registry of a row, whose tools may run on threads and on workers."""
    match language:
        case "pipeline":
            registry = pipeline_registry(row, Tools())
        case "policy":
            registry = Agents(row).registry()
        case "graph":
            registry = graph_registry(row)
        case _:
            return Case(row).registry
    for shelf in (registry.tools, registry.transforms):
        for one in shelf.values():
            shelf.add(replace(one, where=None))
    return registry


class Compared:
    """A row, run once without and once with workers."""

    def __init__(self, language: str, row: dict[str, Any], folder: Path) -> None:
        self.language, self.row, self.folder = language, row, folder

    def run(self, backend: InProcess | None, listens: bool, name: str) -> tuple[Any, ...]:
        registry, row = registry_of(self.language, self.row), self.row
        text = Case(row).text if self.language == "plan" else row["text"]
        flow = agf.load(text, self.language, registry=registry)
        heard: list[Any] = []
        answers = iter(row.get("answers", ()))
        with kept.journal_in(self.folder / name) as path:
            run: agf.Run = run_virtual(
                agf.arun(
                    flow,
                    None if self.language == "plan" else row["input"],
                    registry=registry,
                    limits=limits_of(row) if self.language == "pipeline" else None,
                    raises=False,
                    ask=(lambda question: next(answers)) if "answers" in row else None,
                    on_event=heard.append if listens else None,
                    on=backend,
                )
            )
            return run, laws.rows(run), laws.failures(run), laws.records(path), laws.told(heard)


@pytest.fixture(autouse=True)
def steady(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No turns of the wall clock."""
    monkeypatch.chdir(tmp_path)
    for module in (runner, host):
        monkeypatch.setattr(module, "TURN", float("inf"))


@pytest.mark.parametrize("listens", [False, True], ids=["counted", "events"])
@pytest.mark.parametrize(("language", "row"), [*rows("pipeline"), *rows("policy"), *rows("plan"), *rows("graph")])
def test_the_law_for_every_vector(language: str, row: dict[str, Any], listens: bool, tmp_path: Path) -> None:
    for name, text in row.get("files", {}).items():
        Path(name).write_text(text, encoding="utf-8")
    compared, backend = Compared(language, row, tmp_path), InProcess()
    try:
        run, *wanted = compared.run(None, listens, "kernel")
    except agf.DefinitionError:
        return  # nothing was started
    found_run, *found = compared.run(backend, listens, "workers")
    assert laws.outcome(found_run) == laws.outcome(run)
    assert backend.sent or row["id"] not in TRAVEL
    if stops_early(run):
        return
    for one, other in zip(found, wanted, strict=True):
        assert one == other


def test_the_vectors_are_there() -> None:
    found = {language: list(rows(language)) for language in ("pipeline", "policy", "plan", "graph")}
    assert all(len(one) > 8 for one in found.values())
    assert {one.values[1]["id"] for language in found.values() for one in language} >= TRAVEL


def stops_early(run: agf.Run) -> bool:
    """Whether a failure ended a fan-out, so that it depends on the moment which other elements ran."""
    return any(
        isinstance(step, Each)
        and step.failing.on_error == "abort"
        and any(row.failed for row in run.progress.rows.values())
        for linked in run._linked.reachable
        for step in every(linked.flow.body)
    )
