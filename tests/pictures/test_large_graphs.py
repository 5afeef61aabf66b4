"""Large graphs: graphviz gets only the short edges, and the other edges become tags of their sources."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise
from math import dist, hypot
from random import Random
from typing import Literal

import pytest

import agf_magics as agf
from agf_magics.pictures import theme as look
from agf_magics.pictures.corners import Corner
from agf_magics.pictures.layout.arrange import arrange
from agf_magics.pictures.layout.arrow_ends import area_of
from agf_magics.pictures.layout.dot import Line
from agf_magics.pictures.layout.edge_numbers import Area
from agf_magics.pictures.layout.graphviz import Point
from agf_magics.pictures.layout.label_places import label_area
from agf_magics.pictures.layout.svg import edge_places, paint
from agf_magics.pictures.scene.builder import MANY_NODES, scene
from agf_magics.pictures.scene.value_lines import wired
from tests.pictures.random_flows import graph, text_of
from tests.pictures.test_law import check_places

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


def shaped(edges: list[tuple[str, str]], count: int = NODES) -> agf.Flow:
    nodes = [f"  n{i}: {{type: passthrough, output: {{a: '{{state.a}}'}}}}" for i in range(count)]
    edge_lines = [f"- {{from: {a}, to: {b}, condition: 'a > {i}'}}" for i, (a, b) in enumerate(dict.fromkeys(edges))]
    return agf.load("\n".join(["name: g", "state: {a: any}", "nodes:", *nodes, "edges:", *edge_lines]))


def random_graph(seed: int, size: int) -> agf.Flow:
    return agf.load(text_of(graph(Random(seed), size)))


GRAPHS = {name: shaped(edges) for name, edges in SHAPES.items()}
GRAPHS |= {f"random {size}": random_graph(size, size) for size in (70, 120, 260)}


@pytest.mark.parametrize("flow", GRAPHS.values(), ids=GRAPHS)
def test_every_node_has_its_place_and_every_edge_is_a_line_or_a_tag(flow: agf.Flow) -> None:
    drawn = scene(flow)
    arranged = arrange(drawn)
    check_places(drawn, arranged)
    (walk,) = flow.body.steps
    linked = {(link.tail, link.head) for link in drawn.links}
    leaves = {box.id: " ".join(box.leaves) for box in drawn.boxes}
    box_of = {name: node.id for name, node in walk.nodes.items()}  # type: ignore[attr-defined]
    box_of |= {name: f"{walk.id} {name}" for name in ("START", "END")}
    for edge in walk.edges:  # type: ignore[attr-defined]
        ends = box_of[edge.source], box_of[edge.target]
        tagged = any(f"▸ {edge.target}" in shown_there for id, shown_there in leaves.items() if id.startswith(ends[0]))
        assert ends in linked or tagged, edge


def test_the_edges_of_a_small_graph_are_all_lines() -> None:
    down = [("START", "n0"), *pairwise(f"n{i}" for i in range(MANY_NODES)), (f"n{MANY_NODES - 1}", "END")]
    drawn = scene(shaped([*down, ("n9", "n0"), ("n0", "n30")], MANY_NODES))
    assert {("nodes.n9", "nodes.n0"), ("nodes.n0", "nodes.n30")} <= {(link.tail, link.head) for link in drawn.links}


def test_the_numbers_of_edges_stand_on_nothing_and_few_edges_have_no_room_for_one() -> None:
    drawn = scene(GRAPHS["random 120"])
    arranged = arrange(drawn)
    edges = edge_places(drawn, arranged)
    places = {edge.key: edge.place.area for edge in edges if edge.place}
    drawn_edges = {link.way for link in wired(drawn, [drawn.parts])[0] if link.way}
    assert {edge.key for edge in edges} == drawn_edges
    assert len(places) > 0.9 * len(drawn_edges)
    boxes = [area_of(place) for place in arranged.layout.boxes.values()]
    assert not any(place.shares(box) for place in places.values() for box in boxes)


ARTICLE = """\
nodes:
  draft: {type: python, tool: draft}
  critique: {type: python, tool: critique}
  check: {type: python, tool: check_facts}
edges:
- {from: START, to: draft}
- {from: draft, to: critique}
- {from: critique, to: draft, condition: score < 0.8}
- {from: critique, to: check, condition: else}
- {from: check, to: draft, condition: facts == "wrong" and tries < 8}
- {from: check, to: END, condition: else}
"""


CRITIC = """\
nodes:
  search_faq: {type: python, tool: draft}
  draft: {type: python, tool: draft}
  critique: {type: python, tool: critique}
  revise: {type: python, tool: critique}
  check_tone: {type: python, tool: check_tone}
  check_facts: {type: python, tool: check_facts}
edges:
- {from: START, to: search_faq}
- {from: search_faq, to: draft}
- {from: draft, to: critique}
- {from: critique, to: revise, condition: score < 3}
- {from: critique, to: check_tone, condition: else}
- {from: revise, to: critique}
- {from: check_tone, to: draft, condition: tone == "rude"}
- {from: check_tone, to: check_facts, condition: else}
- {from: check_facts, to: END}
"""


@pytest.mark.parametrize("direction", ["TB", "LR"])
def test_each_edge_of_a_loop_of_two_nodes_has_its_number(direction: Literal["TB", "LR"]) -> None:
    drawn = scene(agf.load(CRITIC))
    edges = edge_places(drawn, arrange(drawn, direction))
    assert len(edges) == 9
    assert [edge.key for edge in edges if edge.place is None] == []
    areas = [edge.place.area for edge in edges if edge.place]
    assert not any(area.shares(other) for area, other in combinations(areas, 2))


def dense(seed: int, size: int) -> str:
    """A graph with two conditions at each node."""
    chance = Random(seed)
    edges = [f"{{from: n{n}, to: n{n + 1}, condition: else}}" for n in range(size - 1)]
    for n in range(size - 1):
        targets = [other for other in chance.sample(range(size), 2) if other != n]
        edges += [f"{{from: n{n}, to: n{to}, condition: score < {rank}}}" for rank, to in enumerate(targets)]
    nodes = "".join(f"  n{n}: {{type: python, tool: draft}}\n" for n in range(size))
    ends = ["{from: START, to: n0}", f"{{from: n{size - 1}, to: END}}"]
    return f"nodes:\n{nodes}edges:\n" + "".join(f"- {edge}\n" for edge in [*ends, *edges])


def test_each_edge_of_a_dense_graph_has_its_number_near_or_at_a_thin_line_and_on_nothing() -> None:
    leaders = 0
    for seed in range(8):
        drawn = scene(agf.load(dense(seed, 6 + seed)))
        arranged = arrange(drawn)
        edges = edge_places(drawn, arranged)
        assert [edge.key for edge in edges if edge.place is None or edge.room < 2] == []
        areas = [edge.place.area for edge in edges if edge.place]
        boxes = [area_of(place) for place in arranged.layout.boxes.values()]
        assert not any(area.shares(other) for area, other in combinations(areas, 2))
        assert not any(area.shares(box) for area in areas for box in boxes)
        leaders += sum(edge.place is not None and edge.place.leader is not None for edge in edges)
    assert leaders


DRAFT = """\
nodes:
  judge: {type: python, tool: critique}
  write: {type: python, tool: draft}
  count: {type: passthrough, output: {tries: "{state.tries + 1}"}}
edges:
- {from: START, to: judge}
- {from: judge, to: write, condition: grade < 0.9 and tries < 8}
- {from: judge, to: END, condition: else}
- {from: write, to: count}
- {from: count, to: judge}
"""
"""An edge to the end beside the edge that leads back to its source."""


def points_of(curve: Sequence[Point]) -> Iterator[tuple[float, float]]:
    """Many points of a line of cubic Béziers."""
    for piece in range(0, len(curve) - 1, 3):
        four = curve[piece : piece + 4]
        for step in range(101):
            t = step / 100
            weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
            x = sum(weight * point.x for weight, point in zip(weights, four, strict=True))
            yield x, sum(weight * point.y for weight, point in zip(weights, four, strict=True))


def distance(area: Area, curve: Sequence[Point]) -> tuple[float, float]:
    """How far a line is from a number; for one that it touches, how far from the middle of the number."""
    middle = area.middle
    return min(
        (hypot(max(area.left - x, 0, x - area.right), max(area.top - y, 0, y - area.bottom)), dist(middle, (x, y)))
        for x, y in points_of(curve)
    )


def distance_to_edge(area: Area, line: Line) -> tuple[float, float]:
    """How far a number is from the line of an edge or from its label, which says as well where it belongs."""
    label = label_area(line)
    at_line = distance(area, line.points[:-1])
    return at_line if label is None else min(at_line, distance(area, corners_of(label)))


def corners_of(area: Area) -> list[Point]:
    """The border of an area, as straight cubic Béziers."""
    left, top, right, bottom = area
    corners = [Point(left, top), Point(right, top), Point(right, bottom), Point(left, bottom), Point(left, top)]
    return [corners[0], *(point for a, b in pairwise(corners) for point in (a, b, b))]


@pytest.mark.parametrize("direction", ["TB", "LR"])
@pytest.mark.parametrize("text", [DRAFT, ARTICLE, CRITIC, *(dense(seed, 6 + seed) for seed in range(5))])
def test_a_number_is_nearest_to_its_own_edge_or_at_a_thin_line(text: str, direction: Literal["TB", "LR"]) -> None:
    drawn = scene(agf.load(text))
    arranged = arrange(drawn, direction)
    lines = {line.link.way: line for line in arranged.layout.lines if line.link.kind != "hold"}
    for edge in edge_places(drawn, arranged):
        assert edge.place is not None
        if edge.place.leader is None:
            far = {key: distance_to_edge(edge.place.area, line) for key, line in lines.items()}
            assert min(far, key=lambda key: far[key]) == edge.key


def test_a_page_finds_the_line_of_each_edge_by_its_number_also_where_numbers_have_no_room() -> None:
    drawn = scene(agf.load(ARTICLE))
    arranged = arrange(drawn, "TB")
    edges = edge_places(drawn, arranged)
    assert {edge.room for edge in edges if edge.place is None} <= {0}
    starts = re.findall(r'<path class="\w*" d="M(\S+ \S+)C[^>]* fill="none"', paint(drawn, arranged, {}))
    for line in arranged.layout.lines:
        for edge in edges:
            if edge.key == line.link.way:
                assert starts[edge.line] == f"{line.points[0].x:.1f} {line.points[0].y:.1f}"


@pytest.mark.law
def test_random_graphs_of_up_to_300_boxes_are_drawn(thorough: bool) -> None:
    for seed in range(200 if thorough else 4):
        drawn = scene(random_graph(seed, 70 + seed * 37 % 170))
        check_places(drawn, arrange(drawn))


RETURNS = ["n1 n0", "n2 n1", "n1 n0, n2 n1", "n2 n0, n1 n0", "n2 n2, n1 n0"]
"""The edges back in a graph of three nodes in a row."""


@pytest.mark.parametrize("back", RETURNS)
@pytest.mark.parametrize("direction", ["TB", "LR"])
def test_each_edge_of_a_small_graph_has_room_for_how_often_it_was_taken(
    back: str, direction: Literal["TB", "LR"]
) -> None:
    ways = [tuple(pair.split()) for pair in back.split(", ")]
    edges = ["{from: START, to: n0}", *(f"{{from: n{n}, to: n{n + 1}, condition: else}}" for n in (0, 1))]
    edges += [f"{{from: {a}, to: {b}, condition: 'a < {rank}'}}" for rank, (a, b) in enumerate(ways)]
    nodes = "".join(f"  n{n}: {{type: python, tool: draft}}\n" for n in range(3))
    text = f"nodes:\n{nodes}edges:\n" + "".join(
        f"- {edge}\n" for edge in [*edges, "{from: n2, to: END, condition: else}"]
    )
    drawn = scene(agf.load(text))
    places = edge_places(drawn, arrange(drawn, direction))
    assert len(places) == len(edges) + 1
    assert [edge.key for edge in places if edge.room < len("9×")] == []


@pytest.mark.parametrize(
    ("rounds", "texts"),
    [
        ({"draft → critique": "1, 4", "critique → draft": "3"}, ["1, 4", "3"]),
        (
            {"draft → critique": "1, 3, 5, 7, … 12×", "critique → draft": "2, 4", "critique → check": "24"},
            ["12×", "2×", "1×"],
        ),
    ],
)
def test_the_edges_of_a_picture_have_rounds_or_how_often_each_was_taken(
    rounds: dict[str, str], texts: list[str]
) -> None:
    drawn = scene(agf.load(ARTICLE))
    taken = {f"nodes: {way}": Corner(words, look.state("taken")) for way, words in rounds.items()}
    svg = paint(drawn, arrange(drawn), taken)
    shown = re.findall(r'font-weight="bold" text-anchor="middle">([^<]*)</text>', svg)
    assert sorted({*shown} - {"START", "END"}) == sorted(texts)
