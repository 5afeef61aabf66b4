"""Rows that are retried: what they have paid is not paid again (decision D-EFFECTS-2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest

import agf_magics as agf
from agf_magics.engine.calls.failures import UnknownEffect
from agf_magics.lifecycle.past.retried_rows import choose_rows
from agf_magics.text.diagnostics import Diagnostic

pytestmark = pytest.mark.usefixtures("journaled")

STEPS = [
    "tool: {name: price, args: {n: !expr ctx.n}, output: amount}",
    "tool: {name: pay, args: {n: !expr amount}, output: receipt}",
    "tool: {name: check, args: {n: !expr ctx.n}}",
]
QUESTION = '\'pay\' was called for this row with {{"n":{}}}, and is now to be called with {{"n":{}}}. Call it again?'
UNKNOWN = "'pay' was called with {\"n\":1} and its outcome is unknown. Call it again?"
SECRET = "abcdefghijklmnop"


class World:
    """A flow that pays for a row and then fails for the odd rows."""

    def __init__(self) -> None:
        self.registry, self.paid, self.asked = agf.Registry(), list[int](), list[str]()
        self.fails: Callable[[int], Any] = lambda n: 1 / 0 if n % 2 else None
        self.receipt: Callable[[int], Any] = lambda n: f"paid {n}"
        self.surcharge = 0
        self.answer: Any = False

        @agf.tool(registry=self.registry, where="loop")
        async def price(n: int) -> int:
            return n + self.surcharge

        @agf.tool(registry=self.registry, where="loop")
        async def check(n: int) -> None:
            self.fails(n)

        self.set_pay()
        self.define(STEPS)

    def set_pay(self) -> None:
        @agf.tool(registry=self.registry, where="loop", reuse=False)
        async def pay(n: int) -> Any:
            self.paid.append(n)
            return self.receipt(n)

    def edit_price(self) -> None:
        @agf.tool(registry=self.registry, where="loop")
        async def price(n: int) -> int:
            return n + 100

    def edit_pay(self) -> None:
        @agf.tool(registry=self.registry, where="loop", reuse=False)
        async def pay(n: int) -> Any:
            self.paid.append(n)
            return "edited"

    def define(self, steps: list[str]) -> None:
        agf.define("pipeline: p\nsteps:\n" + "".join(f"- {step}\n" for step in steps), registry=self.registry)

    def ask(self, question: Any) -> Any:
        self.asked.append(question.text)
        return self.answer

    def run(self, table: Any, **options: Any) -> Any:
        over = table if isinstance(table, agf.Over) else agf.Over(table=table, **options)
        return agf.run("p", over=over, registry=self.registry, raises=False, ask=self.ask)


TABLE = [{"n": n} for n in range(4)]


class Change(NamedTuple):
    """What happens between the two runs."""

    change: Callable[[World], None]
    paid: Sequence[int] = ()
    asked: Sequence[str] = ()
    status: str = "ok"
    answer: Any = False


CHANGES = {
    "nothing else": Change(lambda world: None),
    "a step comes before it": Change(lambda world: world.define(["transform: {value: '1'}", *STEPS])),
    "the tool is edited": Change(World.edit_pay),
    "another amount, and no": Change(World.edit_price, [], [QUESTION.format(1, 101)], "waiting"),
    "another amount, and yes": Change(
        World.edit_price, [101, 103], [QUESTION.format(1, 101), QUESTION.format(3, 103)], "ok", True
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("again", [False, True], ids=["from the journal", "with the table"])
def test_a_retried_row_does_not_pay_again(again: bool, change: Change) -> None:
    world = World()
    first = world.run(TABLE, width=1)
    assert (first.table.counts["failed"], sorted(world.paid)) == (2, [0, 1, 2, 3])
    world.paid.clear()
    world.fails = lambda n: None
    world.answer = change.answer
    change.change(world)
    retried = world.run(choose_rows(TABLE if again else None, first.run_id, width=1))
    assert (retried.status, world.paid, world.asked) == (change.status, [*change.paid], [*change.asked])


def test_a_payment_that_failed_is_made_again() -> None:
    world = World()
    world.receipt = lambda n: 1 // (n - 1)
    first = world.run(TABLE, width=1)
    world.paid.clear()
    world.receipt, world.fails = str, lambda n: None
    assert world.run(choose_rows(None, first.run_id, width=1)).status == "ok"
    assert (world.paid, world.asked) == ([1], [])


def test_a_payment_whose_result_is_not_stored_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BANK_API_KEY", SECRET)
    world = World()
    world.receipt = lambda n: SECRET
    first = world.run([{"n": 1}])
    world.fails = lambda n: None
    world.answer = {"result": "given"}
    assert world.run(choose_rows(None, first.run_id)).status == "ok"
    assert (world.paid, world.asked) == ([1], [UNKNOWN])


def test_each_repetition_of_a_row_has_its_own_payment() -> None:
    world = World()
    seen = list[int]()

    def fail_once(n: int) -> None:
        seen.append(n)
        if seen == [1]:
            raise ValueError("the first time")

    world.fails = fail_once
    first = world.run([{"n": 1}], repeat=3, width=1)
    assert (first.table.counts["failed"], world.paid) == (1, [1, 1, 1])
    assert world.run(choose_rows(None, first.run_id)).status == "ok"
    assert (world.paid, world.asked) == ([1, 1, 1], [])


@pytest.mark.parametrize("times", [1, 2])
def test_a_retried_run_that_is_resumed_or_retried_pays_nothing_again(times: int) -> None:
    world = World()
    first = world.run(TABLE, width=1)
    world.paid.clear()

    def stop(n: int) -> None:
        raise UnknownEffect(Diagnostic("step.unknown-outcome", "stopped"))

    for _ in range(times - 1):
        first = world.run(choose_rows(None, first.run_id, width=1))
        assert first.table.counts["failed"] == 2
    world.fails = stop
    stopped = world.run(choose_rows(None, first.run_id, width=1))
    assert stopped.status == "waiting"
    world.fails = lambda n: None
    resumed = agf.resume(stopped.run_id, registry=world.registry, raises=False, ask=world.ask)
    assert (resumed.status, world.paid, world.asked) == ("ok", [], [])
