"""Finds the state of an ended run at each of its moments, and the changes between two moments.

The run is evaluated again (recorded_evaluation.py), so that the engine's own rules show the state:
the stores of a pipeline after each step, the state of a graph after each round, the context of a
plan after each call.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any, NamedTuple

from ...engine.linking.linked import Linked
from ...flow.flow import Flow, stores_in
from ...flow.progress import events as ev
from ...flow.progress.progress import Progress
from ...flow.progress.rows import key_of
from ...flow.protocols import Frame
from ...flow.step_names import name_of, part_names
from ...flow.steps import every
from ...journal.secrets.masking import Secrets
from ...pictures.difference import find_differences
from ...pictures.plain import line
from ...values.value import Value
from ..past.past_run import PastRun
from ..runs.run import Run
from .moment_rows import MomentRows
from .recorded_evaluation import RecordedEvaluation, RecordedJournal, SeenEnough
from .stand_ins import as_shown

MOST_MOMENTS = 10_000
"""The largest number of moments of a run; later moments are left out."""

LONGEST_LABEL = 200
"""The largest number of characters in the label of a moment."""

MOST_DIFFERENCES = 100
"""The largest number of differences between two moments that are listed."""


class Moment(NamedTuple):
    """A state of a run."""

    label: str
    """The steps that ended just before the moment; ``start`` for the first moment."""
    seconds: float | None
    """The seconds since the start of the run; None: unknown."""
    frame: Frame
    steps: tuple[str, ...] = ()
    """The ids of the steps in the label."""


class Difference(NamedTuple):
    """A part that differs between two moments. `MISSING` stands for a part that one moment
    lacks."""

    path: str
    first: Any
    other: Any


class Moments:
    """The states of one run, in their order."""

    def __init__(
        self, flow: Flow, moments: list[Moment], rows: MomentRows, note: str, secrets: Secrets
    ) -> None:
        self._flow = flow
        self._moments = moments
        self.rows = rows
        self.note = note
        """The reason why the last moments are missing; empty: none is missing."""
        self._mask = secrets.shown

    def __len__(self) -> int:
        return len(self._moments)

    def __getitem__(self, number: int) -> Moment:
        return self._moments[number]

    def step_after(self, number: int) -> str:
        """The step whose end is the next moment, so that a run can go on from that step with the
        state of moment ``number``; empty if there is none, or if the step ended at other moments,
        too."""
        following = self._moments[number + 1].steps if number + 1 < len(self) else ()
        steps = [step for moment in self._moments for step in moment.steps]
        return next((step for step in following if steps.count(step) == 1), "")

    def state(self, number: int) -> dict[str, Value]:
        """The named values at a moment, without secrets."""
        values = stores_in(self._flow, self._moments[number].frame)
        return {str(name): self._mask(as_shown(value)) for name, value in values.items()}

    def differences(self, first: int, other: int) -> tuple[list[Difference], bool]:
        """At most `MOST_DIFFERENCES` parts that differ between two moments, and whether more parts
        differ."""
        before = self.state(first)
        after = self.state(other)
        # Most values are the same object at both moments, so the comparison is fast.
        for name in before.keys() & after.keys():
            if before[name] is after[name]:
                del before[name], after[name]
        parts = islice(find_differences(before, after), MOST_DIFFERENCES + 1)
        differences = [Difference(path.removeprefix("."), a, b) for path, a, b in parts]
        return differences[:MOST_DIFFERENCES], len(differences) > MOST_DIFFERENCES


class _MomentMaker:
    """Turns each frame of the outermost flow into a moment."""

    def __init__(
        self, linked: Linked, journal: RecordedJournal, clock: Callable[[float], float]
    ) -> None:
        flow = linked.flow
        self.rows = MomentRows(Progress(flow, linked.callees))
        self.moments: list[Moment] = []
        self._journal = journal
        self._clock = clock
        steps = list(every(flow.body))
        names_of_parts = {id: name for step in steps for id, name in part_names(step).items()}
        self._labels = {
            step.id: line(name_of(step, names_of_parts.get(step.id, "")), 80) for step in steps
        }
        self._ended: dict[str, None] = {}
        """The steps of the outermost flow that ended since the last moment."""

    def on_event(self, event: ev.Event) -> None:
        self.rows.apply(event)
        if type(event) is ev.StepFinished and len(key_of(event.at)) == 1:
            self._ended.setdefault(str(event.at[0]))

    def on_frame(self, frame: Frame) -> None:
        """Add a moment for a frame, unless it is the frame of the last moment."""
        moments = self.moments
        ended = self._journal.last_end
        if moments and frame is moments[-1].frame:
            return
        if len(moments) >= MOST_MOMENTS:
            raise SeenEnough(f"the first {MOST_MOMENTS:,} moments")
        seconds = None if ended is None else self._clock(ended)
        moments.append(self._moment(seconds, frame) if moments else Moment("start", 0.0, frame))
        self.rows.note_moment()
        self._ended.clear()

    def _moment(self, seconds: float | None, frame: Frame) -> Moment:
        """The label of a moment: the outermost steps that ended since the last moment, or ``end``
        if none did."""
        ended = self._ended
        steps = [
            step
            for step in ended
            if not any(step.startswith((f"{outer}.", f"{outer}[")) for outer in ended)
        ]
        names = [self._labels.get(step, step) for step in steps]
        label = line(", ".join(names), LONGEST_LABEL) or "end"
        return Moment(label, seconds, frame, tuple(steps))


def find_moments(run: Run | PastRun) -> Moments:
    """The moments of a run, running or ended. Raises DefinitionError if the run is not journaled or
    cannot be read."""
    again = RecordedEvaluation(run)
    maker = _MomentMaker(again.linked, again.journal, again.past.clock)
    note = again.evaluate(emit=maker.on_event, on_frame=maker.on_frame)
    return Moments(again.linked.flow, maker.moments, maker.rows, note, run.secrets)
