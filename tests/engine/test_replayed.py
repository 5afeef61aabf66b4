"""Recorded elements of a fan-out that are replayed without the pool give what the pool gives: `engine.replayed`."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import agf_magics as agf
from agf_magics.engine import concurrent
from agf_magics.engine import concurrent as replayed
from agf_magics.flow import events as ev
from agf_magics.journal.store import Store
from agf_magics.lifecycle.settings import Settings, current
from tests.fans import fan_out


def fan_and_last(tool: str, limit: int, on_error: str = "abort") -> str:
    """A fan-out, and a step that comes after it."""
    return fan_out(tool, limit=limit, on_error=on_error) + "  - tool: {name: last, args: {}}\n"


MIXED = ["a", "b", "pair", "fails", "a", "a", "pair", "large", "c", 7, "fails", "none", "a"]
"""Elements with equal calls, a result that is a pickle, one that is too large to store, failures, and a wrong type."""

CELLS = "what, at, tries, kind, name, given, whole, form, value, shown, error, digest"


@pytest.fixture(autouse=True)
def _journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    before = current.settings
    yield
    Store.close_all()
    current.settings = before


class World:
    """The tools and what they do, in files: a tool that holds what changes is never the same tool again."""

    def __init__(self, folder: Path) -> None:
        self.made, self.ends = folder / "calls.txt", folder / "ends"
        self.made.write_text("")

    @property
    def calls(self) -> list[str]:
        return sorted(self.made.read_text().split())

    def result(self, x: str) -> Any:
        with self.made.open("a") as file:
            file.write(f"{x}\n")
        if x == "fails":
            raise ValueError(x)
        if x in ("pair", "large", "none"):
            return {"pair": (x, 1), "large": "x" * 200_000, "none": None}[x]
        return {"of": x, "number": self.made.stat().st_size}


def tools_of(world: World) -> agf.Registry:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    async def direct(x: str) -> Any:
        return world.result(x)

    @agf.tool(registry=registry)
    def plain(x: str) -> Any:
        return world.result(x)

    @agf.tool(registry=registry, reuse=False)
    async def effect(x: str) -> Any:
        return world.result(x)

    @agf.tool(registry=registry, secret=["x"])
    async def secret(x: str) -> Any:
        return world.result(x)

    @agf.tool(registry=registry, reuse=False)
    def last() -> str:
        if not world.ends.exists():
            raise ValueError("the last call fails")
        return "end"

    return registry


class Seen(NamedTuple):
    status: str
    output: Any
    error: str
    made: int
    calls: list[Any]
    rows: Any
    cells: list[Any]
    events: list[Any] | None
    changes: int


def twice(folder: Path, way: str, fan: str, xs: list[Any], again: list[Any], listens: bool) -> Seen:
    """What the second session shows: a resumed run, or a run over ``again`` that reuses the first one's results."""
    for old in folder.glob("runs.sqlite*"):
        old.unlink()
    (folder / "ends").unlink(missing_ok=True)
    current.settings = Settings(journal=str(folder / "runs.sqlite"), journal_value=100_000)
    world = World(folder)
    registry = tools_of(world)
    flow = agf.load(fan, registry=registry)
    first = agf.run(flow, {"xs": xs}, registry=registry, raises=False)
    world.made.write_text("")
    world.ends.touch()
    events: list[ev.Event] = []
    more: Any = {"registry": registry, "raises": False, "on_event": events.append if listens else None}
    if way == "resume":
        second = agf.resume(first.run_id, input={"xs": xs} if "secret" in fan else None, **more)
    else:
        second = agf.run(flow, {"xs": again}, reuse=True, **more)
    Store.close_all()
    with closing(sqlite3.connect(folder / "runs.sqlite")) as connection:
        cells = connection.execute(f"SELECT {CELLS} FROM records ORDER BY line").fetchall()
    cells.sort(key=repr)
    rows = {key: _counters(row) for key, row in second.progress.rows.items()}
    names = {first.run_id: "first", second.run_id: "second"}
    shown = sorted(repr(_timeless(event, names)) for event in events) if listens else None
    return Seen(second.status, second.output, str(second.error), second.calls, world.calls, rows,
                cells, shown, second.progress.changes)  # fmt: skip


def _counters(row: Any) -> tuple[Any, ...]:
    return (row.started, row.finished, row.failed, row.earlier, row.dropped, row.retried, row.cancelled, row.state,
            repr(row.value), row.many, row.width)  # fmt: skip


def _timeless(event: Any, names: dict[str, str]) -> tuple[Any, ...]:
    parts = [names.get(part, part) if isinstance(part, str) else part for part in event]
    return (type(event).__name__, *(repr(part) for part in parts if not isinstance(part, float)))


@pytest.mark.parametrize("listens", [False, True])
@pytest.mark.parametrize("on_error", ["continue", "abort", "retry(1)"])
@pytest.mark.parametrize("tool", ["direct", "plain", "effect", "secret"])
@pytest.mark.parametrize("way", ["resume", "reuse"])
def test_a_replayed_element_is_like_one_of_the_pool(
    way: str, tool: str, on_error: str, listens: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = [*MIXED[4:], "new", *MIXED[:3], "new", "a"]
    seen = []
    for name in ("replayed", "pool"):
        if name == "pool":
            monkeypatch.setattr(concurrent.Replay, "rest", lambda self, numbers, ends: numbers)
        fan = fan_and_last(tool, 1, on_error)
        seen.append(
            twice(
                tmp_path,
                way,
                fan,
                [x for x in MIXED if on_error == "continue" or x not in ("fails", 7)],
                again,
                listens,
            )
        )
    assert seen[0] == seen[1]
    assert any(counters[3] for counters in seen[0].rows.values()) or (way, tool) in (
        ("reuse", "effect"), ("reuse", "secret"), ("resume", "secret"),
    )  # fmt: skip


@pytest.mark.parametrize("way", ["resume", "reuse"])
@pytest.mark.parametrize("tool", ["direct", "plain"])
def test_the_pool_gets_only_elements_without_a_record(
    way: str, tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[int] = []
    rest = replayed.Replay.rest

    def watched(self: Any, numbers: Iterator[int], ends: Any) -> Iterator[int]:
        for i in rest(self, numbers, ends):
            left.append(i)
            yield i

    monkeypatch.setattr(replayed.Replay, "rest", watched)
    monkeypatch.setattr(replayed, "TURN", 1e9)
    xs = [str(i) for i in range(500)]
    again = [*xs[:300], "new", *xs[300:]]
    seen = twice(tmp_path, way, fan_and_last(tool, 8), xs, again, listens=False)
    assert seen.status == "ok"
    assert left == ([] if way == "resume" else [300])
    assert seen.calls == ([] if way == "resume" else ["new"])
    width = next(counters for counters in seen.rows.values() if counters[3])
    assert width[3] == 500


@pytest.mark.slow
def test_a_long_replay_lets_the_loop_run_and_can_be_cancelled(tmp_path: Path) -> None:
    current.settings = Settings(journal=str(tmp_path / "runs.sqlite"))
    world = World(tmp_path)
    registry = tools_of(world)
    flow = agf.load(fan_and_last("direct", 4), registry=registry)
    given = {"xs": [str(i) for i in range(20_000)]}
    agf.run(flow, given, registry=registry, raises=False)
    replays: list[ev.StepPath] = []

    async def cancelled() -> None:
        def stop(event: ev.Event) -> None:
            if isinstance(event, ev.StepReplayed):
                replays.append(event.at)
                if len(replays) == 10:
                    asyncio.get_running_loop().call_soon(task.cancel)

        work = agf.arun(flow, given, registry=registry, raises=False, reuse=True, on_event=stop)
        task = asyncio.create_task(work)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    run = agf.runs()[0]
    assert run.status == "cancelled"
    assert 10 <= len(replays) < 20_000
    world.ends.touch()
    world.made.write_text("")
    resumed = agf.resume(run.run_id, registry=registry)
    assert resumed.status == "ok"
    replayed_before = {at[-1] for at in replays}
    assert world.calls == sorted(x for i, x in enumerate(given["xs"]) if i not in replayed_before)


def test_runs_outside_of_the_journal_are_listed_in_the_order_of_their_starts(tmp_path: Path) -> None:
    registry = tools_of(World(tmp_path))
    flow = agf.load("pipeline: p\nsteps:\n  - transform: {value: pipe}\n", registry=registry)
    started = []
    for journal in (None, str(tmp_path / "runs.sqlite"), None):
        current.settings = Settings(journal=journal)
        started.append(agf.start(flow, registry=registry).wait().run_id)
    current.settings = Settings(journal=str(tmp_path / "runs.sqlite"))
    assert [line.run_id for line in agf.runs() if line.run_id in started] == started[::-1]
