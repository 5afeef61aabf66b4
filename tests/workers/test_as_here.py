"""A run on workers has the same outcome as the same run in the kernel.

That means the same output, stores, rows, failures, journal records (without numbers and times) and events.
"""

from __future__ import annotations

import contextlib
import json
import pickle
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.engine import runner
from agf_magics.engine.host import host
from agf_magics.flow.progress import events as ev
from agf_magics.flow.steps import Each, every
from agf_magics.journal.database.store import Store
from agf_magics.journal.records.record_reader import read_records
from agf_magics.journal.records.records import COLUMNS, Record
from agf_magics.lifecycle.run_internals import linked_flow
from tests.engine import kept
from tests.engine.pipeline_case import Tools, limits_of
from tests.engine.pipeline_case import registry_of as pipeline_registry
from tests.engine.policy_case import Agents
from tests.engine.virtual_time import run_virtual
from tests.languages.graph_case import registry_of as graph_registry
from tests.languages.test_plan_runs import Case
from tests.workers.in_process import InProcess

ADDRESS = re.compile(r" at 0x[0-9a-f]+")

TIMES = frozenset({"line", "started", "ended", "sign"})
"""The columns that differ between two runs."""


def outcome(run: agf.Run) -> Any:
    error = (str(run.error), *cause_of(run.error)) if run.error is not None else None
    return run.status, repr(run.output), repr(dict(run.stores)), error


def cause_of(error: BaseException | None) -> tuple[str, str]:
    cause = error.__cause__ if error is not None else None
    return (type(cause).__name__, str(cause)) if cause is not None else ("", "")


def rows(run: agf.Run) -> Any:
    """The counters and the states of all steps. Which of several elements failed last depends on timing."""
    names = ("started", "finished", "failed", "cancelled", "left", "skipped", "dropped", "retried", "earlier", "width",
             "state", "why", "printed", "many")  # fmt: skip
    return {
        name: [getattr(row, name) for name in names]
        + [repr(row.value), *([row.error is None] if row.many else [str(row.error), *cause_of(row.error)])]
        for name, row in run.steps.items()
    }


def failures(run: agf.Run) -> Any:
    messages = [
        (failure.at, str(failure.error), *cause_of(failure.error), repr(failure.element))
        for failure in run.progress.failures
    ]
    return run.progress.failed, sorted(messages), sorted(str(warning) for warning in run.warnings), run.calls


def cell_text(cell: Any) -> str:
    """A cell, or the value of a pickle, because its bytes depend on the process that pickled it."""
    return repr(pickle.loads(cell)) if isinstance(cell, bytes) and cell[:2] == b"\x80\x05" else repr(cell)


def records(path: Path) -> Any:
    """The journal records of the only run in the file."""
    Store.at(path).flush()
    names = COLUMNS.split(", ")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        stored_rows = connection.execute(f"SELECT {COLUMNS}, crc FROM records").fetchall()
    assert len({row[0] for row in stored_rows}) == len(stored_rows)
    return Counter(
        tuple(
            cell_text(cell) if name != "sign" else cell is None
            for name, cell in zip(names, row, strict=False)
            if name not in TIMES or name == "sign"
        )
        for row in stored_rows
    )


def calls(path: Path) -> list[Record]:
    """The calls of the only run in the file. A damaged record raises."""
    Store.at(path).flush()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        stored = connection.execute(f"SELECT {COLUMNS}, crc FROM records ORDER BY line").fetchall()
        call_records = list(read_records(stored))  # type: ignore[arg-type]
    return [record for record in call_records if record.kind]


def events_by_path(events: list[Any]) -> Any:
    """The events of each path, in their order."""
    events_of: dict[Any, list[Any]] = {}
    for event in events:
        if type(event).__name__ == "Placed" or isinstance(event, ev.RunStarted):
            continue
        fields = event._asdict()
        fields.pop("when")
        path = fields.pop("at", ())
        if "error" in fields:
            fields["error"] = (str(fields["error"]), *cause_of(fields["error"]))
        events_of.setdefault(path, []).append((type(event).__name__, ADDRESS.sub("", repr(fields))))
    return events_of


VECTORS = Path(__file__).parents[1] / "vectors"

OUTSIDE = ("meet(", "global ", "__defaults__", "next(", "pop(", "append(", "setdefault(", "busy(")
"""Words of tools that keep a state outside of the run. Workers have a state of their own."""

OUTSIDE_OF_PIPELINES = (*OUTSIDE, "state[", "state.")
"""The same words for pipelines. In a graph, ``state`` is an argument."""


LANGUAGES = ("pipeline", "policy", "plan", "graph")

FAN_OUTS = ("for_each", "type: map", "batch", '"type": "map"', "instances", "parallel")
"""The words of definitions with a fan-out. Every plan has one: its calls."""

TRAVEL = {"ex-196", "own-005", "map-parent-state", "map-branch-fails", "map-in-loop"}
"""Rows whose calls certainly run on workers."""


def vector_rows(language: str) -> Iterator[Any]:
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
        for entry in shelf.values():
            shelf.add(replace(entry, where=None))  # type: ignore[arg-type]
    return registry


class Compared:
    """A row that runs once without and once with workers."""

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
            return run, rows(run), failures(run), records(path), events_by_path(heard)


@pytest.fixture(autouse=True)
def steady(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Run without turns by the clock."""
    monkeypatch.chdir(tmp_path)
    for module in (runner, host):
        monkeypatch.setattr(module, "TURN", float("inf"))


@pytest.mark.parametrize("listens", [False, True], ids=["counted", "events"])
@pytest.mark.parametrize(("language", "row"), [row for language in LANGUAGES for row in vector_rows(language)])
def test_the_law_for_every_vector(language: str, row: dict[str, Any], listens: bool, tmp_path: Path) -> None:
    for name, text in row.get("files", {}).items():
        Path(name).write_text(text, encoding="utf-8")
    compared, backend = Compared(language, row, tmp_path), InProcess()
    try:
        run, *expected = compared.run(None, listens, "kernel")
    except agf.DefinitionError:
        return  # nothing was started
    found_run, *on_workers = compared.run(backend, listens, "workers")
    assert outcome(found_run) == outcome(run)
    assert backend.sent or row["id"] not in TRAVEL
    if stops_early(run):
        return
    for one, other in zip(on_workers, expected, strict=True):
        assert one == other


def test_the_vectors_are_there() -> None:
    vectors = {language: list(vector_rows(language)) for language in LANGUAGES}
    assert all(len(rows_of_language) > 8 for rows_of_language in vectors.values())
    assert {
        rows_of_language.values[1]["id"] for language in vectors.values() for rows_of_language in language
    } >= TRAVEL


def stops_early(run: agf.Run) -> bool:
    """Whether a failure ended a fan-out. Then it depends on timing which other elements ran."""
    return any(
        isinstance(step, Each)
        and step.failing.on_error == "abort"
        and any(row.failed for row in run.progress.rows.values())
        for linked in linked_flow(run).reachable
        for step in every(linked.flow.body)
    )
