"""Every parser takes linear time for hostile texts, and reports what is wrong with a code. The tests count calls, not
seconds."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from itertools import cycle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agf_magics as agf
from agf_magics.catalog import Registry
from agf_magics.schemas.patterns import LONGEST_PATTERN
from agf_magics.text.diagnostics import SHOWN, AgfError, DefinitionError, Diagnostic
from agf_magics.text.source import Source
from agf_magics.text.suggestions import suggest
from tests.counting import instructions

PIPELINE = "pipeline: p\nsteps:\n- transform: {value: %s}\n"
PROMPT = "pipeline: p\nsteps:\n- agent: {prompt: %s}\n"
SHELL = "pipeline: p\nsteps:\n- shell: {command: %s}\n"
MAPPING = "id: agf.sequential\nconfig: {steps: [{agent: a, input_mapping: {x: %s}}]}\n"
MATCHER = ("id: agf.conditional\nconfig: {routes: [{when: {args_match: {parent.input.v: {pattern: %s}}}, agent: a, "
           "input_mapping: {}}], default_agent: a}\n")  # fmt: skip
PLAN = "name: p\ntools: {t: {}}\ncalls: [{_tool: t, x: %s, _output: 1, _outputPath: †state.a}]\noutput: %s\n"
VALUE = ("name: g\nstate: {a: any, b: any}\nnodes: {s: {type: passthrough, output: {b: %s}}}\n"
         "edges: [{from: START, to: s}]\n")  # fmt: skip
CONDITION = ("name: g\nstate: {a: any}\nnodes: {s: {type: passthrough, output: {a: 1}}}\n"
             "edges: [{from: START, to: s, condition: %s}]\n")  # fmt: skip

PARSERS: dict[str, Callable[[str], object]] = {
    "yaml": lambda text: agf.load(text, "pipeline"),
    "yaml, quoted": lambda text: agf.load(f"a: '{text}", "pipeline"),
    "yaml, in braces": lambda text: agf.load(f"a: {{b: {text}", "graph"),
    "told": lambda text: agf.load(text, None),
    **{
        name: (lambda text, form=form, language=language: agf.load(  # type: ignore[misc]
            form.replace("%s", json.dumps(text, ensure_ascii=False)), language))
        for name, language, form in [
            ("R1", "pipeline", PIPELINE), ("prompt", "pipeline", PROMPT), ("shell", "pipeline", SHELL),
            ("policy path", "policy", MAPPING), ("policy pattern", "policy", MATCHER), ("plan reference", "plan", PLAN),
            ("graph value", "graph", VALUE), ("graph condition", "graph", CONDITION),
        ]
    },
}  # fmt: skip

UNITS = (
    " ", "\t", "\n", "\xa0", "\u2028",
    "\r", "'", '"', "{", "}", "[", "]", "(", ")", "{{", "{ ", "a", "é", "0", "0.", "a.",
    ".", "-", "+", "*", "/", "=", "<", "!", "&", "|", "||", "†", "†a.", "†a || ", "$", "\\", "#", ":", ": ", ", ", "- ",
    "state.", "{state.a}", "{state.", "{a} ", "'a", "+'a", "a + ", "a and ",
    "a == 1 and ", "a == 'x' or ", "not ", "->",
    "x -> ", "map(a, ", "!expr ", "%", "@", "`", "*a ", "&a ", "\ud800", "\x00", "\x1b", "?", "a: 1\n", "- a\n",
    "%%a\n",
)  # fmt: skip
BEGINS = (
    "",
    "a",
    "{",
    "{}",
    "{state.a + ",
    "{state.a} ",
    "x == ",
    "x == limi",
    "†a[",
    "†state.a",
    "'",
    "[",
    "parent.input.",
    "!x ",
)
ENDS = ("", "x", "ULL")
SHORT, LONG = 100, 200


def cost(parse: Callable[[str], object], text: str) -> int:
    def act() -> None:
        try:
            parse(text)
        except AgfError as error:
            str(error)

    return instructions(act, "agf_magics")


@pytest.mark.slow
@pytest.mark.parametrize("name", PARSERS)
def test_twice_the_text_costs_at_most_twice_as_much(name: str) -> None:
    parse, slow = PARSERS[name], []
    cost(parse, "a")  # fills imports and caches
    for number, unit in enumerate(UNITS):
        begins = BEGINS if unit in " \t\xa0" else {"", BEGINS[number % len(BEGINS)]}  # all would be too many
        for end, begin in zip(cycle(ENDS), begins, strict=False):
            if name == "policy pattern" and len(unit) * SHORT <= LONGEST_PATTERN < len(unit) * LONG + 20:
                continue  # the longer text is refused for its length, which costs something else
            costs = [cost(parse, begin + unit * count + end) for count in (SHORT, LONG)]
            if costs[1] > 2.5 * costs[0]:
                slow.append((begin, unit, end, costs))
    assert slow == []


def names(count: int) -> dict[str, str]:
    numbers = range(count)
    return {
        "prompt": PROMPT % json.dumps(" ".join(f"{{name{n}}}" for n in numbers)),
        "stores": "pipeline: p\nsteps:\n" + "".join(f"- transform: {{value: '1', output: name{n}}}\n" for n in numbers)
        + "- agent: {prompt: " + json.dumps(" ".join(f"{{neme{n}}}" for n in numbers)) + "}\n",
        "braces": VALUE.replace("%s", json.dumps("x " + " ".join(f"{{a.b{n}}}" for n in numbers))),
        "keys": "name: g\n" + "".join(f"key{n}: 1\n" for n in numbers),
        "tools": "pipeline: p\nsteps:\n" + "".join(f"- tool: {{name: t{n}, args: {{x: 1}}}}\n" for n in numbers),
    }  # fmt: skip


@pytest.mark.parametrize("kind", list(names(1)))
def test_unknown_names_cost_the_same_each(kind: str) -> None:
    language = "graph" if kind in ("braces", "keys") else "pipeline"
    costs = [cost(lambda text: agf.load(text, language), names(count)[kind]) for count in (200, 400)]
    assert costs[1] < 2.4 * costs[0]


def test_hints_of_one_text_share_a_bound() -> None:
    from agf_magics.text.suggestions import COMPARED, share_suggestion_budget

    candidates = [f"name{n}" for n in range(COMPARED // 2)]
    with share_suggestion_budget():
        hints = [suggest("Name7", candidates, "names") for _ in range(5)]
    assert [hint is not None and "did you mean name7" in hint for hint in hints] == [True, True, False, False, False]
    assert hints[4].startswith("names are name0, ")
    assert hints[4].endswith(f"and {len(candidates) - 20} more")


@pytest.mark.parametrize("line", ["x" * 100_000, "é" * 100_000, "\u0301" * 100_000, "漢" * 100_000, "\t" * 100_000])
def test_an_excerpt_of_a_long_line_costs_only_what_it_shows(line: str) -> None:
    source = Source("a", f"first\n{line}")
    diagnostics = [Diagnostic("a.b", "wrong", source.span(6 + offset, 7 + offset)) for offset in (0, 50_000, 99_999)]
    assert instructions(lambda: list(map(str, diagnostics)), "diagnostics.py") < 200_000
    for diagnostic in diagnostics:
        _, excerpt, caret = diagnostic.lines()[1:4]
        assert len(excerpt) < 700
        assert caret.strip("| ") in ("^", "^^")


def test_a_place_is_found_without_reading_the_text_again() -> None:
    source = Source("a", "line\n" * 50_000, first_line=3)
    assert source.place(5 * 40_000 + 2) == (40_003, 3)
    assert source.line(40_003) == "line"
    assert [source.line(number) for number in (2, 3, 50_002, 50_003, 50_004)] == ["", "line", "line", "", ""]
    assert source.place(len(source.text)) == (50_003, 1)


# --- how a text is shown ---


def steps(language: str, count: int) -> str:
    numbers = range(count)
    return {
        "pipeline": "pipeline: p\nsteps:\n" + "".join(f"- tool: {{name: f, args: {{x: {n}}}}}\n" for n in numbers),
        "policy": "id: agf.sequential\nconfig:\n  steps:\n" + "  - {agent: w, input_mapping: {x: parent.input.x}}\n"
        * count,
        "plan": "name: p\ncalls:\n" + "".join(f"- {{_tool: f, x: {n}, _outputPath: †state.a{n}}}\n" for n in numbers),
        "graph": "name: g\nstate: {a: any}\nnodes:\n"
        + "".join(f"  n{n}: {{type: tool, tool: f, variables: {{x: {n}}}, state_key: a}}\n" for n in numbers)
        + "edges:\n- {from: START, to: n0}\n" + "".join(f"- {{from: n{n}, to: n{n + 1}}}\n" for n in range(count - 1)),
    }[language]  # fmt: skip


@pytest.mark.parametrize("language", ["pipeline", "policy", "plan", "graph"])
def test_the_repr_of_a_flow_is_one_line_whatever_its_text(language: str) -> None:
    flow = agf.load(steps(language, 40), language)
    assert repr(flow) == f"<Flow {language} {flow.name!r}>"


def test_the_repr_of_a_run_of_errors_and_of_a_registry_does_not_grow_with_the_text() -> None:
    def shown(count: int) -> list[int]:
        registry = Registry()
        agf.tool(lambda x: x, name="f", registry=registry)
        flow = agf.load(steps("pipeline", count), "pipeline")
        agf.define(steps("pipeline", count), registry=registry)
        run = agf.run(flow, registry=registry)
        with pytest.raises(AgfError) as raised:
            agf.load(steps("pipeline", count).replace("name", "nmae"), "pipeline")
        assert len(raised.value.diagnostics) >= count
        return [len(repr(value)) for value in (run, raised.value, registry, registry.flows)] + [len(str(raised.value))]

    assert all(many < few + 200 for few, many in zip(shown(SHOWN * 2), shown(SHOWN * 4), strict=True))


# --- random texts ---

PIECES = st.sampled_from([*UNITS, *BEGINS, *(text for text in (PIPELINE, PROMPT, MAPPING, PLAN, VALUE, CONDITION))])


@given(
    st.lists(PIECES | st.text(max_size=4), max_size=8).map("".join),
    st.sampled_from(["pipeline", "policy", "plan", "graph"]),
)
def test_whatever_a_text_holds_loading_it_says_what_is_wrong(text: str, language: str) -> None:
    with suppress(DefinitionError):
        agf.load(text, language)


@given(st.sampled_from(list(PARSERS)), st.lists(PIECES | st.text(max_size=4), max_size=6).map("".join))
def test_whatever_an_expression_holds_loading_it_says_what_is_wrong(name: str, text: str) -> None:
    with suppress(DefinitionError):
        PARSERS[name](text)


@given(st.sampled_from(["r1", "path", "value", "condition"]), st.lists(PIECES, max_size=6).map("".join))
def test_whatever_an_expression_holds_evaluating_it_says_what_is_wrong(language: str, text: str) -> None:
    context: Any = {"a": 1, "x": "y", "parent": {"input": {}}, "ctx": {}, "pipe": None}
    with suppress(AgfError):
        agf.evaluate(language, text, context)
