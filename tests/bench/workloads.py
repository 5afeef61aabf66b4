"""Measures whole workloads in our languages and in other libraries, which are used as their documentation shows.

Each workload runs in a process of its own. `python -m tests.bench.workloads graph` prints one. A library that is not
installed is left out. A library that fails or hangs is left out, too, and the workload runs again without it.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib.util
import json
import operator
import os
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import types
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict

import agf_magics as agf
from agf_magics.journal.database.store import Store
from agf_magics.settings.settings import current
from tests.bench.apart import LeftOut, run_apart

WIDTH = 16
"""The number of concurrent calls, in libraries that let a user choose."""

LIMITS = agf.Limits(spawns=0)
"""The limits of each run: any number of sessions of models (0 means no limit)."""

Do = Callable[[], object]


class Candidate(NamedTuple):
    """A library that does the same work: its name, and a function that does it."""

    name: str
    keeps: str
    """What is on the disk after the run."""
    do: Do
    """Runs the workload, and returns a figure that must be the same for all candidates."""
    rounds: int = 3


class Workload(NamedTuple):
    """Work that is measured in several libraries, with the texts of its section."""

    title: str
    about: str
    candidates: Callable[[Path, ExitStack], Iterable[Candidate]]
    """Makes the candidates, with their files in a folder. The stack closes what they open."""
    units: int
    """The number of parts of the work, for the column "µs a unit"."""
    unit: str
    """The word for one part: ``call``, ``session`` …"""


LIBRARY = "library "
"""The beginning of a line that announces the library that runs from now on. An empty name means no library."""

without: list[str] = sys.argv[2:]
"""The libraries to leave out."""


def installed(name: str) -> bool:
    """Whether a library can be measured. The candidates after this call belong to it."""
    if name in without or importlib.util.find_spec(name) is None:
        return False
    announce(name)
    return True


_running = [""]
"""The library that was announced last."""


def announce(library: str) -> None:
    """Announce that ``library`` runs from now on; empty: no library."""
    _running.append(library)
    print(LIBRARY + library, flush=True)


def ours(text: str, language: str, fields: Mapping[str, Any], figure: Callable[[Any], object]) -> Iterator[Candidate]:
    """Our candidates: with the journal, which is the default, and without it."""
    flow = agf.load(text, language)
    journal = current.settings.journal

    def run(where: str | None) -> object:
        current.settings = replace(current.settings, journal=where)
        return figure(agf.run(flow, fields, limits=LIMITS).output)

    yield Candidate("agf_magics", "a journal: it resumes and is reused", lambda: run(journal))
    yield Candidate("agf_magics, journal off", "", lambda: run(None))


# --- 2,000 JSON files -------------------------------------------------------------------------------------------------

FILES = 2_000


def read(path: str) -> dict[str, Any]:
    order: dict[str, Any] = json.loads(Path(path).read_text("utf-8"))
    return order


def total(order: dict[str, Any]) -> dict[str, Any]:
    return {"id": order["id"], "total": sum(line["price"] * line["count"] for line in order["lines"])}


def total_of(path: str) -> dict[str, Any]:
    return total(read(path))


def files(folder: Path, stack: ExitStack) -> Iterator[Candidate]:
    lines = [{"what": f"fruit {n}", "price": n, "count": n % 5} for n in range(20)]
    paths = [str(folder / f"{n}.json") for n in range(FILES)]
    for number, path in enumerate(paths):
        Path(path).write_text(json.dumps({"id": number, "lines": lines}), "utf-8")

    def added(orders: Any) -> object:
        return sum(row["total"] for row in orders)

    agf.tool(read)
    agf.tool(total)
    agf.define(
        "pipeline: one\nsteps:\n- tool: {name: read, args: {path: !expr ctx.item}, output: order}\n"
        "- tool: {name: total, args: {order: !expr ctx.order}}\n"
    )
    text = (
        f"pipeline: files\nsteps:\n- for_each:\n    over: ctx.paths\n    max_parallel: {WIDTH}\n    on_error: abort\n"
        "    do: {call: {pipeline: one, pass: [item]}}\n    collect: {transform: {value: pipe}}\n"
    )
    yield from ours(text, "pipeline", {"paths": paths}, added)
    yield Candidate("plain Python, a loop", "", lambda: added([total_of(path) for path in paths]))

    def threads() -> object:
        with ThreadPoolExecutor(WIDTH) as pool:
            return added(pool.map(total_of, paths))

    yield Candidate("plain Python, ThreadPoolExecutor.map", "", threads)
    if installed("joblib"):
        from joblib import Memory, Parallel, delayed

        yield Candidate(
            "joblib, threads",
            "",
            lambda: added(Parallel(WIDTH, backend="threading")(delayed(total_of)(path) for path in paths)),
        )
        fresh = iter(range(100))

        def remembered() -> object:
            cached = Memory(str(folder / f"memory{next(fresh)}"), verbose=0).cache(total_of)
            return added(Parallel(WIDTH, backend="threading")(delayed(cached)(path) for path in paths))

        yield Candidate("joblib, threads and Memory", "results", remembered)
    if installed("hamilton"):
        from hamilton import driver
        from hamilton.execution.executors import MultiThreadingExecutor

        module = _module(
            "bench_files",
            "from hamilton.htypes import Collect, Parallelizable\n"
            "def path(paths: list) -> Parallelizable[str]:\n    yield from paths\n"
            "def order(path: str) -> dict:\n    return READ(path)\n"
            "def line(order: dict) -> dict:\n    return TOTAL(order)\n"
            "def every(line: Collect[dict]) -> list:\n    return list(line)\n",
            READ=read,
            TOTAL=total,
        )
        builder = driver.Builder().with_modules(module).enable_dynamic_execution(allow_experimental_mode=True)
        built = builder.with_remote_executor(MultiThreadingExecutor(max_tasks=WIDTH)).build()
        yield Candidate("Hamilton", "", lambda: added(built.execute(["every"], inputs={"paths": paths})["every"]))
    if installed("langgraph"):
        yield from _langgraph_map(folder, total_of, paths, added)
    if installed("prefect"):
        yield from _prefect_map(folder, stack, total_of, paths, added)


def _langgraph_map(
    folder: Path, work: Callable[[Any], Any], xs: list[Any], figure: Callable[[Any], object]
) -> Iterator[Candidate]:
    """A graph of LangGraph with an element for each of ``xs`` by Send."""
    from langgraph.graph import END, START, StateGraph
    from langgraph.types import Send

    graph: Any = StateGraph(TypedDict("fanned", {"xs": list, "out": Annotated[list, operator.add]}))  # type: ignore[operator]
    graph.add_node("work", lambda state: {"out": [work(state["x"])]})
    graph.add_conditional_edges(START, lambda state: [Send("work", {"x": x}) for x in state["xs"]], ["work"])
    graph.add_edge("work", END)
    how = {"max_concurrency": WIDTH}
    plain = graph.compile()
    yield Candidate("LangGraph", "", lambda: figure(plain.invoke({"xs": xs, "out": []}, how)["out"]))
    yield from _with_checkpoints(folder, graph, how, {"xs": xs, "out": []}, lambda state: figure(state["out"]))


def _with_checkpoints(
    folder: Path,
    graph: Any,
    how: dict[str, Any],
    fields: dict[str, Any],
    figure: Callable[[Any], object],
    rounds: int = 3,
) -> Iterator[Candidate]:
    if not installed("langgraph.checkpoint.sqlite"):
        return
    from langgraph.checkpoint.sqlite import SqliteSaver

    saver = SqliteSaver(sqlite3.connect(folder / "checkpoints.sqlite", check_same_thread=False))
    compiled, threads = graph.compile(checkpointer=saver), iter(range(100))

    def run() -> object:
        return figure(compiled.invoke(fields, {**how, "configurable": {"thread_id": str(next(threads))}}))

    yield Candidate("LangGraph, SqliteSaver", "checkpoints", run, rounds)


def _prefect_map(
    folder: Path, stack: ExitStack, work: Callable[[Any], Any], xs: list[Any], figure: Callable[[Any], object]
) -> Iterator[Candidate]:
    stack.enter_context(_prefect_server(folder))
    from prefect import flow, task
    from prefect.task_runners import ThreadPoolTaskRunner

    mapped: Any = task(work)

    @flow(task_runner=ThreadPoolTaskRunner(max_workers=WIDTH))
    def fan(xs: list[Any]) -> object:
        return figure([future.result() for future in mapped.map(xs)])

    yield Candidate("Prefect 3", "states of tasks, on its server", lambda: fan(xs), 1)


@contextmanager
def _prefect_server(folder: Path) -> Iterator[None]:
    """A server of Prefect on this computer. Without it, Prefect starts and stops a server for each run."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    os.environ |= {
        "PREFECT_HOME": str(folder / "prefect"),
        "PREFECT_API_URL": f"{address}/api",
        "PREFECT_LOGGING_LEVEL": "ERROR",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
    }
    command = [sys.executable, "-m", "prefect", "server", "start", "--port", address.rpartition(":")[2]]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 45
        while True:
            try:
                urllib.request.urlopen(f"{address}/api/health", timeout=5).close()
                break
            except OSError:
                if server.poll() is not None or time.monotonic() > until:
                    raise RuntimeError("its server does not start") from None
                time.sleep(0.2)
        yield
    finally:
        server.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(10)
        server.kill()


# --- 3,000 rounds of a graph of 12 nodes ------------------------------------------------------------------------------

NODES, ROUNDS = 12, 3_000


def add_one(state: Any) -> dict[str, int]:
    return {"count": state["count"] + 1}


def graph(folder: Path, stack: ExitStack) -> Iterator[Candidate]:
    names, most = [f"n{n}" for n in range(NODES)], NODES * ROUNDS
    agf.tool(name="add_one")(lambda state: add_one(state))
    edges: list[dict[str, str]] = [{"from": a, "to": b} for a, b in zip(["START", *names], names, strict=False)]
    edges += [
        {"from": names[-1], "to": names[0], "condition": f"count < {most}"},
        {"from": names[-1], "to": "END", "condition": "else"},
    ]
    document = {
        "name": "rounds",
        "config": {"recursion_limit": most + 10},
        "state": {"count": "int"},
        "nodes": {name: {"type": "python", "tool": "add_one"} for name in names},
        "edges": edges,
    }
    yield from ours(json.dumps(document), "graph", {"count": 0}, lambda state: state["count"])

    def loop() -> object:
        state = {"count": 0}
        while state["count"] < most:
            for _ in names:
                state = {**state, **add_one(state)}
        return state["count"]

    yield Candidate("plain Python, a loop", "", loop)
    if installed("langgraph"):
        from langgraph.graph import END, START, StateGraph

        made: Any = StateGraph(TypedDict("counted", {"count": int}))  # type: ignore[operator]
        for name in names:
            made.add_node(name, add_one)
        for a, b in zip([START, *names], names, strict=False):
            made.add_edge(a, b)
        made.add_conditional_edges(names[-1], lambda state: names[0] if state["count"] < most else END)
        how = {"recursion_limit": most + 10}
        plain = made.compile()
        yield Candidate("LangGraph", "", lambda: plain.invoke({"count": 0}, how)["count"], 1)
        yield from _with_checkpoints(folder, made, how, {"count": 0}, lambda state: state["count"], 1)
    if installed("burr"):
        yield from _burr(names, most)


def _burr(names: list[str], most: int) -> Iterator[Candidate]:
    from burr.core import ApplicationBuilder, action, default, expr

    @action(reads=["count"], writes=["count"])
    def step(state: Any) -> Any:
        return state.update(**add_one(state))

    @action(reads=["count"], writes=[])
    def end(state: Any) -> Any:
        return state

    ways: list[Any] = list(pairwise(names))
    ways += [(names[-1], names[0], expr(f"count < {most}")), (names[-1], "end", default)]

    def run() -> object:
        builder = ApplicationBuilder().with_actions(**dict.fromkeys(names, step), end=end).with_transitions(*ways)
        builder = builder.with_state(count=0).with_entrypoint(names[0])
        return builder.build().run(halt_after=["end"])[2]["count"]

    yield Candidate("Burr", "", run, 1)


# --- a batch of 500 ---------------------------------------------------------------------------------------------------

BATCH = 500


def grade(text: str) -> dict[str, Any]:
    words = text.split()
    return {"words": len(words), "longest": max(map(len, words))}


def batch(folder: Path, stack: ExitStack) -> Iterator[Candidate]:
    texts = [f"pears and figs are ripe in autumn number {n}" for n in range(BATCH)]

    def words(grades: Any) -> object:
        return sum(row["words"] for row in grades)

    agf.agent(grade)
    document = {
        "schema_version": "1.0.0",
        "metadata": {"id": "grades", "name": "Grades", "version": "1.0.0", "description": "d"},
        "interface": {"input": {}, "output": {}},
        "execution_policy": {
            "id": "agf.batch",
            "config": {"agent": "grade", "input_mapping": {"text": "parent.input.texts.[]"}, "max_parallel": WIDTH},
        },
    }
    yield from ours(json.dumps(document), "policy", {"texts": texts}, words)
    yield Candidate("plain Python, a loop", "", lambda: words([grade(text) for text in texts]))

    def threads() -> object:
        with ThreadPoolExecutor(WIDTH) as pool:
            return words(pool.map(grade, texts))

    yield Candidate("plain Python, ThreadPoolExecutor.map", "", threads)
    if installed("joblib"):
        from joblib import Parallel, delayed

        yield Candidate(
            "joblib, threads",
            "",
            lambda: words(Parallel(WIDTH, backend="threading")(delayed(grade)(text) for text in texts)),
        )
    if installed("langgraph"):
        yield from _langgraph_map(folder, grade, texts, words)
    if installed("prefect"):
        yield from _prefect_map(folder, stack, grade, texts, words)


# --- a plan of 300 ----------------------------------------------------------------------------------------------------

CALLS = 300
"""The calls of a plan: a hundred independent chains of three calls."""


def inc(n: int) -> int:
    return n + 1


def plan(folder: Path, stack: ExitStack) -> Iterator[Candidate]:
    agf.tool(inc)
    chains = CALLS // 3
    listed = [
        {"_tool": "inc", "n": f"†state.x{c}_{k - 1}" if k else c, "_outputPath": f"†state.x{c}_{k}"}
        for c in range(chains)
        for k in range(3)
    ]
    ends = {f"x{c}_2": f"†state.x{c}_2" for c in range(chains)}
    text = json.dumps({"name": "chains", "calls": listed, "output": ends})
    yield from ours(text, "plan", {}, lambda found: sum(found.values()))
    yield Candidate("plain Python, a loop", "", lambda: sum(inc(inc(inc(c))) for c in range(chains)))
    if installed("hamilton"):
        from hamilton import driver

        lines = "".join(
            f"def x{c}_0() -> int:\n    return INC({c})\n"
            + "".join(f"def x{c}_{k}(x{c}_{k - 1}: int) -> int:\n    return INC(x{c}_{k - 1})\n" for k in (1, 2))
            for c in range(chains)
        )
        built = driver.Builder().with_modules(_module("bench_plan", lines, INC=inc)).build()
        outputs = [*ends]
        yield Candidate("Hamilton", "", lambda: sum(built.execute(outputs).values()))
    if installed("langgraph"):
        from langgraph.graph import END, START, StateGraph

        state: Any = TypedDict("planned", {"out": Annotated[dict, operator.or_]})  # type: ignore[name-match]
        state_graph: Any = StateGraph(state)
        for c in range(chains):
            before = START
            for k in range(3):
                state_graph.add_node(
                    f"x{c}_{k}",
                    lambda state, c=c, k=k: {"out": {f"x{c}_{k}": inc(state["out"][f"x{c}_{k - 1}"] if k else c)}},
                )
                state_graph.add_edge(before, f"x{c}_{k}")
                before = f"x{c}_{k}"
            state_graph.add_edge(before, END)
        compiled = state_graph.compile()

        def last(state: Any) -> object:
            return sum(state["out"][name] for name in ends)

        yield Candidate("LangGraph", "", lambda: last(compiled.invoke({"out": {}})))
        yield from _with_checkpoints(folder, state_graph, {}, {"out": {}}, last)
    if installed("prefect"):
        stack.enter_context(_prefect_server(folder))
        from prefect import flow, task

        step: Any = task(inc)

        @flow
        def chained() -> int:
            values: list[Any] = list(range(chains))
            for _ in range(3):
                values = [step.submit(value) for value in values]
            return sum(value.result() for value in values)

        yield Candidate("Prefect 3", "states of tasks, on its server", chained, 1)


# --- 200 sessions -----------------------------------------------------------------------------------------------------

SESSIONS = 200

SERVER = """
from notebooks.scripted_server import ScriptedServer, calls
def answer(request):
    turns = sum(message["role"] == "tool" for message in request["messages"])
    return calls(("price", {"fruit": "fig", "kilos": turns + 1})) if turns < 4 else "It costs 7."
with ScriptedServer(answer) as server:
    print(server.url, flush=True)
    input()
"""


def price(fruit: str, kilos: int) -> float:
    """The price of a fruit."""
    return 7.0 * kilos


def sessions(folder: Path, stack: ExitStack) -> Iterator[Candidate]:
    os.environ["OPENAI_API_KEY"] = "none"
    questions = [f"What do {n} kilos cost?" for n in range(SESSIONS)]
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    stack.callback(server.communicate, "\n")
    assert server.stdout is not None
    url = server.stdout.readline().strip()
    agf.tool(price)
    agf.registry.choose("openai:gpt-5", base_url=url)
    text = (
        "pipeline: asked\nsteps:\n- for_each:\n    over: ctx.questions\n    max_parallel: 8\n    on_error: abort\n"
        "    do: {agent: {prompt: '{item}', capabilities: {tools: [price]}}}\n    collect: {transform: {value: pipe}}\n"
    )
    yield from ours(text, "pipeline", {"questions": questions}, len)
    if not installed("pydantic_ai"):
        return
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    agent = Agent(OpenAIChatModel("gpt-5", provider=OpenAIProvider(base_url=url, api_key="none")), tools=[price])

    async def ask() -> object:
        slots = asyncio.Semaphore(8)

        async def one(question: str) -> object:
            async with slots:
                return (await agent.run(question)).output

        return len(await asyncio.gather(*map(one, questions)))

    yield Candidate("pydantic-ai", "", lambda: asyncio.run(ask()))


WORKLOADS = {
    "files": Workload(
        f"{FILES:,} JSON files",
        f"Each file is read and its lines are added up, {WIDTH} files at a time.",
        files,
        FILES,
        "file",
    ),
    "graph": Workload(
        f"{ROUNDS:,} rounds of a graph of {NODES} nodes",
        "Each node is a function that counts. Hamilton has no loops. Two would take minutes and are left out:"
        " Prefect, with 10 ms for a task, and Burr's SQLitePersister, whose time for a step grows with the steps.",
        graph,
        NODES * ROUNDS,
        "node",
    ),
    "batch": Workload(f"A batch of {BATCH}", f"A function gets each of {BATCH} texts.", batch, BATCH, "text"),
    "plan": Workload(
        f"A plan of {CALLS} calls",
        f"{CALLS // 3} chains of three calls.",
        plan,
        CALLS,
        "call",
    ),
    "sessions": Workload(
        f"{SESSIONS} sessions of a model",
        "Five requests each, four of them answered by a call of a tool, eight sessions at a time, to a server on this"
        " computer in a process of its own. LangGraph has no client of its own.",
        sessions,
        SESSIONS,
        "session",
    ),
}


def _module(name: str, text: str, **globals_of_module: Any) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__dict__.update(globals_of_module)
    sys.modules[name] = module
    exec(text, module.__dict__)
    return module


class Taken(NamedTuple):
    """The row of a candidate in the table of its workload, with medians over all rounds."""

    name: str
    keeps: str
    """What is on the disk after the run."""
    seconds: float
    cpu: float
    """The CPU seconds of this process."""
    ratio: float
    """The median of the ratios to the seconds of the first candidate in the same round."""


def measure(name: str, seconds: float) -> tuple[list[Taken], dict[str, str]]:
    """Measure a workload in a process of its own. Returns the figures and the reasons for libraries that are left out.
    Raises LeftOut if nothing can be measured. ``seconds``: the silence after which a library counts as hanging."""
    reasons: dict[str, str] = {}
    while True:
        try:
            lines = run_apart("tests.bench.workloads", name, *reasons, seconds=seconds)
            return [Taken(*row) for row in json.loads(lines[-1])], reasons
        except LeftOut as left_early:
            announced = [line.removeprefix(LIBRARY) for line in left_early.lines if line.startswith(LIBRARY)]
            # No library runs, or a library that was left out already: our own code failed.
            if not announced or not announced[-1] or announced[-1] in reasons:
                raise
            reasons[announced[-1]] = str(left_early)


def _measured(libraries: list[tuple[Candidate, str]]) -> Iterator[Taken]:
    candidates = [candidate for candidate, _ in libraries]
    taken: dict[str, list[tuple[float, float]]] = {candidate.name: [] for candidate in candidates}
    figures: dict[str, object] = {}
    for candidate, library in libraries:
        if candidate.rounds > 1:
            announce(library)
            figures[candidate.name] = candidate.do()
    for number in range(max(candidate.rounds for candidate in candidates)):
        for candidate, library in libraries:
            if number < candidate.rounds:
                announce(library)
                gc.collect()
                start, cpu = time.perf_counter(), time.process_time()
                figures[candidate.name] = candidate.do()
                taken[candidate.name].append((time.perf_counter() - start, time.process_time() - cpu))
    announce("")
    assert len(set(figures.values())) == 1, figures
    first = taken[candidates[0].name]
    for candidate in candidates:
        seconds, cpu = (
            statistics.median(seconds_and_cpu) for seconds_and_cpu in zip(*taken[candidate.name], strict=True)
        )
        ratios = [
            candidate_seconds / our_seconds
            for (candidate_seconds, _), (our_seconds, _) in zip(taken[candidate.name], first, strict=False)
        ]
        yield Taken(candidate.name, candidate.keeps, seconds, cpu, statistics.median(ratios))


def main(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder_name, ExitStack() as stack:
        folder = Path(folder_name)
        current.settings = replace(current.settings, journal=str(folder / "runs.sqlite"))
        candidates = [(candidate, _running[-1]) for candidate in WORKLOADS[name].candidates(folder, stack)]
        print(json.dumps(list(_measured(candidates))))
        Store.close_all()


if __name__ == "__main__":
    main(sys.argv[1])
