"""Results of earlier runs, found by the digest of the call."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ...values.value import Value
from ..codec.encoding import DecodeError
from ..records.records import Record, value_of

ReadValue = Callable[[Record, str], Record]


ReusedResult = tuple[Value, str | None]
"""A result, and its text if it is stored as JSON."""


_Stored = str | tuple[Record, str]
"""A JSON text; or any other result with the id of its run."""


def _is_reusable(record: Record) -> bool:
    return record.what == "finished" and record.result.form != "again" and bool(record.digest)


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
        self._left: dict[bytes | None, list[_Stored]] = {}
        """Lists, although they are taken from the front: most digests have one result, and a deque
        would take ten times the memory."""
        for run_id, records in runs:
            self.add(run_id, self._missing(records))

    def count(self, digest: bytes | None) -> int:
        """How many results of this digest are known."""
        return len(self._left.get(digest, ()))

    def add(self, run_id: str, records: Iterable[Record]) -> None:
        """Add results of a run, of which each is the n-th of its digest in that run and no newer
        run has so many."""
        for record in filter(_is_reusable, records):
            form, data, *_ = record.result
            is_text = form == "json" and isinstance(data, str)
            stored: Any = data if is_text else (record, run_id)
            self._left.setdefault(record.digest, []).append(stored)

    def _missing(self, records: Iterable[Record]) -> Iterator[Record]:
        """The results in ``records`` that no newer run has."""
        numbers = Counter[bytes | None]()
        for record in filter(_is_reusable, records):
            numbers[record.digest] += 1
            if numbers[record.digest] > self.count(record.digest):
                yield record

    def take(self, digest: bytes | None) -> ReusedResult | None:
        """The next result of an identical call."""
        left = self._left.get(digest)
        while left:
            stored = left[0]
            del left[0]
            # What cannot be read is left out: the next one. `suppress` takes as long as reading.
            try:
                if isinstance(stored, str):
                    return json.loads(stored), stored
                return value_of(self._read(*stored)), None
            except (DecodeError, ValueError, RecursionError):
                continue
        return None
