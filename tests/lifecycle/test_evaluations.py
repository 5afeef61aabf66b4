"""The evaluations of steps without calls: what each read and gave, each time."""

from __future__ import annotations

from pathlib import Path

import pytest

import agf_magics as agf
from agf_magics.lifecycle.forecasts.evaluations import evaluates, find_evaluations
from agf_magics.lifecycle.past.past_run import find_past_run
from tests.engine.kept import journal_in

FLOW = """
pipeline: values
steps:
- for_each:
    over: ctx.ns
    on_error: continue
    do: {transform: {value: '6 / item'}}
    collect: {transform: {value: pipe}}
    output: parts
- fold:
    over: ctx.ns
    init: '0'
    do: {transform: {value: acc + item}}
    output: total
- match:
    on: ctx.total > 3
    cases: {'True': {pipeline: large, pass: {item: ctx.total}}}
    default: {pipeline: large, pass: {item: '0'}}
"""


@pytest.mark.parametrize("is_past", [False, True])
def test_elements_accumulators_and_cases_have_what_they_read_and_gave(tmp_path: Path, is_past: bool) -> None:
    registry = agf.Registry()
    agf.define("pipeline: large\nsteps: [{transform: {value: item * 10}}]", registry=registry)
    with journal_in(tmp_path):
        live = agf.run(agf.define(FLOW, registry=registry), {"ns": [1, 0, 3]}, registry=registry)
        run = find_past_run(live.run_id) if is_past else live

        def seen(step: str) -> list[tuple[tuple[int, ...], dict[str, object], object, str, bool]]:
            row = run.progress.rows[tuple(step.split("/"))]
            assert evaluates(row.step)
            evaluations, note = find_evaluations(run, row)
            assert not note
            return [
                (
                    evaluation.numbers,
                    dict(evaluation.values_read),
                    evaluation.value,
                    evaluation.case,
                    evaluation.error is not None,
                )
                for evaluation in evaluations
            ]

        elements = [
            ((0,), {"item": 1}, 6, "", False),
            ((1,), {"item": 0}, None, "", True),
            ((2,), {"item": 3}, 2, "", False),
        ]
        assert seen("steps[0]") == seen("steps[0].do") == elements
        sums = [((0,), {"acc": 0, "item": 1}, 1), ((1,), {"acc": 1, "item": 0}, 1), ((2,), {"acc": 1, "item": 3}, 4)]
        assert [evaluation[:3] for evaluation in seen("steps[1]")] == sums
        assert seen("steps[2]") == [((), {"ctx.total": 4}, 40, "True", False)]
