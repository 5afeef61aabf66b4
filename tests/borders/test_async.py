"""An awaited run is cancelled like any other awaitable, and each call has context variables of its own."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import decimal
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

import agf_magics as agf
from tests.engine import kept

STARTED = threading.Event()
RELEASED = threading.Event()


def scopes() -> dict[str, Callable[[Callable[[], Awaitable[Any]]], Awaitable[str]]]:
    """Ways to cancel an awaitable. Each returns what its caller sees."""

    async def timeout(work: Callable[[], Awaitable[Any]]) -> str:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await work()
        return "ended"

    async def wait_for(work: Callable[[], Awaitable[Any]]) -> str:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(work(), 0.1)  # type: ignore[arg-type]
        return "ended"

    async def fail_after(work: Callable[[], Awaitable[Any]]) -> str:
        with pytest.raises(TimeoutError):
            with anyio.fail_after(0.1):
                await work()
        return "ended"

    async def move_on_after(work: Callable[[], Awaitable[Any]]) -> str:
        with anyio.move_on_after(0.1) as scope:
            await work()
        assert scope.cancelled_caught
        return "ended"

    async def cancel_scope(work: Callable[[], Awaitable[Any]]) -> str:
        async with anyio.create_task_group() as group:

            async def stop() -> None:
                await anyio.sleep(0.1)
                group.cancel_scope.cancel()

            group.start_soon(stop)
            await work()
        assert group.cancel_scope.cancelled_caught
        return "ended"

    async def nested(work: Callable[[], Awaitable[Any]]) -> str:
        with anyio.move_on_after(0.1) as outer:
            async with asyncio.timeout(30):
                with anyio.fail_after(20):
                    await work()
        assert outer.cancelled_caught
        return "ended"

    async def shielded(work: Callable[[], Awaitable[Any]]) -> str:
        with anyio.move_on_after(0.1) as outer:
            with anyio.CancelScope(shield=True):
                with anyio.move_on_after(0.2) as inner:
                    await work()
                assert inner.cancelled_caught
            await anyio.sleep(1)
        assert outer.cancelled_caught
        return "ended"

    return {way.__name__: way for way in (timeout, wait_for, fail_after, move_on_after, cancel_scope, nested, shielded)}


SCOPES = scopes()

STEPS = {
    "async": "{tool: {name: doze}}",
    "plain": "{tool: {name: hold}}",
    "cleans": "{tool: {name: cleans}}",
    "fan-out": "{for_each: {items: [1, 2, 3], on_error: continue, do: {tool: {name: doze}},"
    " collect: {transform: {value: pipe}}}}",
    "agent": "{agent: {prompt: Hi, identity: dozer}}",
}


def registered() -> agf.Registry:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    async def doze() -> None:
        await asyncio.sleep(30)

    @agf.tool(registry=registry)
    def hold() -> None:
        RELEASED.wait(0.5)  # a plain function cannot be stopped, so its run waits for it

    @agf.tool(registry=registry)
    async def cleans() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            await asyncio.sleep(0.05)
            STARTED.set()

    @agf.agent(registry=registry)
    async def dozer(prompt: str) -> str:
        await asyncio.sleep(30)
        return prompt

    return registry


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("scope", SCOPES)
def test_an_awaited_run_is_cancelled_like_any_other_awaitable(scope: str, step: str) -> None:
    registry = registered()
    STARTED.clear()
    flow = agf.load(f"{{pipeline: p, steps: [{STEPS[step]}]}}", registry=registry)
    runs: list[Any] = []

    async def main() -> str:
        task = asyncio.current_task()
        assert task is not None
        ended = await SCOPES[scope](lambda: agf.arun(flow, registry=registry, on_event=runs.append))
        assert not task.cancelling()
        await asyncio.sleep(0)  # would raise if the cancellation were still pending
        return ended

    assert asyncio.run(main()) == "ended"
    assert runs[-1].status == "cancelled"
    if step == "cleans":
        assert STARTED.is_set(), "the tool had no time to clean up"


def test_the_message_of_a_cancellation_is_kept() -> None:
    registry = registered()

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_later(0.05, task.cancel, "the server shuts down")
        await agf.arun("{pipeline: p, steps: [{tool: {name: doze}}]}", registry=registry, raises=False)

    with pytest.raises(asyncio.CancelledError, match="the server shuts down"):
        asyncio.run(main())


def test_a_scope_of_anyio_inside_a_tool_ends_only_what_is_in_it() -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    async def tries() -> str:
        with anyio.move_on_after(0.05) as scope:
            await anyio.sleep(30)
        return "moved on" if scope.cancelled_caught else "?"

    flow = "{pipeline: p, steps: [{tool: {name: tries}}]}"
    assert agf.run(flow, registry=registry).output == "moved on"
    assert asyncio.run(agf.arun(flow, registry=registry)).output == "moved on"  # type: ignore[arg-type]


# --- context variables ---

NAME = contextvars.ContextVar("name", default="unset")


def writers() -> agf.Registry:
    registry = agf.Registry()

    def write() -> str:
        before = NAME.get()
        NAME.set("written")
        decimal.setcontext(decimal.Context(prec=3))
        return before

    async def awaits() -> str:
        before = write()
        await asyncio.sleep(0.001)
        assert NAME.get() == "written", "a call sees what it has set itself"
        assert await asyncio.create_task(_read()) == "written", "and so do its tasks"
        return before

    async def _read() -> str:
        return NAME.get()

    def returns_awaitable() -> Awaitable[str]:
        before = NAME.get()
        NAME.set("written")
        return awaits() if before == "unset" else _read()

    agf.tool(write, name="plain", registry=registry)
    agf.tool(write, name="on_loop", where="loop", registry=registry)
    agf.tool(write, name="on_thread", where="thread", registry=registry)
    agf.tool(awaits, name="awaits", registry=registry)

    @agf.tool(registry=registry)
    def reads(after: Any = None) -> list[Any]:
        return [NAME.get(), str(decimal.Decimal(1) / 7)]

    @agf.tool(registry=registry)
    async def reads_awaiting(after: Any = None) -> list[Any]:
        return [NAME.get(), str(decimal.Decimal(1) / 7)]

    @agf.agent(registry=registry)
    async def writer(input: Any = None) -> str:
        return await awaits()

    @agf.agent(registry=registry)
    async def reader(input: Any = None) -> list[Any]:
        return [NAME.get(), str(decimal.Decimal(1) / 7)]

    return registry


CLEAN = ["unset", "0.1428571428571428571428571429"]

FLOWS = {
    "pipeline": ("pipeline", "{pipeline: p, steps: [{tool: {name: WRITER}}, {tool: {name: READER}}]}"),
    "fan-out": (
        "pipeline",
        "{pipeline: p, steps: [{for_each: {items: [1, 2], max_parallel: 1, on_error: abort,"
        " do: {tool: {name: WRITER}}, collect: {transform: {value: pipe}}}}, {tool: {name: READER}}]}",
    ),
    "plan": (
        "plan",
        "{calls: [{_tool: WRITER, _outputPath: $state.a},"
        " {_tool: READER, _outputPath: $state.b, after: $state.a}], output: $state.b}",
    ),
    "graph": (
        "graph",
        "{state: {a: any, b: any}, nodes: {a: {type: python, tool: WRITER, state_key: a},"
        " b: {type: python, tool: READER, state_key: b}},"
        " edges: [{from: START, to: a}, {from: a, to: b}]}",
    ),
}


@pytest.mark.parametrize("reader", ["reads", "reads_awaiting"])
@pytest.mark.parametrize("writer", ["plain", "on_loop", "on_thread", "awaits"])
@pytest.mark.parametrize("language", FLOWS)
def test_what_a_call_sets_in_its_context_no_later_step_sees(language: str, writer: str, reader: str) -> None:
    registry = writers()
    kind, text = FLOWS[language]
    text = text.replace("WRITER", writer).replace("READER", reader)
    flow = agf.load(text, kind, name="p", registry=registry)
    for run in (
        agf.run(flow, registry=registry),
        asyncio.run(agf.arun(flow, registry=registry)),  # type: ignore[arg-type]
        agf.start(flow, registry=registry).wait(),
    ):
        value = run.output["b"] if language == "graph" else run.output
        assert value == CLEAN
    assert NAME.get() == "unset"


def test_agents_of_a_policy_have_contexts_of_their_own() -> None:
    registry = writers()
    text = "{id: agf.sequential, config: {steps: [{agent: writer}, {agent: reader}]}}"
    flow = agf.load(text, "policy", name="p", registry=registry)
    assert agf.run(flow, {}, registry=registry).output == CLEAN


def test_a_resumed_run_sees_the_same_context_as_an_uninterrupted_one(tmp_path: Any) -> None:
    registry, is_open = writers(), [True]

    @agf.tool(registry=registry)
    def gate() -> int:
        if not is_open[0]:
            raise ValueError("closed")
        return 1

    text = "{pipeline: p, steps: [{tool: {name: awaits}}, {tool: {name: gate}}, {tool: {name: reads}}]}"
    with kept.journal_in(tmp_path):
        flow = agf.define(text, registry=registry)
        whole = agf.run(flow, registry=registry).output
        is_open[0] = False
        failed = agf.run(flow, registry=registry, raises=False)
        is_open[0] = True
        assert agf.resume(failed.run_id, registry=registry).output == whole == CLEAN


# --- calls that cancel their own task ---


async def waits() -> None:
    current_task().cancel()
    await asyncio.sleep(30)


async def returns() -> str:
    current_task().cancel()
    return "returned before the cancellation reached it"


async def raises() -> None:
    current_task().cancel()
    raise ValueError("of its own")


async def catches() -> str:
    current_task().cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(30)
    await asyncio.sleep(0)
    return "went on"


async def in_a_timeout() -> None:
    async with asyncio.timeout(30):
        await waits()


async def in_a_scope() -> None:
    with anyio.move_on_after(30):
        await waits()


def plain() -> str:
    current_task().cancel()
    return "returned before the cancellation reached it"


async def only_raises() -> None:
    raise asyncio.CancelledError("nobody wants it")


async def awaits_a_cancelled_task() -> None:
    task = asyncio.create_task(asyncio.sleep(30))
    task.cancel()
    await task


def current_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


OWN = "CancelledError (it cancelled its own task)"

CANCELS_ITSELF = {
    waits: OWN,
    returns: OWN,
    raises: "ValueError: of its own",
    catches: None,
    in_a_timeout: OWN,
    in_a_scope: OWN,
    plain: OWN,
    only_raises: "CancelledError: nobody wants it",
    awaits_a_cancelled_task: "CancelledError",
}
"""Functions that cancel the task that they run in, or raise as if they had, with the failure of their calls: None: they
return."""

CALLS = {
    "tool": ("pipeline", "{pipeline: p, steps: [{tool: {name: it}}, {tool: {name: doze}}]}"),
    "fan-out": (
        "pipeline",
        "{pipeline: p, steps: [{for_each: {items: [1, 2], on_error: abort, do: {tool: {name: it}},"
        " collect: {transform: {value: pipe}}}}, {tool: {name: doze}}]}",
    ),
    "agent": ("pipeline", "{pipeline: p, steps: [{agent: {prompt: Hi, identity: it}}, {tool: {name: doze}}]}"),
    "plan": (
        "plan",
        "{calls: [{_tool: it, _outputPath: $state.a}, {_tool: doze, after: $state.a, _outputPath: $state.b}],"
        " output: $state.b}",
    ),
    "graph": (
        "graph",
        "{state: {a: any, b: any}, nodes: {a: {type: python, tool: it, state_key: a},"
        " b: {type: python, tool: doze, state_key: b}}, edges: [{from: START, to: a}, {from: a, to: b}]}",
    ),
    "policy": ("policy", "{id: agf.sequential, config: {steps: [{agent: it}, {agent: doze}]}}"),
}


@pytest.mark.parametrize("language", CALLS)
@pytest.mark.parametrize("function", CANCELS_ITSELF)
def test_a_call_that_cancels_its_own_task_fails_and_the_run_is_not_cancelled(function: Any, language: str) -> None:
    registry = agf.Registry()

    async def it(input: Any = None) -> Any:
        return await function()

    def it_plain(input: Any = None) -> Any:
        return function()

    async def doze(input: Any = None, after: Any = None) -> str:
        await asyncio.sleep(0)
        return "done"

    called = it_plain if function is plain else it
    agf.tool(called, name="it", where="loop" if function is plain else None, registry=registry)
    agf.tool(doze, registry=registry)
    agf.agent(called, name="it", where="loop" if function is plain else None, registry=registry)
    agf.agent(doze, registry=registry)
    kind, text = CALLS[language]
    flow = agf.load(text, kind, name="p", registry=registry)

    async def awaited() -> Any:
        run = await agf.arun(flow, {} if language == "policy" else None, registry=registry, raises=False)
        assert not current_task().cancelling()
        return run

    for run in (
        agf.run(flow, {} if language == "policy" else None, registry=registry, raises=False),
        asyncio.run(awaited()),
    ):
        expected = CANCELS_ITSELF[function]
        if expected is None:
            assert (run.status, run.error) == ("ok", None)
            continue
        assert run.error is not None
        problem = run.error.diagnostic
        hint = f" ({problem.hint})" if problem.hint else ""
        word = "agent" if language in ("agent", "policy") else "tool"
        assert (run.status, problem.code) == ("error", f"step.{word}-failed")
        assert problem.message + hint == f"{word} 'it' failed: {expected}"


def test_the_failure_of_a_call_that_cancels_itself_is_rescued_like_any_other() -> None:
    registry = agf.Registry()
    agf.tool(waits, name="it", registry=registry)
    text = (
        "{pipeline: p, steps: [{for_each: {items: [1, 2], on_error: continue, do: {tool: {name: it}},"
        " collect: {transform: {value: pipe}}}}]}"
    )
    run = agf.run(text, registry=registry)
    assert (run.status, run.output) == ("ok", [])


def test_a_call_that_has_cancelled_itself_can_still_be_cancelled() -> None:
    registry = agf.Registry()
    begun = asyncio.Event()

    @agf.tool(registry=registry)
    async def it() -> None:
        await catches()
        begun.set()
        await asyncio.sleep(30)

    async def main() -> None:
        task = asyncio.create_task(agf.arun("{pipeline: p, steps: [{tool: {name: it}}]}", registry=registry))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
