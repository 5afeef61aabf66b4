"""The records of whole elements: collected on a worker, checked and written by the kernel.

A worker has no file. Its journal is a list of plain tuples, which travel with the values of the elements. The kernel
checks each of them, because a damaged answer must not damage the journal, and adds what only the kernel knows: the
number, the checksum, the signature of a pickle, and the digest of the call, because a worker may identify a module
differently.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from ..catalog import Tool
from ..flow.steps import Invoke
from ..flow.values import Value
from ..host.limits import ANYTHING, Grant
from ..progress import events as ev
from ..serialization.codec import EncodedValue, decode
from ..text.diagnostics import StepError
from .call_rows import Insert, StartedCall
from .recorder import Journal
from .records import FORMS, UNREADABLE, CallKey, SequenceRow, check_tries, error_from, error_json, is_at, is_moment

T = TypeVar("T")

CALLS = frozenset({"finished", "failed"})
MARKS = frozenset({"dropped", "rescued", "retried", "ended", "stored"})

Collected = tuple[Any, ...]
"""A mark: ``(what, at, tries)``. A call: ``(what, at, tries, started, ended, given, whole, form, value, shown, why,
error, arguments)``, as in `Record`; ``why``: why the value is not stored; ``arguments``: a pickle of them, if they are
not JSON."""


class CollectingJournal(Journal):
    """A journal on a worker: it keeps its records in a list."""

    writes_on_threads = False

    def __init__(self, most: int, dump: Callable[[Any], bytes]) -> None:
        """``most``: bytes of one value; ``dump``: pickles arguments that are not JSON."""
        super().__init__(None, 0, "", most)  # type: ignore[arg-type]  # it has no file
        self.found: list[Collected] = []
        self._dump = dump
        self._arguments: dict[CallKey, bytes] = {}

    def start_call(
        self, step: Invoke, callee: object, key: CallKey, given: Any,
        tools: Mapping[str, Tool] | None = None, grant: Grant = ANYTHING,
    ) -> StartedCall:  # fmt: skip
        call = super().start_call(step, callee, key, given)
        if not call.whole:
            try:
                self._arguments[key] = self._dump(dict(given))
            except Exception:  # then the call has no digest
                self._arguments.pop(key, None)
        return call

    def mark(self, what: str, key: CallKey) -> None:
        self.found.append((what, key.at, key.tries))

    def compare_sequence(self, key: CallKey, now: SequenceRow) -> SequenceRow | None:
        return None  # an element with a record of an earlier session runs in the kernel

    def returned(self, call: StartedCall, value: Value, secret: bool = False) -> asyncio.Future[None] | None:
        packed = self.secret.pack(value, self.most)
        self._add("finished", call, packed, None)
        return None

    def raised(self, call: StartedCall, error: StepError) -> asyncio.Future[None] | None:
        self._add("failed", call, EncodedValue("json", None), error_json(error, self.secret))
        return None

    async def durable(self, done: asyncio.Future[None] | None, value: T = None, lost: int = 1) -> T:  # type: ignore[assignment]
        return value

    def _add(self, what: str, call: StartedCall, packed: EncodedValue, error: str | None) -> None:
        (at, tries), arguments = call.key, None if call.whole else self._arguments.pop(call.key, None)
        self.found.append((what, at, tries, call.started, time.time(), call.given, call.whole, packed.form, packed.data,
                           packed.shown, packed.why, error, arguments))  # fmt: skip


class KnownCall(NamedTuple):
    """A call that the elements of a fan-out may make, as the kernel knows it."""

    step: Invoke
    callee: Any
    name: str
    digest: Callable[[str], bytes] | None
    """Of its arguments as JSON."""


class CollectedRecords:
    """Checks and writes the records of the elements of one fan-out."""

    def __init__(
        self, journal: Journal, calls: Mapping[tuple[str, ...], KnownCall], grant: Grant,
        load: Callable[[bytes], Any],
    ) -> None:  # fmt: skip
        """``calls``: by the ids in their paths; ``load``: reads arguments that are not JSON."""
        self._journal, self._calls, self._grant, self._load = journal, calls, grant, load

    def check(self, records: Any, before: ev.StepPath, index: tuple[int, ...]) -> None:
        """Raise ValueError unless all records are those of one element.

        ``before``: the path of the call around the fan-out; ``index``: the numbers around the element, and its own."""
        if type(records) is not list:
            raise ValueError("the records of an element are a list")
        try:
            for record in records:
                self._check(record, before, index)
        except UNREADABLE as error:
            raise ValueError(str(error)) from None

    def _check(self, record: Collected, before: ev.StepPath, index: tuple[int, ...]) -> None:
        if type(record) is not tuple or len(record) not in (3, 13):
            raise ValueError("a record has 3 or 13 fields")
        what, at, tries = record[:3]
        depth = len(before)
        if not is_at(at) or at[:depth] != before or at[depth + 1 : depth + 1 + len(index)] != index:
            raise ValueError("a record belongs to another element")
        if type(tries) is not str or what not in (MARKS if len(record) == 3 else CALLS):
            raise ValueError("a record has an unknown kind")
        if tries:
            check_tries(tries)
        if len(record) == 3:
            return
        started, ended, given, whole, form, value, shown, why, error, arguments = record[3:]
        if _ids(at) not in self._calls or not is_moment(started) or not is_moment(ended) or type(whole) is not bool:
            raise ValueError("a record of an unknown call")
        if type(value) not in FORMS[form] or (what == "failed") != (error is not None):
            raise ValueError("a record without an outcome")
        if value is not None and len(value) > self._journal.most:
            raise ValueError("a record with a value that is too large")
        if not (why is None or type(why) is str) or not (arguments is None or type(arguments) is bytes):
            raise ValueError("a record with a field of another type")
        for text in (given, shown, value if form == "json" else None):
            if text is not None and (type(text) is not str or not _is_json(text)):
                raise ValueError("a record with a text that is not JSON")
        if error is not None:
            error_from(error, ())

    async def write(self, records: Sequence[Collected]) -> None:
        """Write checked records; done when they are durable. One commit for all."""
        journal = self._journal
        count = sum(len(record) > 3 for record in records)
        rows = [self._row(record) for record in records]
        if not rows:
            return
        done = journal.store.writer.write_all(rows, journal.lose) if journal.is_open else None
        await journal.durable(done, lost=count)
        journal.warn_broken()

    def _row(self, record: Collected) -> Insert:
        what, at, tries = record[:3]
        key = CallKey(at, tries)
        if len(record) == 3:
            return self._journal.rows.mark(what, key)
        started, ended, given, whole, form, value, shown, why, error, arguments = record[3:]
        known = self._calls[_ids(at)]
        digest = self._digest(known, given if whole else None, arguments)
        call = StartedCall(key, known.step.kind, known.name, started, given, whole, digest)
        packed = EncodedValue(form, value, shown, why)
        if form == "again":
            self._journal._warn_not_stored(call, why)
        return self._journal.rows.outcome(what, call, packed, error, ended)

    def _digest(self, known: KnownCall, text: str | None, arguments: bytes | None) -> bytes | None:
        if known.digest is None:
            return None
        if text is not None:
            return known.digest(text)
        if arguments is None:
            return None
        return self._journal.rows.digests.of(known.step, known.callee, self._load(arguments), None, {}, self._grant)


def known_call(journal: Journal, step: Invoke, callee: Any) -> KnownCall:
    """A call with its digest, which the kernel computes."""
    return KnownCall(step, callee, getattr(callee, "name", step.name.text), journal.rows.digests.of_json(step, callee))


def _ids(at: ev.StepPath) -> tuple[str, ...]:
    return tuple([bit for bit in at if type(bit) is str])


def _is_json(text: str) -> bool:
    try:
        decode(text)
    except (ValueError, RecursionError):
        return False
    return True
