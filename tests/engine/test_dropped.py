"""Elements that fail and are dropped: the run lists them with their values, counts all, and warns if no element is
left."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.flow.progress.events import ElementDropped
from agf_magics.flow.progress.progress import FAILURES_KEPT, Progress
from agf_magics.pictures.pages.run_page import run_text
from tests.engine import kept

EACH = "pipeline: p\nsteps:\n- for_each: {over: ctx.xs, on_error: continue, do: {tool: {name: odd, args: {x: !expr item}}}, collect: {transform: {value: pipe}}}\n"  # noqa: E501
NESTED = "pipeline: p\nsteps:\n- for_each: {over: ctx.xs, on_error: continue, do: {for_each: {items: [2, 4], on_error: continue, do: {tool: {name: odd, args: {x: !expr item}}}, collect: {transform: {value: pipe}}}}, collect: {transform: {value: pipe}}}\n"  # noqa: E501
BRANCHES = "pipeline: p\nsteps:\n- parallel: {on_error: continue, branches: {a: {tool: {name: odd, args: {x: 2}}}, b: {tool: {name: odd, args: {x: 4}}}}, collect: {transform: {value: pipe}}}\n"  # noqa: E501
CALL = "pipeline: p\nsteps:\n- tool: {name: odd, args: {x: 2}, on_error: continue}\n"
"""Its failure is in the headline of the run."""


def run_pipeline_text(text: str, xs: Any = (), **more: Any) -> agf.Run:
    registry = agf.Registry()

    @agf.tool(registry=registry, where="loop", **more)
    def odd(x: Any) -> Any:
        if not isinstance(x, int) or x % 2 == 0:
            raise ValueError("it is even")
        return x

    return agf.run(text, {"xs": list(xs)}, registry=registry, raises=False)


def all_dropped(run: agf.Run) -> list[str]:
    return [warning.message for warning in run.warnings if warning.code == "run.all-dropped"]


def test_each_failure_has_the_value_of_its_element() -> None:
    run = run_pipeline_text(EACH, [1, 2, {"a": [4]}, 3])
    failures = run.progress.failures
    assert [(failure.at[-1], failure.element) for failure in failures] == [(1, 2), (2, {"a": [4]})]
    assert all(failure.error.code == "step.tool-failed" for failure in failures)  # type: ignore[attr-defined]
    assert 'each of xs #2 ({"a": [4]})' in run_text(run)
    assert (run.output, all_dropped(run)) == ([1, 3], [])


def test_the_value_of_an_element_is_a_bounded_preview() -> None:
    (failure,) = run_pipeline_text(EACH, ["x" * 100_000]).progress.failures
    assert len(str(failure.element)) < 3_000
    (failure,) = run_pipeline_text(EACH, [object()]).progress.failures
    assert failure.element == "⟨object⟩"


def test_a_secret_element_is_masked() -> None:
    failures = run_pipeline_text(EACH, ["open sesame"], secret=("x",)).progress.failures
    assert "sesame" not in repr(failures)


def test_failures_are_complete_or_state_their_total() -> None:
    run = run_pipeline_text(EACH, range(2, 602, 2))
    failures = run.progress.failures
    assert (len(failures), failures.total, run.progress.failed) == (300, 300, 300)
    assert repr(failures).startswith("<300 of 300 failures: [Failure(")
    assert repr(failures).endswith(" and 297 more, by a loop over them>")
    progress = Progress(run.flow)
    error = failures[0].error
    for number in range(FAILURES_KEPT + 1):
        progress.apply(ElementDropped(("steps[0].do", number), 0.0, error, None))
    assert (len(progress.failures), progress.failures.total) == (FAILURES_KEPT, FAILURES_KEPT + 1)


def test_the_journal_has_the_reason_of_each_dropped_element(tmp_path: Path) -> None:
    text = """schema: Row
fields: {n: {type: number, required: true}}
---
pipeline: p
steps:
- for_each:
    over: ctx.xs
    on_error: continue
    do: {tool: {name: row, args: {x: !expr item}, schema: Row}}
    collect: {transform: {value: pipe}}
"""
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def row(x: int) -> Any:
        if x == 1:
            raise ValueError("no row 1")
        return {"n": "two" if x == 2 else x}

    with kept.journal_in(tmp_path):
        run = agf.run(text, {"xs": [0, 1, 2, 3]}, registry=registry)
        past = agf.runs(run.run_id)
        codes = [failure.error.code for failure in run.progress.failures]  # type: ignore[attr-defined]
        assert sorted(codes) == ["step.schema", "step.tool-failed"]
        assert {failure.at for failure in past.progress.failures} == {failure.at for failure in run.progress.failures}
        assert sorted(failure.error.code for failure in past.progress.failures) == sorted(codes)
        failed = {call["step"]: call["error"] for call in past.calls if call["status"] in ("failed", "dropped")}
        assert failed.keys() == {"steps[0].do#1", "steps[0].do#2"}
        assert "n: needs a number" in failed["steps[0].do#2"]


@pytest.mark.parametrize(
    ("text", "xs", "says"),
    [
        (EACH, [2, 4, 6], ["for_each: all elements failed and were dropped (3)"]),
        (EACH, [2], ["for_each: all elements failed and were dropped (1)"]),
        (EACH, [2, 3], []),
        (EACH, [], []),
        (NESTED, [1, 2, 3], ["for_each: all elements failed and were dropped (2)"]),
        (BRANCHES, [], ["parallel: all branches failed and were dropped (2)"]),
        (CALL, [], []),
    ],
)
def test_a_run_that_dropped_all_elements_of_a_step_warns_once(text: str, xs: list[int], says: list[str]) -> None:
    run = run_pipeline_text(text, xs)
    assert (run.status, all_dropped(run)) == ("ok", says)
    assert [loss.message for loss in run.progress.losses] == says


def test_the_counters_of_a_fan_out_compare_with_its_width_and_not_with_what_has_started() -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry, where="loop")
    async def work(x: int) -> int:
        await asyncio.sleep(0)
        return x

    text = EACH.replace("odd", "work")
    started = agf.start(text, {"xs": list(range(40))}, registry=registry)
    started.wait()
    rows = started.progress.rows
    assert rows[("steps[0].do",)].total == 40
    assert rows[("steps[0]",)].total is None


def test_a_past_run_lists_its_dropped_elements(tmp_path: Path) -> None:
    with kept.journal_in(tmp_path):
        run = run_pipeline_text(EACH, [1, 2, 4])
        past = agf.runs(run.run_id)
        failures = past.progress.failures
        assert [failure.at for failure in failures] == [failure.at for failure in run.progress.failures]
        assert failures.total == 2
