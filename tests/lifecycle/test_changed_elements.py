"""A fan-out over a list that a resumed run makes again, in another order or with other elements: no element gets the
result of another one."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import pytest

import agf_magics as agf

pytestmark = pytest.mark.usefixtures("journaled")

HEAD = "pipeline: p\nsteps:\n- tool: {name: listing, output: r}\n"
FAN = HEAD + (
    "- for_each: {over: ctx.r.names, max_parallel: 1, on_error: abort, do: {tool: {name: work, args: {n: !expr item}}},"
    " collect: {transform: {value: pipe}}}\n"
)
SKIPS = FAN.replace("on_error: abort", "on_error: continue") + "- tool: {name: stop, args: {value: !expr pipe}}\n"
TWO_STEPS = FAN.replace(
    "do: {tool: {name: work, args: {n: !expr item}}}",
    "do: {call: {pipeline: inner, pass: [item]}}",
)
INNER = """
pipeline: inner
steps:
- tool: {name: same, args: {n: !expr ctx.item}, output: one}
- tool: {name: work, args: {n: !expr one}}
"""
FOLD = HEAD + (
    "- fold: {over: ctx.r.names, init: \"''\", output: all,"
    " do: {tool: {name: join, args: {all: !expr acc, n: !expr item}}}}\n"
)


class World:
    def __init__(self, first: list[str], reuse: bool = True) -> None:
        self.registry, self.calls, self.asked = agf.Registry(), list[str](), list[str]()
        self.names, self.broken = first, True
        world, registry = self, self.registry

        @agf.tool(registry=registry, where="loop")
        async def listing() -> Any:
            return {"names": world.names, "lock": threading.Lock()}  # not stored, so that it is made again

        @agf.tool(registry=registry, where="loop", reuse=reuse)
        async def work(n: str) -> str:
            world.fail(n)
            world.calls.append(n)
            return f"did {n}"

        @agf.tool(registry=registry, where="loop")
        async def same(n: str) -> str:
            return n

        @agf.tool(registry=registry, where="loop")
        async def join(all: str, n: str) -> str:
            world.fail(n)
            world.calls.append(n)
            return all + n

        @agf.tool(registry=registry, where="loop")
        async def stop(value: Any) -> Any:
            world.fail("x")
            return value

        agf.define(INNER, registry=registry)

    def fail(self, name: str) -> None:
        if self.broken and name in ("x", "y"):
            raise ValueError(name)

    def run(self, text: str) -> Any:
        return agf.run(text, registry=self.registry, raises=False)

    def resume(self, run: Any, names: list[str], broken: bool = False) -> Any:
        self.names, self.broken = names, broken
        self.calls.clear()
        return agf.resume(run.run_id, registry=self.registry, raises=False, ask=self.ask)

    def ask(self, question: Any) -> bool:
        self.asked.append(question.text)
        return True


class Case(NamedTuple):
    text: str
    first: str
    """The elements in the first session, which fails at x."""
    second: str
    calls: str
    """The calls in the second session."""


CASES = {
    "the same list": Case(FAN, "abx", "abx", "x"),
    "another order": Case(FAN, "abx", "xab", "xab"),
    "more at the end": Case(FAN, "abx", "abxc", "xc"),
    "more in the middle": Case(FAN, "abx", "acbx", "cbx"),
    "fewer": Case(FAN, "abx", "b", "b"),
    "two steps": Case(TWO_STEPS, "abx", "bax", "bax"),
    "a skipped one was another": Case(SKIPS, "axb", "xab", "xa"),
    "a fold": Case(FOLD, "abx", "abxc", "xc"),
    "a fold that changes early": Case(FOLD, "abx", "bax", "bax"),
    "a fold that changes in the middle": Case(FOLD, "abcx", "adcx", "dcx"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_no_element_gets_the_result_of_another_one(case: Case) -> None:
    world = World([*case.first])
    failed = world.run(case.text)
    assert failed.status == "error"
    resumed = world.resume(failed, [*case.second])
    assert (resumed.status, "".join(world.calls)) == ("ok", case.calls)
    world.broken = False
    assert resumed.output == world.run(case.text).output


def test_a_third_session_knows_what_the_second_one_made() -> None:
    world = World([*"abx"])
    failed = world.run(FAN)
    assert world.resume(failed, [*"bay"], broken=True).status == "error"
    assert world.calls == [*"ba"]
    third = world.resume(failed, [*"bayc"])
    assert (third.output, world.calls) == ([f"did {n}" for n in "bayc"], [*"yc"])


def test_a_call_with_an_effect_that_was_made_for_another_element_is_asked_about() -> None:
    world = World([*"abx"], reuse=False)
    failed = world.run(FAN)
    resumed = world.resume(failed, [*"axb"])
    assert (resumed.output, world.calls) == (["did a", "did x", "did b"], [*"xb"])
    assert world.asked == ['\'work\' was called with {"n":"x"} and its outcome is unknown. Call it again?']
