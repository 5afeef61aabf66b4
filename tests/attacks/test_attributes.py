"""An expression of a definition never reaches the variables of the code that made a value (rule Y5).

A tool may return anything: a generator, a module, a function, an exception. In a graph, expressions can read the
attributes of an object, but not those that lead into its code. In the other languages no value has attributes.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import sys
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, ClassVar

import pytest

import agf_magics as agf
from agf_magics.languages.graph import (
    evaluate_condition,
    resolve_state_expression,
    resolve_template,
)

SECRET = "hunter2-of-the-notebook"
"""A variable of this module, which no expression may reach."""


class Thing:
    """An object whose attributes and properties, but not methods, a graph may read (rule Y5)."""

    kind: ClassVar[str] = "thing"

    def __init__(self) -> None:
        self.name = "pear"
        self._hidden = SECRET
        self.inner = self.made = None

    @property
    def size(self) -> int:
        return 3

    def method(self) -> int:
        return 1


@dataclass
class Row:
    n: int = 7


def generator() -> Iterator[int]:
    yield 1


async def coroutine() -> None: ...


async def async_generator() -> Any:
    yield 1


class Own:
    """A generator of a class of its own, as Cython makes them."""

    gi_frame = inspect.currentframe()
    gi_code = generator.__code__

    def __iter__(self) -> Own:
        return self

    def __next__(self) -> int:
        return 1

    def send(self, value: object) -> None: ...

    def throw(self, *error: object) -> None: ...

    def close(self) -> None: ...


def raised() -> BaseException:
    try:
        raise ValueError("wrong")
    except ValueError as error:
        return error


FRAME: Any = inspect.currentframe()
MAKERS: dict[str, Callable[[], Any]] = {
    "generator": lambda: generator(),
    "generator expression": lambda: (n for n in [1]),
    "coroutine": coroutine,
    "async generator": async_generator,
    "a generator of its own": Own,
    "module": lambda: os,
    "a module made here": lambda: types.ModuleType("made"),
    "a weak proxy of a module": lambda: weakref.proxy(sys.modules[__name__]),
    "function": lambda: generator,
    "lambda": lambda: lambda x=SECRET: x,
    "built-in function": lambda: len,
    "method": lambda: Thing().method,
    "built-in method": lambda: [].append,
    "partial": lambda: functools.partial(print, SECRET),
    "class": lambda: Thing,
    "a class of exceptions": lambda: OSError,
    "property": lambda: Thing.__dict__["size"],
    "code": lambda: generator.__code__,
    "cell": lambda: types.CellType(SECRET),
    "frame": lambda: FRAME,
    "traceback": lambda: raised().__traceback__,
    "wrapped": lambda: functools.lru_cache(generator),
}
CHAINS = (
    "gi_frame",
    "gi_code",
    "gi_frame.f_globals.SECRET",
    "gi_frame.f_back",
    "gi_code.co_consts",
    "gi_yieldfrom",
    "cr_frame.f_globals.SECRET",
    "cr_code.co_names",
    "ag_frame.f_globals.SECRET",
    "f_globals.SECRET",
    "f_builtins",
    "f_locals",
    "f_back",
    "f_code",
    "f_lineno",
    "tb_frame.f_globals.SECRET",
    "tb_next",
    "tb_lineno",
    "co_consts",
    "co_filename",
    "cell_contents",
    "environ",
    "SECRET",
    "sys.modules",
    "path",
    "kind",
    "fget",
    "args",
    "keywords",
    "__globals__.SECRET",
    "__self__",
    "__class__",
    "__dict__",
    "__closure__",
    "func.__globals__",
)


@pytest.fixture(autouse=True)
def _no_warning_of_what_is_never_awaited() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def reached(subject: Any, chain: str) -> list[Any]:
    """What a graph's value, its template and its condition have of it; empty where there is nothing."""
    state = {"x": subject, "none": None}
    values = []
    for read in (
        lambda: resolve_state_expression(f"{{state.x.{chain}}}", state),
        lambda: resolve_template(f"{{state.x.{chain}}}", state),
        lambda: resolve_template(f"<{{state.x.{chain}}}>", state),
        lambda: evaluate_condition(f"x.{chain} != null", state) or None,
        lambda: agf.evaluate("value", f"{{state.x.{chain}}}", state),
        lambda: agf.evaluate("condition", f"x.{chain} != null", state) or None,
    ):
        try:
            reading = read()
        except (agf.AgfError, ValueError, KeyError):
            continue
        if reading is not None and reading not in ("<>", "<None>", f"{{state.x.{chain}}}"):
            values.append(reading)
    return [value for value in values if value != f"<{{state.x.{chain}}}>"]


@pytest.mark.parametrize("maker", MAKERS)
def test_a_graph_reads_no_attribute_that_leads_into_code(maker: str) -> None:
    value = MAKERS[maker]()
    for chain in CHAINS:
        assert reached(value, chain) == [], chain
    if isinstance(value, types.CoroutineType):
        value.close()


@pytest.mark.parametrize("maker", MAKERS)
def test_a_graph_reads_no_such_attribute_inside_another_value(maker: str) -> None:
    holder = Thing()
    holder.inner = holder.made = MAKERS[maker]()
    for chain in CHAINS:
        for path in (f"inner.{chain}", f"made.{chain}"):
            assert reached(holder, path) == [], path
            assert reached({"inner": holder.inner, "made": holder.made}, path) == [], path


READABLE: dict[str, tuple[Any, str, Any]] = {
    "attribute": (Thing(), "name", "pear"),
    "property": (Thing(), "size", 3),
    "dataclass": (Row(), "n", 7),
    "a property of a path": (PurePosixPath("a/b.txt"), "suffix", ".txt"),
    "simple namespace": (types.SimpleNamespace(a=types.SimpleNamespace(b=2)), "a.b", 2),
    "exception": (FileNotFoundError(2, "gone", "x.txt"), "filename", "x.txt"),
    "key of any name": ({"gi_frame": 5}, "gi_frame", 5),
    "key that begins with _": ({"_x": 5}, "_x", 5),
}
"""For each case: an object, the path that is read of it, and the expected value."""


@pytest.mark.parametrize("readable", READABLE)
def test_what_an_object_says_of_itself_is_read_as_before(readable: str) -> None:
    value, chain, expected = READABLE[readable]
    assert resolve_state_expression(f"{{state.x.{chain}}}", {"x": value}) == expected
    assert agf.evaluate("value", f"{{state.x.{chain}}}", {"x": value}) == expected


@pytest.mark.parametrize("chain", ["method", "_hidden", "__class__", "__dict__", "__init__.__globals__"])
def test_a_graph_reads_no_methods(chain: str) -> None:
    assert reached(Thing(), chain) == []


ELSEWHERE: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "r1": ("r1", "ctx.x.{}", lambda x: {"ctx": {"x": x}, "pipe": None}),
    "r1 get": ("r1", "get(ctx.x, '{}')", lambda x: {"ctx": {"x": x}, "pipe": None}),
    "r1 map": ("r1", "map(ctx.l, y -> y.{})", lambda x: {"ctx": {"l": [x]}, "pipe": None}),
    "path": ("path", "parent.input.x.{}", lambda x: {"parent": {"input": {"x": x}}}),
    "path over a list": ("path", "parent.input.l.[].{}", lambda x: {"parent": {"input": {"l": [x]}}}),
}
"""For each place without attributes: its language, a text with a hole for the path, and the context of a value."""


@pytest.mark.parametrize("where", ELSEWHERE)
def test_in_the_other_languages_nothing_has_attributes(where: str) -> None:
    language, text, context = ELSEWHERE[where]
    for make, chain in ((make, chain) for make in (*MAKERS.values(), Thing, Row) for chain in (*CHAINS, "name", "n")):
        value = make()
        try:
            value_read = agf.evaluate(language, text.format(chain), context(value))
        except agf.AgfError:
            continue
        assert value_read in (None, [], [None]), (chain, value_read)


RUNS: dict[str, str] = {
    "pipeline prompt": "pipeline: p\nsteps:\n- tool: {name: make, output: x}\n- agent: {prompt: 'say {ctx.x.CHAIN}'}\n",
    "pipeline pass": "pipeline: p\nsteps:\n- tool: {name: make, output: x}\n"
    "- tool: {name: show, args: {value: !expr ctx.x.CHAIN}}\n",
    "plan": "name: p\ncalls:\n- {_tool: make, _outputPath: †state.x}\n"
    "- {_tool: show, value: †state.x.CHAIN, _outputPath: †state.y}\noutput: †state.y\n",
    "graph prompt": "name: p\nstate: {x: any, y: any}\nnodes: {a: {type: tool, tool: make, state_key: x}, "
    "b: {type: llm, prompt: 'say {state.x.CHAIN} now', state_key: y}}\n"
    "edges: [{from: START, to: a}, {from: a, to: b}]\n",
    "graph tool": "name: p\nstate: {x: any, y: any}\nnodes: {a: {type: tool, tool: make, state_key: x}, "
    "b: {type: tool_call, tool: show, args: {value: '{state.x.CHAIN}'}, state_key: y}}\n"
    "edges: [{from: START, to: a}, {from: a, to: b}]\n",
    "graph map": "name: p\nstate: {x: any, y: {type: list, reducer: add}, i: any}\n"
    "nodes: {a: {type: tool, tool: make, state_key: x}, b: {type: map, over: '{state.x.CHAIN}', as: i, collect: y, "
    "node: {type: tool_call, tool: show, args: {value: '{state.i}'}}}}\n"
    "edges: [{from: START, to: a}, {from: a, to: b}]\n",
}


@pytest.mark.parametrize("how", RUNS)
@pytest.mark.parametrize("maker", ["generator", "module", "function", "class", "frame", "traceback"])
def test_a_run_shows_and_passes_on_none_of_these_attributes(maker: str, how: str) -> None:
    registry, answers = agf.Registry(), list[str]()

    def answer(prompt: str) -> str:
        answers.append(prompt)
        return "said"

    agf.tool(MAKERS[maker], name="make", registry=registry)
    agf.tool(lambda value: answers.append(repr(value)), name="show", registry=registry)
    agf.agent(answer, name="me", registry=registry)
    for chain in ("gi_frame.f_globals.SECRET", "f_globals.SECRET", "tb_frame.f_globals.SECRET", "environ.PATH"):
        try:
            run = agf.run(RUNS[how].replace("CHAIN", chain), registry=registry, raises=False)
        except agf.DefinitionError:
            continue
        pages = "".join(run._repr_mimebundle_().values()) + "".join(agf.draw(run)._repr_mimebundle_().values())
        assert SECRET not in pages + "".join(answers) + repr(run.stores) + str(run.error)
        assert os.environ["PATH"] not in "".join(answers)


def test_a_task_and_a_context_say_nothing_of_their_coroutine() -> None:
    async def main() -> None:
        task: Any = asyncio.ensure_future(asyncio.sleep(0))
        for chain in ("_coro.cr_frame", "get_coro.__self__", "_callbacks", "cr_frame"):
            assert reached(task, chain) == []
        await task

    asyncio.run(main())
