"""No text of a picture touches another text, a border or an arrow head, in random flows and random states."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agf_magics as agf
from agf_magics.pictures.diagram import Diagram
from agf_magics.pictures.layout.arrange import Direction
from agf_magics.pictures.layout.dot import Layout, Line
from agf_magics.pictures.scene.scene import Link
from tests.pictures import shapes
from tests.pictures.flows import DIGEST, REVIEW, load
from tests.pictures.geometry import covered, drawn_things, random_run, unclear_labels
from tests.pictures.random_flows import definition, text_of

NODES = (
    "a",
    "review_of_the_whole_text",
    "起草报告",
    "مسودة_التقرير",
    "judge",
    "x1",
    "MMMM_WWWW_MMMM",
    "größe",
    "end_of_all",
)

NAMES = """pipeline: 数据清洗
steps:
- title: 从数据仓库读取所有订单和客户
  tool: {name: load, output: orders}
- title: تنظيف البيانات من القيم المفقودة
  tool: {name: clean, args: {rows: !expr ctx.orders}, output: clean}
- title: Größenänderung aller Bilder
  tool: {name: resize, args: {rows: !expr ctx.clean}}
"""


@pytest.mark.law
@pytest.mark.parametrize("part", range(6))
def test_no_text_of_a_random_picture_covers_anything(part: int, thorough: bool) -> None:
    for seed in range(part * 100, part * 100 + (100 if thorough else 10)):
        flow = agf.load(definition(seed)[1])
        assert not covered(Diagram(flow, random_run(flow, seed)).svg()), seed


@pytest.mark.parametrize("direction", ["TB", "LR"])
@pytest.mark.parametrize("text", [DIGEST, REVIEW, NAMES], ids=["digest", "review", "names"])
def test_no_text_of_a_picture_covers_anything_in_either_direction(text: str, direction: str) -> None:
    flow = load(text)
    assert not covered(Diagram(flow, direction=direction).svg())  # type: ignore[arg-type]
    for seed in range(8):
        assert not covered(Diagram(flow, random_run(flow, seed), direction).svg())  # type: ignore[arg-type]


def graph_text(edges: str, nodes: Sequence[str]) -> str:
    """A graph of nodes that pass a number on. ``edges``: one in each line, ``from to condition``."""
    written = [
        dict(zip(("from", "to", "condition"), line.split(maxsplit=2), strict=False)) for line in edges.split("; ")
    ]
    parts = {name: {"type": "passthrough", "output": {"n": "{state.n}"}} for name in nodes}
    state = {"n": "int", "text": "str", "score": "float"}
    return text_of({"nodes": parts, "edges": written, "state": state, "name": "g"})


LABELLED = {
    "a loop": ("START tick; tick tick n < 3; tick END else", "tick"),
    "a loop of two conditions": ("START tick; tick tick n < 3; tick tick n == 5; tick END else", "tick"),
    "two loops into a node": (
        "START draft; draft judge; judge draft score < 3; judge refine score < 8; judge publish else;"
        " refine draft n < 3; refine publish else; publish END",
        "draft judge refine publish",
    ),
    "several else": (
        "START a; a b n < 3; a c else; b d n == 2; b a else; c d n > 7; c b else; d END",
        "a b c d",
    ),
    "routes": (
        'START route; route refund text == "refund"; route answer text == "question"; route escalate else;'
        " refund close; answer close score >= 0.8; answer escalate else; escalate close; close END",
        "route refund answer escalate close",
    ),
    "names": (
        'START 起草报告; 起草报告 审查; 审查 起草报告 score < 8; 审查 مسودة else; مسودة größe text == "日本語";'
        " مسودة 审查 else; größe END",
        "起草报告 مسودة 审查 größe",
    ),
}
"""Graphs whose labels stood near other lines, by what is special: the edges and the nodes."""


@pytest.mark.parametrize("direction", ["TB", "LR"])
@pytest.mark.parametrize(("edges", "nodes"), LABELLED.values(), ids=LABELLED)
def test_a_label_is_nearer_to_its_own_edge_than_to_any_other_edge_or_label(
    edges: str, nodes: str, direction: Direction
) -> None:
    diagram = Diagram(agf.load(graph_text(edges, nodes.split())), direction=direction)
    assert unclear_labels(diagram.svg(), diagram._placed.layout) == []


@pytest.mark.law
@pytest.mark.parametrize("part", range(6))
def test_a_label_of_a_random_picture_is_nearest_to_its_own_line(part: int, thorough: bool) -> None:
    """In the densest graphs a few labels have no such place; they stand at the end of a thin line or beside another."""
    labels = unclear = 0
    for seed in range(part * 100, part * 100 + (100 if thorough else 10)):
        for direction in ("TB", "LR"):
            diagram = Diagram(agf.load(definition(seed)[1]), direction=direction)
            layout = diagram._placed.layout
            labels += sum(bool(line.link.label) for line in layout.lines)
            unclear += len(unclear_labels(diagram.svg(), layout))
    assert unclear <= 1 + labels * 0.005, (unclear, labels)


def test_the_check_finds_labels_of_other_lines() -> None:
    link = Link("a", "b", "then", "else")
    layout = Layout(100, 100, {}, (Line(link, (), None), Line(link._replace(label=""), (), None)), True)
    line = '<path d="M{x} 0C{x} 30 {x} 60 {x} 90"/>'
    label = '<text class="d h" x="50" y="50" text-anchor="middle">else</text>'
    svg = f'<svg xmlns="http://www.w3.org/2000/svg">{{}}{label}</svg>'
    own, other = line.format(x=36), line.format(x=90)
    assert unclear_labels(svg.format(own + other), layout) == []
    assert unclear_labels(svg.format(other + own), layout) == [
        "'else' is 29.4 pixels from its line",
        "'else' is 29.4 pixels from its line, and 3.4 from another",
    ]


def test_the_numbers_of_a_graph_cover_nothing() -> None:
    for seed in range(20):
        svg = Diagram(shapes.GRAPH, random_run(shapes.GRAPH, seed)).svg()
        assert not covered(svg)


def test_a_loop_in_a_picture_to_the_right_ends_beside_its_state() -> None:
    text = graph_text("START a; a a n < 3; a a n == 5; a END else", ["a"])
    layout = Diagram(agf.load(text), direction="LR")._placed.layout
    box = layout.boxes["nodes.a"]
    (loop,) = (line for line in layout.lines if line.link.tail == line.link.head)
    assert loop.points[-1].x == box.left
    assert box.top < loop.points[-1].y < box.top + box.height
    assert loop.link.label == "n < 3\nor n == 5", "two edges between the same nodes are one line"


@st.composite
def dense_graphs(draw: st.DrawFn) -> str:
    """Random graphs of a few nodes with many edges: loops at one node, edges back and far ahead, long conditions."""
    names = draw(st.lists(st.sampled_from(NODES), min_size=1, max_size=7, unique=True))
    edges: list[dict[str, str]] = [{"from": "START", "to": names[0]}]
    conditions = st.sampled_from(["n < 3", "n >= 10 and text != null and n < 100", 'text == "日本語"', "n == 1"])
    for place, name in enumerate(names):
        following = names[place + 1] if place + 1 < len(names) else "END"
        targets = draw(st.lists(st.sampled_from([name, *names, "END"]), max_size=3))
        edges += [{"from": name, "to": other, "condition": draw(conditions)} for other in targets]
        edges.append({"from": name, "to": following, **({"condition": "else"} if targets else {})})
    nodes = {name: {"type": "passthrough", "output": {"n": "{state.n}"}} for name in names}
    return text_of({"nodes": nodes, "edges": edges, "state": {"n": "int", "text": "str"}, "name": "g"})


@given(dense_graphs(), st.integers(0, 2**20), st.sampled_from(["TB", "LR"]))
def test_no_number_of_a_dense_graph_covers_anything(text: str, seed: int, direction: str) -> None:
    flow = agf.load(text)
    assert not covered(Diagram(flow, random_run(flow, seed), direction).svg())  # type: ignore[arg-type]


def test_the_check_finds_covered_texts() -> None:
    box = '<rect x="0" y="0" width="60" height="40" fill="#fff" stroke="#000"/>'
    pill = '<rect x="50" y="2" width="30" height="16" fill="#000"/>'
    head = '<polygon points="55,12 50,8 50,16"/>'
    inside, over = (f'<text x="{x}" y="14" font-size="11">abc</text>' for x in (10, 52))
    svg = '<svg xmlns="http://www.w3.org/2000/svg">{}</svg>'
    assert [part.kind for part in drawn_things(svg.format(box + head + inside))] == ["rect", "head", "text"]
    assert not covered(svg.format(box + inside))
    assert covered(svg.format(box + over)) == ["'abc' on rect"]
    assert not covered(svg.format(box + pill + over)), "a plate hides the border"
    assert covered(svg.format(head + pill + over)) == ["'abc' on head"]
    assert covered(svg.format(over + pill + over)) == ["'abc' on abc", "'abc' on abc"]
