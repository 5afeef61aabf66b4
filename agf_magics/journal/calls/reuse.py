"""Finds the results of earlier runs by the digests of calls, for reuse."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ...values.value import Value
from ..codec.encoding import DecodeError
from ..codec.identities import Identities, bare, is_alone
from ..codec.parted import opaque_kind
from ..records.records import Record, value_of
from .changed_objects import CALL, NOTHING_CHANGED, is_same_call, with_changed

ReadValue = Callable[..., Record]
"""Returns a record with its value (see `Reuse`)."""


class ReusedResult(NamedTuple):
    """A result of an earlier run, or a failure that it went on without."""

    value: Value
    """The value, or a `LateValue` that is read when somebody needs it."""
    text: str | None
    """The JSON text; None: the value is not stored as JSON."""
    digest: bytes | None = None
    """The digest of the call in this run; None: it has none."""
    data: bytes | None = None
    """The row's data; None: the value is not stored as parts."""
    error: str | None = None
    """The failure as JSON; None: the call did not fail."""
    pickle: bytes | None = None
    """The row's pickle; None: the value is not stored as one."""


class ReusedRuns(NamedTuple):
    """The runs whose results a run reuses, as its manifest keeps them for the sessions that resume
    it."""

    run_ids: tuple[str, ...] = ()
    """Their ids, the newest first; empty: the run reuses no results."""
    before: tuple[str, ...] = ()
    """The key of the step from which on nothing is reused; empty: all results are."""


class EarlierRun(NamedTuple):
    """A run whose results are reused."""

    run_id: str
    changed: frozenset[bytes] = NOTHING_CHANGED
    """The keys of the objects that its calls changed."""


class _ResultWithObjects(NamedTuple):
    """A result of a function that names objects, or a result that is not JSON."""

    value: str | Record
    """The JSON text, or the record of a value that is not JSON."""
    digest: bytes
    run: EarlierRun


_Stored = str | _ResultWithObjects
"""The JSON text of a function that names no objects, or any other result."""


def _is_reusable(record: Record) -> bool:
    return record.what == "finished" and record.result.form != "again" and bool(record.digest)


class Reuse:
    """The results of earlier runs. Each result is taken once."""

    def __init__(
        self,
        source: str,
        runs: Iterable[tuple[EarlierRun, Iterable[Record]]],
        read: ReadValue,
        identities: Identities | None = None,
    ) -> None:
        """``source``: the words for these runs. ``runs``: the records of each run, newest run
        first. The n-th result of a digest comes from the newest run with at least n results.
        ``read``: returns a record with its value, given the record and the id of its run (with
        ``is_late=True`` the value may be unread); raises DecodeError if the value cannot be used.
        ``identities``: the objects of this run."""
        self.run_id = source
        self._read = read
        self.identities = identities
        self._results: dict[bytes | None, list[_Stored]] = {}
        """The results by the digest of the call, in order. They are lists, although results are
        taken from the front: most digests have one result, and a deque would take ten times the
        memory."""
        for run, records in runs:
            self.add(run, self._missing(records))

    def count(self, digest: bytes) -> int:
        """The number of results of the call with this digest, whatever the states of named
        objects."""
        return len(self._results.get(digest[:CALL], ()))

    def add(self, run: EarlierRun, records: Iterable[Record]) -> None:
        """Add the results of a run that no newer run has. The caller has left out the others, as
        `_missing` and `missing_results` do: the n-th result of a digest is added if every newer run
        has fewer than n results."""
        for record in filter(_is_reusable, records):
            form, data, *_ = record.result
            assert record.digest, "it is reusable"
            is_text = form == "json" and isinstance(data, str)
            stored: Any = data if is_text else record
            if not is_text or len(record.digest) > CALL:
                stored = _ResultWithObjects(stored, record.digest, run)
            self._results.setdefault(record.digest[:CALL], []).append(stored)

    def add_failures(self, run: EarlierRun, records: Iterable[Record]) -> None:
        """Add failures of calls, each of which is taken after all results of an identical call."""
        for record in records:
            if record.digest:
                stored = _ResultWithObjects(record, record.digest, run)
                self._results.setdefault(record.digest[:CALL], []).append(stored)

    def _missing(self, records: Iterable[Record]) -> Iterator[Record]:
        """The results in ``records`` that no newer run has."""
        numbers = Counter[bytes]()
        for record in filter(_is_reusable, records):
            assert record.digest, "it is reusable"
            call = record.digest[:CALL]
            numbers[call] += 1
            if numbers[call] > self.count(call):
                yield record

    def take(
        self, digest: bytes | None, arguments: Sequence[Any] = (), reads: bool = True
    ) -> ReusedResult | None:
        """Take the next result of an identical call; None: there is none. ``arguments``: the
        objects in its arguments. ``reads``: whether a large value is read at once; default True."""
        results = self._results.get(digest[:CALL]) if digest is not None else None
        if not results or digest is None:
            return None
        position = 0
        while position < len(results):
            stored = results[position]
            same_digest = _digest_if_same(stored, digest)
            if same_digest is None or not self._has_objects_of_run(stored, arguments):
                position += 1
                continue
            del results[position]
            # A result that cannot be read is skipped. `suppress` would take as long as reading.
            try:
                return self._result(stored, same_digest, reads)
            except (DecodeError, ValueError, RecursionError):
                continue
        return None

    def drop(self, digest: bytes) -> None:
        """Drop the result that an identical call in an earlier session of the run has taken."""
        results = self._results.get(digest[:CALL], [])
        for position, stored in enumerate(results):
            if _digest_if_same(stored, digest) is not None:
                del results[position]
                return

    def _has_objects_of_run(self, stored: _Stored, arguments: Sequence[Any]) -> bool:
        """Whether the objects that a result got from elsewhere are objects of this run."""
        record = stored.value if isinstance(stored, _ResultWithObjects) else None
        data = record.result.data if isinstance(record, Record) else None
        if self.identities is None or not isinstance(data, bytes):
            return True
        return self.identities.has_objects_of(data, arguments)

    def _result(self, stored: _Stored, digest: bytes, reads: bool) -> ReusedResult:
        """Read a stored result. ``digest``: the digest of the call in this run. ``reads``: see
        `take`. Raises DecodeError, ValueError and RecursionError."""
        value = stored if isinstance(stored, str) else stored.value
        if isinstance(value, str):
            return ReusedResult(json.loads(value), value, digest)
        assert isinstance(stored, _ResultWithObjects)
        if value.error is not None:
            return ReusedResult(None, None, digest, error=value.error)
        data, parts = value.result.data, value.result.parts
        is_late = not reads and parts is not None and is_alone(parts) and opaque_kind(bare(parts))
        late = {"is_late": True} if is_late else {}
        record = self._read(value, stored.run.run_id, **late)
        pickle = data if value.result.form == "pickle" and isinstance(data, bytes) else None
        return ReusedResult(value_of(record), None, digest, record.result.parts, None, pickle)


def _digest_if_same(stored: _Stored, digest: bytes) -> bytes | None:
    """``digest``, a digest of this run, if the stored result belongs to the same call; else None.
    Objects that changed in the earlier run count as changed in the returned digest."""
    if isinstance(stored, str):
        return digest if len(digest) == CALL else None
    changed = stored.run.changed
    if not is_same_call(stored.digest, digest, changed):
        return None
    return with_changed(digest, changed)
