"""Who reads what whom wrote: the data edges of a flow."""

from __future__ import annotations

from agf_magics.flow.wiring import wires
from agf_magics.languages import LANGUAGES
from agf_magics.text.diagnostics import Diagnostics, Source
from agf_magics.text.yamlnodes import Bounds

INPUT = None
FOR_EACH = "for_each: {{over: {over}, on_error: abort, do: {do}, collect: {{transform: {{value: {collect}}}}}}}"


def edges(*steps: str) -> list[tuple[str | None, str, str]]:
    problems, text = Diagnostics(), "pipeline: p\nsteps:\n" + "".join(f"  - {step}\n" for step in steps)
    flow = LANGUAGES["pipeline"].load(Source("test", text), problems, Bounds()).flow
    assert flow is not None, list(problems)
    return [(wire.source, wire.dest, wire.name) for wire in wires(flow)]


def test_a_store_flows_from_its_writer_to_its_readers() -> None:
    assert edges(
        "transform: {value: ctx.n + 1, output: m}",
        "transform: {value: m + ctx.m + ctx.n}",
        "agent: {prompt: 'See {ctx.m.x} and {m}'}",
        "call: {pipeline: q, pass: [m, doc]}",
    ) == [
        (INPUT, "steps[0]", "n"),
        ("steps[0]", "steps[1]", "m"),
        (INPUT, "steps[1]", "n"),
        ("steps[0]", "steps[2]", "m"),
        ("steps[0]", "steps[3]", "m"),
        (INPUT, "steps[3]", "doc"),
    ]


def test_a_store_flows_from_its_last_writer() -> None:
    assert edges(
        "transform: {value: '1', output: m}",
        "transform: {value: m + 1, output: m}",
        "transform: {value: m}",
    ) == [("steps[0]", "steps[1]", "m"), ("steps[1]", "steps[2]", "m")]


def test_the_pipe_flows_only_to_who_reads_it() -> None:
    assert edges(
        "transform: {value: '[1]'}",
        "transform: {value: '[2]'}",
        "tool: {name: t, args: {x: !expr pipe}}",
        "call: {pipeline: q}",
        "fold: {init: '0', do: {transform: {value: '1'}}, output: o}",
    ) == [("steps[1]", "steps[2]", "pipe"), ("steps[3]", "steps[4]", "pipe")]


def test_the_first_pipe_comes_with_the_input() -> None:
    assert edges("transform: {value: pipe}") == [(INPUT, "steps[0]", "pipe")]


def test_the_whole_ctx_is_every_store() -> None:
    assert edges(
        "transform: {value: ctx, output: a}",
        "transform: {value: '1', output: b}",
        "transform: {value: ctx}",
    ) == [(INPUT, "steps[0]", "ctx"), ("steps[0]", "steps[2]", "a"), ("steps[1]", "steps[2]", "b")]


def test_the_whole_ctx_read_in_an_item_is_what_is_stored_around_it_too() -> None:
    assert edges(
        "transform: {value: '1', output: a}",
        FOR_EACH.format(over="pipe", do="{transform: {value: ctx}}", collect="pipe"),
    ) == [
        ("steps[0]", "steps[1]", "pipe"),
        ("steps[0]", "steps[1].do", "a"),
        ("steps[1].do", "steps[1].collect", "pipe"),
    ]


def test_a_for_each_gives_items_and_its_body_gives_to_collect() -> None:
    assert edges(
        "transform: {value: '[1]', output: xs}",
        FOR_EACH.format(over="xs", do="{transform: {value: item + pipe}}", collect="pipe"),
    ) == [
        ("steps[0]", "steps[1]", "xs"),
        ("steps[1]", "steps[1].do", "item"),
        ("steps[0]", "steps[1].do", "pipe"),
        ("steps[1].do", "steps[1].collect", "pipe"),
    ]


def test_what_a_fold_carries_goes_round() -> None:
    carry = "{transform: {value: \"acc + get(ctx, 'seen', 0)\", output: seen}}"
    assert edges(
        f"fold: {{over: ctx.xs, init: ctx.a, do: {carry}, output: o}}",
        "transform: {value: o}",
    ) == [
        (INPUT, "steps[0]", "xs"),
        (INPUT, "steps[0]", "a"),
        ("steps[0]", "steps[0].do", "acc"),
        ("steps[0].do", "steps[0].do", "acc"),
        (INPUT, "steps[0].do", "seen"),
        ("steps[0].do", "steps[0].do", "seen"),
        ("steps[0]", "steps[1]", "o"),
    ]


def test_collect_reads_the_branches_it_names() -> None:
    branches = "{a: {transform: {value: ctx.x}}, b: {tool: {name: t}}, c: {tool: {name: t}}}"
    assert edges(
        f"parallel: {{branches: {branches}, collect: {{transform: {{value: '[a, pipe.b]'}}}}}}",
        f"parallel: {{branches: {branches}, collect: {{transform: {{value: pipe}}}}}}",
    ) == [
        (INPUT, "steps[0].branches.a", "x"),
        ("steps[0].branches.a", "steps[0].collect", "a"),
        ("steps[0].branches.b", "steps[0].collect", "b"),
        (INPUT, "steps[1].branches.a", "x"),
        ("steps[1].branches.a", "steps[1].collect", "a"),
        ("steps[1].branches.b", "steps[1].collect", "b"),
        ("steps[1].branches.c", "steps[1].collect", "c"),
    ]


def test_what_is_stored_in_an_item_or_a_branch_is_not_seen_outside() -> None:
    assert edges(
        "transform: {value: '1', output: m}",
        FOR_EACH.format(over="'[1]'", do="{transform: {value: '2', output: m}}", collect="m"),
        "parallel: {branches: {a: {transform: {value: '3', output: m}}}, collect: {transform: {value: m}}}",
        "transform: {value: m}",
    ) == [
        ("steps[0]", "steps[1].collect", "m"),
        ("steps[0]", "steps[2].collect", "m"),
        ("steps[0]", "steps[3]", "m"),
    ]


def test_a_match_reads_its_value_and_each_case_what_it_passes() -> None:
    assert edges(
        "transform: {value: '1', output: m}",
        "match: {on: m, cases: {'1': {pipeline: q, pass: [m]}}, default: {pipeline: r, pass: {n: ctx.n}}, output: o}",
        "transform: {value: o}",
    ) == [
        ("steps[0]", "steps[1]", "m"),
        ("steps[0]", 'steps[1].cases["1"]', "m"),
        (INPUT, "steps[1].default", "n"),
        ("steps[1]", "steps[2]", "o"),
    ]


def test_nested_primitives_read_through_every_scope() -> None:
    inner = FOR_EACH.format(over="item.parts", do="{transform: {value: item + m}}", collect="pipe")
    assert edges(
        "transform: {value: '1', output: m}",
        FOR_EACH.format(over="ctx.xs", do=f"{{{inner}}}", collect="pipe"),
    ) == [
        (INPUT, "steps[1]", "xs"),
        ("steps[1]", "steps[1].do", "item"),
        ("steps[1].do", "steps[1].do.do", "item"),
        ("steps[0]", "steps[1].do.do", "m"),
        ("steps[1].do.do", "steps[1].do.collect", "pipe"),
        ("steps[1].do", "steps[1].collect", "pipe"),
    ]
