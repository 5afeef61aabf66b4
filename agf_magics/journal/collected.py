"""The records of whole elements: collected on a worker, checked and written by the kernel.

A worker has no file. Its journal is a list of plain tuples, which travel with the values of the
elements. The kernel checks each of them, because a damaged answer must not damage the journal, and
adds what only the kernel knows: the number, the checksum, the signature of a pickle, and the digest
of the call, because a worker may identify a module differently.

Copies of reused results: the row of a fan-out's element has the value text of the earlier row,
under a new key.

The rows wait until the fan-out does something else. Then the writer gets them together, before any
row that follows. Nothing waits for them, because no call was made that a crash could forget.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar

from ..catalog import Tool
from ..engine.limits import ANYTHING, Grant
from ..flow import events as ev
from ..flow.events import StepPath
from ..flow.steps import Invoke
from ..flow.values import Value
from ..text.diagnostics import StepError
from .call_rows import LARGE, Insert, Reuse, StartedCall
from .codec import EncodedValue, checker, encode, json_text, to_show
from .recorder import Journal
from .records import (
    UNREADABLE,
    CallKey,
    Moment,
    Raw,
    SequenceRow,
    Text,
    check_tries,
    error_from,
    error_json,
    is_at,
    is_stored,
)
from .secrets import NOTHING
from .store import ADD

T = TypeVar("T")

CALLS = frozenset({"finished", "failed"})
MARKS = frozenset({"dropped", "rescued", "retried", "ended", "stored"})

Collected = tuple[Any, ...]
"""A mark: ``(what, place, tries)``. A call: ``(what, place, tries, started, ended, given, whole,
form, value, shown, why, error, arguments)``, as in `Record`; ``why``: why the value is not stored;
``arguments``: a pickle of them, if they are not JSON. ``place``: the path, less the part that all
records of an element share."""

MOST_PLACES = 1_000
"""Places whose paths are known. An inner fan-out has one for each of its elements."""


class CollectingJournal(Journal):
    """A journal on a worker: it keeps its records in a list."""

    def __init__(self, most: int, dump: Callable[[Any], bytes], before: int, index: int) -> None:
        """``most``: bytes of one value; ``dump``: pickles arguments that are not JSON; ``before``:
        the length of the path around the fan-out; ``index``: how many numbers an element has."""
        super().__init__(None, 0, "", most)  # type: ignore[arg-type]  # it has no file
        self.found: list[Collected] = []
        self._dump = dump
        self._id, self._inside = slice(before, before + 1), slice(before + 1 + index, None)
        self._arguments: dict[CallKey, bytes] = {}

    def start_call(
        self,
        step: Invoke,
        callee: object,
        key: CallKey,
        given: Any,
        tools: Mapping[str, Tool] | None = None,
        grant: Grant = ANYTHING,
    ) -> StartedCall:
        text, whole = to_show(given, self.most)
        call = StartedCall(key, step.kind, "", time.time(), text, int(whole))
        # Masking takes as long as the rest of the record, and few calls have a secret of the
        # worker's own surroundings.
        if self.rows.secret.surrounds(text):
            call = self.rows.start(step, callee, key, given, None, grant)
        self._arguments.pop(key, None)
        if not call.whole and not call.received.any:
            # Else the call has no digest, and no later run reuses it.
            with contextlib.suppress(Exception):
                self._arguments[key] = self._dump(dict(given))
        return call

    def mark(self, what: str, key: CallKey, error: BaseException | None = None) -> None:
        self.found.append((what, self._place(key.at), key.tries))

    def compare_sequence(self, key: CallKey, now: SequenceRow) -> SequenceRow | None:
        # An element with a record of an earlier session runs in the kernel.
        return None

    def _place(self, at: ev.StepPath) -> ev.StepPath:
        return at[self._id] + at[self._inside]

    def outcome(
        self,
        call: StartedCall,
        value: Value,
        error: StepError | None = None,
        secret: bool = False,
        alone: bool = False,
    ) -> asyncio.Future[None] | None:
        what, _, packed, failure = self.rows.encoded(call, value, error)
        at, tries = call.key
        times = (call.started, time.time())
        given = (call.given, bool(call.whole))
        arguments = self._arguments.pop(call.key, None)
        self.found.append(
            (what, self._place(at), tries, *times, *given, *packed, failure, arguments)
        )
        return None


class KnownCall(NamedTuple):
    """A call that the elements of a fan-out may make, as the kernel knows it."""

    step: Invoke
    callee: Any
    name: str
    digest: Callable[[str], bytes] | None
    """Of its arguments as JSON."""


def _is_json(text: str) -> bool:
    try:  # `suppress` takes as long as the reading
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


_Json = Annotated[str, _is_json]

_are_records = checker(
    list[
        tuple[Annotated[str, MARKS.__contains__], object, str]
        | tuple[
            Annotated[str, CALLS.__contains__],
            object,
            str,
            Moment,
            Moment,
            _Json,
            bool,
            object,
            object,
            _Json | None,
            Text,
            Text,
            Raw,
        ]
    ]
)


class _Place(NamedTuple):
    """A place of records in an element, and the call there, if there is one."""

    call: KnownCall | None
    before: ev.StepPath
    """The path up to the number of the element."""
    after: ev.StepPath
    """The path after it."""


class CollectedRecords:
    """Checks and writes the records of the elements of one fan-out."""

    def __init__(
        self,
        journal: Journal,
        calls: Mapping[tuple[str, ...], KnownCall],
        grant: Grant,
        load: Callable[[bytes], Any],
        before: ev.StepPath,
        index: tuple[int, ...],
    ) -> None:
        """``calls``: by the ids in their paths; ``load``: reads arguments that are not JSON;
        ``before``: the path of the call around the fan-out; ``index``: the numbers around its
        elements."""
        self._journal, self._calls, self._grant, self._load = journal, calls, grant, load
        self._before, self._index = before, index
        self._ids = tuple([bit for bit in before if type(bit) is str])
        self._places: dict[ev.StepPath, _Place] = {}

    def check(self, records: Any) -> None:
        """Raise ValueError unless these can be the records of an element."""
        if not _are_records(records):
            raise ValueError("its records have another form")
        try:
            ended = set[tuple[Any, str]]()
            for record in records:
                place, tries = self._place(record[1]), record[2]
                if tries:
                    check_tries(tries)
                if len(record) > 3:
                    # The kernel would write both, and a resumed run would take the second one.
                    if place.call is None or record[1:3] in ended:
                        raise ValueError("a record of an unknown call, or its second outcome")
                    self._check_outcome(record[0], record[7], record[8], record[11])
                ended.add(record[1:3])
        except UNREADABLE as error:
            raise ValueError(str(error)) from None

    def _check_outcome(self, what: str, form: Any, value: Any, error: Any) -> None:
        if not is_stored(form, value) or (what == "failed") != (error is not None):
            raise ValueError("a record without an outcome")
        if value is not None and len(value) > self._journal.most:
            raise ValueError("a record with a value that is too large")
        if form == "json" and value is not None and not _is_json(value):
            raise ValueError("a record with a text that is not JSON")
        if error is not None:
            error_from(error, ())

    def _place(self, at: Any) -> _Place:
        """The place of a record. Raises ValueError unless ``at`` is a path."""
        place = self._places.get(at)
        if place is None:
            if not is_at(at):
                raise ValueError("a record belongs to another element")
            # Cleared as a whole: keeping the order of use costs more than finding a place again.
            if len(self._places) >= MOST_PLACES:
                self._places.clear()
            call = self._calls.get((*self._ids, *[bit for bit in at if type(bit) is str]))
            before = (*self._before, at[0], *self._index)
            place = self._places[at] = _Place(call, before, at[1:])
        return place

    async def write(self, records: Iterable[tuple[int, Sequence[Collected]]]) -> None:
        """Write checked records, each with the numbers of its element; done when they are durable.
        One commit for all."""
        journal = self._journal
        rows, count = list[Insert](), 0
        for i, some in records:
            for record in some:
                rows.append(self._row(i, record))
                count += len(record) > 3
        if not rows:
            return
        done = journal.store.writer.write_all(rows, journal.lose) if journal.is_open else None
        await journal.durable(done, lost=count)
        journal.warn_broken()

    def _row(self, i: int, record: Collected) -> Insert:
        what, at, tries = record[:3]
        expected, before, after = self._place(at)
        key = CallKey((*before, i, *after), tries)
        if len(record) == 3:
            return self._journal.rows.mark(what, key)
        started, ended, given, whole, form, value, shown, why, error, arguments = record[3:]
        assert expected is not None
        rows = self._journal.rows
        secret, digest = rows.secret, None
        # A worker knows only the secrets of its own surroundings.
        if secret.surrounds(given):
            given, whole = secret.to_show(json.loads(given), rows.most).text, False
        else:
            if whole and len(given) >= LARGE:
                given, whole = rows.given(json.loads(given))
            digest = self._digest(expected, given if whole else None, arguments)
        call = StartedCall(key, expected.step.kind, expected.name, started, given, whole, digest)
        packed = EncodedValue(form, value, shown, why)
        if secret.surrounds(value):
            packed = secret.packed(packed, None, NOTHING)
        if secret.surrounds(error):
            error = error_json(error_from(error, ()), secret)
        # The worker cannot warn: it knows neither the run nor which steps have warned already.
        if packed.form == "again":
            self._journal._warn_not_stored(call, packed.why)
        return rows.outcome(what, call, packed, error, ended)

    def _digest(self, call: KnownCall, text: str | None, arguments: bytes | None) -> bytes | None:
        if call.digest is None:
            return None
        if text is not None:
            return call.digest(text)
        if arguments is None:
            return None
        return self._journal.rows.digests.of(
            call.step, call.callee, self._load(arguments), None, {}, self._grant
        )


def known_call(journal: Journal, step: Invoke, callee: Any) -> KnownCall:
    """A call with its digest, which the kernel computes."""
    return KnownCall(
        step,
        callee,
        getattr(callee, "name", step.name.text),
        journal.rows.digests.of_json(step, callee),
    )


NO_RESULT = object()


class Copies:
    """The reused results of the elements of one fan-out."""

    def __init__(
        self, journal: Journal, reuse: Reuse, step: Invoke, tool: Tool, path: StepPath, tries: str
    ) -> None:
        """``path``: that of the elements, without their numbers."""
        self.journal, self.tries = journal, tries
        self._reuse = reuse
        self._before = f"{encode(path)[:-1]},"
        self._kind, self._name = step.kind, tool.name
        self._digest = journal.rows.digests.of_json(step, tool)
        self._taken: list[tuple[int, str, str, bytes]] = []
        """Of each copy the element, its arguments and its result as JSON, and the digest of the
        call."""

    @property
    def is_possible(self) -> bool:
        """Whether results can be copied now."""
        return (
            self._digest is not None
            and not self.journal.rows.secret.active
            and self.journal.is_open
        )

    def take(self, i: int, given: Mapping[str, Value]) -> Value:
        """The next result of the same call, whose row is then copied; `NO_RESULT`: there is none
        that can be copied. Only while `is_possible`."""
        # Left to the general way, which knows arguments that are opaque or too large.
        text = json_text(given, LARGE - 1)
        if text is None:
            return NO_RESULT
        digest = self._digest(text)  # type: ignore[misc]  # `is_possible`
        result = self._reuse.take(digest, self.journal.most)
        if result is None:
            return NO_RESULT
        value, stored = result
        assert stored is not None, "it is a text"
        self._taken.append((i, text, stored, digest))
        return value

    def write(self) -> None:
        """Hand over the rows without waiting."""
        if not self._taken:
            return
        when, before, row = time.time(), self._before, self.journal.rows.row
        kind, name, rows = self._kind, self._name, list[Any]()
        for i, text, stored, digest in self._taken:
            _, cells = row(
                *("finished", f"{before}{i}]", self.tries, kind, name, when, when, text, 1),
                *("json", stored, None, None, None, digest),
            )
            rows.append(cells)
        self._taken = []
        self.journal.store.writer.later(ADD, rows, self.journal.lose)
