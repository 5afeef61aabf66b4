"""The vectors of the languages in Pyodide: the program that kernel.mjs runs for `make test-lite`.

pytest collects them as ever. What drives a run there is a loop of this file: the one of the tests has a selector,
which a page does not have.
"""

from __future__ import annotations

import contextlib
import json
import sys
import types
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.engine.host.page_loop import OwnLoop

sys.path.insert(0, "/drive")

SUITES = (
    *(
        "graph_expressions",
        "graph_load",
        "graph_runs",
        "pipeline_load",
        "pipeline_runs",
        "plan_load",
        "plan_reads",
    ),
    *("plan_runs", "policy_conditions", "policy_documents", "policy_paths", "policy_runs", "r1"),
)
NEEDS_COMPUTER = ("pattern", "turns", "prompt-with-fields", "repeat-in-repeat")
"""Words of rows that may fail: patterns of their own are refused (decision D59), scripted models need pydantic_ai."""


class VirtualLoop(OwnLoop):
    """Its clock jumps to the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def time(self) -> float:
        return self.now

    def select(self, timeout: float | None) -> list[Any]:
        assert timeout is not None, "nothing is ready: this would wait for ever"
        self.now += max(0.0, timeout)
        return []


def run_virtual(main: Coroutine[Any, Any, Any]) -> Any:
    loop = VirtualLoop()
    try:
        return loop.drive(main)
    finally:
        loop.close()


class Count:
    def __init__(self) -> None:
        self.passed = self.refused = 0
        self.failed: list[str] = []
        self.computer: set[str] = set()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """The rows of vectors; what else the suites hold is the same everywhere, and slow here."""
        for item in items:
            # A number of 5,000 digits, and a value whose repr raises, are no text.
            with contextlib.suppress(Exception):
                row = str(getattr(item, "callspec", item).__dict__)
                if any(word in row for word in NEEDS_COMPUTER):
                    self.computer.add(item.nodeid)
        items[:] = [
            item
            for item in items
            if "row" in getattr(getattr(item, "callspec", None), "params", ())
        ]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed.append(f"{report.nodeid}: {str(report.longrepr).strip()[-600:]}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        text = str(report.longrepr) if report.failed else ""
        needs_model = "No module named 'pydantic_ai'" in text
        if text and (needs_model or report.nodeid in self.computer):
            self.refused += 1
            return
        if text:
            self.failed.append(f"{report.nodeid}: {text.strip().splitlines()[-1][:200]}")
        elif report.when == "call" and report.passed:
            self.passed += 1


class Anything:
    """In the place of hypothesis, which has no wheel for a browser. Laws are not run here."""

    def __getattr__(self, name: str) -> Any:
        return Anything()

    def __call__(self, *given: Any, **named: Any) -> Any:
        return Anything()

    def __getitem__(self, key: Any) -> Any:
        return self

    def __or__(self, other: Any) -> Any:
        return self


hypothesis: Any = types.ModuleType("hypothesis")
hypothesis.strategies = hypothesis.st = Anything()
hypothesis.given = lambda *strategies, **named: pytest.mark.skip(reason="a law")
hypothesis.example = hypothesis.settings = hypothesis.seed = lambda *given, **named: (
    lambda test: test
)
hypothesis.assume, hypothesis.HealthCheck, hypothesis.note = Anything(), Anything(), Anything()
sys.modules["hypothesis"] = hypothesis
sys.modules["hypothesis.strategies"] = hypothesis.strategies
virtual_time: Any = types.ModuleType("tests.engine.virtual_time")
virtual_time.run_virtual, virtual_time.VirtualLoop = run_virtual, VirtualLoop
sys.modules["tests.engine.virtual_time"] = virtual_time

PASSED_ON = """\
pipeline: deep
steps:
- tool: {name: nested, args: {n: !expr ctx.n, kind: !expr ctx.kind}, output: v}
- tool: {name: same, args: {x: !expr ctx.v}}
"""
COMPUTED = "pipeline: deep\nsteps:\n- transform: {value: '%s'}\n"
GRAPH = """\
name: deep
state: {a: any}
nodes: {n: {type: passthrough, output: {a: '%s'}}}
edges: [{from: START, to: n}, {from: n, to: END}]
"""
PROMPT = """\
name: deep
state: {a: any}
nodes: {n: {type: llm, prompt: '{{ %s }}', state_key: a}}
edges: [{from: START, to: n}, {from: n, to: END}]
"""
DEEP: dict[str, Callable[[int], Any]] = {
    "JSON": lambda n: json.loads("[" * n + "]" * n),
    "JSON of objects": lambda n: json.loads('{"a":' * n + "1" + "}" * n),
    "JSON written": lambda n: json.dumps(nested(min(n, 1000), "dict")),
    "a list of a tool": lambda n: passed_on(n, "list"),
    "a dict of a tool": lambda n: passed_on(n, "dict"),
    "brackets of R1": lambda n: computed("(" * n + "1" + ")" * n),
    "lists of R1": lambda n: computed("[" * n + "1" + "]" * n),
    "not of R1": lambda n: computed("not " * n + "true"),
    "minus of R1": lambda n: computed("-" * n + "1"),
    "a sum of R1": lambda n: computed("+".join(["1"] * n)),
    "a path of R1": lambda n: computed("ctx" + ".a" * n),
    "YAML": lambda n: agf.load("pipeline: deep\nsteps: " + "[" * n + "]" * n),
    "a plan": lambda n: agf.load("- {_tool: same, x: " + "[" * n + "]" * n + "}", "plan"),
    "a policy": lambda n: agf.load(
        "id: agf.sequential\nconfig: " + "{a: " * n + "1" + "}" * n, "policy"
    ),
    "a graph": lambda n: agf.load(GRAPH % ("{" + "(" * n + "1" + ")" * n + "}"), "graph"),
    "Jinja2": lambda n: agf.load(PROMPT % ("(" * n + "1" + ")" * n), "graph"),
    "Jinja2, not": lambda n: agf.load(PROMPT % ("not " * n + "1"), "graph"),
}
"""What nests, by its depth. A page loses its Python, with all that it holds, where one ends the stack of the browser:
this program ends there too, and `make test-lite` with it."""
DEPTHS, FRAMES = (200, 1_000, 10_000), 600


def same(x: Any) -> Any:
    return x


def nested(n: int, kind: str) -> Any:
    value: Any = 1
    for _ in range(n):
        value = [value] if kind == "list" else {"a": value}
    return value


def passed_on(n: int, kind: str) -> None:
    """Not deeper: Python itself ends there, without this package, when it deletes such a value."""
    agf.run(PASSED_ON, {"n": min(n, 1_000), "kind": kind}, raises=False)


def computed(expression: str) -> None:
    agf.run(COMPUTED % expression, {"a": 1}, raises=False)


def below(frames: int, do: Callable[[int], Any], n: int) -> Any:
    return do(n) if not frames else below(frames - 1, do, n)


def go_deep() -> list[str]:
    """Every deep value, under many frames of Python. Returns what failed in another way than it should."""
    agf.tool(same)
    agf.tool(nested)
    wrong = []
    for name, do in DEEP.items():
        for depth in DEPTHS:
            print(f"{name}, {depth} levels", file=sys.stderr, flush=True)
            try:
                below(FRAMES, do, depth)
            except (agf.DefinitionError, RecursionError):
                pass
            except Exception as error:
                wrong.append(f"{name}, {depth} levels: {error!r}"[:300])
    print(f"{len(DEEP) * len(DEPTHS)} deep values, and the session lives")
    return wrong


count = Count()
options = [
    "-q",
    "-q",
    "--noconftest",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:faulthandler",
    "-c",
    "/dev/null",
    "-m",
    "not law",
]
options += [
    "--rootdir=/drive",
    "--import-mode=importlib",
    "--show-capture=no",
    "--tb=short",
    "--disable-warnings",
    "--continue-on-collection-errors",
]
pytest.main(
    [*options, *(f"/drive/tests/languages/test_{suite}.py" for suite in SUITES)], plugins=[count]
)
print()
if not count.passed:
    count.failed.append("no vector was run")
count.failed += go_deep()
print(*count.failed[:20], sep="\n")
print(f"{count.passed} passed, {count.refused} need a computer, {len(count.failed)} failed")
