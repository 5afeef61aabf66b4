"""Elements whose calls return at once share a commit, and give what the pool gives: `engine.batches`."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.engine import batches
from agf_magics.journal.store import Store
from agf_magics.progress import events as ev
from agf_magics.settings import Settings, current
from tests.engine import kept
from tests.fans import fan_out

CELLS = "what, at, tries, kind, name, given, whole, form, value, shown, error, digest"

MIXED = ["a", "b", "waits", "pair", "a", "fails", "large", 7, "c", "none", "fails later", "d", "waits", "e", "set", "f"]
"""Calls that return at once, wait, fail, fail after a wait, and have other kinds of rows; and a wrong type."""


@pytest.fixture(autouse=True)
def _settings(tmp_path: Path) -> Iterator[None]:
    before = current.settings
    current.settings = Settings(journal=str(tmp_path / "runs.sqlite"), journal_value=100_000)
    yield
    Store.close_all()
    current.settings = before


async def result(x: str) -> Any:
    if x in ("waits", "fails later"):
        await asyncio.sleep(0)
    if x.startswith("fails"):
        raise ValueError(x)
    return {"pair": (x, 1), "large": "x" * 200_000, "none": None, "set": {x}}.get(x, {"of": x})


def registry_of() -> agf.Registry:
    registry = agf.Registry()
    agf.tool(result, name="direct", registry=registry)
    agf.tool(result, name="effect", reuse=False, registry=registry)
    agf.tool(result, name="secret", secret=["x"], registry=registry)

    @agf.tool(registry=registry, where="loop")
    def plain(x: str) -> Any:
        if x.startswith("fails"):
            raise ValueError(x)
        return [x]

    return registry


def seen(tool: str, limit: int, on_error: str, listens: bool, xs: list[Any], folder: Path) -> tuple[Any, ...]:
    """What a run shows and leaves in the journal, without times, and without the order of concurrent calls."""
    registry, events = registry_of(), list[ev.Event]()
    flow = agf.load(fan_out(tool, limit=limit, on_error=on_error), registry=registry)
    run = agf.run(
        flow, {"xs": xs}, registry=registry, raises=False, on_event=events.append if listens else None, stream=listens
    )
    Store.close_all()
    with closing(sqlite3.connect(folder / "runs.sqlite")) as connection:
        rows = sorted(connection.execute(f"SELECT {CELLS} FROM records").fetchall(), key=repr)
    for old in folder.glob("runs.sqlite*"):
        old.unlink()
    counters = {
        key: (row.started, row.finished, row.failed, row.cancelled, row.dropped, row.retried, row.state, row.running)
        for key, row in run.progress.rows.items()
    }
    shown = sorted(repr([part for part in event if not isinstance(part, float)]) for event in events)
    warned = [found.code for found in run.warnings]
    return run.status, run.output, str(run.error), run.calls, counters, rows, shown, warned, run.progress.changes


@pytest.mark.parametrize("listens", [False, True])
@pytest.mark.parametrize("on_error", ["continue", "retry(1)", "abort"])
@pytest.mark.parametrize("tool", ["direct", "plain", "effect", "secret"])
@pytest.mark.parametrize("limit", [1, 4])
def test_elements_of_a_batch_are_like_those_of_the_pool(
    limit: int, tool: str, on_error: str, listens: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    xs = [x for x in MIXED if on_error != "abort" or x not in ("fails", "fails later", 7)] * 2
    xs = xs if on_error != "retry(1)" else [*xs[:5], *(x for x in xs[5:] if x not in ("fails", "fails later", 7))]
    batched = seen(tool, limit, on_error, listens, xs, tmp_path)
    monkeypatch.setattr(batches, "batched_tool", lambda site, inside: None)
    assert batched == seen(tool, limit, on_error, listens, xs, tmp_path)
    assert batched[0] == "ok"


@pytest.mark.parametrize("limit", [1, 4])
@pytest.mark.parametrize("x", ["fails", "fails later", 7])
def test_the_first_failure_ends_the_fan_out(x: Any, limit: int, tmp_path: Path) -> None:
    status, _, error, _, counters, rows, *_ = seen("direct", limit, "abort", False, ["a"] * 9 + [x, "b"], tmp_path)
    after = int(limit > 1 and x != 7)  # it started before the failure was durable
    assert status == "error"
    assert str(x) in error
    assert counters["steps[0].do",] == (10 + after, 9 + after, 1, 0, 0, 0, "failed", 0)
    assert [row[0] for row in rows].count("finished") == 9 + after


def test_calls_that_return_at_once_share_commits(tmp_path: Path) -> None:
    registry = registry_of()
    flow = agf.load(fan_out("direct", limit=16), registry=registry)
    store = Store.at(tmp_path / "runs.sqlite")
    before = store.writer._commits
    assert len(agf.run(flow, {"xs": ["a"] * 320}, registry=registry).output) == 320
    assert store.writer._commits - before < 320 / 2


def test_a_call_that_waits_continues_on_the_task_on_which_it_started() -> None:
    """A timeout, a task group or a cancel scope that a tool opens belongs to the task."""
    registry = agf.Registry()

    @agf.tool(registry=registry)
    async def work(x: int) -> str:
        started_on = asyncio.current_task()
        try:
            async with asyncio.timeout(0 if x == 5 else 60):
                if x >= 3:
                    await asyncio.sleep(0 if x != 5 else 60)
        except TimeoutError:
            return "late"
        assert asyncio.current_task() is started_on
        return "in time"

    for limit in (1, 3):
        flow = agf.load(fan_out(limit=limit), registry=registry)
        output = agf.run(flow, {"xs": list(range(9))}, registry=registry).output
        assert output == ["late" if x == 5 else "in time" for x in range(9)]


def test_a_run_that_is_cancelled_between_batches_has_no_open_element(tmp_path: Path) -> None:
    registry, ends = agf.Registry(), list[ev.StepPath]()

    @agf.tool(registry=registry)
    async def work(x: int) -> int:
        return x

    flow = agf.load(fan_out(limit=4), registry=registry)

    async def cancelled() -> None:
        def stop(event: ev.Event) -> None:
            if isinstance(event, ev.StepFinished):
                ends.append(event.at)
                if len(ends) == 10:
                    asyncio.get_running_loop().call_soon(task.cancel)

        given = {"xs": list(range(50_000))}
        task = asyncio.create_task(agf.arun(flow, given, registry=registry, raises=False, on_event=stop))
        with pytest.raises(asyncio.CancelledError):
            await task

    others = {line.run_id for line in agf.runs()}
    asyncio.run(cancelled())
    assert 10 <= len(ends) < 50_000
    (line,) = [line for line in agf.runs() if line.run_id not in others]
    assert line.status == "cancelled"
    past = agf.runs(line.run_id)
    assert all(row.running == 0 for row in past.progress.rows.values())
    assert len(past.calls) >= len([at for at in ends if len(at) > 1])


def test_a_journal_that_is_removed_ends_no_run_with_batches(tmp_path: Path) -> None:
    registry = agf.Registry()
    removed = list[int]()

    @agf.tool(registry=registry)
    async def work(x: int) -> int:
        if x == 50:
            for one in (tmp_path / "inner").glob("runs.sqlite*"):
                one.unlink()
            removed.append(x)
        return x

    (tmp_path / "inner").mkdir()
    flow = agf.load(fan_out(limit=8), registry=registry)
    with kept.journal_in(tmp_path / "inner"):
        run = agf.run(flow, {"xs": list(range(100))}, registry=registry)
    assert (run.output, removed) == (list(range(100)), [50])
    assert [found.code for found in run.warnings] == ["journal.unwritable"]
