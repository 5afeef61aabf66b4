"""Whole pipelines run from their text to their output, stores and calls (tests/vectors/pipeline_runs.json)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from tests.engine.pipeline_case import Tools, limits_of, registry_of
from tests.engine.virtual_time import run_virtual
from tests.languages.typed import typed

ROWS = json.loads((Path(__file__).parent.parent / "vectors" / "pipeline_runs.json").read_text())["rows"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_a_pipeline_runs_as_its_vector_says(row: dict[str, Any]) -> None:
    tools = Tools()
    registry = registry_of(row, tools)
    if "error" in row:
        with pytest.raises(agf.AgfError) as caught:
            _run(row, registry)
        diagnostic = caught.value.diagnostic
        assert (diagnostic.code, diagnostic.span.text if diagnostic.span else None) == (
            row["error"]["code"],
            row["error"]["at"],
        )
    else:
        run = _run(row, registry)
        assert run.status == "ok"
        assert typed(run.output) == typed(row["ok"]["output"])
        if "named_stores" in row["ok"]:
            assert typed(dict(run.stores)) == typed(row["ok"]["named_stores"])
    if "calls" in row:
        assert tools.calls == row["calls"]
    if "max_live" in row:
        assert tools.most == row["max_live"]


def _run(row: dict[str, Any], registry: agf.Registry) -> agf.Run:
    flow = agf.load(row["text"], registry=registry)
    if row.get("self_register"):
        agf.define(row["text"], registry=registry)
    run: agf.Run = run_virtual(agf.arun(flow, row["input"], registry=registry, limits=limits_of(row)))
    return run


def test_an_expression_alone_reads_its_context_as_the_root() -> None:
    assert agf.evaluate("r1", "a.b + ctx.n", {"a": {"b": 1}, "ctx": {"n": 2}}) == 3
    with pytest.raises(agf.StepError) as caught:
        agf.evaluate("r1", "a.c", {"a": {"b": 1}})
    assert caught.value.code == "r1.missing-path"


class _Silent:
    def __repr__(self) -> str:
        raise LookupError


@pytest.mark.parametrize("value", [10**5_000, [_Silent()]], ids=["digits", "silent"])
def test_a_value_without_a_text_selects_no_case(value: Any) -> None:
    text = "{pipeline: p, steps: [{match: {on: ctx.x, cases: {a: {pipeline: q}}}}]}"
    registry = agf.Registry()
    agf.define("{pipeline: q, steps: [{transform: {value: '1'}}]}", registry=registry)
    run = agf.run(text, {"x": value}, registry=registry, raises=False)
    assert run.error is not None
    assert run.error.code == "step.no-case"


def test_a_number_with_too_many_digits_is_an_error() -> None:
    registry = agf.Registry()
    agf.tool(lambda: {"n": 10**5_000}, name="count", registry=registry)
    text = (
        "schema: S\nfields: {n: {type: number, maximum: 1}}\n---\n"
        "pipeline: p\nsteps: [{tool: {name: count, schema: S}}]\n"
    )
    run = agf.run(text, registry=registry, raises=False)
    assert run.error is not None
    assert "n: needs at most 1, not a very large number" in run.error.diagnostic.message
