"""Reuse of results of an earlier run: a call with the same definition, inputs and function is not
made again.

Calls are compared by content, never by step id, because an edit of the definition changes the ids.
The n-th identical call gets the n-th earlier result. A call without a digest (an opaque argument, a
function that closes over a lock) is made.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from ..flow.values import Value
from .codec import DecodeError, decode, decode_value
from .records import Record, value_of

ReadValue = Callable[[Record, str], Record]


ReusedResult = tuple[Value, str | None]
"""A result, and its text if it is stored as JSON."""

_Stored = str | tuple[Record, str]
"""A JSON text; or any other result with the id of its run."""


def _result(record: Record, run_id: str) -> tuple[bytes | None, _Stored | None]:
    """The digest of a call and its result, if that can be reused."""
    if record.what != "finished" or record.form == "again":
        return None, None
    is_text = record.form == "json" and type(record.value) is str
    return record.digest, record.value if is_text else (record, run_id)  # type: ignore[return-value]  # it is a text


class Reuse:
    """The results of earlier runs, to be taken call by call."""

    def __init__(
        self,
        source: str,
        runs: Iterable[tuple[str, Iterable[Record]]],
        read: ReadValue,
    ) -> None:
        """``source``: what the run says of them; ``runs``: the id and the records of each run, the
        newest run first. The n-th result of a digest is that of the newest run that has so many.
        ``read``: given a record and its run's id, the record with its value; raises DecodeError if
        that cannot be used."""
        self.run_id = source
        self._read = read
        self._left: dict[bytes, _Stored | deque[_Stored]] = {}
        """A deque only for a digest with several results: most have one, and a text is less than
        its record."""
        for run_id, records in runs:
            self.add(run_id, self._missing(records))

    def count(self, digest: bytes) -> int:
        """How many results of this digest are known."""
        stored = self._left.get(digest)
        return len(stored) if type(stored) is deque else int(stored is not None)

    def add(self, run_id: str, records: Iterable[Record]) -> None:
        """Add results of a run, of which each is the n-th of its digest in that run and no newer
        run has so many."""
        left = self._left
        for record in records:
            digest, stored = _result(record, run_id)
            if not digest or stored is None:
                continue
            earlier = left.get(digest)
            # Not `setdefault(…) is stored`: two equal texts may be one object.
            if earlier is None:
                left[digest] = stored
            elif type(earlier) is deque:
                earlier.append(stored)
            else:
                left[digest] = deque((earlier, stored))  # type: ignore[arg-type]

    def _missing(self, records: Iterable[Record]) -> Iterator[Record]:
        """The results in ``records`` that no newer run has."""
        numbers = Counter[bytes]()
        for record in records:
            digest, stored = _result(record, "")
            if digest and stored is not None:
                numbers[digest] += 1
                if numbers[digest] > self.count(digest):
                    yield record

    def take(self, digest: bytes | None) -> ReusedResult | None:
        """The next result of an identical call."""
        while (stored := self._next(digest or b"")) is not None:
            with suppress(DecodeError):
                if isinstance(stored, str):
                    return decode_value("json", stored), stored
                return value_of(self._read(*stored)), None
        return None

    def take_json(self, digest: bytes, most: int) -> tuple[Value, str] | None:
        """The next result of an identical call and its JSON text, of at most ``most`` characters.
        None: there is none, or it is stored otherwise and is left to `take`."""
        while True:
            left = self._left.get(digest)
            text = left[0] if type(left) is deque and left else left
            if type(text) is not str or len(text) > most:
                return None
            if text is left:
                del self._left[digest]
            else:
                left.popleft()  # type: ignore[union-attr]  # it is a deque
            # `suppress` takes as long as reading the value. What is not JSON is left out: the next
            # one.
            try:
                return decode(text), text
            except Exception:
                continue

    def _next(self, digest: bytes) -> _Stored | None:
        """Take the next result out."""
        left = self._left.get(digest)
        if type(left) is deque:
            return left.popleft() if left else None
        self._left.pop(digest, None)
        return left  # type: ignore[return-value]
