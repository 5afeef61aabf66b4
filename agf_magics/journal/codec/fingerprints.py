"""Takes fingerprints of objects, which show whether a call has changed its arguments.

Lists and dicts are copied for each call; other objects are shared with later steps. A call that
changed a shared object must be made again when its run is resumed: otherwise later steps would get
the unchanged object. So the objects of a call are pickled into a hash before and after the call
(decision D111). Memory that nobody can write (tables of polars and Arrow, the elements of a large
column of Python texts and numbers) is recognized by its address, and kept so that no other value
gets the address. All other memory has a checksum, columns of pandas included: `frame["a"].array[0]
= 1` writes into a shared column. An object that cannot be pickled has no fingerprint: a generator,
an open file, a connection.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import hashlib
import pickle
import sys
import threading
import time
import types
import zlib
from collections.abc import Callable, Iterator, Sequence
from operator import is_
from typing import Any, NamedTuple

from ...catalog.digests.digest import is_constant
from ...compat.imports import module_if_loaded
from ...text.length import ATOMS
from ...values.unread import Unread
from ...values.value import Value
from .pickles import without_cache

MOST = 100_000_000
"""The largest number of bytes of a pickle without its arrays. A larger object has no
fingerprint."""

LEAST = 64_000
"""The number of bytes from which on a buffer, or the rest of a pickle, becomes a separate part."""

MOST_CUT = 10_000
"""The largest number of columns of a block that become separate parts."""

CONTENTS = 16
"""The number of bytes of each half of `ObjectFingerprint.contents`."""

WHOLE = 1_000_000
"""The number of bytes from which on a text or bytes have a checksum in place of their content. Each
piece of this size has its own checksum."""

NEVER = float("-inf")
"""A time before all times of the monotonic clock."""

MANY = 10_000
"""The number of elements from which on the constants in an array of objects are compared by
identity."""

CODE = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type)
"""Classes of code: a function, a module or a class is not data that a call changes."""
LOCKS = (type(threading.Lock()), type(threading.RLock()))
"""Classes whose objects have no state for later steps."""

_CONSTANTS = frozenset({*ATOMS, bytes, complex, datetime.date, datetime.timedelta, decimal.Decimal})
"""The types of elements that nobody can change."""


def memory_checksum(memory: Any) -> int:
    """The checksum of memory. Each MB has its own 32 bits: a single checksum would miss one change
    in four billion, however large the change is."""
    if memory.nbytes <= WHOLE:
        return zlib.crc32(memory)
    view = memoryview(memory).cast("B")
    pieces = (view[start : start + WHOLE] for start in range(0, view.nbytes, WHOLE))
    sums = b"".join(zlib.crc32(piece).to_bytes(4, "little") for piece in pieces)
    return int.from_bytes(hashlib.sha256(sums).digest()[:8], "little")


class Checksums:
    """The checksums of memory at one moment, each computed once. The memory is kept, so that no
    other value gets its address."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[memoryview, int]] = {}
        """The memory and its checksum, by address and size."""

    def of(self, raw: memoryview) -> int:
        """The checksum of ``raw``, computed now unless it is known."""
        start = address(raw)
        if not start or raw.nbytes < LEAST:
            return memory_checksum(raw)
        key = (start, raw.nbytes)
        if key not in self._known:
            self._known[key] = raw, memory_checksum(raw)
        _, checksum = self._known[key]
        return checksum

    def clear(self) -> None:
        """Release the memory and forget the checksums."""
        self._known.clear()


def address(raw: memoryview) -> int:
    """The address of the memory; 0: unknown."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is None or not raw.nbytes:
        return 0
    return int(numpy.frombuffer(raw, "u1").__array_interface__["data"][0])


def cut(view: memoryview, raw: memoryview) -> Iterator[memoryview]:
    """The columns of a buffer, if each is large enough to be a part; otherwise the whole buffer."""
    count = view.shape[0] if view.shape is not None and view.ndim == 2 and view.c_contiguous else 1
    size = raw.nbytes // max(count, 1)
    if not 1 < count <= MOST_CUT or size < LEAST:
        yield raw
        return
    for start in range(0, raw.nbytes, size):
        yield raw[start : start + size]


class ObjectFingerprint(NamedTuple):
    """The fingerprint of one object."""

    pickled: bytes
    """The hash of the pickle, without arrays and tables."""
    buffers: list[tuple[int, int]]
    """The size and the checksum of each array."""
    tables: list[Any]
    """The tables that nobody can write in place."""
    columns: list[Any]
    """Copies of arrays of constants, which hold the same objects."""

    @property
    def size(self) -> int:
        """The bytes of the arrays."""
        return sum(size for size, _ in self.buffers)

    @property
    def contents(self) -> bytes | None:
        """Digests of the sizes and of the checksums of the arrays, which are the same in each
        process; None: there are none."""
        halves = (repr(list(half)).encode() for half in zip(*self.buffers, strict=True))
        return b"".join(hashlib.sha256(half).digest()[:CONTENTS] for half in halves) or None


class Fingerprint:
    """The fingerprints of the objects that a call gets, taken before the call."""

    def __init__(
        self, arguments: Value, last: Callable[[Any], ObjectFingerprint | None] = lambda thing: None
    ) -> None:
        """``last``: returns the last fingerprint of an object, which is then not taken again, so
        that a change since then counts as a change by this call. Default: there is none."""
        self._objects = [(thing, last(thing) or print_of(thing)) for thing in _objects(arguments)]
        self._after: list[ObjectFingerprint | None] | None = None
        self.checksums = Checksums()
        """The checksums of the moment in which the call ended."""
        self.looked_at = NEVER
        """The time of that moment, by the monotonic clock."""

    @property
    def unknown(self) -> str:
        """The type of an object that has no fingerprint; empty if all have one."""
        without = (thing for thing, before in self._objects if before is None)
        return next((type(thing).__qualname__ for thing in without), "")

    @property
    def objects(self) -> list[Any]:
        return [thing for thing, _ in self._objects]

    @property
    def before(self) -> Sequence[tuple[Any, ObjectFingerprint | None]]:
        """The objects, each with its fingerprint before the call."""
        return self._objects

    def look(self) -> list[ObjectFingerprint | None]:
        """The fingerprints of the objects after the call, taken once."""
        if self._after is None:
            self.looked_at = time.monotonic()
            self._after = [
                print_of(thing, self.checksums) if before is not None else None
                for thing, before in self._objects
            ]
        return self._after

    def differs(self) -> bool:
        """Whether one of the objects has changed."""
        pairs = zip(self._objects, self.look(), strict=True)
        return any(
            before is not None and not is_same_print(before, after) for (_, before), after in pairs
        )

    def after(self, thing: Any) -> ObjectFingerprint | None:
        """The fingerprint of an object after the call; None if the call did not get it."""
        pairs = zip(self.objects, self.look(), strict=True)
        return next((after for other, after in pairs if other is thing), None)


def fingerprint(
    arguments: Value, last: Callable[[Any], ObjectFingerprint | None] = lambda thing: None
) -> Fingerprint | None:
    """The fingerprint of the objects in ``arguments`` that a call may change; None if there are
    none. ``last``: as for `Fingerprint`."""
    before = Fingerprint(arguments, last)
    return before if before.objects else None


_UNCHANGED = ATOMS | {Unread}
"""The types of values that no call can change; nobody changes an unread value."""


def _objects(arguments: Value) -> Iterator[Any]:
    """The objects in ``arguments`` that are shared with other steps: not lists and dicts, which are
    copied, and not constants."""
    waiting = [arguments]
    while waiting:
        value = waiting.pop()
        if type(value) is list:
            waiting += value
        elif type(value) is dict:
            waiting += value.values()
        elif _may_change(value):
            yield value


def _may_change(value: Any) -> bool:
    is_unchanging = type(value) in _UNCHANGED or isinstance(value, CODE)
    return not is_unchanging and not is_constant(value)


class _TooLarge(Exception):
    """The pickle is too large for a fingerprint."""


class _Hash:
    """A file that keeps only a hash of what is written."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self._budget = MOST

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        if size >= WHOLE:  # a long text, or bytes
            self.hash.update(b"%d %d" % (size, memory_checksum(memoryview(data))))
            return size
        self._budget -= size
        if self._budget < 0:
            raise _TooLarge
        self.hash.update(data)
        return size


class _Printer(pickle.Pickler):
    """Pickles an object into a hash; its arrays and tables go into an `ObjectFingerprint`."""

    def __init__(self, file: _Hash, prints: ObjectFingerprint, checksums: Checksums) -> None:
        def keep(buffer: pickle.PickleBuffer) -> None:
            with memoryview(buffer) as view:
                for part in cut(view, buffer.raw()):
                    prints.buffers.append((part.nbytes, checksums.of(part)))

        # Not a method: a reference cycle would keep all pickled objects in memory.
        super().__init__(file, protocol=5, buffer_callback=keep)
        self._print = prints

    def reducer_override(self, thing: Any) -> Any:
        """The replacement for an object in the hash; NotImplemented: the usual pickle."""
        if thing is str or thing is bytes:  # made by this method
            return NotImplemented
        if isinstance(thing, CODE) and not _is_bound(thing):
            # By identity, because pickle refuses a lambda and a class in a function.
            return str, (f"code {id(thing)}",)
        kind = type(thing)
        if kind in LOCKS:
            return str, ("a lock",)
        match kind.__module__.partition(".")[0]:
            case "polars" if kind.__name__ in ("DataFrame", "Series", "LazyFrame"):
                self._print.tables.append(thing.clone())
                # Their objects may change, and polars cannot compare them.
                objects = [column.to_list() for column in _columns(thing) if _has_objects(column)]
                return tuple, ((f"table {id(thing)}", *objects),)
            case "pyarrow" if kind.__name__ in _OF_ARROW or kind.__name__.endswith("Array"):
                self._print.tables.append(thing)
                return str, (f"table of {kind.__name__}",)
            case "numpy" if kind.__name__ in ("ndarray", "memmap"):
                return _of_array(thing, self._print)
            case "pandas" if "_pa_array" in getattr(thing, "__dict__", ()):
                # The usual pickle would copy the column.
                fields = {name: part for name, part in vars(thing).items() if name != "_cache"}
                return str, ((kind.__qualname__, fields),)
        return without_cache(thing)


_OF_ARROW = frozenset({"Table", "RecordBatch", "ChunkedArray"})
"""The classes of Arrow that nobody can change, nor the arrays in them."""


def _is_bound(thing: Any) -> bool:
    """Whether ``thing`` is a bound method in C, which is a new object at each access."""
    owner = getattr(thing, "__self__", None)
    return isinstance(thing, types.BuiltinFunctionType) and not isinstance(
        owner, (types.ModuleType, type(None))
    )


def _of_array(array: Any, prints: ObjectFingerprint) -> Any:
    """The replacement for an array whose memory pickle would copy; NotImplemented for other
    arrays."""
    form = ("array", array.dtype, array.shape, array.strides, array.flags.writeable)
    if array.dtype.hasobject:
        if array.size < MANY or not _has_constants(array):
            return NotImplemented
        prints.columns.append(array.copy())
        return str, (form,)
    if not array.ndim:
        return NotImplemented
    if array.flags.c_contiguous or array.flags.f_contiguous:
        if array.dtype.kind in "mM":
            return str, (form, array.view("i8"))
        with contextlib.suppress(ValueError):  # the structure has a date
            memoryview(array)
            return NotImplemented
    for piece in _pieces(array):
        prints.buffers.append((piece.nbytes, memory_checksum(piece)))
    return str, (form,)


def _has_constants(array: Any) -> bool:
    pieces = (array[start : start + MANY] for start in range(0, len(array), MANY))
    return all(_CONSTANTS.issuperset(map(type, piece.ravel().tolist())) for piece in pieces)


def _pieces(array: Any) -> Iterator[Any]:
    """The memory of an array as bytes. A view with gaps is copied part by part."""
    numpy: Any = sys.modules["numpy"]
    if array.flags.f_contiguous and not array.flags.c_contiguous:
        array = array.T
    rows = max(1, WHOLE * len(array) // max(array.nbytes, 1))
    step = max(len(array), 1) if array.flags.c_contiguous else rows
    for start in range(0, len(array), step):
        yield numpy.ascontiguousarray(array[start : start + step]).reshape(-1).view("u1")


def print_of(value: Any, checksums: Checksums | None = None) -> ObjectFingerprint | None:
    """The fingerprint of an object; None if it cannot be pickled. ``checksums``: the checksums of
    this moment; default None: none are known yet."""
    file = _Hash()
    prints = ObjectFingerprint(b"", [], [], [])
    try:
        _Printer(file, prints, Checksums() if checksums is None else checksums).dump(value)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # raised by a user's __reduce__
        return None
    return prints._replace(pickled=file.hash.digest())


def is_same_print(before: ObjectFingerprint, after: ObjectFingerprint | None) -> bool:
    """Whether an object has not changed between two fingerprints."""
    if after is None or (before.pickled, before.buffers) != (after.pickled, after.buffers):
        return False
    if len(before.tables) != len(after.tables) or len(before.columns) != len(after.columns):
        return False
    try:
        if not all(map(_is_same_table, before.tables, after.tables)):
            return False
        return all(map(_has_same_objects, before.columns, after.columns))
    except Exception:  # raised by a class of a user in a table
        return False


def _has_same_objects(before: Any, after: Any) -> bool:
    return before.shape == after.shape and all(map(is_, before.flat, after.flat))


def _is_same_table(before: Any, after: Any) -> bool:
    if type(before) is not type(after):
        return False
    # A table of Arrow never changes, and a lazy table is only a plan.
    if before is after or type(before).__name__ == "LazyFrame":
        return True
    if type(before).__module__.partition(".")[0] == "pyarrow":
        return bool(before.equals(after))
    names = ("name", "dtype") if type(before).__name__ == "Series" else ("schema",)
    if not all(getattr(before, name) == getattr(after, name) for name in names):
        return False
    return all(map(_is_same_column, _columns(before), _columns(after)))


def _addresses(chunk: Any) -> list[Any]:
    return [part and (part.address, part.size) for part in chunk.buffers()]


def _columns(table: Any) -> list[Any]:
    """The columns of a table of polars; none of a lazy one, which is only a plan."""
    if type(table).__name__ == "LazyFrame":
        return []
    return [table] if type(table).__name__ == "Series" else table.get_columns()


def _has_objects(column: Any) -> bool:
    return str(column.dtype) == "Object"


def _is_same_column(before: Any, after: Any) -> bool:
    """Whether two columns of polars have the same memory, or equal values in another one. Objects
    are compared by the pickle."""
    if _has_objects(before):
        return True
    places = _places(before)
    return (places is not None and places == _places(after)) or bool(before.equals(after))


def _places(column: Any) -> list[Any] | None:
    """The addresses of the memory of a polars column; None: unknown."""
    polars: Any = sys.modules["polars"]
    if module_if_loaded("pyarrow") is None:
        return None
    column = column.to_arrow(compat_level=polars.CompatLevel.newest())
    chunks = getattr(column, "chunks", [column])
    return [(chunk.offset, len(chunk), _addresses(chunk)) for chunk in chunks]
