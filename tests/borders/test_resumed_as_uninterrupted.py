"""A resumed run has the same result as an uninterrupted run, whatever objects its steps share and change."""

from __future__ import annotations

import collections
import datetime
import decimal
import io
import random
import sqlite3
import threading
import types
import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import agf_magics as agf
from agf_magics.flow.steps import Invoke

pytestmark = pytest.mark.usefixtures("journaled")

PIPELINE = """\
pipeline: flow
steps:
- tool: {name: make, output: v}
- tool: {name: first, args: {x: !expr v}, output: a}
- tool: {name: gate}
- tool: {name: second, args: {x: !expr v}, output: b}
- transform: {value: "[a, b]"}
"""
PLAN = """\
name: flow
calls:
- {_tool: make, _outputPath: †state.v}
- {_tool: first, x: †state.v, _outputPath: †state.a}
- {_tool: gate, x: †state.a, _outputPath: †state.g}
- {_tool: second, x: †state.v, g: †state.g, _outputPath: †state.b}
output: [†state.a, †state.b]
"""
GRAPH = """\
name: flow
state: {v: any, a: any, b: any, g: any, out: any}
nodes:
  make: {type: tool, tool: make, state_key: v}
  first: {type: tool, tool: first, variables: {x: "{state.v}"}, state_key: a}
  gate: {type: tool, tool: gate, state_key: g}
  second: {type: tool, tool: second, variables: {x: "{state.v}"}, state_key: b}
edges:
- {from: START, to: make}
- {from: make, to: first}
- {from: first, to: gate}
- {from: gate, to: second}
"""
TEXTS = {"pipeline": PIPELINE, "plan": PLAN, "graph": GRAPH}


class Box:
    def __init__(self) -> None:
        self.all: list[int] = []


class Locked(Box):
    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


class Slotted:
    __slots__ = ("n",)

    def __init__(self) -> None:
        self.n = 0


def counts(x: Any) -> int:
    x.n += 1
    return int(x.n)


def push(x: Any) -> int:
    x.append(9)
    return len(x)


def put(x: Any) -> float:
    x[0] += 1
    return float(x[0])


def widen(x: Any) -> int:
    x["z"] = 1
    return int(x.shape[1])


def box(x: Any) -> int:
    x.all.append(1)
    return len(x.all)


Change = Callable[[Any], Any]
CHANGED: dict[str, tuple[Callable[[], Any], Change, Change]] = {
    # how the object is made, what a step does to it, what a later step sees
    "an iterator": (lambda: iter([1, 2, 3]), sum, sum),
    "one value of an iterator": (lambda: iter([1, 2, 3]), next, next),
    "a map": (lambda: map(abs, [1, 2]), sum, sum),
    "a zip": (lambda: zip([1, 2], [3, 4], strict=True), lambda x: len(list(x)), lambda x: len(list(x))),
    "an enumerate": (lambda: enumerate("ab"), lambda x: len(list(x)), lambda x: len(list(x))),
    "a generator": (lambda: (n for n in [1, 2, 3]), sum, sum),
    "an open file": (lambda: open(__file__), lambda x: len(x.read()) > 9, lambda x: len(x.read())),  # noqa: SIM115
    "a file in memory": (lambda: io.StringIO("hello"), lambda x: x.read(2), lambda x: x.read(2)),
    "bytes in memory": (lambda: io.BytesIO(b"hello"), lambda x: len(x.read(2)), lambda x: len(x.read())),
    "a connection": (
        lambda: sqlite3.connect(":memory:", check_same_thread=False),
        lambda x: x.execute("CREATE TABLE t (a)") and 1,
        lambda x: x.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]),
    "a generator of numpy": (lambda: np.random.default_rng(1), lambda x: x.random(), lambda x: x.random()),
    "an old generator of numpy": (lambda: np.random.RandomState(1), lambda x: x.rand(), lambda x: x.rand()),
    "a random generator": (lambda: random.Random(1), lambda x: x.random(), lambda x: x.random()),
    "a deque": (lambda: collections.deque([1]), push, len),
    "a counter": (lambda: collections.Counter([1]), lambda x: x.update([5]), lambda x: sum(x.values())),
    "a defaultdict of numbers": (lambda: collections.defaultdict(list, {1: [1]}), lambda x: len(x[2]), len),
    "a dict of numbers": (lambda: {1: [1]}, lambda x: x[1].append(2), lambda x: len(x[1])),
    "a set": (lambda: {1}, lambda x: x.add(2), len),
    "a list in a tuple": (lambda: ([1],), lambda x: x[0].append(2), lambda x: len(x[0])),
    "a bytearray": (lambda: bytearray(b"a"), lambda x: x.extend(b"b"), len),
    "a namespace": (lambda: types.SimpleNamespace(n=0), counts, lambda x: x.n),
    "slots": (Slotted, counts, lambda x: x.n),
    "an object": (Box, box, lambda x: len(x.all)),
    "an object with a lock": (Locked, box, lambda x: len(x.all)),
    "an object in a mapping": (lambda: {"a": {"b": Box()}}, lambda x: box(x["a"]["b"]), lambda x: len(x["a"]["b"].all)),
    "an object in a list": (lambda: [1, [Box()]], lambda x: box(x[1][0]), lambda x: len(x[1][0].all)),
    "an attribute of a function": (
        lambda: types.SimpleNamespace(f=len, n=0), counts, lambda x: x.n),
    "an element tree": (lambda: ET.Element("a"), lambda x: x.append(ET.Element("b")), len),
    "an array": (lambda: np.zeros(3), put, lambda x: float(x.sum())),
    "a large array": (lambda: np.zeros(2_000_000), put, lambda x: float(x.sum())),
    "an array of objects": (
        lambda: np.array([[1], None], dtype=object), lambda x: x[0].append(1), lambda x: len(x[0])),
    "a frame of pandas": (lambda: pd.DataFrame({"a": [1]}), widen, lambda x: x.shape[1]),
    "a cell of a frame": (
        lambda: pd.DataFrame({"a": [1], "b": ["x"]}),
        lambda x: x.__setitem__("a", x["a"] + 1), lambda x: int(x["a"].sum())),
    "one cell of a frame in place": (
        lambda: pd.DataFrame({"a": [1, 2], "t": pd.to_datetime(["2020", "2021"])}),
        lambda x: x.loc.__setitem__((0, "a"), 7), lambda x: int(x["a"].sum())),
    "the attrs of a frame": (
        lambda: pd.DataFrame({"a": [1]}), lambda x: x.attrs.update(n=1), lambda x: x.attrs.get("n")),
    "an index": (
        lambda: pd.Series([1, 2]), lambda x: setattr(x, "index", [5, 6]), lambda x: int(x.index[0])),
    "a frame of polars": (
        lambda: pl.DataFrame({"a": [1]}), lambda x: x.insert_column(0, pl.Series("z", [1])).width, lambda x: x.width),
    "a cell of polars": (
        lambda: pl.DataFrame({"a": [1]}), lambda x: x.__setitem__((0, "a"), 5), lambda x: int(x["a"].sum())),
    "a frame of polars in an object": (
        lambda: types.SimpleNamespace(f=pl.DataFrame({"a": [1]})),
        lambda x: x.f.insert_column(0, pl.Series("z", [1])).width, lambda x: x.f.width),
}  # fmt: skip
UNCHANGED: dict[str, tuple[Callable[[], Any], Change]] = {
    "an array": (lambda: np.arange(3.0), lambda x: float(x.sum())),
    "an array in Fortran's order": (lambda: np.asfortranarray(np.ones((2, 3))), lambda x: float(x.sum())),
    "a view of an array": (lambda: np.arange(6)[::2], lambda x: int(x.sum())),
    "a frame": (
        lambda: pd.DataFrame({
            "a": [1, 2], "s": ["x", "y"], "c": pd.Categorical(["a", "b"]),
            "p": pd.period_range("2020", periods=2, freq="M"),
            "t": pd.date_range("2020", periods=2, tz="UTC"), "i": pd.array([1, None], dtype="Int64")}),
        lambda x: int(x["a"].sum() + x.describe().shape[0])),
    "a frame of polars": (
        lambda: pl.DataFrame({"a": [1, None], "b": ["x", "y"], "c": [1.0, float("nan")]}), lambda x: x.height),
    "a lazy frame": (lambda: pl.DataFrame({"a": [1]}).lazy(), lambda x: x.collect().height),
    "a table of arrow": (lambda: pa.table({"a": [1, 2]}), lambda x: x.num_rows),
    "a set": (lambda: {"a", "b"}, len),
    "an object": (Box, lambda x: len(x.all)),
    "a date": (lambda: datetime.date(2020, 1, 1), lambda x: x.year),
    "a function": (lambda: counts, lambda x: x.__name__),
    "a lambda": (lambda: types.SimpleNamespace(f=len, b=Box), lambda x: x.f("ab")),
    "a decimal": (lambda: decimal.Decimal("1.5"), float),
    "a generator of numpy": (lambda: np.random.default_rng(1), lambda x: type(x).__name__),
}  # fmt: skip


class Gate:
    """Registers a step that fails while the gate is closed."""

    def __init__(self) -> None:
        self.is_open = True
        self.registry = agf.Registry()

        @agf.tool(registry=self.registry)
        def gate(x: Any = None) -> int:
            if not self.is_open:
                raise LookupError("closed")
            return 1

    def tool(self, name: str, function: Callable[..., Any], **more: Any) -> None:
        agf.tool(function, name=name, registry=self.registry, **more)

    def both(self, text: str, language: str = "pipeline") -> tuple[agf.Run, agf.Run]:
        """Returns an uninterrupted run, and a run that failed at the gate and was resumed."""
        agf.define(text, language, name="flow", registry=self.registry)
        whole = agf.run("flow", registry=self.registry)
        self.is_open = False
        cut = agf.run("flow", registry=self.registry, raises=False)
        self.is_open = True
        return whole, agf.resume(cut.run_id, registry=self.registry)


def output_of(run: agf.Run) -> Any:
    state = run.output
    return [state["a"], state["b"]] if isinstance(state, dict) else state


def steps(gate: Gate, make: Callable[[], Any], first: Change, second: Change) -> None:
    gate.tool("make", lambda: make())
    gate.tool("first", lambda x: first(x))
    gate.tool("second", lambda x, g=None: second(x))


@pytest.mark.parametrize("language", TEXTS)
@pytest.mark.parametrize("kind", CHANGED)
def test_a_change_by_a_step_is_seen_by_later_steps(kind: str, language: str) -> None:
    gate = Gate()
    steps(gate, *CHANGED[kind])
    whole, resumed = gate.both(TEXTS[language], language)
    assert output_of(resumed) == output_of(whole)
    again = agf.run("flow", registry=gate.registry, reuse=True)
    assert output_of(again) == output_of(whole)


@pytest.mark.parametrize("kind", UNCHANGED)
def test_a_call_that_changes_nothing_is_not_made_again(kind: str) -> None:
    gate = Gate()
    make, read = UNCHANGED[kind]
    steps(gate, make, read, read)
    whole, resumed = gate.both(PIPELINE)
    assert output_of(resumed) == output_of(whole)
    if kind not in ("a lambda",):
        assert [warning.code for warning in whole.warnings] == []
        assert [row.earlier for row in resumed.steps.values() if isinstance(row.step, Invoke)][:2] == [1, 1]


@pytest.mark.parametrize("start", ["plain", "async", "fan-out"])
def test_the_result_is_the_same_wherever_the_call_runs(start: str) -> None:
    gate = Gate()
    steps(gate, Box, box, lambda x: len(x.all))
    if start == "async":

        async def first(x: Any) -> int:
            return box(x)

        gate.tool("first", first)
    text = PIPELINE
    if start == "fan-out":
        call = "- tool: {name: first, args: {x: !expr v}, output: a}\n"
        many = "- for_each: {over: '[1, 2, 3]', on_error: abort, do: {tool: {name: first, args: {x: !expr v}}}, "
        text = text.replace(call, many + "collect: {transform: {value: count(pipe)}}, output: a}\n")
    whole, resumed = gate.both(text)
    assert whole.output[1] == resumed.output[1] == (3 if start == "fan-out" else 1)


DAY = datetime.date(2024, 1, 1)
SAME = """\
pipeline: flow
steps:
- tool: {name: make, output: a}
- tool: {name: same, args: {x: !expr a}, output: b}
- tool: {name: gate}
- tool: {name: same, args: {x: !expr b}, output: c}
- transform: {value: "[a == b, b == c]"}
"""


@pytest.mark.parametrize("kind", [*UNCHANGED, "one date"])
def test_an_object_in_two_stores_is_one_object(kind: str) -> None:
    gate = Gate()
    gate.tool("make", UNCHANGED[kind][0] if kind in UNCHANGED else lambda: DAY)
    gate.tool("same", lambda x: x)
    whole, resumed = gate.both(SAME)
    assert whole.output == resumed.output == [True, True]
    assert agf.run("flow", registry=gate.registry, reuse=True).output == [True, True]


INNER: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a mapping": (lambda x: {"in": x}, "b.in"),
    "a list": (lambda x: [x, 1], "find(b, y -> true)"),
    "a list in a mapping": (lambda x: {"deep": [{"in": x}]}, "get(find(b.deep, y -> true), 'in', null)"),
}


@pytest.mark.parametrize("kind", INNER)
def test_an_object_inside_of_a_result_is_the_same_object(kind: str) -> None:
    inside, path = INNER[kind]
    gate = Gate()
    gate.tool("make", Box)
    gate.tool("same", lambda x: inside(x))
    text = SAME.replace("- tool: {name: same, args: {x: !expr b}, output: c}\n", "")
    whole, resumed = gate.both(text.replace("[a == b, b == c]", f"a == {path}"))
    assert whole.output is resumed.output is True


def test_an_object_that_a_later_call_changes_unseen_is_as_it_was_made() -> None:
    """The tool keeps the object that it has returned, and changes it in its next call."""
    gate, shared = Gate(), Box()

    def make() -> Box:
        shared.all.append(1)
        return shared

    gate.tool("make", make)
    gate.tool("size", lambda x: len(x.all))
    agf.define(
        "{pipeline: flow, steps: [{tool: {name: make, output: a}}, {tool: {name: make, output: b}}, "
        "{tool: {name: gate}}, {tool: {name: size, args: {x: !expr b}}}]}",
        registry=gate.registry,
    )
    first = agf.run("flow", registry=gate.registry)
    assert (first.output, [warning.code for warning in first.warnings]) == (2, ["journal.unkept"])


def test_a_call_with_an_effect_is_kept_although_its_changes_are_unknown() -> None:
    gate, sent = Gate(), list[int]()
    steps(gate, lambda: sqlite3.connect(":memory:", check_same_thread=False), lambda x: 1, lambda x: 2)
    gate.tool("first", lambda x: sent.append(1), reuse=False)
    _, resumed = gate.both(PIPELINE)
    assert (resumed.status, len(sent)) == ("ok", 2)
