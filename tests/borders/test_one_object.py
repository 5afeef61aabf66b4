"""An object with two names stays one object, in a resumed run and in a run that reuses results."""

from __future__ import annotations

import copy
import datetime
import random
import zoneinfo
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import agf_magics as agf
from agf_magics.flow.steps import Invoke
from tests.engine.kept import journal_in

PIPELINE = """\
pipeline: flow
steps:
- tool: {name: make, output: a}
- tool: {name: derive, args: {x: !expr a}, output: b}
- tool: {name: gate}
- tool: {name: change, args: {x: !expr CHANGED}}
- tool: {name: look, args: {x: !expr a}, output: c}
- tool: {name: look, args: {x: !expr b}, output: d}
- transform: {value: "[c, d]"}
"""
GIVEN = PIPELINE.replace("- tool: {name: make, output: a}\n", "").replace("!expr a", "!expr ctx.a")
PLAN = """\
name: flow
calls:
- {_tool: make, _outputPath: †state.a}
- {_tool: derive, x: †state.a, _outputPath: †state.b}
- {_tool: gate, x: †state.b, _outputPath: †state.g}
- {_tool: change, x: †state.CHANGED, g: †state.g, _outputPath: †state.n}
- {_tool: look, x: †state.a, g: †state.n, _outputPath: †state.c}
- {_tool: look, x: †state.b, g: †state.n, _outputPath: †state.d}
output: [†state.c, †state.d]
"""
GRAPH = """\
name: flow
state: {a: any, b: any, c: any, d: any, g: any, n: any}
nodes:
  make: {type: tool, tool: make, state_key: a}
  derive: {type: tool, tool: derive, variables: {x: "{state.a}"}, state_key: b}
  gate: {type: tool, tool: gate, state_key: g}
  change: {type: tool, tool: change, variables: {x: "{state.CHANGED}"}, state_key: n}
  one: {type: tool, tool: look, variables: {x: "{state.a}"}, state_key: c}
  two: {type: tool, tool: look, variables: {x: "{state.b}"}, state_key: d}
edges:
- {from: START, to: make}
- {from: make, to: derive}
- {from: derive, to: gate}
- {from: gate, to: change}
- {from: change, to: one}
- {from: one, to: two}
"""
TEXTS = {"pipeline": PIPELINE, "plan": PLAN, "graph": GRAPH}


@dataclass
class Box:
    items: list[int] = field(default_factory=list)
    tags: set[int] = field(default_factory=set)
    inner: Any = None


def full() -> Box:
    return Box([0], {0}, Box([5]))


def push(x: Any) -> None:
    while isinstance(x, list):
        x = x[0]
    if isinstance(x, Box):
        x.items.append(9)
        x.tags.add(9)
        push(x.inner)
    elif isinstance(x, set):
        x.add(9)
    elif isinstance(x, bytearray):
        x.append(9)
    elif isinstance(x, pd.DataFrame):
        x["z"] = 9
    elif x is not None:
        x += 9


Derive = Callable[[Any], Any]
DERIVED: dict[str, tuple[Callable[[], Any], Derive]] = {
    # how the first object is made, and how the second one is derived from it
    "the same object": (full, lambda x: x),
    "a list with it": (full, lambda x: [x]),
    "a part of it": (full, lambda x: x.inner),
    "a set in it": (full, lambda x: x.tags),
    "an object that holds it": (full, lambda x: Box(inner=x)),
    "a copy with the same parts": (full, copy.copy),
    "a copy with other fields": (full, lambda x: replace(x, inner=None)),
    "the same table": (lambda: pd.DataFrame({"a": [1]}), lambda x: x),
    "an object with the table": (lambda: pd.DataFrame({"a": [1]}), lambda x: Box(inner=x)),
    "the same array": (lambda: np.zeros(4), lambda x: x),
    "a view": (lambda: np.zeros(4), lambda x: x[:2]),
    "a view with steps": (lambda: np.zeros(4), lambda x: x[::2]),
    "a transposed view": (lambda: np.zeros((2, 3)), lambda x: x.T),
    "bytes of an array": (lambda: bytearray(b"ab"), lambda x: x),
}


def plain_form(x: Any) -> Any:
    if isinstance(x, Box):
        return [x.items[:], sorted(x.tags), plain_form(x.inner)]
    if isinstance(x, pd.DataFrame):
        return list(x.columns)
    if isinstance(x, list):
        return [plain_form(element) for element in x]
    return x.tolist() if isinstance(x, np.ndarray) else sorted(x) if isinstance(x, set) else repr(x)


class World:
    """Tools that share objects. Their functions name nothing that cannot be compared."""

    def __init__(self, kind: str) -> None:
        self.make, self.derive = DERIVED[kind]
        self.registry, self.shut = agf.Registry(), list[int]()
        self.register()

    def register(self, edited: str = "") -> None:
        """Register the tools. ``edited``: the name of the function that gets another digest."""
        made, derived, shut = self.make, self.derive, self.shut

        def make() -> Any:
            return made()

        def derive(x: Any) -> Any:
            return derived(x)

        def change(x: Any, g: Any = None) -> int:
            push(x)
            return 1

        def look(x: Any, g: Any = None) -> Any:
            return plain_form(x)

        def gate(x: Any = None) -> int:
            if shut:
                raise OSError("shut")
            return 1

        for function in (make, derive, gate, change, look):
            if function.__name__ == edited:
                function.__annotations__["return"] = "Any  # edited"
            agf.tool(registry=self.registry)(function)

    def wanted(self, changed: str) -> list[Any]:
        a = self.make()
        b = self.derive(a)
        push({"a": a, "b": b}[changed])
        return [plain_form(a), plain_form(b)]

    def ended(self, run: agf.Run) -> list[Any]:
        assert run.status == "ok", run.error
        output = run.output  # the output of a graph is its state
        return [output["c"], output["d"]] if isinstance(output, dict) else output


@pytest.mark.parametrize("changed", ["a", "b"])
@pytest.mark.parametrize("kind", DERIVED)
def test_a_resumed_run_has_one_object(tmp_path: Path, kind: str, changed: str) -> None:
    world = World(kind)
    with journal_in(tmp_path):
        world.shut.append(1)
        run = agf.run(PIPELINE.replace("CHANGED", changed), registry=world.registry, raises=False)
        assert run.error is not None
        world.shut.clear()
        assert world.ended(agf.resume(run.run_id, registry=world.registry)) == world.wanted(changed)


@pytest.mark.parametrize("kind", ["the same object", "a part of it", "an object that holds it", "a view"])
def test_an_object_of_the_input_is_one_object(tmp_path: Path, kind: str) -> None:
    world = World(kind)
    with journal_in(tmp_path):
        world.shut.append(1)
        text = GIVEN.replace("CHANGED", "b")
        run = agf.run(text, {"a": world.make()}, registry=world.registry, raises=False)
        world.shut.clear()
        assert world.ended(agf.resume(run.run_id, registry=world.registry)) == world.wanted("b")
        again = agf.run(text, {"a": world.make()}, registry=world.registry, reuse=True)
        assert world.ended(again) == world.wanted("b")


@pytest.mark.parametrize("language", TEXTS)
@pytest.mark.parametrize("kind", ["the same object", "a part of it"])
def test_every_language_keeps_one_object(tmp_path: Path, kind: str, language: str) -> None:
    world = World(kind)
    agf.define(TEXTS[language].replace("CHANGED", "b"), language, name="flow", registry=world.registry)
    with journal_in(tmp_path):
        world.shut.append(1)
        run = agf.run("flow", registry=world.registry, raises=False)
        world.shut.clear()
        assert world.ended(agf.resume(run.run_id, registry=world.registry)) == world.wanted("b")
        world.register("make")
        assert world.ended(agf.run("flow", registry=world.registry, reuse=True)) == world.wanted("b")


@pytest.mark.parametrize("edited", [False, True], ids=["as it was", "after an edit"])
@pytest.mark.parametrize("failed", [False, True], ids=["after a run", "after a run that failed too"])
@pytest.mark.parametrize("kind", DERIVED)
def test_a_run_that_reuses_results_has_one_object(tmp_path: Path, kind: str, failed: bool, edited: bool) -> None:
    world = World(kind)
    agf.define(PIPELINE.replace("CHANGED", "b"), registry=world.registry)
    with journal_in(tmp_path):
        agf.run("flow", registry=world.registry)
        if failed:
            derive, world.derive = world.derive, lambda x: 1 / 0
            world.register()
            assert agf.run("flow", registry=world.registry, raises=False).error is not None
            world.derive = derive
            world.register()
        if edited:
            world.register("make")
        assert world.ended(agf.run("flow", registry=world.registry, reuse=True)) == world.wanted("b")


def test_a_reused_result_goes_to_the_call_with_the_same_object(tmp_path: Path) -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def make(n: int) -> Box:
        return Box()

    @agf.tool(registry=registry)
    def same(x: Any) -> Any:
        return x

    @agf.tool(registry=registry)
    def put(x: Any, n: int) -> int:
        x.items.append(n)
        return n

    @agf.tool(registry=registry)
    def look(xs: list[Any]) -> list[Any]:
        return [plain_form(x) for x in xs]

    fan = "for_each: {items: [1, 2, 3], on_error: abort, do: {tool: {name: make, args: {n: !expr item}}}"
    agf.define(
        f"pipeline: p\nsteps:\n- {fan}, collect: {{transform: {{value: pipe}}}}, output: xs}}\n"
        "- for_each: {over: xs, on_error: abort, do: {tool: {name: same, args: {x: !expr item}}}, "
        "collect: {transform: {value: pipe}}, output: ys}\n"
        '- tool: {name: put, args: {x: !expr "find(ys, y -> true)", n: 7}}\n'
        "- tool: {name: look, args: {xs: !expr xs}}\n",
        registry=registry,
    )
    with journal_in(tmp_path):
        runs = [agf.run("p", registry=registry, reuse=bool(n)) for n in range(3)]
    assert [run.output for run in runs] == [[[[7], [], "None"], [[], [], "None"], [[], [], "None"]]] * 3


ZONE = zoneinfo.ZoneInfo("Asia/Tokyo")
UNCHANGED: dict[str, Any] = {
    "a time with a zone": pd.Timestamp("2020-01-01", tz="Asia/Tokyo"),
    "an index of times": pd.date_range("2020", periods=2, tz="Asia/Tokyo"),
    "an object with a time": Box(inner=datetime.datetime(2020, 1, 1, tzinfo=ZONE)),
    "a set of times": {datetime.datetime(2020, 1, 1, tzinfo=ZONE)},
    "a mapping of numbers": {1: "a", (1, 2): "b"},
    "a table": pd.DataFrame({"a": [1]}, index=pd.date_range("2020", periods=1, tz="Asia/Tokyo")),
}


@pytest.mark.parametrize("kind", UNCHANGED)
def test_an_object_that_nobody_changes_is_stored_without_a_warning(tmp_path: Path, kind: str) -> None:
    registry, value = agf.Registry(), UNCHANGED[kind]

    @agf.tool(registry=registry)
    def make() -> Any:
        return copy.copy(value)

    @agf.tool(registry=registry)
    def same(x: Any) -> Any:
        return x

    @agf.tool(registry=registry)
    def use(x: Any) -> int:
        return len(repr(x))

    text = (
        "{pipeline: p, steps: [{tool: {name: make, output: a}}, {tool: {name: same, args: {x: !expr a}, output: b}}, "
        "{tool: {name: use, args: {x: !expr b}}}]}"
    )
    with journal_in(tmp_path):
        assert [agf.run(text, registry=registry).warnings for _ in range(2)] == [(), ()]


def _step(number: int, names: list[str], draw: random.Random) -> tuple[str, str]:
    if not names or draw.random() < 0.3:
        return "make", ""
    return draw.choice(["same", "held", "inner", "change", "change"]), draw.choice(names)


@pytest.mark.parametrize("seed", range(12))
def test_random_steps_give_the_same_as_plain_python(tmp_path: Path, seed: int) -> None:
    draw, registry, broken = random.Random(seed), agf.Registry(), list[int]()
    names: list[str] = []
    program: list[tuple[str, str]] = []
    for number in range(7):
        program.append(_step(number, names, draw))
        if program[-1][0] != "change":
            names.append(f"v{number}")
    functions: dict[str, Callable[[Any], Any]] = {
        "make": lambda x: full(),
        "same": lambda x: x,
        "held": lambda x: Box(inner=x),
        "inner": lambda x: x.inner if x.inner is not None else x,
        "change": push,
    }
    lines, values = list[str](), dict[str, Any]()
    for number, (name, of) in enumerate(program):
        values[f"v{number}"] = functions[name](values.get(of))
        arguments = f"x: !expr {of}, " if of else ""
        lines.append(f"- tool: {{name: {name}, args: {{{arguments}n: {number}}}, output: v{number}}}")
    expected = {name: plain_form(values[name]) for name in names}

    def registered(name: str) -> None:
        def call(n: int, x: Any = None) -> Any:
            if n in broken:
                raise OSError(n)
            return functions[name](x)

        agf.tool(name=name, registry=registry)(call)

    for name in functions:
        registered(name)
    agf.define("pipeline: p\nsteps:\n" + "\n".join(lines), registry=registry)
    with journal_in(tmp_path):
        broken.append(draw.randrange(7))
        run = agf.run("p", registry=registry, raises=False)
        broken.clear()
        for ended in (agf.resume(run.run_id, registry=registry), agf.run("p", registry=registry, reuse=True)):
            assert {name: plain_form(ended.stores[name]) for name in names} == expected, program


def _made_again(run: agf.Run) -> set[str]:
    return {row.id for row in run.steps.values() if isinstance(row.step, Invoke) and row.started > row.earlier}


@pytest.mark.parametrize("edited", ["", "make", "derive", "change"])
@pytest.mark.parametrize("language", TEXTS)
@pytest.mark.parametrize("kind", DERIVED)
def test_announced_results_are_reused(tmp_path: Path, kind: str, language: str, edited: str) -> None:
    world = World(kind)
    agf.define(TEXTS[language].replace("CHANGED", "b"), language, name="flow", registry=world.registry)
    with journal_in(tmp_path):
        run = agf.run("flow", registry=world.registry)
        world.register(edited)
        stale = agf.stale(run, registry=world.registry)
        again = agf.run("flow", registry=world.registry, reuse=True)
    reused = {row["step"] for row in stale if row["reused"]}
    assert not reused & _made_again(again), stale
    if (kind, language, edited) == ("the same object", "pipeline", "make"):
        assert stale[1]["why"] == "its result has an object of a step that runs again"
    numbers = [int(run_of_two.run_id.split("-")[1]) for run_of_two in (run, again)]
    assert numbers[1] == numbers[0] + 1, "a comparison uses up no number"
