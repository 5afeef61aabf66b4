"""Fingerprints of objects in this process: whether a call has changed what it got.

Lists and dicts are copied for each call; all other objects are shared with later steps. A
call that changed one of these must be made again when its run is resumed, or the steps after it
would get the object as it was before. So the objects of a call are pickled before and after it, into
a hash: no bytes are kept (decision D111).

Memory that its library lets nobody write is known by its place, and held so that no other value gets
that place: tables of polars and Arrow. So are the elements of a large column of texts and numbers
of Python. All other memory has a checksum, also columns of pandas: `frame["a"].array[0] = 1` writes
into a column that others share. What cannot be pickled has no fingerprint: a generator, an open
file, a connection.
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

MOST = 100_000_000
"""Bytes of a pickle, without its arrays; a larger one has no fingerprint."""

LEAST = 64_000
"""Bytes of a buffer, or of the rest of a pickle, from which on it is a part."""

MOST_CUT = 10_000
"""Columns of a block that are parts of their own."""

CONTENTS = 16
"""Bytes of each half of `Print.contents`."""

WHOLE = 1_000_000
"""Bytes of one text, or of bytes, from which on a checksum is enough: these are no small parts. Of more
memory each piece of this size has one."""

NEVER = float("-inf")
"""Before each time of the monotonic clock."""

MANY = 10_000
"""Elements of an array of objects from which on constants in it are known by their places."""

CODE = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type)
LOCKS = (type(threading.Lock()), type(threading.RLock()))
"""They have no state for a step after the call."""

_CONSTANTS = frozenset({*ATOMS, bytes, complex, datetime.date, datetime.timedelta, decimal.Decimal})
"""The types of elements that nobody can change."""


def memory_checksum(memory: Any) -> int:
    """Each MB has 32 bits of its own: one checksum of all would miss one change in four billion,
    however much it changes."""
    if memory.nbytes <= WHOLE:
        return zlib.crc32(memory)
    view = memoryview(memory).cast("B")
    pieces = (view[start : start + WHOLE] for start in range(0, view.nbytes, WHOLE))
    sums = b"".join(zlib.crc32(piece).to_bytes(4, "little") for piece in pieces)
    return int.from_bytes(hashlib.sha256(sums).digest()[:8], "little")


class Checksums:
    """The checksums of memory at one moment, each made once. The memory is held: no other value has
    its place."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[memoryview, int]] = {}

    def of(self, raw: memoryview) -> int:
        start = address(raw)
        if not start or raw.nbytes < LEAST:
            return memory_checksum(raw)
        place = (start, raw.nbytes)
        if place not in self._known:
            self._known[place] = raw, memory_checksum(raw)
        _, checksum = self._known[place]
        return checksum

    def clear(self) -> None:
        """Hold nothing any more."""
        self._known.clear()


def address(raw: memoryview) -> int:
    """Where memory is; 0 if nobody knows."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is None or not raw.nbytes:
        return 0
    return int(numpy.frombuffer(raw, "u1").__array_interface__["data"][0])


def cut(view: memoryview, raw: memoryview) -> Iterator[memoryview]:
    """A buffer as its columns, if each is large enough to be a part; else as a whole."""
    count = view.shape[0] if view.shape is not None and view.ndim == 2 and view.c_contiguous else 1
    size = raw.nbytes // max(count, 1)
    if not 1 < count <= MOST_CUT or size < LEAST:
        yield raw
        return
    for start in range(0, raw.nbytes, size):
        yield raw[start : start + size]


class Print(NamedTuple):
    """The fingerprint of one object."""

    pickled: bytes
    buffers: list[tuple[int, int]]
    """The size and the checksum of each array."""
    tables: list[Any]
    """Those that nobody writes in place."""
    columns: list[Any]
    """Copies of arrays of constants, which hold the very same objects."""

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
    """The objects that a call gets, as they were before it."""

    def __init__(
        self, arguments: Value, last: Callable[[Any], Print | None] = lambda thing: None
    ) -> None:
        """``last``: the fingerprint of an object that was looked at before, which is then not looked
        at again: a change since then counts as one of this call. Default: there is none."""
        self._objects = [(thing, last(thing) or print_of(thing)) for thing in _objects(arguments)]
        self._after: list[Print | None] | None = None
        self.checksums = Checksums()
        """Those of the moment in which the call had ended."""
        self.looked_at = NEVER
        """When that was, by the monotonic clock."""

    @property
    def unknown(self) -> str:
        """The type of an object that has no fingerprint; empty if all have one."""
        without = (thing for thing, before in self._objects if before is None)
        return next((type(thing).__qualname__ for thing in without), "")

    @property
    def objects(self) -> list[Any]:
        return [thing for thing, _ in self._objects]

    @property
    def before(self) -> Sequence[tuple[Any, Print | None]]:
        """The objects, and each as it was before the call."""
        return self._objects

    def look(self) -> list[Print | None]:
        """The objects as they are now that the call has ended. Looked at once."""
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

    def after(self, thing: Any) -> Print | None:
        """The fingerprint of an object after the call; None if the call did not get it."""
        pairs = zip(self.objects, self.look(), strict=True)
        return next((after for other, after in pairs if other is thing), None)


def fingerprint(
    arguments: Value, last: Callable[[Any], Print | None] = lambda thing: None
) -> Fingerprint | None:
    """The fingerprint of the objects in ``arguments`` that a call may change; None if there are
    none. ``last``: as for `Fingerprint`."""
    before = Fingerprint(arguments, last)
    return before if before.objects else None


_UNCHANGED = ATOMS | {Unread}
"""What is not read yet is changed by nobody."""


def _objects(arguments: Value) -> Iterator[Any]:
    """What is shared with other steps: all but lists and dicts, which are copied, and what nobody can
    change."""
    waiting = [arguments]
    while waiting:
        value = waiting.pop()
        if type(value) is list:
            waiting += value
        elif type(value) is dict:
            waiting += value.values()
        elif (
            type(value) not in _UNCHANGED and not isinstance(value, CODE) and not is_constant(value)
        ):
            yield value


class _TooLarge(Exception):
    pass


class _Hash:
    """A file that keeps only a hash of what is written."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self._budget = MOST

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        if size >= WHOLE:  # one text, or bytes
            self.hash.update(b"%d %d" % (size, memory_checksum(memoryview(data))))
            return size
        self._budget -= size
        if self._budget < 0:
            raise _TooLarge
        self.hash.update(data)
        return size


class _Printer(pickle.Pickler):
    """Pickles an object into a hash; its arrays and tables go into a `Print`."""

    def __init__(self, file: _Hash, prints: Print, checksums: Checksums) -> None:
        def keep(buffer: pickle.PickleBuffer) -> None:
            with memoryview(buffer) as view:
                for part in cut(view, buffer.raw()):
                    prints.buffers.append((part.nbytes, checksums.of(part)))

        # No method of its own: such a circle would keep all that it has seen.
        super().__init__(file, protocol=5, buffer_callback=keep)
        self._print = prints

    def reducer_override(self, thing: Any) -> Any:
        """What stands for an object in the hash; NotImplemented: what pickle makes of it."""
        if thing is str or thing is bytes:  # what this method itself makes
            return NotImplemented
        if isinstance(thing, CODE) and not _is_bound(thing):
            # By its place: pickle refuses a lambda, and a class of a function.
            return str, (f"code {id(thing)}",)
        kind = type(thing)
        if kind in LOCKS:
            return str, ("a lock",)
        match kind.__module__.partition(".")[0]:
            case "polars" if kind.__name__ in ("DataFrame", "Series", "LazyFrame"):
                self._print.tables.append(thing.clone())
                return str, (f"table {id(thing)}",)
            case "pyarrow" if kind.__name__ in _OF_ARROW or kind.__name__.endswith("Array"):
                self._print.tables.append(thing)
                return str, (f"table of {kind.__name__}",)
            case "numpy" if kind.__name__ in ("ndarray", "memmap"):
                return _of_array(thing, self._print)
            case "pandas" if "_pa_array" in getattr(thing, "__dict__", ()):
                # Its own pickle has a copy of the column.
                return str, ((kind.__qualname__, _without_cache_entry(vars(thing))),)
            case "pandas" if "_cache" in getattr(thing, "__dict__", ()):
                return _without_cache(thing.__reduce_ex__(5))
        return NotImplemented


_OF_ARROW = frozenset({"Table", "RecordBatch", "ChunkedArray"})
"""Nobody changes them, nor the arrays in them."""


def _is_bound(thing: Any) -> bool:
    """Whether it is a method in C of an object: each look at it makes a new one."""
    owner = getattr(thing, "__self__", None)
    return isinstance(thing, types.BuiltinFunctionType) and not isinstance(
        owner, (types.ModuleType, type(None))
    )


def _without_cache(reduced: Any) -> Any:
    """What pickle makes of a column of pandas, without what the column has computed of itself."""
    if type(reduced) is not tuple or len(reduced) < 3:
        return reduced
    make, arguments, state, *others = reduced
    if type(state) is tuple:  # of a class in C: with the attributes, if there are any
        parts = map(_without_cache_entry, state)
        state = tuple(part for part in parts if type(part) is not dict or part)
    return (make, arguments, _without_cache_entry(state) or None, *others)


def _without_cache_entry(part: Any) -> Any:
    if type(part) is not dict:
        return part
    return {name: value for name, value in part.items() if name != "_cache"}


def _of_array(array: Any, prints: Print) -> Any:
    """What stands for an array whose memory pickle would copy; else it is left to pickle."""
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
        with contextlib.suppress(ValueError):  # a date in a structure
            memoryview(array)
            return NotImplemented
    for piece in _pieces(array):
        prints.buffers.append((piece.nbytes, memory_checksum(piece)))
    return str, (form,)


def _has_constants(array: Any) -> bool:
    pieces = (array[start : start + MANY] for start in range(0, len(array), MANY))
    return all(_CONSTANTS.issuperset(map(type, piece.ravel().tolist())) for piece in pieces)


def _pieces(array: Any) -> Iterator[Any]:
    """The memory of an array as bytes; a view with gaps in copies of a part each."""
    numpy: Any = sys.modules["numpy"]
    if array.flags.f_contiguous and not array.flags.c_contiguous:
        array = array.T
    rows = max(1, WHOLE * len(array) // max(array.nbytes, 1))
    step = max(len(array), 1) if array.flags.c_contiguous else rows
    for start in range(0, len(array), step):
        yield numpy.ascontiguousarray(array[start : start + step]).reshape(-1).view("u1")


def print_of(value: Any, checksums: Checksums | None = None) -> Print | None:
    """The fingerprint of an object; None if it cannot be pickled. ``checksums``: those of this
    moment; default None: none are known."""
    file = _Hash()
    prints = Print(b"", [], [], [])
    try:
        _Printer(file, prints, Checksums() if checksums is None else checksums).dump(value)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # of a user's __reduce__
        return None
    return prints._replace(pickled=file.hash.digest())


def is_same_print(before: Print, after: Print | None) -> bool:
    """Whether an object has not changed between two fingerprints."""
    if after is None or (before.pickled, before.buffers) != (after.pickled, after.buffers):
        return False
    if len(before.tables) != len(after.tables) or len(before.columns) != len(after.columns):
        return False
    try:
        return all(map(_is_same_table, before.tables, after.tables)) and all(
            map(_has_same_objects, before.columns, after.columns)
        )
    except Exception:  # a column of polars that has objects
        return False


def _has_same_objects(before: Any, after: Any) -> bool:
    return before.shape == after.shape and all(map(is_, before.flat, after.flat))


def _is_same_table(before: Any, after: Any) -> bool:
    if type(before) is not type(after):
        return False
    # One of Arrow is never changed; a lazy one is a plan.
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
    return [table] if type(table).__name__ == "Series" else table.get_columns()


def _is_same_column(before: Any, after: Any) -> bool:
    """Whether two columns of polars have the same memory, or equal values in another one."""
    places = _places(before)
    return (places is not None and places == _places(after)) or bool(before.equals(after))


def _places(column: Any) -> list[Any] | None:
    """Where the memory of a column of polars is; None if that is not known."""
    polars: Any = sys.modules["polars"]
    if module_if_loaded("pyarrow") is None:
        return None
    column = column.to_arrow(compat_level=polars.CompatLevel.newest())
    chunks = getattr(column, "chunks", [column])
    return [(chunk.offset, len(chunk), _addresses(chunk)) for chunk in chunks]
