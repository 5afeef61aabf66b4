"""The values that an expression had in an ended run, computed again for each of its evaluations.

They are what a step that only evaluates read and gave: the elements of a fan-out or a fold, a
transform inside one, a match and its case.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ...engine.runner import CallSite, Shape, ShapeResult
from ...engine.shapes.table import SHAPES
from ...flow.frame import Frame, Ref
from ...flow.progress.rows import Key, Row, key_of
from ...flow.step import Step
from ...flow.steps import Choose, Compute, Each, Fold, Invoke, own_reads
from ...journal.secrets.masking import Secrets
from ...values.value import Value
from ..past.past_run import PastRun
from ..runs.run import Run
from .moments import RunAgain

MOST_EVALUATIONS = 10_000
"""Those that are kept, the first ones."""


class Evaluation(NamedTuple):
    """One evaluation of a step, without secrets."""

    numbers: tuple[int, ...]
    """The numbers of the elements around it."""
    given: Mapping[str, Value]
    """What it read, by its name: ``item``, ``acc``, ``ctx.total``."""
    value: Value = None
    error: BaseException | None = None
    case: str = ""
    """The label of the case that a match picked."""


def evaluates(step: Step) -> bool:
    """Whether `find_evaluations` has something to say about ``step``; the calls of a fan-out over
    one call say it all."""
    if isinstance(step, Each):
        return not isinstance(step.body, Invoke)
    return isinstance(step, Fold | Compute | Choose)


def find_evaluations(run: Run | PastRun, row: Row) -> tuple[list[Evaluation], str]:
    """The evaluations of a step of ``run`` in the order of their elements, and why some are
    missing. Raises DefinitionError if the run is not journaled or cannot be read."""
    step, key = row.step, row.key
    watched = step.body if isinstance(step, Each | Fold) else step
    recorder = _Evaluations((*key[:-1], watched.id), _reads(step), run.secrets)
    shape = type(watched)
    shapes = {**SHAPES, shape: recorder.around(SHAPES[shape])}
    note = RunAgain(run).evaluate(emit=lambda event: None, shapes=shapes)
    kept = sorted(recorder.kept, key=lambda one: one.numbers)
    return kept, "; ".join(filter(None, (note, recorder.note)))


def _reads(step: Step) -> tuple[Ref, ...]:
    match step:
        case Each():
            return step.element.writes()
        case Fold():
            return (*step.acc.writes(), *step.element.writes())
    return own_reads(step)


class _Evaluations:
    """Keeps the evaluations of the step with one key."""

    def __init__(self, key: Key, reads: tuple[Ref, ...], secrets: Secrets) -> None:
        self.kept: list[Evaluation] = []
        self.note = ""
        self._key, self._mask = key, secrets.shown
        # `ctx.a` and `ctx.a.b` are one value, shown once.
        paths = dict.fromkeys(ref.path for ref in reads)
        self._paths = [
            path for path in paths if not any(path[:n] in paths for n in range(1, len(path)))
        ]

    def around(self, shape: Shape) -> Shape:
        """``shape``, which also keeps what the step read and gave."""

        async def kept(site: CallSite[Any]) -> Value:
            if key_of(site.at) != self._key:
                return await shape(site)
            try:
                value = await shape(site)
            except Exception as error:
                self._keep(site, None, error)
                raise
            self._keep(site, value, None)
            return value

        return kept

    def _keep(self, site: CallSite[Any], value: Value, error: Exception | None) -> None:
        if len(self.kept) >= MOST_EVALUATIONS:
            self.note = f"the first {MOST_EVALUATIONS:,} are shown"
            return
        given = {".".join(path): self._mask(_read(site.frame, path)) for path in self._paths}
        numbers = tuple(part for part in site.at if isinstance(part, int))
        case = _picked(site.step, site.frame) if isinstance(site.step, Choose) else ""
        value = value.value if isinstance(value, ShapeResult) else value
        self.kept.append(Evaluation(numbers, given, self._mask(value), error, case))


def _read(frame: Frame, path: tuple[str, ...]) -> Value:
    value: Any = frame
    for name in path:
        if not isinstance(value, Mapping) or name not in value:
            return None
        value = value[name]
    return value


def _picked(step: Choose, frame: Frame) -> str:
    try:
        labels = step.labels(step.pick.evaluate(frame))
    except Exception:  # it failed, as its error says
        return ""
    return next((label for label in labels if label in step.cases), "default")
