"""The data flow of a graph: which node reads a value of which other node."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import agf_magics as agf
from agf_magics.flow.graph_steps import Walk

STATE = "state: {a: any, b: any, log: {type: list, reducer: add}, xs: list, ys: list}\n"


def passthrough(**output: str) -> str:
    return "{type: passthrough, output: {" + ", ".join(f'{key}: "{value}"' for key, value in output.items()) + "}}"


KEYS = ("a", "b")
Node = tuple[str, str]


@given(
    st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(KEYS)), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=6),
)
def test_each_value_that_a_run_reads_is_a_wire(nodes: list[Node], jumps: list[tuple[int, int]]) -> None:
    """The test follows every path of at most ten nodes. The last writer of a key before its reader has a wire to the
    reader."""
    edges = {(i, i + 1) for i in range(len(nodes) - 1)} | {
        (i, j) for i, j in jumps if i < len(nodes) and j < len(nodes)
    }
    text: dict[str, Any] = {
        f"n{i}": passthrough(**{write: f"{{state.{read}}}"}) for i, (read, write) in enumerate(nodes)
    }
    lines = ", ".join(f"{{from: n{i}, to: n{j}, condition: a == {i}{j}}}" for i, j in sorted(edges))
    flow = agf.load(
        f"{STATE}nodes: {{{', '.join(f'{name}: {node}' for name, node in text.items())}}}\n"
        f"edges: [{{from: START, to: n0}}{', ' if lines else ''}{lines}]",
        "graph",
    )
    (walk,) = flow.body.steps
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
