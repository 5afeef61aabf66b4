"""The journal stores each message of a named context once, however many runs begin with this message."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.lifecycle.past import past_runs
from tests.engine import kept

PLAN = "name: daily\ncontext: log\ncalls: [{_tool: page, _outputPath: $state.pages, _outputMethod: push}]\n"
FAILS = "name: late\ncontext: log\ncalls: [{_tool: broken, _outputPath: $state.end}]\n"


class Opaque:
    """A value that is not JSON."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque)


def registry_of(result: Any, works: list[bool]) -> agf.Registry:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def page() -> Any:
        """A page."""
        return result

    @agf.tool(registry=registry)
    def broken() -> str:
        """Fails once, then works."""
        if not works:
            raise ValueError("not yet")
        return "done"

    agf.define(PLAN, "plan", registry=registry)
    agf.define(FAILS, "plan", registry=registry)
    return registry


def query(path: Path, sql: str) -> Any:
    kept.flush(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(sql).fetchone()


def test_a_message_is_stored_once_whatever_runs_begin_with_it(tmp_path: Path) -> None:
    registry = registry_of("x" * 1_000, [])
    with kept.journal_in(tmp_path) as path:
        for _ in range(20):
            agf.run("daily", registry=registry)
        (parts, stored), (works,) = (
            query(path, "SELECT count(*), sum(length(text)) FROM parts"),
            query(path, "SELECT max(length(work)) FROM runs"),
        )
    assert parts == len(agf.context("log", registry=registry)) - 1  # the last run begins before its own message
    assert stored < 1_400 * parts
    assert works < 1_000


@pytest.mark.parametrize("result", ["plain", Opaque()], ids=["json", "pickled"])
def test_a_resumed_run_begins_with_the_messages_of_its_first_session(result: Any, tmp_path: Path) -> None:
    works: list[bool] = []
    registry = registry_of(result, works)
    with kept.journal_in(tmp_path):
        agf.run("daily", registry=registry)
        with pytest.raises(agf.StepError):
            agf.run("late", registry=registry)
        failed = agf.runs()[0].run_id
        works.append(True)
        later = registry_of(result, works)  # as after a restart of the kernel
        assert agf.resume(failed, registry=later).status == "ok"
        log = agf.context("log", registry=later)
        assert (log.resolve("$state.pages"), log.resolve("$state.end")) == ([result], "done")


def test_a_part_is_deleted_with_the_last_run_that_begins_with_it(tmp_path: Path) -> None:
    registry = registry_of("text", [])
    with kept.journal_in(tmp_path) as path:
        for _ in range(3):
            agf.run("daily", registry=registry)
        third, second, first = (run.run_id for run in agf.runs())
        query(path, "UPDATE parts SET used=0")  # as if the runs had been written long ago
        parts_left = []
        for run_id in (second, third, first):
            past_runs.delete([run_id])
            parts_left.append(query(path, "SELECT count(*) FROM parts"))
        assert parts_left == [(2,), (0,), (0,)]


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM parts",
        "UPDATE parts SET text='{\"json\": {}}'",
        "UPDATE parts SET before=digest",
        "UPDATE parts SET text=x'ff'",
        "UPDATE runs SET part=NULL",
        "UPDATE runs SET part=1",
    ],
)
def test_a_context_whose_messages_have_changed_is_refused(change: str, tmp_path: Path) -> None:
    works: list[bool] = []
    registry = registry_of("text", works)
    with kept.journal_in(tmp_path) as path:
        agf.run("daily", registry=registry)
        with pytest.raises(agf.StepError):
            agf.run("late", registry=registry)
        failed = agf.runs()[0].run_id
        query(path, change)
        with pytest.raises(agf.DefinitionError) as caught:
            agf.resume(failed, registry=registry)
        assert [problem.code for problem in caught.value.diagnostics] == ["journal.unreadable"]
        assert "the messages of its context are not in the journal" in str(caught.value)
