"""Every shape as a picture, an outline and a tree of progress: what repeats, what flows, and which way was taken."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings

import agf_magics as agf
from agf_magics.flow.graph_steps import END, START, Edge, Walk
from agf_magics.flow.progress import events as ev
from agf_magics.flow.progress.progress import Progress
from agf_magics.pictures.diagram import Diagram
from agf_magics.pictures.layout.arrange import arrange
from agf_magics.pictures.pages.parts import progress_text
from agf_magics.pictures.scene.boxes import INPUT
from agf_magics.pictures.scene.builder import scene
from agf_magics.pictures.scene.cycles import closing
from tests.pictures import shapes
from tests.pictures.flows import load, progress_html, progress_of
from tests.pictures.test_law import check_places
from tests.pictures.test_picture import HOSTILE, SHAPES, SVG, UNSAFE, covers, lines, links, places, tags, tree

FLOWS = {name: flow for name, flow in vars(shapes).items() if isinstance(flow, agf.Flow)}
every_flow = pytest.mark.parametrize("flow", FLOWS.values(), ids=FLOWS)


@every_flow
@pytest.mark.parametrize("direction", ["auto", "TB", "LR"])
def test_graphviz_places_every_shape_and_nothing_stands_on_another(flow: agf.Flow, direction: str) -> None:
    drawn = scene(flow)
    check_places(drawn, arrange(drawn, direction))  # type: ignore[arg-type]


def test_a_loop_says_when_it_ends_and_goes_back_to_its_first_step() -> None:
    drawn = scene(shapes.LOOP)
    steps = ["loop.steps.writer", "loop.steps.checker"]
    assert [tree(part) for part in drawn.parts][:2] == [INPUT, ["loop", *steps]]
    (head,) = drawn.frames
    assert (head.name, head.does) == ("repeat", "until checker.output.score >= 0.8 · at most 5 times")
    assert links(drawn, "back") == {("loop.steps.checker", "loop.steps.writer", "")}


def test_a_mapping_is_a_line_with_the_names_of_both_fields() -> None:
    drawn = scene(shapes.LOOP)
    assert ("loop.steps.writer", "loop.steps.checker", "text → draft") in lines(drawn)


def test_branches_and_elements_need_no_step_that_collects() -> None:
    assert [tree(part) for part in scene(shapes.TASTES).parts] == [
        INPUT,
        ["parallel", "parallel.food", "parallel.film"],
    ]
    batch = scene(shapes.BATCH)
    assert tree(batch.parts[1]) == ["batch", "batch.agent"]
    assert next(frame.does for frame in batch.frames) == "8 at once · the first 100"


READ_BY_ALL = """
pipeline: p
steps:
- tool: {name: load, output: raw}
- tool: {name: clean, args: {rows: !expr raw}, output: good}
- parallel:
    branches:
      a: {tool: {name: one, args: {x: !expr good}}}
      b: {tool: {name: two, args: {x: !expr good}}}
    collect: {transform: {value: pipe}}
    output: both
- tool: {name: end, args: {x: !expr both}}
"""


def test_what_all_branches_read_is_one_line_to_their_frame() -> None:
    drawn = scene(load(READ_BY_ALL))
    assert lines(drawn) == {(f"steps[{tail}]", f"steps[{tail + 1}]", "") for tail in range(3)}
    alone = READ_BY_ALL.replace("name: two, args: {x: !expr good}", "name: two")
    assert ("steps[1]", "steps[2].branches.a", "") in lines(scene(load(alone)))


WRITTEN_AGAIN = """
pipeline: p
steps:
- tool: {name: one, output: a}
- tool: {name: two, output: b}
- tool: {name: three, args: {x: !expr a}, output: a}
- tool: {name: four, args: {x: !expr ctx}}
"""


def test_who_reads_all_stores_reads_the_last_value_of_each() -> None:
    values = scene(load(WRITTEN_AGAIN)).values
    assert {ends: list(names) for ends, names in values.items() if ends[1] == "steps[3]"} == {
        ("steps[1]", "steps[3]"): ["b"],
        ("steps[2]", "steps[3]"): ["a"],
    }


def test_the_case_of_a_route_is_its_condition_and_equal_conditions_are_two_cases() -> None:
    (choose,) = shapes.ROUTES.body.steps
    cases = {box.id: box.case for box in scene(shapes.ROUTES).boxes if box.case}
    assert cases["conditional.cjk"] == 'language in ["zh", "ja", "ko"]'
    assert cases["conditional.generic"] == "otherwise"
    same = replace(choose, conditions={"0": "x", "1": "x"})  # type: ignore[call-arg]
    twice = replace(shapes.ROUTES, body=replace(shapes.ROUTES.body, steps=(same,)))
    assert [box.id for box in scene(twice).boxes if box.case == "x"] == ["conditional.cjk", "conditional.english"]


def test_a_plan_is_its_calls_and_values_without_a_frame_and_without_an_order() -> None:
    drawn = scene(shapes.PLAN)
    assert not list(drawn.frames)
    assert not drawn.links
    assert drawn.values == {
        (INPUT, "calls.load"): ("path",),
        ("calls.load", "calls.clean"): ("rows",),
        (INPUT, "calls.clean"): ("drop",),
        ("calls.clean", "calls.mean"): ("clean",),
        ("calls.clean", "calls.count"): ("clean",),
    }


def test_in_a_plan_what_is_read_stands_above_who_reads_it_whatever_the_order_of_the_text() -> None:
    layout = arrange(scene(shapes.BACKWARDS), "TB").layout
    assert layout.boxes["calls.first"].top < layout.boxes["calls.last"].top


def test_a_graph_is_its_nodes_and_edges_with_conditions_limits_and_ways_back() -> None:
    drawn = scene(shapes.GRAPH)
    assert drawn.parts[0].id == f"graph {START}"
    assert drawn.parts[-1].id == f"graph {END}"
    assert ("nodes.critique", "nodes.refine", "critique.score < 0.8") in links(drawn, "then")
    assert ("nodes.critique", "nodes.publish", "else") in links(drawn, "then")
    assert ("nodes.refine", "nodes.critique", "") in links(drawn, "then")
    assert links(drawn, "limit") == {("nodes.refine", "nodes.publish", "limit reached")}
    assert next(box.leaves for box in drawn.boxes if box.id == "nodes.refine") == ("at most 3 times",)
    assert not lines(drawn), "the state belongs to all nodes"
    assert not tags(drawn)


@settings(max_examples=20)
@given(label=HOSTILE)
def test_no_condition_wire_or_node_is_markup(label: str) -> None:
    (walk,) = shapes.GRAPH.body.steps
    assert isinstance(walk, Walk)
    edges = tuple(edge._replace(label=label) for edge in walk.edges)
    named = replace(walk, edges=edges, nodes={**walk.nodes, "x" + label: shapes.node("x", "tool" + label)})
    graph = replace(shapes.GRAPH, body=replace(shapes.GRAPH.body, steps=(named,)))
    wired = shapes.plan(*shapes.PLAN.body.steps[0].steps, feeds=(("calls.load", "calls.clean", label),))  # type: ignore[attr-defined]
    for flow in (graph, wired):
        diagram = Diagram(flow)
        assert {item.tag for item in ElementTree.fromstring(diagram.svg()).iter()} <= {SVG + tag for tag in SHAPES}
        for text in (diagram.svg(), diagram.to_dot(), diagram.outline()):
            assert not UNSAFE.search(text)
            text.encode()


def test_a_long_graph_is_drawn_without_recursion() -> None:
    (walk,) = shapes.GRAPH.body.steps
    assert isinstance(walk, Walk)
    names = [f"n{place}" for place in range(3_000)]
    edges = [Edge(START, "n0"), *(Edge(a, b) for a, b in pairwise(names)), Edge(names[-1], "n0")]
    nodes = {name: shapes.node(name, "tool") for name in names}
    far = replace(walk, nodes=nodes, edges=tuple(edges), limits={}, exits={})
    drawn = scene(replace(shapes.GRAPH, body=replace(shapes.GRAPH.body, steps=(far,))))
    assert closing([(edge.source, edge.target) for edge in edges]) == {len(edges) - 1}
    assert next(box.leaves for box in drawn.boxes if box.id == "nodes.n2999") == ("▸ n0",)


class Clock:
    """A run of GRAPH, made from events by hand: `node` and `edges` each take half a second and a round."""

    def __init__(self) -> None:
        self.now, self.round = 0.0, 0
        self.events: list[ev.Event] = [ev.RunStarted("article", 0.0), ev.StepStarted(("graph",), 0.0)]

    def edges(self, *ways: tuple[str, str]) -> None:
        self.events += [ev.EdgeTaken(("graph", self.round), self.now, *way) for way in ways]
        self.round += 1

    def node(self, name: str, visit: int, value: object = None) -> None:
        path = (f"nodes.{name}", visit)
        self.events.append(ev.StepStarted(path, self.now))
        self.now += 0.5
        self.events.append(ev.StepFinished(path, self.now, value))


def walked() -> Progress:
    clock = Clock()
    clock.edges((START, "draft"))
    clock.node("draft", 0)
    clock.edges(("draft", "critique"))
    for visit in range(2):
        clock.node("critique", visit, {"score": visit})
        clock.edges(("critique", "refine"))
        clock.node("refine", visit)
        clock.edges(("refine", "critique"))
    clock.node("critique", 2, {"score": 2})
    clock.edges(("critique", "publish"))
    return progress_of(shapes.GRAPH, clock.events)


def test_the_path_that_was_taken_is_numbered_and_moves_nothing() -> None:
    run = Diagram(shapes.GRAPH, walked())
    texts = [item.text for item in ElementTree.fromstring(run.svg()).iter(SVG + "text")]
    assert {"1", "2", "3, 5", "4, 6", "7"} <= set(texts)
    assert "8" not in texts
    still = places(Diagram(shapes.GRAPH).svg())
    marks = [place for place in places(run.svg()) if place[3:4] == ("15.0",)]
    assert len(marks) == 5
    assert [place for place in places(run.svg()) if place[3:4] != ("15.0",)] == still
    assert "critique → refine  critique.score < 0.8  (3, 5)" in run.outline()


def test_a_number_stands_on_no_box_no_label_and_no_other_number() -> None:
    root = ElementTree.fromstring(Diagram(shapes.GRAPH, walked()).svg())
    marks = [covers(item) for item in root if item.tag == SVG + "rect" and item.get("rx") == "7.5"]
    groups = [group for group in root.iter(SVG + "g") if group.get("class") == "box"]
    covered_areas = [covers(next(item for item in group if item.tag == SVG + "rect")) for group in groups]
    covered_areas += [covers(item) for item in root if item.tag == SVG + "text" and item.get("paint-order")]
    assert marks
    for a in marks:
        for b in [*covered_areas, *(mark for mark in marks if mark is not a)]:
            assert not (b[0] < a[2] and a[0] < b[2] and b[1] < a[3] and a[1] < b[3])


def test_a_path_of_many_rounds_is_counted() -> None:
    clock = Clock()
    for _ in range(250):
        clock.edges(("critique", "refine"))
        clock.edges(("refine", "critique"))
    progress = progress_of(shapes.GRAPH, clock.events)
    texts = [
        item.text or "" for item in ElementTree.fromstring(Diagram(shapes.GRAPH, progress).svg()).iter(SVG + "text")
    ]
    assert [text for text in texts if text.endswith("×")] == ["250×", "250×"]


def test_the_nodes_of_a_graph_are_the_rows_of_its_run_and_a_visit_keeps_the_last_value() -> None:
    progress = walked()
    assert [row.id for row in progress.rows.values()] == [
        f"nodes.{n}" for n in ("draft", "critique", "refine", "publish", "ask")
    ]
    row = progress.rows[("nodes.critique",)]
    assert (row.times, row.value, row.state) == (3, {"score": 2}, "ok")
    text = progress_text(progress, now=3.0)
    assert re.search(r"critique \S+ +3 ok", text)
    assert "3 of 5 steps" in text
    assert "nodes.draft</code></td></tr>" in progress_html(progress, now=3.0)


def test_the_steps_of_a_loop_stand_under_it_and_have_no_row_together() -> None:
    progress = Progress(shapes.LOOP)
    assert [(row.id, row.depth) for row in progress.rows.values()] == [
        ("loop", 0),
        ("loop.steps.writer", 1),
        ("loop.steps.checker", 1),
        ("output_from", 0),
    ]
    events = [ev.StepStarted(("loop",), 0.0), ev.StepStarted(("loop.steps", 0), 0.0)]
    for i in range(2):
        events.append(ev.StepStarted(("loop.steps.writer", i), 0.0))
        events.append(ev.StepFinished(("loop.steps.writer", i), 1.0, f"draft {i}"))  # type: ignore[arg-type]
    for event in events:
        progress.apply(event)
    writer = progress.rows[("loop.steps.writer",)]
    assert (writer.times, writer.value) == (2, "draft 1")


def test_a_node_that_no_edge_led_to_is_skipped_when_the_run_is_over() -> None:
    progress = walked()
    assert progress.rows[("nodes.ask",)].state == "pending"
    progress.apply(ev.RunEnded(4.0, "ok"))
    assert progress.rows[("nodes.ask",)].state == "skipped"
    assert "5 of 5 steps" in progress_text(progress, now=4.0)


@pytest.mark.parametrize(("status", "look"), [("ok", "kept"), ("error", "failed")])
def test_a_failed_call_of_a_plan_is_handled_as_long_as_the_plan_goes_on(status: str, look: str) -> None:
    progress = Progress(
        shapes.plan(shapes.call("calls[0]", "tool", "tool"), shapes.call("calls[1]", "tool", "tool"), feeds=())
    )
    error = agf.StepError(agf.Diagnostic("step.tool-failed", "no"))
    row = progress.rows[("calls[0]",)]
    for event in (
        ev.RunStarted("shapes", 0.0),
        ev.StepStarted(("calls[0]",), 0.0),
        ev.StepStarted(("calls[1]",), 0.0),
        ev.StepFailed(("calls[0]",), 1.0, error),
    ):
        progress.apply(event)
    assert row.look == "kept"
    progress.apply(ev.StepFinished(("calls[1]",), 2.0, 1))
    progress.apply(ev.RunEnded(2.0, status, error if status == "error" else None))
    assert row.look == look


def test_a_failure_that_is_kept_is_told_apart_from_one_that_ends_the_run() -> None:
    step = replace(shapes.node("draft", "tool"), rescue=lambda error: None)
    flow = shapes.flow(step)
    error = agf.StepError(agf.Diagnostic("step.tool-failed", "no"))
    events = [
        ev.RunStarted("shapes", 0.0),
        ev.StepStarted(("nodes.draft",), 0.0),
        ev.StepFailed(("nodes.draft",), 1.0, error),
    ]
    progress = progress_of(flow, events)  # type: ignore[arg-type]
    assert progress.rows[("nodes.draft",)].state == "kept"
    assert "! failed, handled" in progress_text(progress, now=1.0)
    assert "! handled" in Diagram(flow, progress).svg()
    error.path = ("nodes.draft",)
    progress.apply(ev.RunEnded(1.0, "error", error))
    assert progress.rows[("nodes.draft",)].state == "failed"


def test_what_a_plan_never_ran_says_why() -> None:
    why = "†state.rows never came"
    progress = progress_of(shapes.PLAN, [ev.RunStarted("report", 0.0), ev.StepSkipped(("calls.clean",), 0.0, why)])
    assert why in progress_text(progress, now=0.0)
    assert why in progress_html(progress, now=0.0)
