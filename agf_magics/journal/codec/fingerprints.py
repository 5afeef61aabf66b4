"""Fingerprints of objects in this process: whether a call has changed what it got.

Lists and dicts are copied for each call; all other objects are shared with later steps. A
call that changed one of these must be made again when its run is resumed, or the steps after it
would get the object as it was before. So the objects of a call are pickled before and after it, into
a hash: no bytes are kept (decision D111).

Three kinds of data are not read byte by byte. The columns of a table of pandas and polars are never
written in place while somebody else has them: they are held, and compared by their addresses. Large
arrays are pickled out of band, and have a checksum. What cannot be pickled has no fingerprint: a
generator, an open file, a connection.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
import threading
import types
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from ...catalog.digests.digest import is_constant
from ...catalog.digests.digesting import digest_value
from ...text.length import ATOMS
from ...values.value import Value

MOST = 100_000_000
"""Bytes of a pickle, without its arrays; a larger one has no fingerprint."""

CODE = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type)
LOCKS = (type(threading.Lock()), type(threading.RLock()))
"""They have no state for a step after the call."""


class _Table(NamedTuple):
    """A table of pandas."""

    held: Any
    """A copy of it that shares its columns."""
    columns: list[memoryview]
    pickled: bytes
    """A hash of all the rest."""


class Print(NamedTuple):
    """The fingerprint of one object."""

    pickled: bytes
    buffers: list[tuple[int, int]]
    """The size and the checksum of each array."""
    frames: list[Any]
    """Tables of polars, which nobody writes in place."""
    tables: list[_Table]


class Fingerprint:
    """The objects that a call gets, as they were before it."""

    def __init__(self, given: Value) -> None:
        self._objects = [(each, print_of(each)) for each in _objects(given)]
        self._after: list[Print | None] = []

    @property
    def unknown(self) -> str:
        """The type of an object that has no fingerprint; empty if all have one."""
        return next(
            (type(each).__qualname__ for each, prints in self._objects if prints is None), ""
        )

    @property
    def objects(self) -> list[Any]:
        return [each for each, _ in self._objects]

    def differs(self) -> bool:
        """Whether one of the objects has changed since then."""
        self._after = []
        for each, before in self._objects:
            self._after.append(print_of(each) if before is not None else None)
            if before is not None and not is_same_print(before, self._after[-1]):
                return True
        return False

    def after(self, thing: Any) -> Print | None:
        """The fingerprint of an object when `differs` looked at it; None: it was not one of them."""
        looked_at = zip(self._objects, self._after, strict=False)
        return next((now for (each, _), now in looked_at if each is thing), None)


def fingerprint(given: Value) -> Fingerprint | None:
    """The fingerprint of the objects in ``given`` that a call may change; None if there are none."""
    arguments = Fingerprint(given)
    return arguments if arguments._objects else None


def _objects(given: Value) -> Iterator[Any]:
    """What is shared with other steps: all but lists and dicts, which are copied, and what nobody can
    change."""
    waiting = [given]
    while waiting:
        value = waiting.pop()
        if type(value) is list:
            waiting += value
        elif type(value) is dict:
            waiting += value.values()
        elif type(value) not in ATOMS and not isinstance(value, CODE) and not is_constant(value):
            yield value


class _TooLarge(Exception):
    pass


class _Hash:
    """A file that keeps only a hash of what is written."""

    def __init__(self) -> None:
        self.hash, self._left = hashlib.sha256(), MOST

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self._left -= size
        if self._left < 0:
            raise _TooLarge
        self.hash.update(data)
        return size


class _Printer(pickle.Pickler):
    def __init__(self, file: _Hash, prints: Print, columns: list[memoryview] | None = None) -> None:
        def keep(buffer: pickle.PickleBuffer) -> None:
            raw = buffer.raw()
            if columns is not None:
                columns.append(raw)
            else:
                prints.buffers.append((raw.nbytes, zlib.crc32(raw)))

        # No method of its own: such a circle would keep all that it has seen.
        super().__init__(file, protocol=5, buffer_callback=keep)
        self._print, self._columns = prints, columns

    def reducer_override(self, thing: Any) -> Any:
        if thing is str or thing is bytes:  # what this method itself makes
            return NotImplemented
        if isinstance(thing, CODE) and not _is_bound(
            thing
        ):  # also a lambda, and a class of a function
            return str, (f"code {id(thing)}",)
        kind = type(thing)
        if kind in LOCKS:
            return str, ("a lock",)
        package = kind.__module__.partition(".")[0]
        if package == "polars" and kind.__name__ in ("DataFrame", "Series", "LazyFrame"):
            self._print.frames.append(thing.clone())
            return str, (f"frame {id(thing)}",)
        if package == "pandas" and self._columns is None and _is_copied_on_write(kind):
            self._print.tables.append(_table(thing))
            return str, ("a table",)
        return NotImplemented


def _is_bound(thing: Any) -> bool:
    """Whether it is a method in C of an object: each look at it makes a new one."""
    owner = getattr(thing, "__self__", None)
    return isinstance(thing, types.BuiltinFunctionType) and not isinstance(
        owner, (types.ModuleType, type(None))
    )


def _is_copied_on_write(kind: type) -> bool:
    pandas: Any = sys.modules["pandas"]
    is_table = kind in (pandas.DataFrame, pandas.Series) or issubclass(kind, pandas.Index)
    return is_table and int(pandas.__version__.split(".")[0]) >= 3


def _table(table: Any) -> _Table:
    file, shared = _Hash(), _Table(table.copy(deep=False), [], b"")
    _Printer(file, _nothing(), shared.columns).dump(table)
    return shared._replace(pickled=file.hash.digest())


def _nothing() -> Print:
    return Print(b"", [], [], [])


def print_of(value: Any) -> Print | None:
    file, prints = _Hash(), _nothing()
    try:
        _Printer(file, prints).dump(value)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # of a user's __reduce__
        return None
    return prints._replace(pickled=file.hash.digest())


def is_same_print(before: Print, now: Print | None) -> bool:
    """Whether an object has not changed between two fingerprints."""
    if now is None or (before.pickled, before.buffers) != (now.pickled, now.buffers):
        return False
    try:
        return all(map(_is_same_table, before.tables, now.tables)) and all(
            map(_is_same_frame, before.frames, now.frames)
        )
    except Exception:  # a column of polars that has objects
        return False


def _is_same_table(before: _Table, now: _Table) -> bool:
    if before.pickled == now.pickled and len(before.columns) == len(now.columns):
        return all(map(_is_same_column, before.columns, now.columns))
    # Some columns pickle what they have computed of themselves.
    digest = digest_value(before.held)
    return digest is not None and digest == digest_value(now.held)


def _is_same_column(before: memoryview, now: memoryview) -> bool:
    if before.nbytes != now.nbytes:
        return False
    # A column that its table makes for each pickle is at another address.
    return _address(before) == _address(now) or before == now


def _address(raw: memoryview) -> int:
    numpy: Any = sys.modules["numpy"]
    return int(numpy.frombuffer(raw, "u1").__array_interface__["data"][0]) if raw.nbytes else 0


def _is_same_frame(before: Any, now: Any) -> bool:
    if type(before) is not type(now):
        return False
    if type(before).__name__ == "LazyFrame":  # a plan, which nobody changes
        return True
    names = ("name", "dtype") if type(before).__name__ == "Series" else ("schema",)
    return all(getattr(before, name) == getattr(now, name) for name in names) and bool(
        before.equals(now)
    )
