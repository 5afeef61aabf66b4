"""Forecasts what runs again without reading the objects that the run's calls returned.

Nothing is unpickled for a display that nobody asked for (decision D298). While the definition and all
results so far are those of the run, each call gets the arguments that it got in the run, and their
digest is in the journal. So an object is only passed on: what stands for it notes when an
expression looks into it. Where this does not hold, the forecast needs the objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn, final

from ...catalog import Tool
from ...flow.steps import Invoke
from ...journal.calls.reuse import ReusedResult
from ...journal.calls.started_call import StartedCall
from ...journal.codec.encoding import PICKLED, DecodeError
from ...journal.codec.identities import bare, is_alone
from ...journal.codec.json_texts import encode
from ...journal.codec.parted import is_plain, opaque_kind, parts_in
from ...journal.codec.plain_pickles import is_plain_pickle
from ...journal.codec.same_values import is_same_json
from ...journal.database.value_files import ValueFiles
from ...journal.records.records import CallKey, Record, StoredValue, decoded
from ...limits.grants import ANYTHING, Grant
from ...text.length import ATOMS
from ...values.extent import CONTAINERS
from ...values.tables.first_rows import frame_size
from ...values.value import Value, parts_of
from ..storage.stored_results import unpickle
from .recorded_calls import Forecast


class NeedsUnpickling(Exception):
    """An input, or a result to reuse, is not JSON: reading it runs code of its class."""


@final
class UnreadResult:
    """Stands for an object that a call returned."""

    __slots__ = ("_data", "_look")

    def __init__(self, data: bytes, look: Callable[[], None]) -> None:
        """``data``: its pickle. ``look``: notes that somebody looks into the object."""
        self._data = data
        self._look = look

    def __getattr__(self, name: str) -> NoReturn:
        self._look()
        raise AttributeError(name)

    def _looked_at(self, *_: object) -> NoReturn:
        self._look()
        raise TypeError("the object was not read")

    __bool__ = __contains__ = __eq__ = __getitem__ = __iter__ = __len__ = _looked_at
    __repr__ = __str__ = _looked_at
    __hash__ = object.__hash__

    def is_same(self, data: bytes) -> bool:
        """Whether the object has this pickle."""
        return self._data == data


def _objects_in(value: Value) -> set[type]:
    """The types of the values in lists and mappings that are not JSON."""
    if type(value) in CONTAINERS:
        return set[type]().union(*map(_objects_in, parts_of(value)))
    return {type(value)} - ATOMS


def _has_unread(value: Value) -> bool:
    return UnreadResult in _objects_in(value)


class UnreadResults:
    """Reads the results of runs, with an `UnreadResult` in place of each object."""

    def __init__(self, files: ValueFiles | None) -> None:
        """``files``: the folder of large values; None: there is none."""
        self._files = files
        self.are_looked_at = False
        """Whether an expression has looked into an object."""

    def read(self, record: Record, run_id: str) -> Record:
        """A record of the run ``run_id`` with its value. Raises NeedsUnpickling for a list or a
        mapping with objects, into which expressions look, and for a class that may be gone;
        DecodeError for a value that could not be read."""
        result = record.result
        if result.form not in PICKLED or not isinstance(result.data, bytes):
            return unpickle(record, run_id, trust=False, files=None)
        record.check_signature(run_id)
        if not _is_one_object(result, result.data):
            raise NeedsUnpickling
        if result.parts is not None and not self._has_parts(bare(result.parts)):
            raise DecodeError("a part of it is missing")
        value = UnreadResult(bare(result.data), self._look)
        return record._replace(result=result._replace(unpickled=(value,)))

    def _has_parts(self, data: bytes) -> bool:
        folder = self._files.folder if self._files is not None else None
        return folder is not None and all((folder / part).is_file() for part, _ in parts_in(data))

    def _look(self) -> None:
        self.are_looked_at = True


def _is_one_object(result: StoredValue, data: bytes) -> bool:
    """Whether a stored result is a single object that no earlier call returned or got, and no class
    of the notebook is in it."""
    if not is_alone(data):
        return False
    if result.parts is not None:
        return is_plain(bare(data)) and bool(opaque_kind(bare(data)))
    if not is_plain_pickle(bare(data)):
        return False
    shown = decoded(result.shown)  # a text stands for an opaque value, too
    return type(shown) is str or frame_size(shown) is not None


class UnreadForecast(Forecast):
    """A forecast in which no object is read. It raises NeedsUnpickling where it needs one."""

    is_as_in_run = True
    """Whether all results so far are those of the run, and so are the arguments of the next call."""

    def skips_check(self, key: CallKey, arguments: Value) -> bool:
        return _has_unread(arguments)

    def start_call(
        self,
        step: Invoke,
        callee: object,
        key: CallKey,
        arguments: Any,
        tools: Mapping[str, Tool] | None = None,
        grant: Grant = ANYTHING,
    ) -> StartedCall:
        if not _has_unread(arguments):
            return super().start_call(step, callee, key, arguments, tools, grant)
        name = getattr(callee, "name", step.name.text)
        recorded = self._recorded.arguments(key.at, name)
        if recorded is None or recorded.contents is None or not self.is_as_in_run:
            raise NeedsUnpickling
        if _objects_in(arguments) != {UnreadResult}:
            raise NeedsUnpickling  # an object of the input may have changed since
        call = super().start_call(step, callee, key, {}, None, grant)
        digests = [
            self.rows.digests.of(step, callee, arguments, None, tools or {}, grant, identity=each)
            for each in (recorded.contents, f"data {recorded.contents}")
        ]
        digest = max((each.digest for each in digests), key=self._count_results)
        return call._replace(arguments=recorded.text, whole=0, digest=digest)

    def _count_results(self, digest: bytes | None) -> int:
        return self._results.count(digest) if digest is not None else 0

    def find_reused(
        self, step: Invoke, callee: object, call: StartedCall, reads: bool = True
    ) -> ReusedResult:
        recorded = self._recorded.result_at(call.key.at, call.name)
        data = recorded.result.data if recorded is not None else None
        if isinstance(data, bytes) and not is_alone(data):
            raise NeedsUnpickling  # whether it is reused depends on the objects in it
        result = super().find_reused(step, callee, call, reads)
        self.is_as_in_run &= recorded is not None and _is_result(result.value, recorded)
        return result


def _is_result(value: Value, recorded: Record) -> bool:
    """Whether ``value`` is the result that the run has recorded."""
    data = recorded.result.data
    if type(value) is UnreadResult:
        return isinstance(data, bytes) and value.is_same(bare(data))
    return isinstance(data, str) and is_same_json(encode(value), data)
