"""`EarlierOutcomes`, the outcomes of a run's earlier sessions, for the session that resumes it.

The records of a call follow each other, and the last one counts. By `Record.what` they are

- ``begun``: a call with an effect was started,
- ``finished``, ``failed``: it returned, or failed; a later attempt replaces both,
- ``asked``, ``answered``: a question to a person,
- ``sequence``: the sequence of a fan-out,
- ``elements``: the digests of the elements of a list that may be another one when the run is resumed;
  after a second one, only the elements that are the same keep their outcomes,
- a mark, which has no value: a failure was ``dropped``, ``rescued`` or ``retried``, a part of a step
  ``ended`` or was ``stored`` before others, a recorded answer was ``taken``, the models of a row of a
  table were ``used``, a reply of a model whose record does not have its usage was ``paid``.

The form ``again`` of a result means that its value is not stored, so that the call is made again.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Container, Iterable
from functools import cached_property
from typing import Any, NamedTuple

from ...flow.progress.events import TokensUsed
from ...flow.step_path import StepPath, is_within
from ...values.value import Value
from ..codec.encoding import DecodeError
from ..codec.identities import Identities
from .changed_elements import Digests, changed_elements, elements_in, is_of_element
from .model_use import PaidReplies
from .records import (
    SPLIT,
    CallKey,
    Record,
    SequenceRow,
    StoredValue,
    around,
    decoded,
    sequence_row,
    value_of,
)


class RecordedOutcome(NamedTuple):
    """The outcome of a call in an earlier session."""

    value: Value
    error: str | None
    """The failure as JSON; None: the call did not fail."""
    data: bytes | None = None
    """The data of the row, if the value is stored as parts."""


class LateValue(NamedTuple):
    """A large value that is read when its call is replayed, or when somebody needs it."""

    data: bytes
    read: Callable[[], Value]
    """Reads the value. Raises DecodeError."""
    shown: str | None = None
    """Its preview as JSON."""


class LostValue(Exception):
    """The value of a call that was recorded cannot be read. The message has the reason."""

    def __init__(self, why: str, data: bytes) -> None:
        """``data``: the data of the row."""
        super().__init__(why)
        self.data = data


class EarlierOutcomes:
    """The outcomes of earlier sessions, read once. Each call takes its outcome.

    A run may have 100,000 outcomes, so values are stored without their records. That takes less
    time, and Python's garbage collector has less to visit.
    """

    def __init__(
        self, records: Iterable[Record], ended: bool, identities: Identities | None = None
    ) -> None:
        """``records``: the records with their values, in order. ``ended``: whether the run ended,
        so that the call that made it fail is made again. ``identities``: the objects in the
        values."""
        self.identities = identities
        self.line = 0
        """The largest number of a row."""
        self.values: dict[tuple[StepPath, str], Value] = {}
        """The values of the calls that returned, by their `CallKey`."""
        self.unstored: dict[CallKey, StoredValue] = {}
        """The essences of values that are not stored."""
        self.failed: dict[CallKey, Record] = {}
        """The calls that failed, without those that are made again."""
        self.answers: dict[CallKey, list[Record]] = {}
        """The answers of persons that no question has taken yet, in order: a call asks again after
        an answer that it cannot use."""
        self.marks: dict[tuple[str, CallKey], int] = {}
        """The line of each mark, by the mark and the call."""
        self.sequences: dict[CallKey, SequenceRow] = {}
        """The sequences of fan-outs, by the call."""
        self.elements: dict[CallKey, Digests] = {}
        """The digests of the elements of fan-outs, by the path of their body."""
        self.makes_again = False
        """Whether the value of a call is not stored, so that the call is made again and may return
        another value."""
        self._paid: dict[CallKey, list[TokensUsed]] = {}
        """What the replies to each request have used, also those whose value another attempt
        replaced."""
        self.unknown: set[CallKey] = set()
        """The calls with an effect that began and have no outcome."""
        self.open: dict[CallKey, str] = {}
        """The unanswered questions to a person, in order."""
        replies = PaidReplies()
        for record in records:
            self._add(record)
            if (use := replies.use(record)) is not None:
                self._paid.setdefault(record.key, []).append(use)
        self._note_handled()
        # Failures that the run survived are replayed. The failure that ended it is tried again.
        if ended:
            made_again = [key for key in self.failed if not self.is_handled(key)]
            # What a function called before it failed has had its effect.
            self.unknown |= {
                key
                for key in made_again
                if ("begun", key) in self.marks and self.failed[key].kind != "tool"
            }
            for key in made_again:
                del self.failed[key]
        self.failures = list(self.failed)
        """The failed calls, also after their outcomes are taken."""

    def _note_handled(self) -> None:
        """Note which failures the run survived."""
        self._handled = {key.at for mark, key in self.marks if mark in ("dropped", "rescued")}
        self._retried = {key for mark, key in self.marks if mark == "retried"}

    def compare_elements(self, body: CallKey, digests: Digests, in_order: bool) -> bool:
        """Forget the outcomes of the elements of a fan-out that are not those of the earlier session.
        ``body``: the path of its body. ``in_order``: whether each element depends on those before it.
        Returns whether the elements are known as they are now."""
        earlier = self.elements.get(body)
        if earlier == digests:
            return True
        if earlier is not None:
            changed = changed_elements(earlier, digests, in_order)
            self._forget(body, changed)
            self._note_handled()
            self.failures = [key for key in self.failures if not is_of_element(key, body, changed)]
            self.__dict__.pop("places", None)  # computed at first use
        self.elements[body] = digests
        return False

    def _forget(self, body: CallKey, changed: Container[int]) -> None:
        """Forget the outcomes of elements of a fan-out. A call with an effect that did not fail is
        unknown: a person is asked before another one is made in its place."""
        outcomes: list[dict[Any, Any]] = [self.values, self.unstored]
        of_elements: list[dict[Any, Any]] = [self.failed, self.answers, self.sequences, self.open]
        for kept in (*outcomes, *of_elements):
            for key in [key for key in kept if is_of_element(CallKey(*key), body, changed)]:
                del kept[key]
                if kept in outcomes and ("begun", key) in self.marks:
                    self.unknown.add(CallKey(*key))
        for mark, key in list(self.marks):
            # What was done is done, whatever the element is now.
            if mark not in ("begun", "fired") and is_of_element(key, body, changed):
                del self.marks[mark, key]

    def _add(self, record: Record) -> None:
        """Add the next record, which may replace the outcome of an earlier one."""
        self.line = max(self.line, record.line)
        kind = record.what
        key = record.key
        if kind == "paid":
            return
        if kind == "asked":
            self.open[key] = str(decoded(record.result.shown))
            return
        if kind in ("answered", "finished", "failed"):
            self.open.pop(key, None)
        if kind == "answered":
            if record.result.form != "again":
                self.answers.setdefault(key, []).append(record)
        elif kind == "sequence":
            self.sequences[key] = sequence_row(record)
        elif kind == "elements":
            digests, in_order = elements_in(record)
            if key in self.elements:
                self._forget(key, changed_elements(self.elements[key], digests, in_order))
            self.elements[key] = digests
        elif kind not in ("finished", "failed", "begun"):
            self.marks[kind, key] = record.line
        else:
            # An earlier outcome belongs to an earlier attempt.
            self.failed.pop(key, None)
            self.values.pop(key, None)
            self.unstored.pop(key, None)
            self.unknown.discard(key)
            self.makes_again |= kind == "finished" and record.result.form == "again"
            if kind == "failed":
                self.failed[key] = record
            elif kind == "begun":
                self.marks[kind, key] = record.line
                self.unknown.add(key)
            elif record.result.form != "again":
                self.values[key] = value_of(record)
            # The call had an effect and its result is not stored, so a person must decide.
            elif ("begun", key) in self.marks:
                self.unknown.add(key)
            elif record.result.data is not None:
                self.unstored[key] = record.result

    def has(self, key: CallKey) -> bool:
        """Whether a call was made or asked about, and its outcome or answer was not taken."""
        is_fired = ("fired", key) in self.marks
        return is_fired or key in self.values or key in self.failed or key in self.answers

    def take(self, key: CallKey, reads: bool = True) -> RecordedOutcome | None:
        """Take the outcome of a call, which can be taken once. ``reads``: whether a value of parts
        is read; default True. Raises LostValue if the value cannot be read: the call is made again,
        or if it had an effect, a person is asked."""
        if key in self.values:
            value = self.values.pop(key)
            is_late = type(value) is LateValue and reads
            return self._read(key, value) if is_late else RecordedOutcome(value, None)
        failed = self.failed.pop(key, None)
        return RecordedOutcome(None, failed.error) if failed is not None else None

    def _read(self, key: CallKey, late: LateValue) -> RecordedOutcome:
        try:
            return RecordedOutcome(late.read(), None, late.data)
        except DecodeError as error:
            self.lose(key)
            raise LostValue(str(error), late.data) from None

    def lose(self, key: CallKey) -> None:
        """Note that the value of a call cannot be read: the call is made again, or if it had an
        effect, a person is asked."""
        if ("begun", key) in self.marks:
            self.unknown.add(key)

    def late(self, key: CallKey) -> LateValue | None:
        """The value of parts of a call, if no outcome of it was taken."""
        value = self.values.get(key)
        return value if type(value) is LateValue else None

    def take_paid(self, key: CallKey) -> list[TokensUsed]:
        """Take what the replies to a request have used in earlier sessions."""
        return self._paid.pop(key, [])

    def take_paid_in(self, element: StepPath) -> list[TokensUsed]:
        """Take what the models inside an element of a fan-out have used. The session that takes the
        outcome of the whole element makes none of these calls again."""
        return [
            use for key in self._paid_by_element.get(element, ()) for use in self.take_paid(key)
        ]

    @cached_property
    def _paid_by_element(self) -> dict[StepPath, list[CallKey]]:
        """The requests inside each element of a fan-out."""
        requests = defaultdict[StepPath, list[CallKey]](list)
        for key in self._paid:
            for outer in around(key.at):
                if isinstance(outer[-1], int):
                    requests[outer].append(key)
        return requests

    @cached_property
    def places(self) -> frozenset[StepPath]:
        """The paths of the calls with a record, and of everything around them, computed at first
        use."""
        paths = {path for path, _ in (*self.values, *self.failed, *self.answers)}
        paths |= {key.at for _, key in self.marks}
        return frozenset(outer for path in paths for outer in around(path))

    def failed_elements(self, path: StepPath, has_ended: bool = False) -> list[int]:
        """The elements of ``path`` (the path of a body, without the number) in which a call failed.
        A resumed run starts with them. ``has_ended``: only those that `has_ended_in_failure`."""
        numbers: dict[int, None] = {}
        length = len(path)
        for key in self.failures:
            inner = key.at
            if not is_within(inner, path) or len(inner) == length:
                continue
            number = inner[length]
            if isinstance(number, int) and not (has_ended and self.is_handled(key, length + 1)):
                numbers[number] = None
        return list(numbers)

    def has_failed(self, path: StepPath) -> bool:
        """Whether a call at or inside ``path`` failed."""
        return any(is_within(inner, path) for inner, _ in self.failures)

    def has_ended_in_failure(self, path: StepPath) -> bool:
        """Whether the failure of a call ended the part of a fan-out at ``path``. It may have stopped
        the other parts, which start after it in a resumed run."""
        return any(
            is_within(key.at, path) and not self.is_handled(key, len(path)) for key in self.failures
        )

    def is_handled(self, call: CallKey, length: int = 0) -> bool:
        """Whether the failure of ``call`` was dropped, rescued or retried, and so did not end the
        run. ``length``: only by the steps whose path is at least as long; default: by any.

        ``call.tries`` has the attempts of the steps around the call, the outermost first. A step is
        retried as a whole, so its own mark has only the attempts that are not inside it."""
        tries = call.tries.split(SPLIT) if call.tries else []
        places = [tuple(json.loads(attempt))[:-1] for attempt in tries]
        for outer in around(call.at):
            if len(outer) < length:
                continue
            if outer in self._handled:
                return True
            outside = [
                attempt
                for attempt, place in zip(tries, places, strict=True)
                if place == outer or not is_within(place, outer)
            ]
            if CallKey(outer, SPLIT.join(outside)) in self._retried:
                return True
        return False

    def order(self, mark: str, keys: Iterable[CallKey]) -> list[int]:
        """The positions of the keys that have this mark, in the order of their marks."""
        lines = ((self.marks.get((mark, key)), position) for position, key in enumerate(keys))
        marked = [(line, position) for line, position in lines if line is not None]
        return [position for _, position in sorted(marked)]


NO_RECORDS = EarlierOutcomes((), ended=False)
"""The outcomes for a first session: always empty."""
