"""Shapes of execution that no pipeline has: repeat, by need and along edges, with kept failures and questions."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import agf_magics as agf
from agf_magics.engine.host.host import Host
from agf_magics.engine.linking.link import link
from agf_magics.engine.run import run as run_linked
from agf_magics.engine.run_options import RunOptions
from agf_magics.engine.shapes.step_functions import SHAPES
from agf_magics.flow.flow import Declarations
from agf_magics.flow.graph_steps import END, START, Dag, Edge, Walk
from agf_magics.flow.protocols import FlowInput, Frame, Node, Outcome, Ready, Skip
from agf_magics.flow.step import Step
from agf_magics.flow.step_options import OwnLimits, Pick
from agf_magics.flow.steps import Branches, Compute, Repeat
from agf_magics.flow.steps import Sequence as InOrder
from tests.engine.small_flows import SPAN, Put, Says, Tools, call, flow

# --- repeat ---


def counting(limit: int, **more: Any) -> Repeat:
    body = InOrder(
        id="loop.body",
        word="body",
        steps=(
            call("loop.add", "add", lambda frame: {"n": frame["n"]}, target=Put("n")),
            Compute(id="loop.seen", word="compute", value=Says(lambda frame: frame["n"]), target=Put("out")),  # type: ignore[arg-type]
        ),
    )
    return Repeat(id="loop", word="loop", body=body, limit=limit, **more)


def test_a_limit_whose_finding_is_an_error_fails_the_step() -> None:
    over = agf.Diagnostic("run.listener", "too often", SPAN)
    run = Tools(add=lambda n: n + 1).run(
        counting(2, until=Says(lambda frame: False), over=lambda limit, frame: over), input={"n": 0}
    )
    assert run.status == "error"
    assert run.error.where == "loop"


# --- kept failures ---


def test_a_breached_cap_is_never_rescued() -> None:
    steps = [call(f"s{i}", "one", lambda frame: {}, rescue=lambda error: None) for i in range(3)]
    tools = Tools(one=lambda: 1)
    run = tools.run(flow=flow(*steps, declared=Declarations(own_limits=OwnLimits(tool_calls=2, span=SPAN))))
    assert (run.status, run.error and run.error.code, len(tools.calls)) == ("error", "limit.tool-calls", 2)


# --- by need ---


class Needs:
    """An order of starting by ``needs``, the names that each step waits for. A failed or skipped step never gives its
    name."""

    def __init__(self, needs: Mapping[str, tuple[str, ...]]) -> None:
        self.names = tuple(needs)
        self.needs = [needs[name] for name in self.names]
        self.nodes = tuple(map(Node, self.names))
        self.first = range(len(self.nodes))
        self.asked: Counter[int] = Counter()
        self.held: dict[int, None] = {}
        self.stored: dict[str, str] = {}

    def successors(self, number: int) -> Sequence[int]:
        return [reader for reader, needs in enumerate(self.needs) if self.names[number] in needs]

    def ready(self, number: int, frame: Frame) -> Ready:
        self.asked[number] += 1
        for name in self.needs[number]:
            if self.stored.get(name, "finished") != "finished":
                return Skip(f"{name} gave nothing")
        return "go" if all(name in self.stored for name in self.needs[number]) else "wait"

    def enter(self, number: int, frame: Frame) -> Frame:
        return frame

    def ended(self, number: int) -> None:
        self.held[number] = None

    def next_to_store(self) -> int | None:
        return next(iter(self.held))

    def store(self, number: int, frame: Frame, outcome: Outcome) -> Frame:
        name = self.names[number]
        self.held.pop(number, None)
        self.stored[name] = outcome.status
        return {**frame, "out": [*frame.get("out", ()), f"{name} {outcome.status}"], name: outcome.value}

    def close(self, frame: Frame) -> Frame:
        return {**frame, "out": [*frame["out"], "closed"]}


def needing(needs: Mapping[str, tuple[str, ...]]) -> Dag:
    def taking(names: tuple[str, ...]) -> Any:
        return lambda frame: {name: frame[name] for name in names}

    steps = tuple(call(name, name, taking(names)) for name, names in needs.items())
    return Dag(id="dag", word="plan", steps=steps, open=lambda frame: Needs(needs))  # type: ignore[arg-type,return-value]


def test_the_end_of_a_step_asks_only_the_steps_that_wait_for_it() -> None:
    names = [f"n{i}" for i in range(200)]
    needs = {name: (before,) if before else () for before, name in zip(["", *names], names, strict=False)}
    agendas: list[Needs] = []

    def open_(frame: Frame) -> Needs:
        agendas.append(Needs(needs))
        return agendas[-1]

    tools = Tools(**{name: lambda **given: 1 for name in names})
    run = tools.run(replace(needing(needs), open=open_))  # type: ignore[arg-type]
    assert len(run.output) == 201
    assert set(agendas[0].asked.values()) == {1, 2}  # at the beginning, and after the previous step


def test_steps_that_wait_for_each_other_are_skipped() -> None:
    run = Tools(a=lambda b: b, b=lambda a: a).run(needing({"a": ("b",), "b": ("a",)}))
    assert run.output == ["a skipped", "b skipped", "closed"]


# --- along edges ---


def walking(nodes: Mapping[str, Step], *edges: Edge, **more: Any) -> Walk:
    def join(frame: Frame, ended: Sequence[tuple[str, Outcome]]) -> Frame:
        joined = [*frame.get("out", ()), [name for name, _ in ended]]
        return {**frame, **{name: outcome.value for name, outcome in ended}, "out": joined}

    rounds = more.pop("rounds", 20)

    def endless(rounds: int) -> agf.Diagnostic:
        return agf.Diagnostic("step.rounds", f"{rounds} rounds")

    return Walk(id="walk", word="graph", nodes=nodes, edges=edges, join=join, rounds=rounds, endless=endless, **more)


def bump(name: str) -> Step:
    return Compute(id=f"nodes.{name}", word="compute", value=Says(lambda frame: frame.get(name, 0) + 1))  # type: ignore[arg-type]


def test_a_node_over_its_limit_is_skipped_and_the_walk_continues_at_its_exit() -> None:
    nodes = {name: bump(name) for name in "ab"}
    warned = agf.Diagnostic("run.listener", "a reached its limit", severity="warning")
    edges = [Edge(START, "a"), Edge("a", "a"), Edge("b", END)]
    run = Tools().run(walking(nodes, *edges, limits={"a": 2}, exits={"a": "b"}, over=lambda name: warned))
    assert (run.output, run.warnings) == ([["a"], ["a"], ["b"]], (warned,))


# --- choosing, asking, caps ---


def test_a_call_chooses_only_among_linked_callees() -> None:
    tools = Tools(left=lambda: "l", right=lambda: "r", secret=lambda: "s")
    names = tuple(agf_name for agf_name in (call("x", "left", dict).name, call("x", "right", dict).name))

    def pick(frame: Frame) -> Any:
        return frame["pick"]

    step = call("s", "?", lambda frame: {}, pick=Pick(Says(pick), names), target=Put("out"))  # type: ignore[arg-type]
    assert tools.run(step, input={"pick": "right"}).output == "r"
    refused = tools.run(step, input={"pick": "secret"})
    assert (refused.error.code, tools.calls[1:]) == ("step.not-among", [])


def test_the_results_of_a_run_that_fails_are_those_of_its_outermost_steps() -> None:
    """The results of a branch are not among them, although the branch ran steps of its own."""
    tools = Tools(one=lambda: 1, bad=lambda: 1 / 0)
    steps = call("x.one", "one", lambda frame: {}, target=Put("inner")), call("x.bad", "bad", lambda frame: {})
    both = Branches(id="b", word="b", branches={"x": InOrder(id="x", word="x", steps=steps)})
    run = tools.run(call("a", "one", lambda frame: {}, target=Put("outer")), both)
    assert dict(run.error.partial) == {"outer": 1}


def test_the_engine_calls_tools_unless_it_is_told_to_run_dry() -> None:
    tools = Tools(one=lambda: 1)
    linked, _ = link(flow(call("s", "one", lambda frame: {}, target=Put("out"))), tools.registry)
    result = asyncio.run(
        run_linked(linked, FlowInput({}), RunOptions(), host=Host(), emit=lambda event: None, shapes=SHAPES)
    )
    assert (result.output, len(tools.calls)) == (1, 1)
