"""Every result and every error of user code comes back as a value, in each of the three places of a call."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.catalog import Where as Place
from agf_magics.engine.host.host import Host
from agf_magics.engine.host.running_loop import here
from agf_magics.engine.threads.user_code import TimedOut
from tests.engine.jobs import start
from tests.engine.virtual_time import run_virtual

PLACES: tuple[Place, ...] = ("loop", "kernel", "thread")
RAISED = (ValueError, StopIteration, SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, TimeoutError)


def make_call(place: Place, function: Callable[..., Any], timeout: float | None = None, **arguments: Any) -> Any:
    """Make one call at this place, from a run that this thread waits for."""

    async def main(host: Host) -> Any:
        return await host.call(place, function, arguments, timeout)

    return start(main).wait()


def raises(error: type[BaseException]) -> Callable[[], None]:
    def tool() -> None:
        raise error

    return tool


def raises_when_awaited(error: type[BaseException], turns: int) -> Callable[[], Any]:
    async def tool() -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        raise error

    return tool


@pytest.mark.parametrize("place", PLACES)
def test_a_call_comes_back_with_its_value(place: Place) -> None:
    assert make_call(place, lambda a, b: a + b, a=1, b=2) == (True, 3)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("error", RAISED)
def test_whatever_a_function_raises_comes_back_as_a_value(place: Place, error: type[BaseException]) -> None:
    ok, value = make_call(place, raises(error))
    assert not ok
    assert type(value) is error


@pytest.mark.parametrize("turns", [0, 1])
@pytest.mark.parametrize("error", [e for e in RAISED if e is not StopIteration])
def test_whatever_a_coroutine_raises_comes_back_as_a_value(error: type[BaseException], turns: int) -> None:
    ok, value = make_call("loop", raises_when_awaited(error, turns))
    assert not ok
    assert type(value) is error


def test_a_coroutine_that_raises_stop_iteration_fails_as_python_says() -> None:
    ok, value = make_call("loop", raises_when_awaited(StopIteration, 1))
    assert (ok, type(value)) == (False, RuntimeError)


def test_a_system_exit_in_a_task_of_a_tools_own_leaves_the_loop_alive() -> None:
    async def tool() -> None:
        task = asyncio.get_running_loop().create_task(raises_when_awaited(SystemExit, 1)())
        await asyncio.wait([task])

    assert make_call("loop", tool) == (True, None)
    assert make_call("loop", lambda: 1) == (True, 1)


@pytest.mark.parametrize("place", PLACES)
def test_a_coroutine_function_behind_a_plain_one_is_awaited_on_the_loop(place: Place) -> None:
    async def tool(x: int) -> tuple[int, str]:
        await asyncio.sleep(0)
        return x, threading.current_thread().name

    assert make_call(place, lambda: tool(2)) == (True, (2, "agf-engine"))


class _Later:
    """An awaitable that is not a coroutine."""

    def __await__(self) -> Iterator[Any]:
        yield from asyncio.sleep(0).__await__()
        return 7  # type: ignore[return-value]


@pytest.mark.parametrize("make", [_Later, lambda: asyncio.ensure_future(asyncio.sleep(0, 7))])
def test_any_awaitable_is_awaited(make: Callable[[], Any]) -> None:
    assert make_call("loop", make) == (True, 7)


@pytest.mark.parametrize("place", PLACES)
def test_asyncio_run_works_where_no_loop_runs_and_says_what_to_do_where_one_does(place: Place) -> None:
    async def inner() -> int:
        return 5

    def tool() -> int:
        coroutine = inner()
        try:
            return asyncio.run(coroutine)
        finally:
            coroutine.close()

    ok, value = make_call(place, tool)
    if place == "loop":
        assert not ok
        assert "`async def`" in "".join(value.__notes__)
    else:
        assert (ok, value) == (True, 5)


def test_asyncio_run_works_on_a_waiting_thread_whose_own_loop_is_running() -> None:
    """As in a notebook's cell: the loop of the kernel runs on the waiting thread, and still runs afterwards."""

    async def cell() -> tuple[Any, bool]:
        kernels = asyncio.get_running_loop()
        result = make_call("kernel", lambda: asyncio.run(asyncio.sleep(0, 5)))
        return result, asyncio.get_running_loop() is asyncio.get_event_loop_policy().get_event_loop() is kernels

    assert asyncio.run(cell()) == ((True, 5), True)


@pytest.mark.parametrize("timeout", [2, 0.5])
def test_an_awaited_call_that_takes_too_long_is_cancelled(timeout: float) -> None:
    notes: list[str] = []

    async def tool() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            notes.append("cleaned up")

    ok, value = run_virtual(here(lambda host: host.call("loop", tool, {}, timeout)))
    assert not ok
    assert type(value) is TimedOut
    assert str(value) == f"took longer than {timeout:g} s"
    assert notes == ["cleaned up"]


@pytest.mark.parametrize("place", PLACES)
def test_a_call_in_time_is_not_touched_by_its_timeout(place: Place) -> None:
    assert run_virtual(here(lambda host: host.call(place, lambda: asyncio.sleep(5, "done"), {}, 6))) == (True, "done")


def test_a_timeout_error_of_the_tool_is_not_a_timeout_of_the_call() -> None:
    async def tool() -> None:
        async with asyncio.timeout(1):
            await asyncio.sleep(3600)

    ok, value = run_virtual(here(lambda host: host.call("loop", tool, {}, 60)))
    assert (ok, type(value)) == (False, TimeoutError)


def test_the_time_a_function_spent_counts_for_what_it_returned() -> None:
    async def main(host: Host) -> Any:
        loop = asyncio.get_running_loop()

        def tool() -> Any:
            loop.now += 3  # type: ignore[attr-defined]
            return asyncio.sleep(3)

        return await host.call("loop", tool, {}, 5), loop.time()

    (ok, value), now = run_virtual(here(main))
    assert (ok, type(value)) == (False, TimedOut)
    assert now == pytest.approx(5)


def test_a_function_that_blocked_the_loop_too_long_fails_afterwards() -> None:
    async def main(host: Host) -> Any:
        loop = asyncio.get_running_loop()
        return await host.call("loop", lambda: setattr(loop, "now", 10.0), {}, 5)

    ok, value = run_virtual(here(main))
    assert (ok, type(value)) == (False, TimedOut)


def test_a_tools_own_timeouts_may_last_longer_than_the_grace() -> None:
    async def tool() -> int:
        for _ in range(100):
            try:
                async with asyncio.timeout(1):
                    await asyncio.sleep(3600)
            except TimeoutError:
                pass
        return 100

    assert run_virtual(here(lambda host: host.call("loop", tool, {}))) == (True, 100)


async def _deaf(heard: list[BaseException]) -> None:
    while True:
        try:
            await asyncio.sleep(3600)
        except BaseException as error:
            heard.append(error)
            if len(heard) > 2:
                raise


def test_a_coroutine_that_swallows_its_cancel_is_cut_off_after_the_grace() -> None:
    heard: list[BaseException] = []

    async def main(host: Host) -> float:
        loop = asyncio.get_running_loop()
        task = loop.create_task(host.call("loop", _deaf, {"heard": heard}))
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert task.cancelling() == 1
        return loop.time()

    assert run_virtual(here(main)) == pytest.approx(1 + 2)
    assert [type(error) for error in heard] == [asyncio.CancelledError, GeneratorExit]


def test_a_timeout_cuts_off_a_coroutine_that_swallows_it() -> None:
    heard: list[BaseException] = []
    ok, value = run_virtual(here(lambda host: host.call("loop", _deaf, {"heard": heard}, 10)))
    assert (ok, type(value)) == (False, TimedOut)


def test_a_cancel_counts_even_if_the_tool_returned_a_value_afterwards() -> None:
    async def tool() -> str:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            return "I was done anyway"
        return "never"

    async def main(host: Host) -> bool:
        task = asyncio.get_running_loop().create_task(host.call("loop", tool, {}))
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert run_virtual(here(main))


def test_a_call_can_be_made_while_its_task_is_being_cancelled() -> None:
    async def main(host: Host) -> Any:
        async def body() -> Any:
            try:
                await asyncio.sleep(3600)
            finally:
                results.append(await host.call("loop", lambda: asyncio.sleep(1, "saved"), {}))

        results: list[Any] = []
        task = asyncio.get_running_loop().create_task(body())
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        return results

    assert run_virtual(here(main)) == [(True, "saved")]


def test_a_tool_may_catch_a_failure_of_what_it_awaits() -> None:
    async def tool() -> str:
        loop = asyncio.get_running_loop()
        failing: asyncio.Future[None] = loop.create_future()
        loop.call_soon(failing.set_exception, ValueError("no"))
        try:
            await failing
        except ValueError as error:
            return str(error)
        return "never"

    assert run_virtual(here(lambda host: host.call("loop", tool, {}))) == (True, "no")


def test_a_call_thrown_away_after_its_loop_ends_quietly() -> None:
    loop = asyncio.new_event_loop()
    coroutine = Host().call("loop", lambda: asyncio.sleep(3600), {})
    task = loop.create_task(coroutine)
    loop.run_until_complete(asyncio.sleep(0))
    coroutine.close()  # raises RuntimeError if the coroutine does not end
    task.cancel()
    loop.run_until_complete(asyncio.wait([task]))
    loop.close()


def test_a_call_that_is_thrown_away_ends_quietly() -> None:
    notes: list[str] = []

    async def tool() -> None:
        try:
            await asyncio.sleep(3600)
        except GeneratorExit:
            notes.append("closed")
            raise

    async def main(host: Host) -> None:
        coroutine = host.call("loop", tool, {})
        task = asyncio.get_running_loop().create_task(coroutine)
        await asyncio.sleep(1)
        coroutine.close()  # raises RuntimeError if the coroutine does not end
        task.cancel()

    run_virtual(here(main))
    assert notes == ["closed"]


def test_a_long_chain_of_calls_that_never_wait_gives_the_loop_turns() -> None:
    async def main(host: Host) -> bool:
        turned = asyncio.Event()
        asyncio.get_running_loop().call_soon(turned.set)
        for _ in range(1_000_000):
            await host.call("loop", lambda: None, {})
            if turned.is_set():
                return True
        return False

    assert start(main).wait()


def test_an_object_of_another_thread_is_reported_with_the_right_place() -> None:
    registry = agf.Registry()
    with closing(sqlite3.connect(":memory:")) as connection:

        def count(n: int) -> int:
            return int(connection.execute("select ?", (n,)).fetchone()[0])

        text = (
            "{pipeline: p, steps: [{for_each: {items: [1, 2], on_error: abort, "
            "do: {tool: {name: count, args: {n: !expr item}}}, collect: {transform: {value: pipe}}}}]}"
        )
        agf.define(text, registry=registry)
        agf.tool(count, registry=registry)
        failed = agf.run("p", registry=registry, raises=False)
        assert failed.error is not None
        assert (failed.error.diagnostic.hint or "").startswith("where='kernel' in @tool(…) or tool(…)")
        agf.tool(count, registry=registry, where="kernel")
        assert agf.run("p", registry=registry).output == [1, 2]
