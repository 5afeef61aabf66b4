"""The answer of a worker for a chunk of elements, checked: a damaged one raises, and nothing of it
is used."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, get_args

from ..engine.runner import CallSite, Scope
from ..flow.steps import Each
from ..journal.collected import Collected, CollectedRecords
from ..progress import events as ev
from ..progress.progress import Progress
from ..text.source import Source
from .pickles import load_plain

SENT = frozenset(get_args(ev.Event)) - {ev.RunStarted, ev.RunEnded}
"""The events that a worker may send."""


class Unread(Exception):
    """The kernel cannot unpickle an answer, for example because a library is missing here."""


class Reader(Protocol):
    """The fan-out that an answer is for."""

    each: CallSite[Each]
    inside: Scope
    records: CollectedRecords | None
    path: ev.StepPath


ElementAnswer = tuple[bool, Any, list[ev.Event], list[Collected]]
"""Whether an element has a value; the value or the failure; its events; its records."""


class Answered(NamedTuple):
    elements: list[tuple[int, ElementAnswer]]
    """With their numbers."""
    counts: Mapping[tuple[str, ...], tuple[int, int]] | None
    """The starts and the ends of each row; None: all events are there."""
    calls: int
    began: float
    """By the clock of the worker, as ``ended``."""
    ended: float
    seconds: float
    weight: int
    """In bytes."""
    prints: list[tuple[str, str]]
    """The stream and the text."""


class Shift(NamedTuple):
    """The difference between the clocks of the kernel and of a worker, in seconds."""

    by: float

    @staticmethod
    def between(sent: float, landed: float, began: float, ended: float) -> Shift:
        """The difference lies between two bounds: a chunk begins after it was sent, and ends before
        it has landed. It is 0 if that is possible: then both use the clock of one machine."""
        least, most = sent - began, landed - ended
        return Shift(0.0 if least <= 0 <= most else most)

    def of(self, when: float) -> float:
        return when + self.by

    def event(self, event: ev.Event) -> ev.Event:
        when: Any = getattr(event, "when")  # noqa: B009  # all events have it
        return event._replace(when=when + self.by) if self.by else event


def read_answer(
    outcome: Any, numbers: Sequence[int], reader: Reader, sources: Sequence[Source]
) -> Answered:
    """An answer, checked. Raises Unread for bytes that cannot be read here, else whatever a wrong
    form raises."""
    if type(outcome) is not tuple or len(outcome) != 5:
        raise ValueError("it has another form")
    kind, data, seconds, prints, _ = outcome
    if kind != "ok" or type(data) is not bytes or not _is_time(seconds):
        raise ValueError("it has another form")
    try:
        answer = load_plain(data, sources)
    except BaseException as error:  # reading a pickle can raise SystemExit too
        raise Unread from error
    elements, counts, calls, began, ended = answer
    if (
        type(elements) is not list
        or not 0 < len(elements) <= len(numbers)
        or type(calls) is not int
        or calls < 0
    ):
        raise ValueError("it has another number of elements")
    if not (_is_time(began) and _is_time(ended)) or began > ended:
        raise ValueError("its times are not numbers in order")
    found = list(zip(numbers, elements, strict=False))
    for i, element in found:
        _check(i, element, reader)
    if len(found) < len(numbers) and elements[-1][0]:
        raise ValueError("elements are missing")
    return Answered(
        found, _counts(counts, reader), calls, began, ended, seconds, len(data), _prints(prints)
    )


def _check(i: int, element: Any, reader: Reader) -> None:
    """Raise unless this is an answer for element ``i``."""
    ok, value, events, records = element
    # A CancelledError or KeyboardInterrupt would end the run as if the person had.
    if type(ok) is not bool or not (ok or isinstance(value, Exception)):
        raise ValueError("an element has neither a value nor a failure")
    if type(events) is not list:
        raise ValueError("an element has an unknown event")
    for event in events:
        if type(event) not in SENT:
            raise ValueError("an element has an unknown event")
        at = getattr(event, "at", None)
        if not _is_time(event.when) or not (at is None or _is_inside(at, i, reader)):
            raise ValueError("an event belongs to another element")
    if reader.records is not None:
        reader.records.check(records)
    elif records:
        raise ValueError("there are records of a run that is not journaled")


def _is_inside(at: Any, i: int, reader: Reader) -> bool:
    """Whether a path is the one of element ``i``, or inside it."""
    depth, index = len(reader.inside.before), (*reader.each.index, i)
    if (
        type(at) is not tuple
        or at[:depth] != reader.inside.before
        or at[depth + 1 : depth + 1 + len(index)] != index
    ):
        return False
    ids = tuple(bit for bit in at if type(bit) is str)
    steps = reader.each.run.steps
    return not isinstance(steps, Progress) or ids in steps


def _counts(counts: Any, reader: Reader) -> Mapping[tuple[str, ...], tuple[int, int]] | None:
    steps = reader.each.run.steps
    if not isinstance(steps, Progress):
        if counts is not None:
            raise ValueError("it has numbers instead of events")
        return None
    for key, (starts, ends) in counts.items():
        if key not in steps or not (type(starts) is type(ends) is int and 0 <= ends <= starts):
            raise ValueError("it counts an unknown step")
    return dict(counts)


def _prints(prints: Any) -> list[tuple[str, str]]:
    return [(str(stream), str(text)) for _, stream, text in prints]


def _is_time(value: Any) -> bool:
    return type(value) is float and -1e15 < value < 1e15


def write_prints(prints: Sequence[tuple[str, str]]) -> None:
    """Print what a worker has printed."""
    for name, text in prints:
        stream = sys.stderr if name == "stderr" else sys.stdout
        if stream is not None:
            stream.write(text)
