"""The data flow of a graph: which node reads the value of a key that which other node wrote."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agf_magics as agf
from agf_magics.flow.steps import Walk
from agf_magics.flow.wiring import wires

STATE = "state: {a: any, b: any, log: {type: list, reducer: add}, xs: list, ys: list}\n"


def flows(nodes: str, edges: str, more: str = "") -> list[str]:
    """``source.key → reader`` for each wire, with ``input`` for the run's input."""
    flow = agf.load(f"{STATE}{more}nodes: {nodes}\nedges: {edges}", "graph")
    return sorted(
        f"{(wire.source or 'input').removeprefix('nodes.')}.{wire.name} → {wire.dest.removeprefix('nodes.')}"
        for wire in wires(flow)
    )


def passthrough(**output: str) -> str:
    return "{type: passthrough, output: {" + ", ".join(f'{key}: "{value}"' for key, value in output.items()) + "}}"


@pytest.mark.parametrize(
    ("nodes", "edges", "found"),
    [
        pytest.param({"n": passthrough(a="{state.b}")}, "[{from: START, to: n}]", ["input.b → n"], id="the input"),
        pytest.param(
            {"n": passthrough(a="1"), "m": passthrough(b="{state.a + 1}"), "o": passthrough(b="{state.a}")},
            "[{from: START, to: n}, {from: n, to: m}, {from: m, to: o}]",
            ["n.a → m", "n.a → o"],
            id="a value passes nodes that do not write it",
        ),
        pytest.param(
            {"n": passthrough(a="1"), "m": passthrough(a="2"), "o": passthrough(b="{state.a}")},
            "[{from: START, to: n}, {from: n, to: m}, {from: m, to: o}]",
            ["m.a → o"],
            id="a value that is replaced goes no further",
        ),
        pytest.param(
            {"n": passthrough(log="[1]"), "m": passthrough(log="[2]"), "o": passthrough(b="{state.log}")},
            "[{from: START, to: n}, {from: n, to: m}, {from: m, to: o}]",
            ["m.log → o", "n.log → o"],
            id="a reducer replaces nothing",
        ),
        pytest.param(
            {"n": passthrough(a="{state.a + 1}")},
            "[{from: START, to: n}, {from: n, to: n, condition: a < 3}, {from: n, to: END, condition: else}]",
            ["input.a → n", "n.a → n"],
            id="a loop reads what it wrote",
        ),
        pytest.param(
            {"n": passthrough(a="1"), "m": passthrough(a="2"), "o": passthrough(b="{state.a}")},
            "[{from: START, to: n, condition: b == 1}, {from: START, to: m, condition: else}, {from: n, to: o},"
            " {from: m, to: o}]",
            ["m.a → o", "n.a → o"],
            id="either branch",
        ),
        pytest.param(
            {
                "n": "{type: map, over: '{state.xs}', as: x, node: {type: llm, prompt: 'On {x} and {a}'}, collect: ys}",
                "m": "{type: interrupt, message: 'Fine, {ys}?', resume_key: b}",
            },
            "[{from: START, to: n}, {from: n, to: m}]",
            ["input.a → n", "input.xs → n", "n.ys → m"],
            id="a map, a prompt and a question",
        ),
    ],
)
def test_a_value_flows_from_its_writer_to_its_readers(nodes: dict[str, str], edges: str, found: list[str]) -> None:
    text = "{" + ", ".join(f"{name}: {node}" for name, node in nodes.items()) + "}"
    assert flows(text, edges) == found


def test_a_key_with_a_first_value_does_not_come_from_the_input() -> None:
    assert flows("{n: " + passthrough(a="{state.a + 1}") + "}", "[{from: START, to: n}]", "variables: {a: 0}\n") == []


def test_a_value_flows_through_the_exit_of_a_limit() -> None:
    nodes = "{n: " + passthrough(a="1") + ", m: " + passthrough(b="{state.a}") + "}"
    more = "loop_limits: {n: 2}\nloop_exits: {n: m}\n"
    assert flows(nodes, "[{from: START, to: n}, {from: n, to: n}]", more) == ["n.a → m"]


KEYS = ("a", "b")
Node = tuple[str, str]


@given(
    st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(KEYS)), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=6),
)
def test_each_value_that_a_run_reads_is_a_wire(nodes: list[Node], jumps: list[tuple[int, int]]) -> None:
    """Follow every path of at most ten nodes: the last writer of a key before its reader has a wire to it."""
    edges = {(i, i + 1) for i in range(len(nodes) - 1)} | {
        (i, j) for i, j in jumps if i < len(nodes) and j < len(nodes)
    }
    text: dict[str, Any] = {
        f"n{i}": passthrough(**{write: f"{{state.{read}}}"}) for i, (read, write) in enumerate(nodes)
    }
    lines = ", ".join(f"{{from: n{i}, to: n{j}, condition: a == {i}{j}}}" for i, j in sorted(edges))
    found = agf.load(
        f"{STATE}nodes: {{{', '.join(f'{name}: {node}' for name, node in text.items())}}}\n"
        f"edges: [{{from: START, to: n0}}{', ' if lines else ''}{lines}]",
        "graph",
    )
    (walk,) = found.body.steps
    assert isinstance(walk, Walk)
    feeds = {(source, dest, key) for source, dest, key in walk.feeds}
    expected = set[tuple[str | None, str, str]]()
    paths: list[list[int]] = [[0]]
    while paths:
        path = paths.pop()
        writer: dict[str, str | None] = {}
        for i in path:
            read, write = nodes[i]
            expected.add((writer.get(read), f"nodes.n{i}", read))
            writer[write] = f"nodes.n{i}"
        paths += [[*path, j] for i, j in edges if i == path[-1] and len(path) < 7]
        assert all(pair in edges for pair in pairwise(path))
    assert expected <= feeds
