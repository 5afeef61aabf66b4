"""The data edges: each value arrives, no line crosses a box or lies on another, and the cost is that of the picture."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise

import pytest

from agf_magics.flow.steps import Flow
from agf_magics.pictures.boxes import Scene
from agf_magics.pictures.diagram import place
from agf_magics.pictures.dot import scene_dot
from agf_magics.pictures.graphviz_module import positions
from agf_magics.pictures.layout import Layout, Point, Wiring, layout
from agf_magics.pictures.nets import nets, routed
from agf_magics.pictures.routing import route
from agf_magics.pictures.rows import Rect, Used, find_rows, rectangles
from agf_magics.pictures.scene import scene
from tests.counting import work
from tests.pictures.flows import DIGEST, load
from tests.pictures.random_flows import definition
from tests.pictures.test_picture import EQUAL, WIDE
from tests.pictures.test_shapes import FLOWS

Line = tuple[Point, Point]


def chain(steps: int) -> str:
    """Tools in a row: each reads the input and the result of the step three before it."""
    lines = ["pipeline: chain", "steps:"]
    for i in range(steps):
        reads = f"x: !expr ctx.doc, y: !expr ctx.v{max(0, i - 3)}"
        lines.append(f"- tool: {{name: t{i}, args: {{{reads}}}, output: v{i}}}")
    return "\n".join(lines)


def one_reads_all(steps: int) -> str:
    lines = ["pipeline: star", "steps:", *(f"- tool: {{name: t{i}, output: v{i}}}" for i in range(steps))]
    reads = ", ".join(f"x{i}: !expr ctx.v{i}" for i in range(steps))
    return "\n".join([*lines, f"- tool: {{name: last, args: {{{reads}}}}}"])


def drawing(flow: Flow) -> tuple[Scene, Layout, Wiring]:
    drawn = scene(flow)
    placed = place(drawn)
    return drawn, placed, placed.wiring


def segments(wiring: Wiring) -> Iterator[Line]:
    for points in wiring.lines:
        yield from pairwise(points)
    yield from wiring.heads


def inside(box: Rect, line: Line) -> bool:
    """Whether a line of a data edge enters a box, more than its rounded border."""
    (a, b), room = line, 1.0
    across = min(max(a.x, b.x), box.right - room) - max(min(a.x, b.x), box.left + room)
    return across >= 0 and min(max(a.y, b.y), box.bottom - room) >= max(min(a.y, b.y), box.top + room)


def overlap(one: Line, two: Line) -> float:
    """The length for which two lines lie on each other."""
    for along, other in (("x", "y"), ("y", "x")):
        places = [getattr(point, other) for point in (*one, *two)]
        if max(places) - min(places) < 1:
            ends = [sorted(getattr(point, along) for point in line) for line in (one, two)]
            return float(min(ends[0][1], ends[1][1]) - max(ends[0][0], ends[1][0]))
    return 0.0


PICTURES = {"digest": load(DIGEST), "equal": load(EQUAL), "wide": load(WIDE), "chain": load(chain(30)), **FLOWS}
PICTURES |= {f"random {seed}": load(definition(seed)[1]) for seed in (1, 5, 6, 7, 9, 13, 21)}
PICTURES |= {"one reads all": load(one_reads_all(12))}


@pytest.mark.parametrize("flow", PICTURES.values(), ids=PICTURES)
def test_every_value_arrives_at_the_box_that_reads_it(flow: Flow) -> None:
    drawn, placed, wiring = drawing(flow)
    boxes = rectangles(drawn, placed)
    for net in nets(drawn):
        for reader in net.readers:
            box = boxes[reader.box]
            tips = [tip for _, tip in wiring.heads if box.left - 1 <= tip.x <= box.right + 1]
            assert [tip for tip in tips if box.top - 1 <= tip.y <= box.bottom + 1]
    read = {reader.box for net in nets(drawn) for reader in net.readers}
    assert len(read) <= len(wiring.heads) <= 2 * len(read), "one line into each side of a box"


@pytest.mark.parametrize("flow", PICTURES.values(), ids=PICTURES)
def test_no_line_crosses_a_box_or_lies_on_another_line(flow: Flow) -> None:
    drawn, placed, wiring = drawing(flow)
    lines = list(segments(wiring))
    assert [line for line in lines for box in rectangles(drawn, placed) if inside(box, line)] == []
    drawn_twice = [pair for pair in combinations(lines, 2) if overlap(*pair) > 1]
    assert drawn_twice == []
    points = [point for line in lines for point in line]
    assert all(0 <= point.x <= placed.width + 1 and 0 <= point.y <= placed.height + 1 for point in points)


@pytest.mark.parametrize("flow", PICTURES.values(), ids=PICTURES)
def test_the_rows_keep_their_order_and_nothing_else_moves(flow: Flow) -> None:
    drawn = scene(flow)
    before = layout(scene_dot(drawn, {}, routed(drawn)))
    after = route(drawn, before)
    rows = [find_rows(rectangles(drawn, placed)) for placed in (before, after)]
    assert [row.boxes for row in rows[0]] == [row.boxes for row in rows[1]]
    moved = {round(after.boxes[name].x - before.boxes[name].x, 3) for name in before.boxes}
    assert len(moved) == 1


def test_the_same_picture_has_the_same_routes() -> None:
    assert drawing(load(chain(30)))[1:] == drawing(load(chain(30)))[1:]


def test_the_names_at_a_line_are_those_of_all_values_that_flow_along_it() -> None:
    _, _, wiring = drawing(load(chain(12)))
    assert [label.text for label in wiring.labels][:3] == ["doc", "doc, v0", "doc, v0"]


def test_a_path_that_does_not_fit_above_its_call_keeps_its_end() -> None:
    reads = [f"a: †state.value_{i * 3 // 4}, b: †state.value_{i // 2}, c: †state.value_{i // 5}" for i in range(30)]
    calls = [f"- {{_tool: t, {read}, _outputPath: †state.value_{i + 1}}}" for i, read in enumerate(reads)]
    _, _, wiring = drawing(load("\n".join(["calls:", *calls])))
    labels = [label.text for label in wiring.labels if "…" in label.text]
    assert "…value_2" in labels
    assert all(label.startswith("…value_") for label in labels), labels


def test_steps_in_a_row_use_the_same_lanes_again() -> None:
    few, many = (drawing(load(chain(steps)))[1].width for steps in (20, 200))
    assert many < few + 30


def test_a_plan_is_placed_by_the_wires_that_no_other_wires_imply() -> None:
    calls = ["{_tool: a, _outputPath: †state.a}", "{_tool: b, x: †state.a, _outputPath: †state.b}"]
    plan = "\n".join(["calls:", *(f"- {call}" for call in [*calls, "{_tool: c, x: †state.a, y: †state.b}"])])
    drawn = scene(load(plan))
    assert [(drawn.arrows[at].tail, drawn.arrows[at].head) for at in routed(drawn)] == [("calls[0]", "calls[2]")]


@pytest.mark.parametrize("written", [chain, one_reads_all])
def test_a_layout_takes_work_in_proportion_to_the_boxes(written: object) -> None:
    for steps in (25, 100, 400):
        drawn = scene(load(written(steps)))  # type: ignore[operator]
        text = scene_dot(drawn, {}, routed(drawn))
        assert positions(text, work=2_000_000 * (steps + 20))


@pytest.mark.parametrize("written", [chain, one_reads_all])
def test_routes_take_work_in_proportion_to_the_edges(written: object) -> None:
    calls = []
    for steps in (50, 400):
        drawn = scene(load(written(steps)))  # type: ignore[operator]
        placed = layout(scene_dot(drawn, {}, routed(drawn)))
        calls.append(work(lambda placed=placed, drawn=drawn: route(drawn, placed)))  # type: ignore[misc]
    assert calls[1] < 8 * 2 * calls[0]


def test_a_lane_is_used_only_where_it_was_taken() -> None:
    used = Used(10)
    used.add(0b1, 0, 9)
    used.add(0b10, 3, 6)
    used.add(0b100, 6, 6)
    assert [used.lanes(*heights) for heights in ((0, 2), (2, 3), (6, 9), (7, 9), (0, 9))] == [1, 3, 7, 1, 7]
