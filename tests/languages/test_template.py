"""Prompt templates: what is replaced, what stays, what is warned about (decision P3)."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agf_magics as agf
from agf_magics.languages.pipeline.r1 import Names
from agf_magics.languages.pipeline.r1.closures import LONGEST_WRITTEN
from agf_magics.languages.pipeline.texts import Scope, Template, parse_template
from agf_magics.text.diagnostics import Source

NAMES = Names({"ctx": ("ctx",), "pipe": ("pipe",), "item": ("item",)}, hidden={"acc": "hand it on with pass"})


def template(text: str, *known: str) -> Template:
    return parse_template(Source("prompt", text).span(), Scope(NAMES, frozenset(known)))


def filled(text: str, *known: str, pipe: Any = None, **ctx: Any) -> str:
    found = template(text, *known).evaluate({"ctx": ctx, "pipe": pipe, "item": ctx.get("item")})
    assert isinstance(found, str)
    return found


def wrong(text: str, **ctx: Any) -> tuple[str, str]:
    with pytest.raises(agf.StepError) as caught:
        filled(text, **ctx)
    diagnostic = caught.value.diagnostic
    return diagnostic.code, diagnostic.span.text


@pytest.mark.parametrize(
    ("text", "value", "prompt"),
    [
        ("V={ctx.v}", "text", "V=text"),
        ("V={ctx.v}", "", "V="),
        ("V={ctx.v}", 5, "V=5"),
        ("V={ctx.v}", 1.5, "V=1.5"),
        ("V={ctx.v}", None, "V=null"),
        ("V={ctx.v}", True, "V=true"),
        ("V={ctx.v}", [1, "a", None], 'V=[1,"a",null]'),
        ("V={ctx.v}", {"a": {"é": "“"}}, 'V={"a":{"é":"“"}}'),
        ("x { ctx.v } y {\tctx . v} z", 1, "x 1 y 1 z"),
        ("{{ctx.v}} {} { } {", 1, "{1} {} { } {"),
        ("{v} {v.a} {item.b}", {"a": 1}, '{"a":1} 1 2'),
        ("{ctx.v}", "{pipe}", "{pipe}"),
    ],
)
def test_paths_are_replaced(text: str, value: Any, prompt: str) -> None:
    assert filled(text, v=value, item={"b": 2}) == prompt


@pytest.mark.parametrize(
    "text",
    [
        'Reply as {"passed": true}',
        "{",
        "}",
        "{null}",
        "{a b}",
        "{1}",
        "{a: 1}",
        "${x+1}",
        "{'ctx.v'}",
        "",
        "{}",
        "{ctx.a",
    ],
)
def test_every_other_brace_stays_text(text: str) -> None:
    assert filled(text, v=1) == text
    assert template(text).warnings == ()


def test_a_name_that_the_input_brings_is_replaced_and_warned_about() -> None:
    found = template("{doc}", "docs")
    (warning,) = found.warnings
    assert (warning.code, warning.severity) == ("pipeline.template-name", "warning")
    assert warning.span.text == "doc"
    assert warning.hint == "did you mean docs? if the input has it, write {ctx.doc}"
    assert found.evaluate({"ctx": {"doc": "d"}}) == "d"
    assert found.evaluate({"ctx": {}}) == "{doc}"


def test_a_store_that_is_known_is_not_warned_about() -> None:
    assert template("{review.notes}", "review").warnings == ()


@pytest.mark.parametrize(
    "text", ["{ctx.n + 1}", "{ctx.xs[0]}", "{count(ctx.xs)}", "{review and 1}", "{ctx.a!r}", "{ctx.a:>9}"]
)
def test_an_expression_stays_text_and_is_warned_about(text: str) -> None:
    (warning,) = template(text, "review").warnings
    assert (warning.code, warning.severity) == ("pipeline.template-expression", "warning")
    assert warning.span.text == text
    assert filled(text, n=1) == text


def test_a_known_name_with_a_missing_path_fails_at_the_name() -> None:
    assert wrong("Say {ctx.missing}.") == ("r1.missing-path", "missing")
    assert wrong("Say { ctx . v . b }.", v={"a": 1}) == ("r1.missing-path", "b")
    assert wrong("Say {ctx.v.b}.", v=1) == ("r1.not-an-object", "b")


def test_a_name_that_is_not_visible_fails_and_says_how_to_hand_it_on() -> None:
    with pytest.raises(agf.StepError) as caught:
        filled("{acc}")
    hint = caught.value.diagnostic.hint
    assert hint.startswith("hand it on with pass")


def test_it_knows_what_it_reads() -> None:
    found = [(ref.path, ref.certain) for ref in template("{ctx.a.b} {review} {doc} {x y}", "review").reads()]
    assert found == [(("ctx", "a", "b"), True), (("ctx", "review"), True), (("ctx", "doc"), False)]


def test_what_has_no_text_form_is_refused() -> None:
    assert wrong("{v}", v=object()) == ("pipeline.template-value", "v")
    assert wrong("{v}", v=[object()]) == ("pipeline.template-value", "v")


def test_what_is_too_large_to_be_written_is_refused() -> None:
    shared: Any = ["text"]
    for _ in range(60):
        shared = [shared, shared]
    assert wrong("{v}", v=shared) == ("pipeline.template-value", "v")
    deep: Any = 1
    for _ in range(5_000):
        deep = [deep]
    assert wrong("{v}", v=deep) == ("pipeline.template-value", "v")
    assert len(filled("{v}", v="x" * (LONGEST_WRITTEN + 1))) == LONGEST_WRITTEN + 1  # a text is handed on as it is


@given(st.text(st.sampled_from('{}ctx. v\n+()"é')))
def test_whatever_a_text_holds_it_is_a_template(text: str) -> None:
    found = template(text)
    with contextlib.suppress(agf.StepError):
        assert "{ctx.v}" not in str(found.evaluate({"ctx": {"v": "{v}"}, "pipe": None, "item": None}))
