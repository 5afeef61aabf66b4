"""The threads and loops on which a run makes its calls, and runs that are driven from another thread."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.catalog import Where as Place
from agf_magics.engine.host import job as jobs
from agf_magics.engine.host import loop as loops
from agf_magics.engine.host.host import Host
from agf_magics.engine.host.loop import EngineLoop
from agf_magics.engine.host.running_loop import here
from agf_magics.engine.threads import call_threads as threads
from agf_magics.engine.threads.user_code import Arrived, StillRunning
from tests.engine.jobs import start
from tests.engine.virtual_time import run_virtual

PLACES: tuple[Place, ...] = ("loop", "kernel", "thread")


def thread_name() -> str:
    return threading.current_thread().name


def test_each_place_is_its_own_thread() -> None:
    async def main(host: Host) -> list[Any]:
        assert host.waited
        return [await host.call(place, thread_name, {}) for place in PLACES]

    own_thread = threading.current_thread().name
    assert start(main).wait() == [(True, "agf-engine"), (True, own_thread), (True, "agf-worker")]


def test_without_a_waiting_thread_the_kernel_place_is_the_loop_between_two_turns() -> None:
    async def main(host: Host) -> list[Any]:
        assert not host.waited
        turns: list[str] = []
        asyncio.get_running_loop().call_soon(turns.append, "a turn")
        name = await host.call("kernel", thread_name, {})
        return [*turns, name]

    assert start(main, waited=False).wait() == ["a turn", (True, "agf-engine")]
    assert asyncio.run(here(main)) == ["a turn", (True, threading.current_thread().name)]


CELL: contextvars.ContextVar[str] = contextvars.ContextVar("CELL", default="none")


@pytest.mark.parametrize("place", PLACES)
def test_the_context_of_the_starting_cell_reaches_each_place(place: Place) -> None:
    async def main(host: Host) -> Any:
        return await host.call(place, CELL.get, {})

    token = CELL.set("In[3]")
    job = start(main)
    CELL.reset(token)
    assert CELL.get() == "none"
    assert job.wait() == (True, "In[3]")


def test_a_thousand_calls_use_no_more_threads_than_ran_at_once() -> None:
    used: set[int] = set()

    async def main(host: Host) -> None:
        numbers = iter(range(1000))

        async def worker() -> None:
            for _ in numbers:
                await host.call("thread", lambda: used.add(threading.get_ident()), {})

        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(worker())

    start(main).wait()
    assert 1 <= len(used) <= 4


def test_calls_that_start_runs_of_their_own_never_starve() -> None:
    width = 40
    met = threading.Barrier(width)

    def tool() -> int:
        met.wait()  # now all calls hold a thread
        return start(inner).wait()

    async def inner(host: Host) -> int:
        results = await asyncio.gather(*(host.call("thread", lambda: 1, {}) for _ in range(2)))
        return sum(value for _, value in results)

    async def main(host: Host) -> int:
        results = await asyncio.gather(*(host.call("thread", tool, {}) for _ in range(width)))
        return sum(value for _, value in results)

    assert start(main).wait() == 2 * width


def test_a_worker_without_work_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "IDLE", 0.0)
    monkeypatch.setattr(threads.CallThreads, "_shared", None)

    async def main(host: Host) -> threading.Thread:
        _, thread = await host.call("thread", threading.current_thread, {})
        return thread  # type: ignore[no-any-return]

    thread = start(main).wait()
    thread.join(60)
    assert not thread.is_alive()
    assert start(main).wait() is not thread


class Thing:
    pass


@pytest.mark.parametrize("place", ["kernel", "thread"])
def test_an_idle_thread_keeps_nothing_alive(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads.CallThreads, "_shared", None)  # a new pool, without idle threads

    async def main(host: Host) -> weakref.ref[Thing]:
        value = (await host.call(place, Thing, {}))[1]
        await host.call(place, thread_name, {})  # the same thread, which has released the first call
        return weakref.ref(value)

    reference = start(main).wait()
    gc.collect()
    assert reference() is None


def test_no_thread_left_is_a_failure_of_that_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with ``max_parallel: 100000`` on a small machine. Only the start of a thread can fail in this way, and not at
    will, so it is replaced."""

    class Full(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    async def main(host: Host) -> Any:
        monkeypatch.setattr(threads.CallThreads, "_shared", None)
        monkeypatch.setattr(threads.threading, "Thread", Full)  # type: ignore[attr-defined]
        try:
            return await host.call("thread", thread_name, {})
        finally:
            monkeypatch.undo()

    ok, value = start(main).wait()
    assert (ok, str(value)) == (False, "can't start new thread")


@pytest.mark.parametrize("error", [ValueError, SystemExit, StopIteration, asyncio.CancelledError])
def test_an_error_of_the_run_is_raised_in_the_waiting_thread(error: type[BaseException]) -> None:
    async def main(host: Host) -> None:
        try:
            raise BaseExceptionGroup("of ours", [KeyError()])
        except BaseExceptionGroup:
            raise error from None

    expected = RuntimeError if error is StopIteration else error
    with pytest.raises(expected) as raised:
        start(main).wait()
    assert raised.value.__context__ is None


def test_a_job_can_be_waited_for_again() -> None:
    async def main(host: Host) -> int:
        return 3

    job = start(main)
    assert (job.wait(), job.wait(), job.done, job.reason) == (3, 3, True, None)


def test_a_wait_works_in_any_thread() -> None:
    async def main(host: Host) -> Any:
        return await host.call("kernel", thread_name, {})

    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(start(main).wait()), name="some thread")
    thread.start()
    thread.join()
    assert results == [(True, "some thread")]


def test_a_run_in_a_plain_tool_waits_on_that_tools_thread() -> None:
    async def inner(host: Host) -> Any:
        return await host.call("kernel", thread_name, {})

    async def main(host: Host) -> list[Any]:
        return [(await host.call(place, lambda: start(inner).wait(), {}))[1] for place in ("kernel", "thread")]

    own_thread = threading.current_thread().name
    assert start(main).wait() == [(True, own_thread), (True, "agf-worker")]


def test_a_run_in_an_async_tool_is_refused_with_the_way_out() -> None:
    async def inner(host: Host) -> None:
        raise AssertionError("it must not even begin")

    async def tool() -> None:
        start(inner).wait()

    async def main(host: Host) -> Any:
        return await host.call("loop", tool, {})

    ok, value = start(main).wait()
    assert (ok, type(value)) == (False, RuntimeError)
    assert "use `await agf.arun(...)`" in str(value)


def test_a_background_job_is_not_waited_for_on_the_engines_loop_either() -> None:
    async def main(host: Host) -> Any:
        job = start(lambda host: asyncio.sleep(0), waited=False)
        return await host.call("loop", job.wait, {})

    assert "use `await agf.arun(...)`" in str(start(main).wait()[1])


def test_cancel_ends_the_run_in_order_and_says_why() -> None:
    begun = threading.Event()
    notes: list[str] = []

    async def main(host: Host) -> None:
        try:
            begun.set()
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0)
            notes.append("cleaned up")

    job = start(main)
    begun.wait()
    job.cancel("button")
    job.cancel("another")
    with pytest.raises(asyncio.CancelledError):
        job.wait()
    assert (job.reason, job.done, notes) == ("button", True, ["cleaned up"])


def test_a_call_that_was_cancelled_before_a_thread_took_it_never_runs() -> None:
    ran: list[str] = []
    over = threading.Event()

    async def main(host: Host) -> None:
        task = asyncio.get_running_loop().create_task(host.call("kernel", lambda: ran.append("it"), {}))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        over.set()

    job = start(main)
    over.wait()  # nobody has waited for the job so far, so nobody has taken the call
    job.wait()
    assert ran == []


def held() -> tuple[Callable[[], None], threading.Event, threading.Event]:
    """Returns a function that waits at a gate, an event that is set once the function has begun, and the gate."""
    begun, gate = threading.Event(), threading.Event()

    def grade() -> None:
        begun.set()
        gate.wait()

    return grade, begun, gate


def test_a_thread_that_does_not_stop_is_left_running_and_named() -> None:
    grade, begun, gate = held()

    async def main(host: Host) -> None:
        host.grace = 0
        await host.call("thread", grade, {})

    job = start(main)
    begun.wait()
    job.cancel("button")
    with pytest.raises(StillRunning) as caught:
        job.wait()
    assert caught.value.left_running == "left running: grade"
    assert "grade" in [call.name for call in list(threads.CallThreads.shared().away)]
    gate.set()


def test_a_worker_that_ends_within_the_grace_is_not_left() -> None:
    grade, begun, gate = held()

    async def main(host: Host) -> None:
        host.grace = 3600
        await host.call("thread", grade, {})

    job = start(main)
    begun.wait()
    job.cancel("button")
    gate.set()
    with pytest.raises(asyncio.CancelledError) as stopped:
        job.wait()
    # Its result may have arrived before the loop cancels the task.
    assert type(stopped.value) in (asyncio.CancelledError, Arrived)


def test_a_second_cancel_ends_the_grace() -> None:
    grade, begun, gate = held()

    async def main(host: Host) -> bool:
        host.grace = 3600
        task = asyncio.get_running_loop().create_task(host.call("thread", grade, {}))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        gate.set()
        return task.cancelled()

    assert start(main).wait()


def test_a_worker_over_its_time_is_left_and_the_failure_says_so() -> None:
    grade, begun, gate = held()

    async def main(host: Host) -> Any:
        host.grace = 0
        asyncio.get_running_loop().call_soon(begun.wait)  # the function begins before its time is over
        return await host.call("thread", grade, {}, 0.001)

    ok, value = start(main).wait()
    gate.set()
    assert not ok
    assert str(value) == "took longer than 0.001 s (left running: grade)"


def test_what_was_left_running_may_end_after_its_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "IDLE", 0.0)
    monkeypatch.setattr(threads.CallThreads, "_shared", None)
    begun, gate = threading.Event(), threading.Event()
    worker: list[threading.Thread] = []

    def tool() -> None:
        worker.append(threading.current_thread())
        begun.set()
        gate.wait()

    async def main(host: Host) -> None:
        host.grace = 0
        task = asyncio.get_running_loop().create_task(host.call("thread", tool, {}))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(here(main))
    assert len(threads.CallThreads.shared().away) == 1
    gate.set()
    worker[0].join(60)
    assert not threads.CallThreads.shared().away


def test_stopping_a_call_stops_the_run_it_waits_for() -> None:
    begun = threading.Event()
    notes: list[str] = []

    async def inner(host: Host) -> None:
        try:
            begun.set()
            await asyncio.sleep(3600)
        finally:
            notes.append("inner run ended")

    def tool() -> None:
        try:
            start(inner).wait()
        finally:
            notes.append("tool ended")

    async def main(host: Host) -> None:
        host.grace = 3600
        await host.call("thread", tool, {})

    job = start(main)
    begun.wait()
    job.cancel("button")
    with pytest.raises(asyncio.CancelledError) as stopped:
        job.wait()
    assert type(stopped.value) is asyncio.CancelledError
    assert notes == ["inner run ended", "tool ended"]


def test_a_blocked_loop_is_left_with_its_thread_and_the_next_run_gets_another(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, gate = threading.Event(), threading.Event()

    async def grade() -> None:
        begun.set()
        gate.wait()

    async def main(host: Host) -> None:
        await host.call("loop", grade, {})

    job = start(main)
    begun.wait()
    engine = EngineLoop.current()
    with monkeypatch.context() as patch:  # the loop is certainly blocked, so a short wait is enough
        patch.setattr(loops, "STUCK", 0.0)
        patch.setattr(jobs, "UNANSWERED", 0.0)
        job.cancel("button")
        with pytest.raises(StillRunning) as caught:
            job.wait()
    line = grade.__code__.co_firstlineno + 2
    assert caught.value.left_running == f"left running: blocked in grade, line {line}"
    assert EngineLoop.current() is not engine
    assert run_one() == (True, "agf-engine")
    gate.set()
    engine.thread.join(60)
    assert not engine.thread.is_alive()
    assert engine.loop.is_closed()


def run_one() -> Any:
    async def main(host: Host) -> Any:
        return await host.call("loop", thread_name, {})

    return start(main).wait()


def test_a_loop_that_was_only_delayed_does_not_count_as_blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    run_one()
    engine = EngineLoop.current()
    monkeypatch.setattr(loops, "STUCK", 0.0)  # as if the process had been stopped for a while
    monkeypatch.setattr(loops, "ANSWER", 60.0)
    assert EngineLoop.current() is engine


def test_a_forked_process_gets_threads_of_its_own() -> None:
    script = """
import os, threading
from agf_magics.engine.host.job import Job

def start(main, **options):
    job = Job(main, **options)
    job.start()
    return job
async def main(host):
    return [(await host.call(place, lambda: os.getpid(), {}))[1] for place in ("loop", "kernel", "thread")]
assert set(start(main).wait()) == {os.getpid()}
child = os.fork()
if child == 0:
    os._exit(0 if set(start(main).wait()) == {os.getpid()} else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=60)


def test_threads_at_work_hold_the_virtual_clock() -> None:
    gate = threading.Event()

    async def main(host: Host) -> tuple[Any, float]:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(3600)
        loop.call_later(1, gate.set)  # would come in time if the clock continued
        threading.Thread(target=gate.set).start()
        result = await host.call("thread", gate.wait, {}, 10)
        return result, loop.time()

    assert run_virtual(here(main)) == ((True, True), 3600)


def test_cancelling_whoever_awaits_here_cancels_the_run_in_order() -> None:
    notes: list[str] = []

    async def main(host: Host) -> None:
        try:
            await host.call("loop", lambda: asyncio.sleep(3600), {})
        finally:
            await asyncio.sleep(1)
            notes.append("cleaned up")

    async def cell() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await here(main)

    run_virtual(cell())
    assert notes == ["cleaned up"]


def test_after_a_cancel_no_step_starts_even_if_the_tool_undoes_it_at_once() -> None:
    registry, started, handles = agf.Registry(), threading.Event(), list[agf.Run]()
    went_on: list[str] = []

    @agf.tool(registry=registry)
    async def wait() -> None:
        await asyncio.to_thread(started.wait)

    @agf.tool(registry=registry)
    async def ignore() -> str:
        handles[0].cancel()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            asyncio.current_task().uncancel()
        return "done anyway"

    @agf.tool(registry=registry)
    def go_on() -> None:
        went_on.append("a step")

    steps = "".join(f"\n- tool: {{name: {name}}}" for name in ("wait", "ignore", "go_on"))
    handles.append(agf.start(f"pipeline: p\nsteps:{steps}\n", registry=registry))
    started.set()
    handles[0].wait()
    assert (handles[0].status, went_on) == ("cancelled", [])
