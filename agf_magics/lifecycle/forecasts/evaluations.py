"""Recomputes the values that an expression had in an ended run, for each of its evaluations.

These are the inputs and results of steps of which the journal has no call: the elements of a fan-out
or a fold, a transform inside it, a match and its case, a called flow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from ...engine.runner import CallSite, Shape, ShapeResult
from ...engine.shapes.step_functions import SHAPES
from ...flow.progress.rows import Key, Row, key_of
from ...flow.protocols import Frame, Ref
from ...flow.step import Step
from ...flow.steps import Choose, Compute, Each, Fold, Invoke, own_reads
from ...journal.secrets.masking import Secrets
from ...pictures.plain import line
from ...text.diagnostics import AgfError
from ...values.value import Value
from ..past.past_run import PastRun
from ..runs.run import Run
from .recorded_evaluation import RecordedEvaluation
from .stand_ins import as_shown

MOST_EVALUATIONS = 10_000
"""The number of evaluations that are stored for a step, the first ones."""
MOST_TOGETHER = 200_000
"""The number of evaluations that are stored for several steps together."""


class Evaluation(NamedTuple):
    """One evaluation of a step, without secrets."""

    numbers: tuple[int, ...]
    """The numbers of the elements around it."""
    values_read: Mapping[str, Value]
    """The values that the step read, by name: ``item``, ``acc``, ``ctx.total``."""
    value: Value = None
    error: BaseException | None = None
    case: str = ""
    """The label of the case that a match picked."""


def evaluates(step: Step) -> bool:
    """Whether `find_evaluations` adds something about ``step``: of a fan-out over one call, the
    journaled calls already show everything."""
    match step:
        case Each():
            return not isinstance(step.body, Invoke)
        case Invoke():
            return step.kind == "flow"
    return isinstance(step, Fold | Compute | Choose)


def find_evaluations(run: Run | PastRun, row: Row) -> tuple[list[Evaluation], str]:
    """The evaluations of a step of ``run`` in the order of their elements, and why some are
    missing. Raises DefinitionError if the run is not journaled or cannot be read."""
    ((evaluations, note),) = find_all_evaluations(run, [row])
    return evaluations, note


def find_all_evaluations(
    run: Run | PastRun, rows: Sequence[Row]
) -> list[tuple[list[Evaluation], str]]:
    """`find_evaluations` for each of these steps: the run is evaluated once for all of them."""
    by_key = dict[Key, list[_Evaluations]]()
    recorders, shapes = list[_Evaluations](), dict(SHAPES)
    most = min(max(MOST_TOGETHER // len(rows), 100), MOST_EVALUATIONS)
    for row in rows:
        step = row.step
        watched = step.body if isinstance(step, Each | Fold) else step
        recorder = _Evaluations(step, run.secrets, most)
        recorders.append(recorder)
        by_key.setdefault((*row.key[:-1], watched.id), []).append(recorder)
        shapes[type(watched)] = _around(SHAPES[type(watched)], by_key)
    note = RecordedEvaluation(run).evaluate(emit=lambda event: None, shapes=shapes)
    failure = run.error.diagnostic.message if isinstance(run.error, AgfError) else ""
    if note == line(failure, 300):  # the evaluation came as far as the run, so no value is missing
        note = ""
    for recorder in recorders:
        recorder.evaluations.sort(key=lambda evaluation: evaluation.numbers)
    return [
        (recorder.evaluations, "; ".join(filter(None, (note, recorder.note))))
        for recorder in recorders
    ]


def _around(shape: Shape, recorders: Mapping[Key, Sequence[_Evaluations]]) -> Shape:
    """``shape`` that also stores the inputs and the result of the steps with these keys."""

    async def kept(site: CallSite[Any]) -> Value:
        watching = recorders.get(key_of(site.path), ())
        if not watching:
            return await shape(site)
        try:
            value = await shape(site)
        except Exception as error:
            for recorder in watching:
                recorder.keep(site, None, error)
            raise
        for recorder in watching:
            recorder.keep(site, value, None)
        return value

    return kept


def _reads(step: Step) -> tuple[Ref, ...]:
    match step:
        case Each():
            return step.element.writes()
        case Fold():
            return (*step.acc.writes(), *step.element.writes())
    return own_reads(step)


class _Evaluations:
    """Keeps the evaluations of one step, at most ``most``."""

    def __init__(self, step: Step, secrets: Secrets, most: int) -> None:
        self.is_call = isinstance(step, Invoke)
        self.most = most
        self.evaluations: list[Evaluation] = []
        self.note = ""
        self._secrets = secrets
        # `ctx.a` and `ctx.a.b` are one value, shown once.
        paths = dict.fromkeys(ref.path for ref in _reads(step))
        self._paths = [
            path for path in paths if not any(path[:n] in paths for n in range(1, len(path)))
        ]

    def _given(self, site: CallSite[Any]) -> dict[str, Value]:
        """What the step read, by the paths in its text; what a called flow gets, by its names."""
        if self.is_call:  # the body of a fold may be a call, too, and shows what the fold reads
            arguments: Value = None
            with suppress(Exception):  # the call failed for this reason, and its error says so
                arguments = site.step.args.build(site.frame)
            return arguments if isinstance(arguments, dict) else {}
        return {".".join(path): _read(site.frame, path) for path in self._paths}

    def _shown(self, value: Value) -> Value:
        return self._secrets.shown(as_shown(value))

    def keep(self, site: CallSite[Any], value: Value, error: Exception | None) -> None:
        if len(self.evaluations) >= self.most:
            self.note = f"the first {self.most:,} are shown"
            return
        values = {name: self._shown(value) for name, value in self._given(site).items()}
        numbers = tuple(part for part in site.path if isinstance(part, int))
        case = _case_of(site.step, site.frame) if isinstance(site.step, Choose) else ""
        value = value.value if isinstance(value, ShapeResult) else value
        self.evaluations.append(Evaluation(numbers, values, self._shown(value), error, case))


def _read(frame: Frame, path: tuple[str, ...]) -> Value:
    value: Any = frame
    for name in path:
        if not isinstance(value, Mapping) or name not in value:
            return None
        value = value[name]
    return value


def _case_of(step: Choose, frame: Frame) -> str:
    try:
        labels = step.labels(step.pick.evaluate(frame))
    except Exception:  # the evaluation failed, and its error says so
        return ""
    return next((label for label in labels if label in step.cases), "default")
