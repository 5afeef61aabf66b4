"""Threads that a tool starts (decision D2): a run in such a thread has the rights of the tool, and may not launch runs.

A tool of ``narrow`` tries every way to start a thread. ``narrow`` is an agent that may use this tool and no other.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.engine.threads.rights import PERSON, rights
from agf_magics.lifecycle.agent_tools import launch_tools

Work = Callable[[], Any]
Way = Callable[[Work], Any]
"""A way to do work on another thread. It waits for the work and returns its result."""

NARROW = "pipeline: p\nsteps:\n- agent: {prompt: x, identity: narrow}\n"
DANGER = "pipeline: q\nsteps:\n- tool: {name: danger}\n"


def in_thread(work: Work) -> Any:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join()
    return results[0]


def in_thread_of_a_thread(work: Work) -> Any:
    return in_thread(lambda: in_thread(work))


def in_subclass(work: Work) -> Any:
    class Mine(threading.Thread):
        result: Any = None

        def run(self) -> None:
            self.result = work()

    thread = Mine()
    thread.start()
    thread.join()
    return thread.result


def in_thread_with_its_own_run(work: Work) -> Any:
    results: list[Any] = []
    thread = threading.Thread()
    thread.run = lambda: results.append(work())  # type: ignore[method-assign]
    thread.start()
    thread.join()
    return results[0]


def in_timer(work: Work) -> Any:
    results: list[Any] = []
    timer = threading.Timer(0, lambda: results.append(work()))
    timer.start()
    timer.join()
    return results[0]


def in_pool(work: Work) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def in_pool_map(work: Work) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return next(pool.map(lambda _: work(), [1]))


def in_pool_initializer(work: Work) -> Any:
    results: list[Any] = []
    with ThreadPoolExecutor(1, initializer=lambda: results.append(work())) as pool:
        pool.submit(int).result()
    return results[0]


def in_thread_pool(work: Work) -> Any:
    with ThreadPool(1) as pool:
        return pool.apply(work)


def in_loop_of_a_thread(work: Work) -> Any:
    async def main() -> Any:
        return await asyncio.get_running_loop().run_in_executor(None, work)

    return in_thread(lambda: asyncio.run(main()))


def in_to_thread(work: Work) -> Any:
    return in_thread(lambda: asyncio.run(asyncio.to_thread(work)))


def in_threadsafe_callback(work: Work) -> Any:
    """Do the work on the loop of a thread that the user started."""
    loop, results = asyncio.new_event_loop(), list[Any]()
    finished = threading.Event()

    def do() -> None:
        try:
            results.append(work())
        finally:
            finished.set()

    contextvars.Context().run(LOOPS.append, loop)
    loop.call_soon_threadsafe(do)
    loop.call_soon_threadsafe(loop.stop)
    in_thread(loop.run_forever)
    loop.close()
    finished.wait()
    return results[0]


def in_empty_context(work: Work) -> Any:
    return contextvars.Context().run(work)


def in_empty_context_of_a_thread(work: Work) -> Any:
    return in_thread(lambda: contextvars.Context().run(work))


LOOPS: list[Any] = []
WAYS: tuple[Way, ...] = (
    in_thread,
    in_thread_of_a_thread,
    in_subclass,
    in_thread_with_its_own_run,
    in_timer,
    in_pool,
    in_pool_map,
    in_pool_initializer,
    in_thread_pool,
    in_loop_of_a_thread,
    in_to_thread,
    in_threadsafe_callback,
    in_empty_context,
    in_empty_context_of_a_thread,
)
ways = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
places = pytest.mark.parametrize("where", ["loop", "kernel", "thread", "async"])


class House:
    """A tool that must not be reached, and an agent that may use only ``sneak``."""

    def __init__(self) -> None:
        self.registry = agf.Registry()
        self.reached: list[str] = []
        agf.tool(lambda: self.reached.append("danger"), name="danger", registry=self.registry)
        agf.define(DANGER, registry=self.registry)

    def sneaks(self, work: Work, where: str = "kernel") -> agf.Run:
        """A run in which the code of ``narrow`` does the work."""

        async def later(prompt: str) -> Any:
            await asyncio.sleep(0)
            return work()

        function = later if where == "async" else lambda prompt: work()
        place: Any = None if where == "async" else where
        agf.agent(function, name="narrow", tools=["sneak"], where=place, registry=self.registry)
        return agf.run(NARROW, registry=self.registry, raises=False)

    def starts(self) -> Any:
        """A run in the background, which also uses the loop of the engine."""
        handle = agf.start(DANGER, registry=self.registry)
        return handle

    def awaits(self) -> Any:
        return asyncio.run(agf.arun(DANGER, registry=self.registry, raises=False))


def code_of(work: Work) -> str:
    try:
        return str(work())
    except (agf.DefinitionError, agf.StepError) as error:
        return error.code


@places
@ways
def test_a_run_started_by_a_thread_of_a_tool_has_the_tools_rights(way: Way, where: str) -> None:
    house, handles = House(), list[agf.Run]()
    run = house.sneaks(lambda: way(lambda: handles.append(house.starts())), where)
    assert run.status == "ok", run.error
    (handle,) = handles
    handle.wait()
    assert (handle.error.code, house.reached) == ("step.not-allowed", [])
    assert "may not use tool 'danger'" in str(handle.error)
    assert rights() == PERSON


@places
@ways
def test_a_run_started_by_a_thread_of_a_tool_launches_nothing(way: Way, where: str) -> None:
    house = House()
    tools = launch_tools(registry=house.registry)
    launches: tuple[Work, ...] = (
        lambda: tools["run_pipeline"]("q"),
        lambda: tools["run_pipeline_async"]("q"),
        lambda: tools["run_pipeline_inline"](DANGER),
        lambda: tools["pipeline__q"](),
        lambda: tools["run_result"]("x"),
        lambda: agf.resume(registry=house.registry),
    )
    codes: list[str] = []
    run = house.sneaks(lambda: way(lambda: codes.extend(code_of(launch) for launch in launches)), where)
    assert run.status == "ok", run.error
    assert (codes, house.reached) == (["flow.launch"] * len(launches), [])


@pytest.mark.parametrize("how", ["run", "arun"])
def test_a_run_that_blocks_or_is_awaited_in_a_thread_has_the_same_rights(how: str) -> None:
    house = House()

    def work() -> Any:
        run = house.awaits() if how == "arun" else agf.run(DANGER, registry=house.registry, raises=False)
        return run.error and run.error.code

    for way in (in_thread, in_pool, in_timer):
        run = house.sneaks(lambda: way(work))  # noqa: B023
        assert (run.output, house.reached) == ("step.not-allowed", [])


def test_a_pool_has_in_each_call_the_rights_of_that_call() -> None:
    house, pool = House(), ThreadPoolExecutor(1)

    def work() -> Any:
        run = agf.run(DANGER, registry=house.registry, raises=False)
        return run.status if run.error is None else run.error.code

    agf.tool(lambda: pool.submit(work).result(), name="wide", registry=house.registry)
    with pool:
        assert agf.run("pipeline: p\nsteps:\n- tool: {name: wide}\n", registry=house.registry).output == "ok"
        assert house.sneaks(lambda: pool.submit(work).result()).output == "step.not-allowed"
        assert house.reached == ["danger"]


def test_a_pool_of_the_user_gives_a_tool_no_more_rights() -> None:
    house = House()

    def work() -> Any:
        run = agf.run(DANGER, registry=house.registry, raises=False)
        return run.status if run.error is None else run.error.code

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(work).result() == "ok"  # starts the thread of the pool
        assert house.sneaks(lambda: pool.submit(work).result()).output == "step.not-allowed"
        assert pool.submit(work).result() == "ok"
    assert house.reached == ["danger", "danger"]


def test_a_thread_that_outlives_its_call_has_the_rights_of_that_call() -> None:
    house, launched_later, codes = House(), threading.Event(), list[str]()
    threads: list[threading.Thread] = []

    def later() -> None:
        launched_later.wait()
        codes.append(code_of(lambda: agf.run(DANGER, registry=house.registry)))

    def leave() -> None:
        threads.append(threading.Thread(target=later))
        threads[0].start()

    assert house.sneaks(leave).status == "ok"
    launched_later.set()
    threads[0].join()
    assert (codes, house.reached) == (["step.not-allowed"], [])


def test_a_run_that_a_thread_starts_is_recorded_as_part_of_its_tool_call() -> None:
    house, has_no_journal = House(), list[bool]()

    def work() -> None:
        run = agf.run("pipeline: r\nsteps:\n- transform: {value: '1'}\n", registry=house.registry)
        has_no_journal.append(run.journal is None)

    house.sneaks(lambda: in_thread(work))
    assert has_no_journal == [True]


@pytest.fixture
def begun() -> None:
    """The first run installs the hooks."""
    agf.run("pipeline: p\nsteps:\n- transform: {value: '1'}\n")


def test_threads_of_the_user_are_unchanged(begun: None) -> None:
    house, statuses = House(), list[str]()
    for way in WAYS:
        if way is not in_threadsafe_callback:
            way(lambda: statuses.append(agf.run(DANGER, registry=house.registry).status))
    assert statuses == ["ok"] * (len(WAYS) - 1)
    thread = threading.Thread(target=int)
    thread.start()
    assert "run" not in vars(thread)
    thread.join()
    with pytest.raises(RuntimeError, match="only be started once"):
        thread.start()


def test_a_thread_of_a_tool_is_left_as_it_was(begun: None) -> None:
    house, threads = House(), list[threading.Thread]()

    def work() -> None:
        threads.append(threading.Thread(target=int))
        threads[0].start()
        threads[0].join()
        with pytest.raises(RuntimeError, match="only be started once"):
            threads[0].start()

    assert house.sneaks(work).status == "ok"
    assert threads[0].run.__func__ is threading.Thread.run  # type: ignore[attr-defined]
