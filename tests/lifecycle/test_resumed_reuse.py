"""A run that reuses results of other runs reuses the same ones after it is resumed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.lifecycle.past.past_runs import delete

CALL = "- tool: {name: NAME, args: {n: N}}\n"


def steps(*calls: str) -> str:
    made = (CALL.replace("NAME", name).replace("N", n) for name, n in (call.split() for call in calls))
    return "pipeline: p\nsteps:\n" + "".join(made)


class Shop:
    """Tools that note their calls in a file. ``fetch`` of version 2 fails as long as a file is there."""

    def __init__(self, folder: Path) -> None:
        self.notes, self.broken = folder / "notes.txt", folder / "broken"
        self.notes.write_text("")

    def registry(self, version: int) -> agf.Registry:
        registry, notes, broken = agf.Registry(), self.notes, self.broken

        @agf.tool(registry=registry)
        def fetch(n: int) -> int:
            if version == 2 and broken.exists():
                raise LookupError("gone")
            return n

        @agf.tool(registry=registry)
        def dear(n: int) -> int:
            with notes.open("a") as file:
                file.write(f"{n} ")
            return n * 10

        return registry

    def paid(self) -> list[str]:
        """The calls of ``dear`` since the last look."""
        made = self.notes.read_text().split()
        self.notes.write_text("")
        return made


@pytest.fixture
def shop(journaled: Path) -> Shop:
    return Shop(journaled.parent)


def again(first: agf.Run, registry: agf.Registry) -> agf.Run:
    return agf.rerun(first.run_id, "steps[2]", registry=registry, raises=False)


def by(reuse: Callable[[agf.Run], Any]) -> Callable[[agf.Run, agf.Registry], agf.Run]:
    return lambda first, registry: agf.run("p", registry=registry, reuse=reuse(first), raises=False)


WAYS = {
    "the last runs": (by(lambda first: True), []),
    "one run": (by(lambda first: first.run_id), []),
    "the results before a step": (again, ["2"]),
    "no run": (by(lambda first: False), ["1", "2"]),
}
"""How the second run starts, and the calls that its resumed session makes."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("fails", [1, 2])
def test_a_resumed_run_reuses_the_results_that_it_was_started_with(way: str, fails: int, shop: Shop) -> None:
    start, expected = WAYS[way]
    text = steps("fetch 1", "dear 1", "dear 2")
    first = agf.run(agf.define(text, registry=(registry := shop.registry(1))), registry=registry)
    assert shop.paid() == ["1", "2"]
    shop.broken.touch()
    edited = shop.registry(2)
    agf.define(text, registry=edited)
    run = start(first, edited)
    for _ in range(fails - 1):
        run = agf.resume(run.run_id, registry=edited, raises=False)
    assert (run.status, shop.paid()) == ("error", [])
    shop.broken.unlink()
    run = agf.resume(run.run_id, registry=edited)
    assert (run.output, shop.paid()) == (20, expected)
    assert "nothing is reused" not in run.note


def test_a_result_that_an_earlier_session_has_taken_is_not_taken_again(shop: Shop) -> None:
    """The run would make the call a second time if it were not interrupted, too."""
    first = agf.run(steps("dear 5"), registry=shop.registry(1))
    shop.broken.touch()
    edited = shop.registry(2)
    text = steps("dear 5", "fetch 1", "dear 5")
    run = agf.run(text, registry=edited, reuse=first.run_id, raises=False)
    assert (run.status, shop.paid()) == ("error", ["5"])
    shop.broken.unlink()
    agf.resume(run.run_id, registry=edited)
    assert shop.paid() == ["5"]


def test_a_run_whose_results_are_gone_makes_the_calls_and_says_so(shop: Shop) -> None:
    text = steps("fetch 1", "dear 1")
    first = agf.run(agf.define(text, registry=(registry := shop.registry(1))), registry=registry)
    shop.broken.touch()
    edited = shop.registry(2)
    run = agf.run(text, registry=edited, reuse=first.run_id, raises=False)
    delete([first.run_id])
    shop.paid()
    shop.broken.unlink()
    resumed = agf.resume(run.run_id, registry=edited)
    assert (resumed.status, shop.paid()) == ("ok", ["1"])
    assert f"nothing is reused from {first.run_id}, which the journal does not have" in resumed.note
