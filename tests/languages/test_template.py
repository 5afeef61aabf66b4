"""Prompt templates: which parts are replaced, which stay, and which get a warning (decision P3)."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agf_magics as agf
from agf_magics.languages.pipeline.r1 import Names
from agf_magics.languages.pipeline.r1.functions import LONGEST_WRITTEN
from agf_magics.languages.pipeline.scope import Scope
from agf_magics.languages.pipeline.template import Template, parse_template
from agf_magics.text.source import Source
from tests.languages.loading import as_vectors, code_and_place

ROWS = json.loads((Path(__file__).parents[1] / "vectors" / "templates.json").read_text("utf-8"))["rows"]
NAMES = Names({"ctx": ("ctx",), "pipe": ("pipe",), "item": ("item",)}, hidden={"acc": "hand it on with pass"})


def template(text: str, *names: str) -> Template:
    return parse_template(Source("prompt", text).span(), Scope(NAMES, frozenset(names)))


def fill(text: str, *names: str, pipe: Any = None, **ctx: Any) -> str:
    text_of_template = template(text, *names).evaluate({"ctx": ctx, "pipe": pipe, "item": ctx.get("item")})
    assert isinstance(text_of_template, str)
    return text_of_template


def wrong(text: str, **ctx: Any) -> tuple[str, str]:
    with pytest.raises(agf.StepError) as caught:
        fill(text, **ctx)
    diagnostic = caught.value.diagnostic
    return diagnostic.code, diagnostic.span.text


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["text"])
def test_a_template_is_filled_as_its_row_says(row: dict[str, Any]) -> None:
    read_template = template(row["text"], *row.get("known", ()))
    assert as_vectors(read_template.warnings, "warning").get("warnings", []) == row.get("warnings", [])
    frame = {"ctx": row["ctx"], "pipe": None, "item": row["ctx"].get("item")}
    if "error" in row:
        with pytest.raises(agf.StepError) as caught:
            read_template.evaluate(frame)
        assert code_and_place(caught.value.diagnostic) == row["error"]
    else:
        assert read_template.evaluate(frame) == row["ok"]


def test_a_misspelt_input_is_reported_with_the_nearest_name_and_the_fix() -> None:
    (warning,) = template("{doc}", "docs").warnings
    assert warning.hint == "did you mean docs? if the input has it, write {ctx.doc}"


def test_an_invisible_name_fails_and_the_error_says_how_to_pass_it() -> None:
    with pytest.raises(agf.StepError) as caught:
        fill("{acc}")
    hint = caught.value.diagnostic.hint
    assert hint.startswith("hand it on with pass")


def test_a_template_knows_the_names_that_it_reads() -> None:
    references = [(ref.path, ref.certain) for ref in template("{ctx.a.b} {review} {doc} {x y}", "review").reads()]
    assert references == [(("ctx", "a", "b"), True), (("ctx", "review"), True), (("ctx", "doc"), False)]


def test_a_value_without_a_text_form_is_refused() -> None:
    assert wrong("{v}", v=object()) == ("pipeline.template-value", "v")
    assert wrong("{v}", v=[object()]) == ("pipeline.template-value", "v")


def test_a_value_that_is_too_large_to_be_written_is_refused() -> None:
    shared: Any = ["text"]
    for _ in range(60):
        shared = [shared, shared]
    assert wrong("{v}", v=shared) == ("pipeline.template-value", "v")
    deep: Any = 1
    for _ in range(5_000):
        deep = [deep]
    assert wrong("{v}", v=deep) == ("pipeline.template-value", "v")
    assert len(fill("{v}", v="x" * (LONGEST_WRITTEN + 1))) == LONGEST_WRITTEN + 1  # a text is passed on unchanged


@given(st.text(st.sampled_from('{}ctx. v\n+()"é')))
def test_any_text_is_a_template(text: str) -> None:
    read_template = template(text)
    with contextlib.suppress(agf.StepError):
        assert "{ctx.v}" not in str(read_template.evaluate({"ctx": {"v": "{v}"}, "pipe": None, "item": None}))
