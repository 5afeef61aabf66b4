"""The tree of a run, computed from its events alone: the counts and the state of each row."""

from __future__ import annotations

from typing import Any

import pytest

import agf_magics as agf
from agf_magics.flow.progress import events as ev
from agf_magics.flow.progress.progress import Progress
from agf_magics.text.diagnostics import Diagnostic, StepError

EACH = """
pipeline: p
steps:
- for_each:
    over: ctx.xs
    on_error: continue
    do: {parallel: {branches: {a: {tool: {name: t}}, b: {tool: {name: t}}}, collect: {transform: {value: pipe}}}}
    collect: {transform: {value: pipe}}
- tool: {name: t}
"""
BODY, A, B, LAST = "steps[0].do", "steps[0].do.branches.a", "steps[0].do.branches.b", "steps[1]"
WRONG = StepError(Diagnostic("step.tool-failed", "no"))


def started(*path: Any, when: float = 0.0) -> ev.Event:
    return ev.StepStarted(path, when, 1)


def finished(*path: Any, when: float = 1.0) -> ev.Event:
    return ev.StepFinished(path, when, None)


def failed(*path: Any) -> ev.Event:
    return ev.StepFailed(path, 1.0, WRONG)


def cancelled(*path: Any) -> ev.Event:
    return ev.StepCancelled(path, 1.0)


def dropped(i: int) -> ev.Event:
    return ev.ElementDropped((BODY, i), 1.0, WRONG)


def retried(i: int) -> ev.Event:
    return ev.StepRetried((BODY, i), 1.0, WRONG)


def element(i: int, ends: Any) -> list[ev.Event]:
    """The events of an element in which one branch fails and the other is cancelled, followed by ``ends``."""
    events = [started(BODY, i), started(A, i), started(B, i), failed(B, i), cancelled(A, i), failed(BODY, i)]
    return [*events, ends(i)] if ends else events


def good(i: int) -> list[ev.Event]:
    return [started(BODY, i), started(A, i), started(B, i), finished(A, i), finished(B, i), finished(BODY, i)]


def fold(*events: ev.Event) -> Progress:
    progress = Progress(agf.load(EACH))
    for event in events:
        progress.apply(event)
    return progress


@pytest.mark.parametrize(
    ("events", "states"),
    [
        ([], ("pending", "pending", "pending")),
        (good(0), ("ok", "ok", "ok")),
        (element(0, None), ("failed", "cancelled", "failed")),
        (element(0, dropped), ("failed", "cancelled", "failed")),
        ([*element(0, dropped), *good(1)], ("ok", "ok", "ok")),
        ([*good(0), *element(1, dropped)], ("ok", "ok", "ok")),
        ([*element(0, retried), *good(0)], ("ok", "ok", "ok")),
        ([*good(1), *element(0, retried), *element(0, None)], ("failed", "cancelled", "failed")),
        ([*good(1), *element(0, dropped), *element(2, None)], ("failed", "cancelled", "failed")),
    ],
    ids=["nothing", "good", "bad", "dropped", "dropped, good", "good, dropped", "retried, good", "retried, bad",
         "dropped, bad"],
)  # fmt: skip
def test_what_was_dropped_or_retried_does_not_count_against_a_step(
    events: list[ev.Event], states: tuple[str, ...]
) -> None:
    rows = {row.id: row for row in fold(*events).rows.values()}
    assert tuple(rows[id].state for id in (BODY, A, B)) == states


def test_a_row_describes_itself() -> None:
    progress = fold(started(BODY, 0), *good(1), *good(2), started(LAST, when=1.0))
    rows = {row.id: row for row in progress.rows.values()}
    assert repr(rows["steps[0]"]) == "<steps[0] for_each ctx.xs: pending>"
    assert repr(rows[A]) == "<steps[0].do.branches.a tool t: ok, 2 of 2, 1.000 s>"
    assert repr(rows[BODY]) == "<steps[0].do parallel a, b: running, 2 of 3, 1.000 s>"
    assert repr(rows[LAST]) == "<steps[1] tool t: running>"
    progress.apply(finished(LAST, when=3.25))
    assert repr(rows[LAST]) == "<steps[1] tool t: ok, 2.250 s>"
    progress.apply(started(LAST, when=4.0))
    assert repr(rows[LAST]) == "<steps[1] tool t: running, 1 of 2, 2.250 s>"


def test_only_the_cases_that_a_match_did_not_pick_are_skipped() -> None:
    registry = agf.Registry()
    for name in "abc":
        agf.define(f"pipeline: {name}\nsteps:\n- transform: {{value: '1'}}", registry=registry)
    cases = "cases: {a: {pipeline: a}, b: {pipeline: b}}, default: {pipeline: c}"
    text = f"pipeline: p\nsteps:\n- match: {{on: ctx.x, {cases}}}"
    for x, picked in (("a", "cases.a"), ("b", "cases.b"), ("else", "default")):
        rows = agf.run(agf.load(text, registry=registry), {"x": x}, registry=registry).steps
        skipped = {id for id in ("cases.a", "cases.b", "default") if rows[f"steps[0].{id}"].skipped}
        assert skipped == {"cases.a", "cases.b", "default"} - {picked}
