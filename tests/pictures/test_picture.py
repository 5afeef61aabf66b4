"""The picture: what is in it, that it is placed once, that nobody's name is markup in it."""

from __future__ import annotations

import base64
import os
import re
import shutil
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agf_magics.flow.steps import Invoke, Name, every
from agf_magics.pictures import graphviz_module
from agf_magics.pictures import layout as layouts
from agf_magics.pictures import theme as look
from agf_magics.pictures.boxes import (
    INPUT,
    LEADING,
    LINES,
    LONGEST,
    POINTS_NAME,
    POINTS_WORD,
    Box,
    Frame,
    Scene,
    make_box,
)
from agf_magics.pictures.dataflow import DataFlow
from agf_magics.pictures.diagram import MAX_PICTURE_HEIGHT, MOST_BOXES, Diagram
from agf_magics.pictures.dot import dot, scene_dot
from agf_magics.pictures.layout import HOW_TO, TOO_LARGE, NoPicture, layout
from agf_magics.pictures.nets import routed
from agf_magics.pictures.outline import outline_html
from agf_magics.pictures.scene import scene
from agf_magics.pictures.svg import SCALE
from tests.pictures.flows import DIGEST, REVIEW, failed, halfway, load, long, told

SVG = "{http://www.w3.org/2000/svg}"
SHAPES = ("svg", "title", "desc", "g", "rect", "path", "polygon", "text")
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def arrows(drawn: Scene, line: str) -> set[tuple[str, str, str]]:
    return {(a.tail, a.head, a.label or a.carries) for a in drawn.arrows if a.line == line}


def tree(part: Box | Frame) -> object:
    return part.id if isinstance(part, Box) else [tree(inner) for inner in part.parts]


def test_every_step_is_one_box() -> None:
    flow = load(DIGEST)
    ids = [step.id for step in every(flow.body) if step is not flow.body]
    assert sorted(box.id for box in scene(flow).boxes) == sorted([INPUT, *ids])


def test_frames_nest_as_the_steps_do_and_begin_with_their_head() -> None:
    do = "steps[1].do"
    branches = [f"{do}.branches.topic", f'{do}.branches["two words"]']
    assert [tree(part) for part in scene(load(DIGEST)).parts] == [
        INPUT,
        "steps[0]",
        ["steps[1]", [do, *branches, f"{do}.collect"], "steps[1].collect"],
        ["steps[2]", "steps[2].do"],
        ["steps[3]", "steps[3].cases.True", "steps[3].cases.False", "steps[3].default"],
        "steps[4]",
    ]


def test_the_head_of_a_frame_says_how_it_runs() -> None:
    boxes = {box.id: box for box in scene(load(DIGEST)).boxes}
    assert boxes["steps[1]"].note == "4 at once · on error: retry(2) · → rows"
    assert boxes["steps[1].do"].note == "on error: continue"
    assert (boxes["steps[1]"].kicker, boxes["steps[1].collect"].kicker) == ("⟳ for_each", "ƒ transform · collect")


def test_the_input_is_named_by_its_fields_and_not_by_who_reads_all_of_it() -> None:
    policy = """id: agf.conditional
config:
  routes: [{when: {args_match: {parent.input.kind: x}}, agent: a, input_mapping: {topic: parent.input.topic}}]
  default_agent: b
"""
    boxes = {box.id: box for box in scene(load(policy)).boxes}
    assert boxes[INPUT].name == "kind, topic"
    boxes = {box.id: box for box in scene(load("id: agf.sequential\nconfig: {steps: [{agent: a}]}")).boxes}
    assert boxes[INPUT].name == "input"


def test_who_asks_a_person_first_says_so() -> None:
    plan = "confirm: [send]\ncalls:\n- {_tool: load, _outputPath: †state.x}\n- {_tool: send, text: †state.x}\n"
    notes = {box.id: box.note for box in scene(load(plan)).boxes if box.step is not None}
    assert notes == {"calls[0]": "", "calls[1]": "asks before"}


def test_a_map_says_how_many_it_takes_and_whether_it_takes_the_first_ones() -> None:
    graph = """
state: {{xs: list}}
nodes: {{a: {{type: map, over: [1], as: x, node: {{type: llm, prompt: "say {{x}}"}}, collect: ys, max_items: 9{}}}}}
edges: [{{from: START, to: a}}]
"""
    for written, note in (
        ("", "8 at once · at most 9 · → ys, ys_failures"),
        (", on_overflow: truncate", "8 at once · the first 9 · → ys, ys_failures"),
    ):
        boxes = {box.id: box for box in scene(load(graph.format(written))).boxes}
        assert boxes["nodes.a"].note == note


def test_control_goes_from_step_to_step_and_fans_out_under_its_labels() -> None:
    drawn = arrows(scene(load(DIGEST)), "control")
    assert ("steps[1]", "steps[1].do", "each") in drawn
    assert ("steps[1].do", "steps[1].do.branches.topic", "topic") in drawn
    assert ("steps[3]", "steps[3].cases.True", "= True") in drawn
    assert ("steps[3]", "steps[3].default", "otherwise") in drawn
    assert ("steps[2]", "steps[2].do", "item") in drawn  # the value that flows along it


def test_a_fold_goes_back_to_its_head_with_what_it_accumulates() -> None:
    assert arrows(scene(load(DIGEST)), "again") == {("steps[2].do", "steps[2]", "acc")}


def test_what_the_next_step_reads_flows_along_the_control_arrow() -> None:
    drawn = scene(load(REVIEW))
    assert arrows(drawn, "control") == {("steps[0]", "steps[1]", "review"), ("steps[1]", "steps[2]", "verdict")}
    assert arrows(drawn, "data") == {(INPUT, "steps[0]", "doc")}


def test_a_value_flows_to_the_very_step_that_reads_it_also_inside_a_frame() -> None:
    # rows: read by two cases of the match; feed: by the for_each and by an agent in it; path: by the last step.
    assert arrows(scene(load(DIGEST)), "data") == {
        (INPUT, "steps[0]", "url"),
        (INPUT, "steps[4]", "path"),
        ("steps[0]", "steps[1].do.branches.topic", "feed"),
        ("steps[1].collect", "steps[3].cases.True", "rows"),
        ("steps[1].collect", "steps[3].cases.False", "rows"),
        ("steps[2].do", "steps[3].cases.True", "total"),
    }
    assert ("steps[0]", "steps[1]", "feed") in arrows(scene(load(DIGEST)), "control")


def test_the_values_of_branches_flow_into_the_step_that_collects_them() -> None:
    do = "steps[1].do"
    drawn = arrows(scene(load(DIGEST)), "control")
    assert (f"{do}.branches.topic", f"{do}.collect", "topic") in drawn
    assert (f'{do}.branches["two words"]', f"{do}.collect", "two words") in drawn
    assert (do + ".collect", "steps[1].collect", "pipe") in drawn


EQUAL = """\
pipeline: equal
steps:
- tool: {name: load, args: {path: a}, output: first}
- tool: {name: load, args: {path: b}, output: second}
- agent: {prompt: "Compare {ctx.first}", identity: critic, capabilities: {tools: [search, load, save, send]}}
- agent: {prompt: "Improve it", capabilities: {tools: []}}
- parallel: {branches: {a: {tool: {name: load, args: {path: c}}}}, collect: {transform: {value: pipe.a}}}
"""


def test_boxes_show_what_tells_them_apart() -> None:
    boxes = {box.id: (box.kicker, box.name, box.note) for box in scene(load(EQUAL)).boxes}
    assert boxes["steps[0]"] == ("⚙ tool · steps[0]", "load", "→ first")
    assert boxes["steps[1]"] == ("⚙ tool · steps[1]", "load", "→ second")
    assert boxes["steps[4].branches.a"] == ("⚙ tool · steps[4].branches.a", "load", "")
    tools = "tools: search, load, save and 1 more"
    assert boxes["steps[2]"] == ("✦ agent · critic", "Compare {ctx.first}", tools)
    assert boxes["steps[3]"] == ("✦ agent", "Improve it", "no tools")


def test_a_node_of_a_graph_says_what_it_reads_and_writes() -> None:
    graph = """
name: g
state: {topic: str, draft: str, score: float}
nodes:
  draft: {type: llm, prompt: "write about {topic}", state_key: draft}
  judge: {type: agent, prompt: "judge {draft} on {topic}", tools: [search], state_key: score}
  stop: {type: passthrough, output: {draft: done}}
edges: [{from: START, to: draft}, {from: draft, to: judge}, {from: judge, to: stop}, {from: stop, to: END}]
"""
    notes = {box.id: box.note for box in scene(load(graph)).boxes if box.step}
    assert notes == {
        "nodes.draft": "topic → draft",
        "nodes.judge": "tools: search · topic, draft → score",
        "nodes.stop": "→ draft",
    }
    outlined = Diagram(load(graph)).outline()
    assert "topic, draft → score" in outlined


def test_no_box_of_a_session_is_empty_and_the_model_says_its_tools() -> None:
    policy = """
name: p
execution_policy: {id: agf.react, config: {model: gpt-x, provider: openai, instructions: help}}
action_space: {local_tools: [{alias: search, name: search}]}
"""
    boxes = {box.id: box for box in scene(load(policy)).boxes}
    assert [box.id for box in boxes.values() if not box.name] == []
    assert boxes["react.ask"].note == "tools: search"


def test_the_tooltip_has_the_full_texts_and_lies_over_its_box() -> None:
    page = Diagram(load(EQUAL)).html()
    tooltips = re.findall(r'<span title="([^"]*)" style="position:absolute;left:([\d.]+)%;top:([\d.]+)%;', page)
    assert len(tooltips) == len(list(scene(load(EQUAL)).boxes))
    assert tooltips[2][0].split("\n") == [
        "steps[2]: agent",
        "Compare {ctx.first}",
        "tools: search, load, save, send",
        "reads first",
    ]
    assert all(0 <= float(part) <= 100 for _, *place in tooltips for part in place)


def test_an_arrow_leaves_a_frame_at_its_border() -> None:
    leaving = {(a.head, a.leaves) for a in scene(load(DIGEST)).arrows if a.leaves}
    assert {("steps[2]", "steps[1]"), ("steps[3]", "steps[2]"), ("steps[4]", "steps[3]")} <= leaving


def test_a_flow_that_reads_nothing_has_no_input_box() -> None:
    assert [box.id for box in scene(load("pipeline: p\nsteps: [{transform: {value: '1'}}]")).boxes] == ["steps[0]"]


@pytest.mark.parametrize("text", [REVIEW, DIGEST, long(60)], ids=["three", "nested", "sixty"])
def test_graphviz_places_everything(text: str) -> None:
    drawn = scene(load(text))
    placed = layout(scene_dot(drawn, {}, routed(drawn)))
    assert len(placed.boxes) == len(list(drawn.boxes))
    assert len(placed.frames) == len(list(drawn.frames))
    assert len(placed.routes) == len(drawn.arrows) - len(routed(drawn))


def covers(item: ElementTree.Element) -> tuple[float, float, float, float]:
    """The area of a rectangle or of a text."""
    x, y = float(item.get("x", 0)), float(item.get("y", 0))
    if item.tag == SVG + "rect":
        return x, y, x + float(item.get("width", 0)), y + float(item.get("height", 0))
    width = look.width(item.text or "", 10) * 0.85  # measured: the most a font takes
    left = x - width * {"middle": 0.5, "end": 1.0}.get(item.get("text-anchor", ""), 0.0)
    return left, y - 8, left + width, y + 2


@pytest.mark.parametrize("text", [REVIEW, DIGEST, long(60)], ids=["three", "nested", "sixty"])
def test_no_label_stands_on_a_box_and_no_box_on_another(text: str) -> None:
    root = ElementTree.fromstring(Diagram(load(text)).svg())
    boxes = [covers([item for item in group if item.tag == SVG + "rect"][-1]) for group in root.iter(SVG + "g")]
    labels = [covers(item) for item in root if item.tag == SVG + "text"]
    overlap = [
        (a, b)
        for a in [*labels, *boxes]
        for b in boxes
        if a is not b and b[0] < a[2] and a[0] < b[2] and b[1] < a[3] and a[1] < b[3]
    ]
    assert labels
    assert overlap == []


def test_branches_stand_in_the_order_they_are_written() -> None:
    drawn = scene(load(DIGEST))
    placed = layout(scene_dot(drawn, {}))
    number = {box.id: f"n{place}" for place, box in enumerate(drawn.boxes)}
    cases = ["steps[3].cases.True", "steps[3].cases.False", "steps[3].default"]
    across = [placed.boxes[number[id]].x for id in cases]
    assert across == sorted(across)


def places(svg: str) -> list[tuple[str, ...]]:
    """Where every shape and line is, without its colour and the progress bars."""
    root = ElementTree.fromstring(svg)
    found = [
        tuple(item.get(name, "") for name in ("x", "y", "width", "height", "d", "points"))
        for item in root.iter()
        if item.tag in (SVG + "rect", SVG + "path", SVG + "polygon") and item.get("height") != "2.5"
    ]
    return [*found, (root.get("viewBox", ""),)]


def test_a_state_moves_nothing() -> None:
    flow = load(DIGEST)
    pending, running, over = (Diagram(flow, told(flow, events)) for events in ([], halfway(), failed()))
    assert places(Diagram(flow).svg()) == places(pending.svg()) == places(running.svg()) == places(over.svg())
    # Nor in the text for other graphviz tools, where the state is part of the label.
    assert layout(pending.to_dot()).boxes == layout(over.to_dot()).boxes == layout(dot(flow)).boxes


def test_states_are_words_and_counters_not_only_colours() -> None:
    flow = load(DIGEST)
    texts = [
        item.text for item in ElementTree.fromstring(Diagram(flow, told(flow, halfway())).svg()).iter(SVG + "text")
    ]
    assert {"✓ ok", "▶ 12/1,000", "· pending"} <= set(texts)
    assert texts.count("▶ 12/1,000") == 3  # a step of the elements compares with their number, not with what started


def test_the_same_flow_is_the_same_svg() -> None:
    assert Diagram(load(DIGEST)).svg() == Diagram(load(DIGEST)).svg()


def test_the_svg_stands_alone() -> None:
    root = ElementTree.fromstring(Diagram(load(DIGEST)).svg())
    assert root.get("role") == "img"
    assert root.find(SVG + "title") is not None
    described = root.find(SVG + "desc")
    assert described is not None
    assert "for_each" in (described.text or "")
    for item in root.iter():
        assert item.tag.removeprefix(SVG) in SHAPES
        assert not {"style", "class", "id", "href"} & set(item.attrib)
        for name, value in item.attrib.items():
            assert not name.startswith("on")
            assert "url(" not in value


HOSTILE = st.text(st.characters(exclude_categories=()), max_size=40) | st.sampled_from(
    [
        "<script>alert(1)</script>",
        '"];}',
        "a\\",
        "\\N\\G",
        "&lt;b&gt;",
        "\u202egnp.exe",
        "]]>",
        "a\nb",
        "\ud800",
        "<b>x",
    ]
)


@given(name=HOSTILE, label=HOSTILE)
def test_no_name_is_markup(name: str, label: str) -> None:
    flow = load(REVIEW)
    steps = tuple(replace(step, label=label, word="tool" + label, id=step.id + label) for step in flow.body.steps)
    diagram = Diagram(replace(flow, name=name, body=replace(flow.body, steps=steps)))
    tags = {item.tag for item in ElementTree.fromstring(diagram.svg()).iter()}
    assert tags <= {SVG + tag for tag in SHAPES}
    assert "<" not in re.sub(rf"</?({'|'.join(SHAPES)})\b[^<>]*>", "", diagram.svg())
    assert "<" not in diagram.to_dot()
    assert len(re.findall(r"^  n\d+ \[", diagram.to_dot(), re.MULTILINE)) == 1 + len(steps)
    for shown in (diagram.svg(), diagram.to_dot(), diagram.outline()):
        assert not UNSAFE.search(shown)
        shown.encode()


def test_ten_megabytes_of_name_are_shortened() -> None:
    flow = replace(load(REVIEW), name="n" * 10_000_000)
    assert len(Diagram(flow).svg()) < 10_000
    assert len(Diagram(flow).to_dot()) < 10_000
    assert len(Diagram(flow).outline()) < 10_000


def test_the_bundle_has_a_picture_for_every_host() -> None:
    bundle = Diagram(load(REVIEW))._repr_mimebundle_()
    assert set(bundle) == {"text/html", "image/svg+xml", "text/plain"}
    data = re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', bundle["text/html"])
    assert data is not None
    assert base64.b64decode(data[1]).decode() == bundle["image/svg+xml"]
    assert 'alt="review_and_report: agent Review {ctx.doc}., then transform' in bundle["text/html"]
    width = float(re.search(r'width="(\d+)"', bundle["image/svg+xml"])[1])  # type: ignore[index]
    style = re.search(r"max-width:(\d+)px;min-width:(\d+)px", bundle["text/html"])
    assert style is not None
    assert float(style[1]) == width
    assert POINTS_WORD * SCALE * float(style[2]) / width > 9.95, "a wide picture is scrolled, not made unreadable"
    assert f"overflow:auto;max-height:{MAX_PICTURE_HEIGHT}px" in bundle["text/html"]


def test_a_picture_is_saved_by_its_suffix(tmp_path: Path) -> None:
    diagram = Diagram(load(REVIEW))
    assert diagram.save(tmp_path / "x.svg").read_text(encoding="utf-8") == diagram.svg()
    assert diagram.save(tmp_path / "x.dot").read_text(encoding="utf-8") == diagram.to_dot()
    assert diagram.save(str(tmp_path / "x.txt")).read_text(encoding="utf-8") == diagram.outline() + "\n"
    with pytest.raises(ValueError, match=r"use \.svg, \.dot, \.txt"):
        diagram.save(tmp_path / "x.docx")


def test_a_flow_too_large_for_a_picture_is_an_outline_that_can_be_opened() -> None:
    assert "image/svg+xml" in Diagram(load(long(MOST_BOXES)))._repr_mimebundle_()
    diagram = Diagram(load(long(MOST_BOXES + 1)))
    bundle = diagram._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain"}
    reason = "no picture: 501 boxes; at most 500 can be drawn"
    assert bundle["text/plain"].endswith(f"({reason})")
    assert bundle["text/html"].endswith(f"<p><em>{reason}</em></p>")
    assert bundle["text/html"].count("<details><summary") == 10
    with pytest.raises(NoPicture, match="501 boxes"):
        diagram.svg()


def test_a_layout_that_takes_too_long_is_an_outline_and_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphviz_module, "positions", partial(graphviz_module.positions, work=1_000_000))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    diagram = Diagram(load(long(17)))
    assert diagram._repr_mimebundle_()["text/plain"].endswith(f"({TOO_LARGE})")
    monkeypatch.undo()
    with pytest.raises(NoPicture, match="too long"):
        Diagram(load(long(17))).svg()
    assert Diagram(load(long(18))).svg()


SYSTEM = """#!{python}
import sys
if sys.argv[1:] == ["-Tjson0"]:
    from agf_magics.pictures.graphviz_module import positions
    sys.stdout.buffer.write(positions(sys.stdin.read()))
else:
    import threading
    threading.Event().wait()
"""


@pytest.mark.skipif(os.name != "posix", reason="a script as a program")
def test_the_dot_of_the_system_is_used_and_has_a_limit_of_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "dot"
    program.write_text(SYSTEM.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(Path(layouts.__file__).parents[2]))
    monkeypatch.setattr(layouts, "find_spec", lambda name: None)
    assert len(layout("digraph { n0 -> n1 [id=e0] }").boxes) == 2
    monkeypatch.setattr(layouts, "MOST_SECONDS_EXPORT", 0.01)
    with pytest.raises(NoPicture, match=r"took more than 0 s; save an \.svg"):
        layouts.export("digraph { n0 -> n1 [id=e0] }", "png")
    monkeypatch.setattr(layouts, "MOST_SECONDS_EXPORT", 60.0)
    program.write_text(f"#!{sys.executable}\nimport sys\nsys.exit('no room')")
    with pytest.raises(NoPicture, match=r"no picture: dot failed \(no room\)"):
        layouts.export("digraph { n0 -> n2 [id=e0] }", "png")


def test_the_outline_of_a_large_flow_has_its_steps_in_folds_and_a_bound() -> None:
    each = [f"- fold: {{over: ctx.a, init: '0', do: {{tool: {{name: t{i}}}}}, output: s{i}}}" for i in range(40)]
    flow = load("\n".join(["pipeline: folded", "steps:", *each, *long(3_000).split("\n")[2:]]))
    page = outline_html(flow)
    assert page.count("<details>") == 99, "one for each fold, the rest in fifties"
    assert "⚙ tool t0 steps[40] and 49 more</summary>" in page.replace("→ v0 ", "")
    assert "… 80 more lines: agf.draw(&#x27;folded&#x27;).outline()" in page
    assert len(page) < 1_000_000


def test_without_graphviz_there_is_the_outline_and_how_to_get_the_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(layouts, "find_spec", lambda name: None)
    diagram = Diagram(load(REVIEW.replace("review_and_report", "without_graphviz").replace("Review {", "Read {")))
    bundle = diagram._repr_mimebundle_()
    assert bundle["text/plain"] == f"{diagram.outline()}\n({HOW_TO})"
    assert HOW_TO.replace("'", "&#x27;") in bundle["text/html"]
    with pytest.raises(NoPicture, match="agf-magics\\[diagrams\\]"):
        diagram.svg()


def test_a_graphviz_that_fails_is_told_in_a_line() -> None:
    with pytest.raises(NoPicture, match=r"no picture: .* failed"):
        layout("digraph {")


def test_a_png_without_graphviz_itself_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(NoPicture, match="a png needs graphviz itself"):
        Diagram(load(REVIEW)).save(tmp_path / "x.png")


def test_the_outline_says_what_each_step_reads_and_writes() -> None:
    lines = [re.sub(r"\s{2,}", "  ", line.strip()) for line in Diagram(load(DIGEST)).outline().split("\n")]
    assert lines[0] == "digest · pipeline · 5 steps"
    assert "⚙ tool fetch  url → feed  steps[0]" in lines
    assert "⟳ for_each ctx.feed · 4 at once · on error: retry(2)  feed → rows  steps[1]" in lines
    assert "True: ↗ call publish  rows, total →  steps[3].cases.True" in lines
    assert 'two words: ⚙ tool detect  steps[1].do.branches["two words"]' in lines


def test_the_outline_of_a_run_says_how_it_stands() -> None:
    flow = load(DIGEST)
    lines = Diagram(flow, told(flow, halfway())).outline().split("\n")
    assert lines[0].endswith("· running")
    assert lines[3].endswith("▶ running: 12 ok, 3 failed, 8 running of 1,000")
    assert lines[-1].endswith("· pending")


def test_a_long_name_stands_in_lines_and_the_tooltip_has_all_of_it() -> None:
    words = " ".join(f"†state.customers.by_region.number{number}" for number in range(4))
    label = f"fetch → {words}"
    step = Invoke(id="calls[0]", word="tool", label=label, kind="tool", name=Name("fetch"), args=None)  # type: ignore[arg-type]
    drawn = make_box(step, DataFlow(load(REVIEW)), many=False)
    assert (drawn.name, len(drawn.lines)) == (label, LINES)
    assert label.replace(" ", "").startswith("".join(drawn.lines)[:-1].replace(" ", ""))
    assert drawn.lines[-1].endswith("…")
    assert all(look.width(one, POINTS_NAME, bold=True) <= LONGEST for one in drawn.lines)
    assert label in drawn.tooltip
    assert drawn.height == 44 + (LINES - 1) * LEADING


WIDE = """\
pipeline: q
steps:
- tool: {name: load, args: {path: file0.csv}, output: raw_0}
- tool: {name: load, args: {path: file1.csv}, output: raw_1}
- tool: {name: join2, args: {a: !expr raw_2, b: !expr raw_0}, output: j_3}
- tool: {name: clean, args: {rows: !expr j_3}, output: c_4}
- tool: {name: clean, args: {rows: !expr j_3}, output: c_5}
- tool: {name: join2, args: {a: !expr c_4, b: !expr raw_0}, output: j_6}
- tool: {name: clean, args: {rows: !expr raw_1}, output: c_7}
- tool: {name: clean, args: {rows: !expr c_7}, output: c_8}
- tool: {name: join2, args: {a: !expr c_7, b: !expr c_4}, output: j_9}
"""


def test_a_wire_may_pass_a_point_whose_x_has_one_digit() -> None:
    """Graphviz marks the tip of an arrow "e,X,Y"; a point "5,30.5" is not a tip."""
    assert len(layout(dot(load(WIDE))).boxes) == 10
