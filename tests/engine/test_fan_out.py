"""A fan-out of calls on workers gives the same as a fan-out of steps: events, journal, results and failures.

`engine.threaded` makes the calls on workers, and `engine.pool` the steps. The laws run the same fan-out in both ways.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import json
import sqlite3
import threading
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import agf_magics as agf
from agf_magics.engine.host.host import Host
from agf_magics.engine.run_options import RunOptions
from agf_magics.engine.shapes import worker_fan_out as threaded_module
from agf_magics.engine.threads import call_threads as threads
from agf_magics.engine.threads.rights import Rights, rights
from agf_magics.flow.progress import events as ev
from agf_magics.journal.database.store import ROOM
from agf_magics.lifecycle.launch.launch import start_run
from tests.engine import counted, kept
from tests.engine.jobs import no_call_is_away
from tests.fans import fan_out
from tests.workers.in_process import InProcess

ELEMENTS = ["ok", "list", "tuple", "fail", "once", "awaits", "awaits and fails", "stops", "deep", 7]
"""The elements, each a word for what the call with it does (`registry_of`); 7 has the wrong type."""

NEVER_FAILING = {"ok", "list", "tuple", "awaits"}
"""The elements that never fail."""


def registry_of() -> agf.Registry:
    registry = agf.Registry()

    def work(x: str) -> Any:
        # The import is inside, because the function is sent as bytes, and its copy must find the same counter.
        from tests.engine.counted import count

        attempt = count(x)
        kind = x.partition(" #")[0]
        if kind == "fail" or (kind == "once" and attempt == 1):
            raise ValueError(x)
        if kind == "stops":
            raise StopIteration(x)
        if kind.startswith("awaits"):
            return later(x, kind == "awaits and fails")
        deep: Any = []
        for _ in range(300 if kind == "deep" else 0):
            deep = [deep]
        return {"list": [x, {"a": [x]}], "tuple": (x, (1,)), "deep": deep}.get(kind, x.upper())

    async def later(x: str, fails: bool) -> str:
        await asyncio.sleep(0)
        if fails:
            raise KeyError(x)
        return x.upper()

    agf.tool(work, registry=registry)
    agf.tool(work, name="timed", registry=registry, timeout=1000)
    agf.tool(work, name="once_only", registry=registry, reuse=False)
    agf.tool(work, name="sealed", registry=registry, secret=("x",))
    agf.tool(work, name="on_worker", registry=registry, where="worker")
    return registry


class Seen(NamedTuple):
    """Everything that can be observed of a run."""

    status: str
    output: Any
    error: str | None
    calls: Counter[str]
    """How often the tool was called with each value."""
    made: int
    """The number of calls that the run says it made."""
    events: list[Any]
    records: list[Any]
    """The lines of the journal."""


def _told(events: list[Any]) -> Iterator[Any]:
    """The events without their times, and without fields that only workers have."""
    for event in events:
        if not isinstance(event, ev.Placed):
            fields = {
                name: attribute
                for name, attribute in event._asdict().items()
                if name not in ("when", "value", "stores", "run")
            }
            yield type(event).__name__, *map(_shown, fields.values()), _shown(getattr(event, "value", None))


def _shown(value: Any) -> Any:
    if isinstance(value, agf.StepError):
        return [(d.code, d.message, d.hint, d.span and d.span.text) for d in value.diagnostics], value.where
    return f"{value!r}"


def workers(remote: bool) -> InProcess | None:
    """Workers in this process, so that the counters of tools are visible here."""
    return InProcess() if remote else None


def unjournaled(remote: bool, text: str, xs: list[Any]) -> Seen:
    calls, events, registry = counted.begin(), list[Any](), registry_of()
    flow = agf.load(text, registry=registry)
    main = agf.arun(flow, {"xs": xs}, registry=registry, raises=False, on_event=events.append, on=workers(remote))
    run = asyncio.run(main)
    error = f"{_shown(run.error)}" if run.error is not None else None
    return Seen(run.status, run.output, error, calls, run.calls, list(_told(events)), [])


def observed(remote: bool, text: str, xs: list[Any], resumed_from: int | None = None, reuse: bool = False) -> Seen:
    calls, events, registry, on = counted.begin(), list[Any](), registry_of(), workers(remote)
    with TemporaryDirectory() as folder, kept.journal_in(Path(folder)) as path:
        flow = agf.define(text, registry=registry)
        assert flow is not None
        if reuse:
            asyncio.run(agf.arun(flow, {"xs": xs[::2]}, registry=registry, raises=False, on=on))
        if resumed_from is None:
            options: dict[str, Any] = {"raises": False, "on_event": events.append, "on": on}
            run = asyncio.run(agf.arun(flow, {"xs": xs}, registry=registry, reuse=reuse, **options))
        else:
            run = _resumed(path, flow, registry, xs, resumed_from, events, calls, on)
            path = path.parent / "cut" / "runs.sqlite"
        kept.flush(path)
        with closing(sqlite3.connect(path)) as connection:
            (num,) = connection.execute("SELECT num FROM runs WHERE run = ?", (run.run_id,)).fetchone()
            query = "SELECT what, at, tries, kind, name, given, whole, form, value, shown, error, digest FROM records"
            only = f"WHERE line BETWEEN {num} AND {num + ROOM} ORDER BY line"
            records = list(map(_same_in_each_run, connection.execute(f"{query} {only}")))
    error = f"{_shown(run.error)}" if run.error is not None else None
    return Seen(run.status, run.output, error, calls, run.calls, list(_told(events)), records)


def _resumed(
    path: Path,
    flow: Any,
    registry: agf.Registry,
    xs: list[Any],
    after: int,
    events: list[Any],
    calls: Counter[str],
    on: InProcess | None,
) -> agf.Run:
    asyncio.run(agf.arun(flow, {"xs": xs}, registry=registry, raises=False, on=on))
    before = Counter(calls)
    copied_journal = kept.cut(path, after, path.parent / "cut")
    with kept.journal_in(copied_journal.parent):
        fields = {"xs": xs} if "name: sealed" in str(flow.source.text) else None
        id, more = agf.runs()[0].run_id, {"raises": False, "on_event": events.append, "on": on}
        run = agf.resume(id, input=fields, registry=registry, **more)  # type: ignore[arg-type]
    calls.subtract(before)
    return run


def _same_in_each_run(record: tuple[Any, ...]) -> tuple[Any, ...]:
    """A record without its parts that differ in each run. The digest of a secret value depends on the id of the run, so
    only its length is kept."""
    *call, form, value, shown, error, digest = record
    is_keyed = form == "again" and isinstance(value, bytes)
    return *call, form, len(value) if is_keyed else value, shown, error, digest


def by_place(all_events: Seen) -> Seen:
    """What was observed, sorted by element, because concurrent elements have no fixed order."""
    events, records = dict[str, list[Any]](), dict[str, list[Any]]()
    for event in all_events.events:
        events.setdefault(event[1], []).append(event)
    for record in all_events.records:
        records.setdefault(record[1], []).append(record)
    return all_events._replace(events=sorted(events.items()), records=sorted(records.items()))


def compare(remote: Seen, steps: Seen) -> None:
    """Check that both are the same. Which of several failures ends a run, and what ran before it, depends on timing."""
    if steps.error is None:
        assert by_place(remote) == by_place(steps)
    else:
        assert (remote.status, remote.output, remote.error is None) == (steps.status, steps.output, False)


def numbered(xs: list[Any]) -> list[Any]:
    return [f"{x} #{i}" if isinstance(x, str) else x for i, x in enumerate(xs)]


TOOLS = st.sampled_from(["work", "timed", "once_only", "sealed", "on_worker"])
"""The tools of `registry_of`: the same work, with other options. The argument of ``sealed`` is a secret."""


@settings(max_examples=12)
@given(
    st.lists(st.sampled_from(ELEMENTS), max_size=12),
    st.integers(1, 5),
    st.sampled_from(["continue", "abort", "retry(1)"]),
    TOOLS,
    st.booleans(),
)
@example(["fail"] * 5, 3, "continue", "work", False)
@example(["ok", "once", "fail", "ok"], 1, "retry(1)", "work", False)
@example(["awaits", 7, "ok", "deep"], 4, "continue", "timed", False)
@example(["ok", "list", "fail", "ok", "tuple"], 1, "continue", "work", True)
@example(["ok", "list", "ok", "fail", "tuple", "ok", "once"] * 9, 4, "continue", "work", False)
@example([*["ok"] * 40, "awaits", *["ok", "tuple"] * 20, "deep", 7], 4, "continue", "work", False)
@example([*["ok"] * 40, "once", *["ok"] * 20], 1, "retry(1)", "work", False)
def test_both_ways_give_the_same_events_records_and_results(
    xs: list[Any], limit: int, on_error: str, tool: str, reuse: bool
) -> None:
    text = fan_out(tool, limit=limit, on_error=on_error)
    compare(*(observed(is_remote, text, numbered(xs), None, reuse) for is_remote in (True, False)))


@settings(max_examples=12)
@given(
    st.lists(st.sampled_from(["ok"] * 40 + ELEMENTS), max_size=60),
    st.integers(1, 5),
    st.sampled_from(["continue", "abort", "retry(1)"]),
    TOOLS,
)
@example([*["ok"] * 60, "once", *["ok"] * 60, "fail", "ok"], 1, "retry(1)", "work")
@example([*["ok"] * 60, "awaits", "ok", 7, "ok", "deep", *["ok"] * 20], 1, "continue", "work")
def test_both_ways_give_the_same_without_a_journal(xs: list[Any], limit: int, on_error: str, tool: str) -> None:
    """Without a journal, calls are built in advance."""
    text = fan_out(tool, limit=limit, on_error=on_error)
    compare(*(unjournaled(is_remote, text, numbered(xs)) for is_remote in (True, False)))


@pytest.mark.parametrize("journaled", [False, True])
def test_an_element_is_tried_again_before_the_next_ones_start(journaled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds even if the loop takes a turn before each call that it builds."""
    monkeypatch.setattr(threaded_module, "TURN", -1.0)
    xs = numbered([*["ok"] * 60, "once", *["ok"] * 60, "fail", "ok"])
    text, way = fan_out(limit=1, on_error="retry(1)"), observed if journaled else unjournaled
    compare(*(way(is_remote, text, xs) for is_remote in (True, False)))


@settings(max_examples=10)
@given(
    st.lists(st.sampled_from([is_remote for is_remote in ELEMENTS if is_remote != "once"]), min_size=1, max_size=8),
    st.data(),
    st.integers(2, 4),
    TOOLS.filter(lambda tool: tool != "once_only"),  # the user decides about its calls (test_effects)
)
def test_a_run_cut_at_any_record_resumes_as_with_steps(
    xs: list[Any], data: st.DataObject, limit: int, tool: str
) -> None:
    text = fan_out(tool, limit=limit, on_error="continue")
    after = data.draw(st.integers(0, len(xs)))
    remote, steps = (observed(is_remote, text, numbered(xs), after) for is_remote in (True, False))
    assert (remote.status, remote.output) == (steps.status, steps.output)
    names = {json.loads(record[1])[-1] for record in remote.records if record[0] in ("finished", "failed")}
    assert names == {i for i, x in enumerate(xs) if isinstance(x, str)}
    assert all(count <= 1 for count in remote.calls.values())


# --- cases that the laws do not cover ---


def fan(
    registry: agf.Registry, count: int, limit: int, on_error: str = "abort", on_event: Any = None, **more: Any
) -> agf.Run:
    text = fan_out(limit=limit, on_error=on_error)
    flow = agf.load(text, registry=registry)
    return asyncio.run(
        agf.arun(flow, {"xs": list(range(count))}, registry=registry, raises=False, on_event=on_event, **more)
    )


def at_element(event: ev.Event, i: int) -> bool:
    return getattr(event, "at", None) == ("steps[0].do", i)


def test_slow_calls_get_a_thread_each_and_never_more_than_max_parallel() -> None:
    registry, lock, together = agf.Registry(), threading.Lock(), [0, 0]
    met = threading.Barrier(3, timeout=60)

    @agf.tool(registry=registry)
    def work(x: int) -> int:
        with lock:
            together[0] += 1
            together[1] = max(together)
        if x >= 150:  # the quick calls before them are done long before a slot is free
            met.wait()
        with lock:
            together[0] -= 1
        return x

    run = fan(registry, 210, 3)
    assert run.status == "ok", run.error
    assert together == [0, 3]


def test_a_long_call_is_shown_while_it_runs_and_delays_no_other() -> None:
    registry, other_calls, shown = agf.Registry(), threading.Semaphore(0), threading.Event()

    @agf.tool(registry=registry)
    def work(x: int) -> bool:
        if x != 100:
            other_calls.release()
            return True
        return shown.wait(60) and all(other_calls.acquire(timeout=60) for _ in range(299))

    def listen(event: ev.Event) -> None:
        if isinstance(event, ev.StepStarted) and at_element(event, 100):
            shown.set()

    assert fan(registry, 300, 2, on_event=listen).output == [True] * 300


@pytest.mark.parametrize("limit", [1, 2, 8])
def test_after_a_failure_no_further_call_starts(limit: int) -> None:
    registry, calls, events = agf.Registry(), list[int](), list[Any]()

    @agf.tool(registry=registry)
    def work(x: int) -> int:
        calls.append(x)
        if x == 200:
            raise ValueError("no")
        return x

    run = fan(registry, 1000, limit, on_event=events.append)
    assert run.error.path == ("steps[0].do", 200)
    # The calls that had started are cancelled, and no other call starts.
    failed = next(n for n, event in enumerate(events) if isinstance(event, ev.StepFailed))
    assert not [event for event in events[failed:] if isinstance(event, ev.StepStarted)]
    assert len(calls) < 1000
    started = Counter(event.at for event in events if isinstance(event, ev.StepStarted))
    ends = (ev.StepFinished, ev.StepFailed, ev.StepCancelled, ev.StepAbandoned)
    assert started == Counter(event.at for event in events if isinstance(event, ends))
    assert next(event.at for event in events if isinstance(event, ev.StepFailed)) == ("steps[0].do", 200)


def test_arguments_that_cannot_be_built_fail_in_their_turn() -> None:
    registry, calls = agf.Registry(), list[int]()

    @agf.tool(registry=registry)
    def work(x: int) -> int:
        calls.append(x)
        return x

    flow = agf.load(fan_out(limit=2), registry=registry)
    xs: list[Any] = [*range(300), "text", *range(300)]
    run = asyncio.run(agf.arun(flow, {"xs": xs}, registry=registry, raises=False))
    assert run.error.path == ("steps[0].do", 300)
    assert len(calls) in (299, 300)


@pytest.mark.parametrize("ends", [True, False])
def test_a_cancelled_run_waits_for_its_calls_as_long_as_the_grace(ends: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Host.__init__, "__defaults__", (None, None, 3600.0 if ends else 0.0))
    registry, events, gate = agf.Registry(), list[Any](), threading.Event()
    begun = threading.Semaphore(0)

    @agf.tool(registry=registry)
    def work(x: int) -> int:
        begun.release()
        gate.wait()
        return x

    async def cancelled() -> None:
        flow = agf.load(fan_out(limit=3, on_error="continue"), registry=registry)
        run = agf.arun(flow, {"xs": list(range(10))}, registry=registry, on_event=events.append)
        task = asyncio.create_task(run)
        for _ in range(3):
            await asyncio.to_thread(begun.acquire)
        task.cancel()
        if ends:
            asyncio.get_running_loop().call_later(0.01, gate.set)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    gate.set()
    last_events = {event.at[1]: type(event) for event in events if getattr(event, "at", ())[:1] == ("steps[0].do",)}
    assert last_events == dict.fromkeys(range(3), ev.StepCancelled if ends else ev.StepAbandoned)
    if not ends:
        assert {e.why for e in events if isinstance(e, ev.StepAbandoned)} == {"left running: work"}


def test_a_call_over_its_time_is_left_running_and_the_others_continue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Host.__init__, "__defaults__", (None, None, 0.0))
    registry, gate = agf.Registry(), threading.Event()

    @agf.tool(registry=registry, timeout=1.0)
    def work(x: int) -> int:
        if x in (3, 4):
            gate.wait()
        return x

    run = fan(registry, 50, 2, "continue")
    gate.set()
    assert run.output == [x for x in range(50) if x not in (3, 4)]
    failures = [(path[1], error.args[0].message) for path, error, _ in run.progress.failures]
    message = "tool 'work' took longer than 1 s (left running: work)"
    assert sorted(failures) == [(3, message), (4, message)]


def test_calls_and_the_threads_that_they_start_have_the_rights_of_the_step() -> None:
    registry, rights_seen = agf.Registry(), list[Rights]()

    @agf.tool(registry=registry)
    def work(x: int) -> int:
        rights_seen.append(rights())
        thread = threading.Thread(target=lambda: rights_seen.append(rights()))
        thread.start()
        thread.join()
        contextvars.Context().run(lambda: rights_seen.append(rights()))
        return x

    @agf.agent(registry=registry, tools=["work"])
    def limited(prompt: str) -> int:
        return len(agf.run("inner", {"xs": [1, 2, 3]}, registry=registry).output)

    agf.define(fan_out(limit=2, name="inner"), registry=registry)
    text = "pipeline: p\nsteps:\n  - agent: {prompt: 'x', identity: limited}\n"
    assert agf.run(agf.load(text, registry=registry), registry=registry).output == 3
    assert len(rights_seen) == 9
    assert {(right.grant.tools, right.inside) for right in rights_seen} == {(frozenset({"work"}), True)}


def test_each_call_enters_the_context_of_the_caller() -> None:
    """The notebook routes prints with this context."""
    registry, route = agf.Registry(), contextvars.ContextVar("route", default="nowhere")
    values = list[str]()

    @agf.tool(registry=registry)
    def work(x: int) -> int:
        values.append(route.get())
        route.set(f"elsewhere {x}")
        return x

    flow = agf.load(fan_out(limit=4), registry=registry)
    token = route.set("cell")
    run = start_run(flow, {"xs": list(range(40))}, RunOptions(registry=registry))
    route.reset(token)
    run.wait()
    assert values == ["cell"] * 40


def test_fan_outs_inside_fan_outs_and_runs_inside_calls() -> None:
    registry = agf.Registry()
    agf.define("pipeline: leaf\nsteps:\n  - transform: {value: ctx.n + 1}\n", registry=registry)

    @agf.tool(registry=registry)
    def work(x: int) -> int:
        return int(agf.run("leaf", {"n": x}, registry=registry).output)

    text = """
pipeline: nested
steps:
  - for_each:
      over: ctx.rows
      max_parallel: 3
      on_error: abort
      do:
        for_each:
          over: item
          max_parallel: 3
          on_error: abort
          do: {tool: {name: work, args: {x: !expr item}}}
          collect: {transform: {value: pipe}}
      collect: {transform: {value: pipe}}
"""
    run = agf.run(agf.load(text, registry=registry), {"rows": [[1, 2, 3, 4]] * 4}, registry=registry)
    assert run.output == [[2, 3, 4, 5]] * 4


def test_no_thread_left_is_a_failure_of_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: threads.CallThreads, work: threads.Work) -> None:
        raise RuntimeError("can't start new thread")

    registry = agf.Registry()
    agf.tool(lambda x: x, name="work", registry=registry)
    monkeypatch.setattr(threads.CallThreads, "start", full)
    run = fan(registry, 5, 2, "continue")
    assert run.output == []
    assert {error.args[0].message for _, error, _ in run.progress.failures} == {
        "tool 'work' failed: RuntimeError: can't start new thread"
    }


def test_the_threads_keep_nothing_alive_and_serve_the_next_fan_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads.CallThreads, "_shared", None)
    registry, names, references = agf.Registry(), set[str](), list[Any]()

    class Thing:
        pass

    @agf.tool(registry=registry)
    def work(x: int) -> int:
        names.add(threading.current_thread().name)
        reference = Thing()
        references.append(weakref.ref(reference))
        return x

    for _ in range(3):
        fan(registry, 20, 4)
    gc.collect()
    assert all(reference() is None for reference in references)
    assert names == {"agf-worker"}
    assert no_call_is_away()
