"""§ 3: a chain of calls and a fan-out in other libraries, in the same rounds as ours: CPU time of the whole process.

A library that is not installed is left out. Each does the work as its documentation shows it.
"""

from __future__ import annotations

import asyncio
import importlib.util
import operator
import sys
import time
import types
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import agf_magics as agf
from tests.bench.orchestration import GATHER, gathered
from tests.bench.rounds import Row, paired
from tests.fans import fan_out

STEPS, ITEMS, WIDTH = 100, 1000, 16
Run = Callable[[], object]
LIBRARIES = ("joblib", "dask", "hamilton", "langgraph", "burr")


def plain(x: int) -> int:
    return x + 1


async def asynchronous(x: int) -> int:
    return x + 1


def rows() -> tuple[list[Row], list[Row]]:
    """Microseconds of a step of a chain, and of an element of a fan-out, after those of asyncio alone."""
    loop = asyncio.new_event_loop()
    try:
        chains = {GATHER: lambda: loop.run_until_complete(gathered(STEPS))}
        fans = {GATHER: lambda: loop.run_until_complete(gathered(ITEMS))}
        chains |= dict(_our_chains())
        fans |= {"concurrent.futures.ThreadPoolExecutor": _thread_pool, **dict(_our_fans())}
        for library in LIBRARIES:
            if importlib.util.find_spec(library) is not None:
                chain, fan = MAKERS[library]()
                chains |= chain
                fans |= fan
        return (
            paired(chains, per=STEPS, rounds=7, clock=time.process_time),
            paired(fans, per=ITEMS, rounds=7, clock=time.process_time),
        )
    finally:
        loop.close()


# --- ours -------------------------------------------------------------------------------------------------------------

CHAIN = "pipeline: chain\nsteps:\n  - transform: {value: ctx.n}\n"


def _our_chains() -> Iterator[tuple[str, Run]]:
    for name, step in (
        ("ours: async tool", "tool: {name: asynchronous, args: {x: !expr pipe}}"),
        ("ours: plain tool", "tool: {name: plain, args: {x: !expr pipe}}"),
        ("ours: plain tool, where=loop", "tool: {name: looped, args: {x: !expr pipe}}"),
        ("ours: transform", "transform: {value: pipe + 1}"),
    ):
        yield name, _ours(CHAIN + f"  - {step}\n" * STEPS, {"n": 0})


def _our_fans() -> Iterator[tuple[str, Run]]:
    for name, tool in (("ours: async tool", "asynchronous"), ("ours: plain tool", "plain")):
        yield name, _ours(fan_out(tool, limit=WIDTH), {"xs": list(range(ITEMS))})


def _ours(text: str, given: Mapping[str, Any]) -> Run:
    registry = agf.Registry()
    agf.tool(plain, registry=registry)
    agf.tool(asynchronous, registry=registry)
    agf.tool(plain, name="looped", where="loop", registry=registry)
    flow = agf.load(text, registry=registry)
    return lambda: agf.run(flow, given, registry=registry)


# --- the others -------------------------------------------------------------------------------------------------------


def _thread_pool() -> object:
    with ThreadPoolExecutor(WIDTH) as pool:
        return list(pool.map(plain, range(ITEMS)))


Made = tuple[dict[str, Run], dict[str, Run]]


def _joblib() -> Made:
    from joblib import Parallel, delayed

    return {}, {
        "joblib, threads": lambda: Parallel(WIDTH, backend="threading")(delayed(plain)(x) for x in range(ITEMS))
    }


def _dask() -> Made:
    import dask.bag
    from dask import compute, delayed

    pool = ThreadPoolExecutor(WIDTH)
    how = {"scheduler": "threads", "pool": pool}

    def chain() -> object:
        value = delayed(plain)(0)
        for _ in range(STEPS - 1):
            value = delayed(plain)(value)
        return value.compute(**how)

    return {"dask.delayed": chain}, {
        "dask.delayed": lambda: compute(*[delayed(plain)(x) for x in range(ITEMS)], **how),
        "dask.bag": lambda: dask.bag.from_sequence(range(ITEMS), npartitions=WIDTH).map(plain).compute(**how),
    }


def _hamilton() -> Made:
    from hamilton import driver
    from hamilton.execution.executors import MultiThreadingExecutor

    def module(name: str, text: str) -> types.ModuleType:
        made = types.ModuleType(name)
        sys.modules[name] = made
        exec(text, made.__dict__)
        return made

    links = "".join(f"def n{i}(n{i - 1}: int) -> int:\n    return n{i - 1} + 1\n" for i in range(1, STEPS + 1))
    chain = driver.Builder().with_modules(module("bench_chain", links)).build()
    text = (
        "from hamilton.htypes import Collect, Parallelizable\n"
        f"def x() -> Parallelizable[int]:\n    yield from range({ITEMS})\n"
        "def y(x: int) -> int:\n    return x + 1\n"
        "def z(y: Collect[int]) -> list:\n    return list(y)\n"
    )
    builder = driver.Builder().with_modules(module("bench_fan", text))
    builder = builder.enable_dynamic_execution(allow_experimental_mode=True)
    fan = builder.with_remote_executor(MultiThreadingExecutor(max_tasks=WIDTH)).build()
    return (
        {"Hamilton": lambda: chain.execute([f"n{STEPS}"], inputs={"n0": 0})},
        {"Hamilton, threads": lambda: fan.execute(["z"])},
    )


def _langgraph() -> Made:
    from typing import Annotated, TypedDict

    from langgraph.graph import END, START, StateGraph
    from langgraph.types import Send

    chained, fanned = TypedDict("chained", {"n": int}), TypedDict("fanned", {"out": Annotated[list, operator.add]})
    chain: Any = StateGraph(chained)
    before = START
    for number in range(STEPS):
        chain.add_node(f"n{number}", lambda state: {"n": state["n"] + 1})
        chain.add_edge(before, f"n{number}")
        before = f"n{number}"
    chain.add_edge(before, END)
    fan: Any = StateGraph(fanned)
    fan.add_node("call", lambda state: {"out": [plain(state["x"])]})
    fan.add_conditional_edges(START, lambda state: [Send("call", {"x": x}) for x in range(ITEMS)], ["call"])
    fan.add_edge("call", END)
    steps, elements = chain.compile(), fan.compile()
    how = {"recursion_limit": 10 * STEPS, "max_concurrency": WIDTH}
    return (
        {"LangGraph": lambda: steps.invoke({"n": 0}, how)},
        {"LangGraph, Send": lambda: elements.invoke({"out": []}, how)},
    )


def _burr() -> Made:
    from burr.core import ApplicationBuilder, action

    @action(reads=["n"], writes=["n"])
    def step(state: Any) -> Any:
        return state.update(n=state["n"] + 1)

    built = ApplicationBuilder().with_actions(step=step).with_transitions(("step", "step")).with_state(n=0)
    application = built.with_entrypoint("step").build()

    def chain() -> object:
        for _ in range(STEPS):
            application.step()
        return application.state["n"]

    return {"Burr": chain}, {}


MAKERS: Mapping[str, Callable[[], Made]] = {
    "joblib": _joblib,
    "dask": _dask,
    "hamilton": _hamilton,
    "langgraph": _langgraph,
    "burr": _burr,
}
