"""Runs the shapes whose parts run in order: compute, sequence, choose, fold, repeat."""

from __future__ import annotations

from functools import partial

from ...flow.progress import events as ev
from ...flow.protocols import Outcome
from ...flow.steps import Choose, Compute, Fold, Repeat, Sequence, children
from ...text.diagnostics import Diagnostic, StepError
from ...values.value import Value, is_true
from ..late_values import when_read
from ..runner import CallSite, Runner, ShapeResult, clock
from .elements import first_of, read_elements


async def compute(site: CallSite[Compute]) -> Value:
    """The value of an expression."""
    return await when_read(partial(site.step.value.evaluate, site.frame))


async def choose(site: CallSite[Choose]) -> Value:
    """Run the first case with a label of the picked value, else the default."""
    step, run = site.step, site.run
    picked = await when_read(partial(step.pick.evaluate, site.frame))
    labels = step.labels(picked)
    chosen = next((step.cases[label] for label in labels if label in step.cases), step.default)
    if chosen is None:
        message = f"no case is labelled {labels[0]!r} and there is no default"
        raise StepError(
            Diagnostic(
                "step.no-case", message, step.pick.span, f"the cases are {', '.join(step.cases)}"
            )
        )
    for case in children(step):
        if case is not chosen:
            # The rows of the other cases must not look pending.
            run.emit(ev.StepSkipped(site.path_of(case), clock(), f"not picked: {labels[0]}"))
    value, _ = await run.run_step(chosen, site.frame, site.scope, site.index)
    return value


async def fold(site: CallSite[Fold]) -> Value:
    """Run ``body`` for one element after the other; each result is the next accumulator."""
    step, frame = site.step, site.frame
    items = await read_elements(site)
    if step.most is not None:
        items = first_of(items, step.most)
    site.run.emit(ev.FanOutStarted(site.path, clock(), len(items), items.source))
    value = await when_read(partial(step.init.evaluate, frame))
    for i in range(len(items)):
        item = await items.take(i)
        # The accumulator is bound last, so that it wins if both have the same name.
        frame = step.acc.store(step.element.store(frame, Outcome(item)), Outcome(value))
        value, frame = await site.run.run_step(step.body, frame, site.scope, (*site.index, i))
    await items.check_length()
    return value


async def sequence(site: CallSite[Sequence]) -> ShapeResult:
    """Run the steps in order; each sees what the steps before it stored."""
    frame, value = site.frame, None
    for inner in site.step.steps:
        value, frame = await site.run.run_step(inner, frame, site.scope, site.index)
        site.run.reach(site.scope, frame)
    return ShapeResult(value, frame=frame)


async def repeat(site: CallSite[Repeat]) -> ShapeResult:
    """Run ``body`` until ``until`` is true; the result is that of the last iteration."""
    run = site.run
    step = site.step
    frame = site.frame
    if step.session:
        # Checked before the prompt is built: a refused session costs nothing.
        run.open_session(step.span)
    value: Value = None
    for i in range(step.limit):
        value, frame = await run.run_step(step.body, frame, site.scope, (*site.index, i))
        run.reach(site.scope, frame)
        if step.until is not None:
            ends = await when_read(partial(step.until.evaluate, frame))
            if is_true(ends):
                break
    else:
        if step.until is not None and step.over is not None:
            report(run, step.over(step.limit, frame))
    return ShapeResult(value, frame=frame)


def report(run: Runner, diagnostic: Diagnostic) -> None:
    """Emit ``diagnostic``, a problem about a definition's own limits, or raise it if it is an
    error."""
    if diagnostic.severity == "error":
        raise StepError(diagnostic)
    run.emit(ev.Warned(clock(), diagnostic))
