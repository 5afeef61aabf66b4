"""Large graphs: graphviz gets the short edges down, and the others are routed after the layout."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from random import Random

import pytest

import agf_magics as agf
from agf_magics.flow.steps import Flow
from agf_magics.pictures.boxes import HIDDEN, Scene
from agf_magics.pictures.diagram import place
from agf_magics.pictures.dot import scene_dot
from agf_magics.pictures.graphviz_module import positions
from agf_magics.pictures.layout import Layout, Point, Route, layout
from agf_magics.pictures.nets import LARGE, routed
from agf_magics.pictures.routing import route
from agf_magics.pictures.rows import Rect, rectangles
from agf_magics.pictures.scene import scene
from agf_magics.pictures.svg import edge_places, paint
from tests.counting import work
from tests.pictures.random_flows import graph, text_of
from tests.pictures.test_routing import Line, inside

NODES = 100
DOWN = [("START", "n0"), *((f"n{i}", f"n{i + 1}") for i in range(NODES - 1)), (f"n{NODES - 1}", "END")]
SHAPES = {
    "all lead back": [*DOWN, *((f"n{i}", "n0") for i in range(1, NODES))],
    "all may end": [*DOWN, *((f"n{i}", "END") for i in range(NODES - 1))],
    "five ahead": [*DOWN, *((f"n{i}", f"n{j}") for i in range(NODES) for j in range(i + 2, min(NODES, i + 6)))],
    "a hub": [*DOWN[:1], *(("n0", f"n{i}") for i in range(1, NODES)), *((f"n{i}", "n0") for i in range(1, NODES))],
    "dense": [*DOWN, *((f"n{i}", f"n{j}") for i in range(NODES) for j in range(NODES) if (7 * i + 3 * j) % 5 == 0)],
    "itself": [*DOWN, *((f"n{i}", f"n{i}") for i in range(NODES))],
    "just large": [*DOWN, *((f"n{9 * i + 9}", f"n{i}") for i in range(10))],
}  # fmt: skip


def shaped(edges: list[tuple[str, str]], count: int = NODES) -> Flow:
    nodes = [f"  n{i}: {{type: passthrough, output: {{a: '{{state.a}}'}}}}" for i in range(count)]
    found = [f"- {{from: {a}, to: {b}, condition: 'a > {i}'}}" for i, (a, b) in enumerate(dict.fromkeys(edges))]
    return agf.load("\n".join(["name: g", "state: {a: any}", "nodes:", *nodes, "edges:", *found]))


def random_graph(seed: int, size: int) -> Flow:
    return agf.load(text_of(graph(Random(seed), size)))


GRAPHS = {name: shaped(edges) for name, edges in SHAPES.items()}
GRAPHS |= {f"random {size}": random_graph(size, size) for size in (70, 120, 260)}


def drawing(flow: Flow) -> tuple[Scene, Layout]:
    drawn = scene(flow)
    assert len(routed(drawn)) * sum(1 for _ in drawn.boxes) > LARGE
    return drawn, place(drawn)


def routes(drawn: Scene, placed: Layout) -> Iterator[tuple[int, Route]]:
    """The edges that graphviz did not route, by their places."""
    return ((at, placed.routes[f"e{at}"]) for at in sorted(routed(drawn)))


def lines(route: Route) -> Iterator[Line]:
    """The straight lines of a way; a corner is within them."""
    yield from pairwise([*route.points, route.tip])


def touches(box: Rect, point: Point) -> bool:
    return box.left - 1 <= point.x <= box.right + 1 and box.top - 1 <= point.y <= box.bottom + 1


@pytest.mark.parametrize("flow", GRAPHS.values(), ids=GRAPHS)
def test_every_edge_is_drawn_from_its_node_to_its_node(flow: Flow) -> None:
    drawn, placed = drawing(flow)
    assert all(f"e{at}" in placed.routes for at, arrow in enumerate(drawn.arrows) if arrow.line not in HIDDEN)
    boxes = dict(zip((box.id for box in drawn.boxes), rectangles(drawn, placed), strict=True))
    frames = {frame.id: Rect(*corner, *far) for frame, (corner, far) in zip(
        drawn.frames, (placed.frames[f"cluster_{n}"] for n in range(len(placed.frames))), strict=True)}  # fmt: skip
    found = list(routes(drawn, placed))
    assert len(found) >= 10
    for at, way in found:
        arrow = drawn.arrows[at]
        assert touches(frames[arrow.leaves] if arrow.leaves else boxes[arrow.tail], way.points[0])
        assert touches(boxes[arrow.head], way.tip)
        assert way.text is not None
        assert way.text.rstrip(" ↑↓…") in arrow.label


@pytest.mark.parametrize("flow", GRAPHS.values(), ids=GRAPHS)
def test_no_edge_crosses_a_box(flow: Flow) -> None:
    drawn, placed = drawing(flow)
    boxes = rectangles(drawn, placed)
    ways = {line for _, way in routes(drawn, placed) for line in lines(way)}
    assert [line for line in ways for box in boxes if inside(box, line)] == []
    points = [point for line in ways for point in line]
    assert all(0 <= point.x <= placed.width + 1 and 0 <= point.y <= placed.height + 1 for point in points)


@pytest.mark.parametrize("flow", GRAPHS.values(), ids=GRAPHS)
def test_two_edges_share_a_line_only_if_they_share_an_end(flow: Flow) -> None:
    """A vertical line belongs to the edges of one node."""
    drawn, placed = drawing(flow)
    trunks: dict[float, list[tuple[float, float, str]]] = {}
    for at, way in routes(drawn, placed):
        for a, b in lines(way):
            if abs(a.x - b.x) < 0.1 and abs(a.y - b.y) > 40:
                trunks.setdefault(round(a.x), []).append((min(a.y, b.y), max(a.y, b.y), drawn.arrows[at].tail))
    for found in trunks.values():
        for (top, bottom, tail), (high, low, other) in pairwise(sorted(found)):
            assert tail == other or min(bottom, low) - max(top, high) < 1


@pytest.mark.parametrize("flow", GRAPHS.values(), ids=GRAPHS)
def test_graphviz_takes_work_in_proportion_to_the_boxes(flow: Flow) -> None:
    drawn = scene(flow)
    assert positions(scene_dot(drawn, {}, routed(drawn)), work=6_000_000 * sum(1 for _ in drawn.boxes))


def test_routes_take_work_in_proportion_to_the_edges() -> None:
    calls = []
    for size in (80, 320):
        drawn = scene(random_graph(size, size))
        placed = layout(scene_dot(drawn, {}, routed(drawn)))
        calls.append(work(lambda placed=placed, drawn=drawn: route(drawn, placed)))  # type: ignore[misc]
    assert calls[1] < 4 * 3 * calls[0]


def test_an_edge_has_its_number_and_its_colour_on_its_own_way() -> None:
    drawn, placed = drawing(GRAPHS["random 120"])
    keys = dict(edge_places(drawn, placed))
    assert keys.keys() == {arrow.way for arrow in drawn.arrows if arrow.way}
    assert paint(drawn, placed, {}).count("<path") > len(drawn.arrows)


@pytest.mark.parametrize("count", [20, 40, 90, 300])
def test_few_long_edges_are_left_to_graphviz_which_is_fast_enough(count: int) -> None:
    down = [("START", "n0"), *((f"n{i}", f"n{i + 1}") for i in range(count - 1))]
    back = [(f"n{i + 2}", "n0") for i in range(min(count - 2, LARGE // (count + 2)))]
    drawn = scene(shaped([*down, *back], count))
    assert routed(drawn) == frozenset()
    assert positions(scene_dot(drawn, {}, routed(drawn)), work=1_000_000_000)


@pytest.mark.law
def test_random_graphs_of_up_to_300_boxes_are_drawn(thorough: bool) -> None:
    for seed in range(200 if thorough else 4):
        flow = random_graph(seed, 70 + seed * 37 % 170)
        test_no_edge_crosses_a_box(flow)
        test_every_edge_is_drawn_from_its_node_to_its_node(flow)
        test_two_edges_share_a_line_only_if_they_share_an_end(flow)
