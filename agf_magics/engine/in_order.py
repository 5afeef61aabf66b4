"""Shapes whose parts run one after another: compute, choose, fold."""

from __future__ import annotations

from ..flow.frame import Expr, Frame, Outcome
from ..flow.steps import Choose, Compute, Fold
from ..flow.values import Value, type_name
from ..text.diagnostics import Diagnostic, StepError
from . import events as ev
from .perform import Index, Performer, Scope, clock


async def compute(run: Performer, step: Compute, frame: Frame, scope: Scope, index: Index) -> Value:
    return step.value.evaluate(frame)


async def choose(run: Performer, step: Choose, frame: Frame, scope: Scope, index: Index) -> Value:
    picked = step.pick.evaluate(frame)
    labels = step.labels(picked)
    chosen = next((step.cases[label] for label in labels if label in step.cases), step.default)
    if chosen is None:
        message = f"no case is labelled {labels[0]!r} and there is no default"
        raise StepError(Diagnostic("step.no-case", message, step.pick.span, f"the cases are {', '.join(step.cases)}"))
    for other in (*step.cases.values(), step.default):
        if other is not None and other is not chosen:
            run.emit(ev.StepSkipped((*scope.before, other.id, *index), clock(), f"not picked: {labels[0]}"))
    value, _ = await run.step(chosen, frame, scope, index)
    return value


async def fold(run: Performer, step: Fold, frame: Frame, scope: Scope, index: Index) -> Value:
    items = elements(step.over, frame)
    if step.most is not None:
        items = items[: step.most]
    run.emit(ev.FannedOut((*scope.before, step.id, *index), clock(), len(items)))
    value = step.init.evaluate(frame)
    for i, item in enumerate(items):
        frame = step.acc.store(step.element.store(frame, Outcome(item)), Outcome(value))
        value, frame = await run.step(step.body, frame, scope, (*index, i))
    return value


def elements(over: Expr, frame: Frame) -> list[Value]:
    """The list a fan-out or a fold goes over."""
    items = over.evaluate(frame)
    if type(items) is not list:
        hint = "over takes a list; without over and items the incoming pipe data is used"
        raise StepError(
            Diagnostic("step.not-a-list", f"a list is needed here, not {type_name(items)}", over.span, hint)
        )
    return items
