"""Shapes whose parts run one after another: compute, sequence, choose, fold, repeat."""

from __future__ import annotations

from ..flow.frame import Expr, Frame, Outcome
from ..flow.steps import Choose, Compute, Fold, Repeat, Sequence
from ..flow.values import Value, is_true, type_name
from ..host.calls import Pending, then
from ..progress import events as ev
from ..text.diagnostics import Diagnostic, StepError
from .runner import Index, Runner, Scope, ShapeResult, StepResult, clock


def compute(run: Runner, step: Compute, frame: Frame, scope: Scope, index: Index) -> Value:
    return step.value.evaluate(frame)


def choose(run: Runner, step: Choose, frame: Frame, scope: Scope, index: Index) -> Value | Pending[Value]:
    picked = step.pick.evaluate(frame)
    labels = step.labels(picked)
    chosen = next((step.cases[label] for label in labels if label in step.cases), step.default)
    if chosen is None:
        message = f"no case is labelled {labels[0]!r} and there is no default"
        raise StepError(Diagnostic("step.no-case", message, step.pick.span, f"the cases are {', '.join(step.cases)}"))
    for other in (*step.cases.values(), step.default):
        if other is not None and other is not chosen:
            run.emit(ev.StepSkipped((*scope.before, other.id, *index), clock(), f"not picked: {labels[0]}"))
    return then(run.start_step(chosen, frame, scope, index), _value)


def _value(left: StepResult) -> Value:
    return left[0]


async def fold(run: Runner, step: Fold, frame: Frame, scope: Scope, index: Index) -> Value:
    items = elements(step.over, frame)
    if step.most is not None:
        items = items[: step.most]
    run.emit(ev.FanOutStarted((*scope.before, step.id, *index), clock(), len(items)))
    value = step.init.evaluate(frame)
    for i, item in enumerate(items):
        frame = step.acc.store(step.element.store(frame, Outcome(item)), Outcome(value))
        left = run.start_step(step.body, frame, scope, (*index, i))
        value, frame = await left.awaitable if type(left) is Pending else left
    return value


async def sequence(run: Runner, step: Sequence, frame: Frame, scope: Scope, index: Index) -> ShapeResult:
    """Its steps in order; what they leave is seen by the steps after it."""
    value: Value = None
    for inner in step.steps:
        left = run.start_step(inner, frame, scope, index)
        value, frame = await left.awaitable if type(left) is Pending else left
        run.reach(scope, frame)
    return ShapeResult(value, frame=frame)


async def repeat(run: Runner, step: Repeat, frame: Frame, scope: Scope, index: Index) -> ShapeResult:
    """``body`` until ``until`` is true; the last iteration's value and frame."""
    if step.session:
        run.budget.spawn(step.span)
    value: Value = None
    for i in range(step.limit):
        left = run.start_step(step.body, frame, scope, (*index, i))
        value, frame = await left.awaitable if type(left) is Pending else left
        run.reach(scope, frame)
        if step.until is not None and is_true(step.until.evaluate(frame)):
            break
    else:
        if step.until is not None and step.over is not None:
            tell(run, step.over(step.limit, frame))
    return ShapeResult(value, frame=frame)


def tell(run: Runner, found: Diagnostic) -> None:
    """What a definition has to say of its own limits: a warning of the run, or the step's failure."""
    if found.severity == "error":
        raise StepError(found)
    run.emit(ev.Warned(clock(), found))


def elements(over: Expr, frame: Frame) -> list[Value]:
    """The list a fan-out or a fold goes over."""
    items = over.evaluate(frame)
    if type(items) is not list:
        hint = "over takes a list; without over and items the incoming pipe data is used"
        raise StepError(
            Diagnostic("step.not-a-list", f"a list is needed here, not {type_name(items)}", over.span, hint)
        )
    return items
