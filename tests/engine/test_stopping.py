"""Interrupts and signals: each process sends itself a real SIGINT, and its run must end in order and soon.

A tool that is not stopped sleeps for an hour, so the test fails by the timeout of the process.
"""

from __future__ import annotations

import itertools
import signal
import sys
import textwrap
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from agf_magics.engine.host import job, watchdog
from agf_magics.engine.host.host import Host
from agf_magics.engine.host.job import OnceSet
from agf_magics.engine.host.waiting_thread import Waiter
from agf_magics.engine.host.watchdog import Watchdog
from agf_magics.engine.threads.call_threads import ThreadCall
from tests.engine.jobs import start
from tests.processes import script

PREAMBLE = """
import asyncio, os, signal, threading, time, warnings
from agf_magics.engine.host.host import Host
from agf_magics.engine.threads.user_code import StillRunning
from agf_magics.engine.host.job import Job

def start(main, **options):
    job = Job(main, **options)
    job.start()
    return job

warnings.simplefilter("error", ResourceWarning)
HOUR = 3600

def press():
    "Not before somebody waits: until then an interrupt is Python's own business."
    while signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        threading.Event().wait(0.01)
    os.kill(os.getpid(), signal.SIGINT)

def interrupt():
    "As the stop button does it: from outside, at any time."
    threading.Thread(target=press).start()

def nap():
    "Sleeps, and wakes often: a signal that comes just before a long sleep begins does not end it, in any Python."
    for _ in range(HOUR * 100):
        time.sleep(0.01)

def stopped(job, *, by):
    try:
        job.wait()
    except asyncio.CancelledError:
        assert job.reason == by, job.reason
    else:
        raise AssertionError("it was not stopped")

def next_cell():
    "What runs after the run: no KeyboardInterrupt may reach it, and Ctrl-C must work in it as ever."
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    for _ in range(100_000):
        pass
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        return
    raise AssertionError("Ctrl-C is dead")
"""


def play(code: str) -> list[str]:
    """The lines that the script prints."""
    ran = script(PREAMBLE + textwrap.dedent(code), Path.cwd())
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout.split("\n")[:-1]


def test_an_interrupt_ends_a_sleeping_tool_and_the_run_in_order() -> None:
    assert play("""
        def person():
            while job.reason is None:  # presses the button until it is answered
                os.kill(os.getpid(), signal.SIGINT)
                threading.Event().wait(0.5)

        def tool():
            threading.Thread(target=person).start()
            time.sleep(HOUR)

        async def main(host):
            try:
                await host.call("kernel", tool, {})
            finally:
                await asyncio.sleep(0)
                print("cleaned-up")

        job = start(main)
        stopped(job, by="interrupt")
        next_cell()
        """) == ["cleaned-up"]


def test_an_interrupt_between_calls_ends_a_fan_out_of_everything() -> None:
    assert play("""
        met = threading.Barrier(4, action=interrupt)

        async def awaits():
            try:
                await asyncio.to_thread(met.wait)
                await asyncio.sleep(HOUR)
            finally:
                print("awaited-tool-ended")

        def blocks():
            met.wait()
            threading.Event().wait(HOUR)

        async def main(host):
            host.grace = 0.1
            async with asyncio.TaskGroup() as group:
                group.create_task(host.call("loop", awaits, {}))
                for _ in range(3):
                    group.create_task(host.call("thread", blocks, {}))

        stopped(start(main), by="interrupt")
        next_cell()
        """) == ["awaited-tool-ended"]


def test_cancelling_a_run_interrupts_its_tool_on_the_waiting_thread() -> None:
    play("""
        begun = threading.Event()

        def tool():
            begun.set()
            time.sleep(HOUR)

        job = start(lambda host: host.call("kernel", tool, {}))
        threading.Thread(target=lambda: (begun.wait(), job.cancel("button"))).start()
        stopped(job, by="button")
        next_cell()
        """)


def test_a_timeout_interrupts_a_tool_on_the_waiting_thread_and_the_run_goes_on() -> None:
    assert play("""
        begun = threading.Event()

        async def main(host):
            asyncio.get_running_loop().call_soon(begun.wait)  # the time is not up before it has begun
            ok, error = await host.call("kernel", tool, {}, 0.05)
            assert not ok
            print(error)
            return await host.call("kernel", lambda: "next", {})

        def tool():
            try:
                begun.set()
                time.sleep(HOUR)
            finally:
                print("interrupted")

        assert start(main).wait() == (True, "next")
        next_cell()
        """) == ["interrupted", "took longer than 0.05 s"]


def test_a_failing_sibling_interrupts_a_tool_on_the_waiting_thread() -> None:
    play("""
        begun = threading.Event()

        def tool():
            begun.set()
            time.sleep(HOUR)

        async def main(host):
            async def fails():
                await asyncio.to_thread(begun.wait)
                raise ValueError
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(host.call("kernel", tool, {}))
                    group.create_task(fails())
            except* ValueError:
                pass
            return await host.call("kernel", lambda: "next", {})

        assert start(main).wait() == (True, "next")
        next_cell()
        """)


def test_a_tool_that_ends_just_as_its_time_is_up_leaks_no_interrupt() -> None:
    play("""
        def tool(until):
            while time.perf_counter() < until:
                pass

        async def main(host):
            for i in range(20):
                await host.call("kernel", tool, {"until": time.perf_counter() + 0.001 + i * 0.00005}, 0.0015)

        for _ in range(30):
            start(main).wait()
            for _ in range(100):
                pass
        next_cell()
        """)


def test_the_second_interrupt_raises_at_once_even_from_a_deaf_tool() -> None:
    assert play("""
        def deaf():
            try:
                interrupt()
                nap()
            except KeyboardInterrupt:
                print("first")
            interrupt()
            nap()

        try:
            start(lambda host: host.call("kernel", deaf, {})).wait()
        except KeyboardInterrupt:
            print("second")
        next_cell()
        """) == ["first", "second"]


def test_the_second_interrupt_raises_at_once_when_the_run_does_not_end() -> None:
    play("""
        async def main(host):
            interrupt()
            try:
                await asyncio.sleep(HOUR)
            finally:
                interrupt()
                await asyncio.sleep(HOUR)

        try:
            start(main).wait()
        except KeyboardInterrupt:
            next_cell()
        else:
            raise AssertionError
        """)


def test_a_deaf_tool_on_the_waiting_thread_is_reported_as_left_running() -> None:
    assert play("""
        told = threading.Event()

        def grade():
            try:
                interrupt()
                nap()
            except KeyboardInterrupt:
                told.wait()

        async def main(host):
            host.grace = 0.05
            try:
                await host.call("kernel", grade, {})
            except StillRunning as left:
                print(left.left_running)
                told.set()
                raise

        try:
            start(main).wait()
        except StillRunning:
            next_cell()
        """) == ["left running: grade, on the thread that waits for the run"]


def test_an_interrupt_stops_the_run_inside_a_tool_and_the_run_around_it() -> None:
    assert play("""
        def sleeps():
            try:
                interrupt()
                nap()
            finally:
                print("tool")

        async def inner(host):
            try:
                await host.call("kernel", sleeps, {})
            finally:
                print("inner")

        def tool():
            try:
                start(inner).wait()
            finally:
                print("outer-tool")

        async def outer(host):
            try:
                await host.call("kernel", tool, {})
                print("never")
            finally:
                print("outer")

        stopped(start(outer), by="interrupt")
        next_cell()
        """) == ["tool", "inner", "outer-tool", "outer"]


def test_an_interrupt_stops_a_run_that_a_worker_waits_for() -> None:
    assert play("""
        async def inner(host):
            try:
                interrupt()
                await asyncio.sleep(HOUR)
            finally:
                print("inner")

        async def outer(host):
            host.grace = 60
            await host.call("thread", lambda: start(inner).wait(), {})

        stopped(start(outer), by="interrupt")
        next_cell()
        """) == ["inner"]


def test_a_timeout_of_a_call_stops_only_the_run_inside_it() -> None:
    assert play("""
        async def inner(host):
            await asyncio.sleep(HOUR)

        async def outer(host):
            ok, error = await host.call("kernel", lambda: start(inner).wait(), {}, 0.05)
            print(type(error).__name__)
            return await host.call("kernel", lambda: "next", {})

        assert start(outer).wait() == (True, "next")
        next_cell()
        """) == ["TimedOut"]


def test_a_keyboard_interrupt_of_the_tools_own_cancels_nothing() -> None:
    assert play("""
        def tool():
            raise KeyboardInterrupt

        job = start(lambda host: host.call("kernel", tool, {}))
        ok, error = job.wait()
        print(type(error).__name__, job.reason)
        next_cell()
        """) == ["KeyboardInterrupt None"]


def test_an_interrupt_in_a_fan_out_is_a_cancel_and_never_a_failure_of_the_tool() -> None:
    play("""
        def tool():
            interrupt()
            nap()

        async def branch(host):
            result = await host.call("kernel", tool, {})
            os._exit(1)  # told as a failure, it could be retried or dropped

        async def main(host):
            async with asyncio.TaskGroup() as one:
                async with asyncio.TaskGroup() as two:
                    two.create_task(branch(host))
                one.create_task(asyncio.sleep(0))

        stopped(start(main), by="interrupt")
        next_cell()
        """)


def test_an_interrupt_works_in_a_cell_that_awaits_on_a_loop_with_a_handler_of_its_own() -> None:
    """As in an async cell of a notebook: the kernel's handler would only cancel the cell's task, which cannot run."""
    play("""
        def tool():
            interrupt()
            nap()

        async def cell():
            stopped(start(lambda host: host.call("kernel", tool, {})), by="interrupt")

        asyncio.run(cell())
        next_cell()
        """)


def test_an_interrupt_ends_an_awaited_run_when_the_loops_handler_only_cancels_its_task() -> None:
    """As a kernel does for an async cell: its sleeping loop would notice the cancellation only at the next timer."""
    assert play("""
        from agf_magics.engine.host.running_loop import here

        async def main(host):
            loop = asyncio.get_running_loop()
            loop.call_later(0.05, interrupt)
            try:
                await host.call("loop", lambda: asyncio.sleep(HOUR), {})
            finally:
                print("cleaned up")

        loop = asyncio.new_event_loop()
        cell = loop.create_task(here(main))
        signal.signal(signal.SIGINT, lambda *_: cell.cancel())
        try:
            loop.run_until_complete(cell)
        except asyncio.CancelledError:
            print("cancelled")
        assert signal.set_wakeup_fd(-1) == -1
        loop.close()
        """) == ["cleaned up", "cancelled"]


def test_a_loop_that_looks_after_its_signals_keeps_doing_so() -> None:
    play("""
        from agf_magics.engine.host.running_loop import here

        async def main(host):
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGUSR1, print)
            fd = signal.set_wakeup_fd(-1)
            signal.set_wakeup_fd(fd)
            await here(nothing)
            assert signal.set_wakeup_fd(fd) == fd != -1

        async def nothing(host):
            pass

        asyncio.run(main(None))
        """)


def test_an_ignored_sigint_stays_ignored_but_a_timeout_still_stops_a_tool() -> None:
    assert play("""
        signal.signal(signal.SIGINT, signal.SIG_IGN)

        def tool():
            interrupt()
            nap()

        async def main(host):
            return await host.call("kernel", tool, {}, 0.5)

        job = start(main)
        ok, error = job.wait()
        print(type(error).__name__, job.reason)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        """) == ["TimedOut None"]


def test_a_tool_that_installs_a_handler_keeps_it() -> None:
    play("""
        def mine(*_): pass

        assert start(lambda host: host.call("kernel", lambda: signal.signal(signal.SIGINT, mine), {})).wait()[0]
        assert signal.getsignal(signal.SIGINT) is mine
        """)


def test_a_handler_of_ours_that_a_tool_puts_back_later_does_what_was_there_before() -> None:
    play("""
        async def main(host):
            return await host.call("kernel", lambda: signal.getsignal(signal.SIGINT), {})

        ok, ours = start(main).wait()
        signal.signal(signal.SIGINT, ours)
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            pass
        else:
            raise AssertionError
        """)


def test_a_signal_for_a_call_that_has_ended_is_ignored() -> None:
    """The test makes this race happen: the tool has ended when the signal arrives that should stop it."""

    async def main(host: Host) -> None:
        await host.call("kernel", late, {})

    def late() -> None:
        from agf_magics.engine.host.waiting_thread import waiters

        waiter: Waiter = waiters.stack[-1]
        other = ThreadCall(late, {}, waiter.inside.loop)  # a call that this thread does not run, or runs no longer
        waiter.awaited_signal = other
        signal.raise_signal(signal.SIGINT)
        assert waiter.awaited_signal is None

    assert threading.current_thread() is threading.main_thread()
    job = start(main)
    job.wait()
    assert job.reason is None


@pytest.mark.parametrize("place", ["loop", "thread"])
def test_an_interrupt_while_a_tool_runs_elsewhere_cancels_it(place: str) -> None:
    assert play(f"""
        place = {place!r}

        async def awaits():
            interrupt()
            try:
                await asyncio.sleep(HOUR)
            finally:
                print("cancelled")

        stopped(start(lambda host: host.call(place, awaits, {{}})), by="interrupt")
        next_cell()
        """) == ["cancelled"]


@pytest.mark.parametrize("shape", ["watch", "wait"])
def test_an_interrupt_at_any_instruction_leaves_nothing_locked(shape: str) -> None:
    """The user's interrupt can end this code at any instruction, and another thread must still be able to continue."""
    steps, interrupted = itertools.count(), True
    while interrupted:
        last, instructions, interrupted = next(steps), 0, False
        end, looked, guard = OnceSet(), threading.Event(), Watchdog()

        def look(seen: threading.Event = looked) -> bool:
            seen.set()
            return True

        def trace(frame: FrameType, event: str, arg: Any, last: int = last) -> Any:
            nonlocal instructions
            frame.f_trace_opcodes = frame.f_code.co_filename in (job.__file__, watchdog.__file__, threading.__file__)
            if event == "opcode":
                if instructions == last:
                    raise KeyboardInterrupt
                instructions += 1
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            _ = guard.watch(look, 0) if shape == "watch" else end.wait(0.001)  # type: ignore[func-returns-value]
        except KeyboardInterrupt:
            interrupted = True
        finally:
            sys.settrace(before)
        other = threading.Thread(target=lambda end=end, guard=guard, look=look: (end.set(), guard.watch(look, 0)))
        other.start()
        other.join(20)
        assert not other.is_alive()
        assert looked.wait(20)
    assert last > 10
