"""Takes a large value apart: into a pickle and its large buffers, which are stored once for all
runs.

Pickle 5 passes the memory of an array or a column on instead of copying it. The rest of the pickle,
with the names and sizes of the parts, is the data of a row, which is signed like a small pickle. A
table whose columns lie in one block is cut at its columns, so that only a changed column is a new
part.
"""

from __future__ import annotations

import copyreg
import hashlib
import importlib
import io
import json
import pickle
import types
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Annotated, Any, NamedTuple, Protocol

from ...compat.imports import for_the_person, module_if_loaded
from ...text.length import ATOMS
from ...text.raised import describe_exception
from ...values.unread import ReadAtOnce
from ...values.value import Value
from .encoding import DecodeError
from .fingerprints import CODE, LEAST, cut
from .json_texts import encode
from .part_digests import digest_of
from .pickles import NotPicklable, picklers_in_order, without_cache
from .secret_search import HoldsSecret, Search
from .type_checks import checker

MOST_UNUSED = 64
"""The largest number of unused bytes of an Arrow column, at the end of its buffers."""

OPEN = frozenset({*ATOMS, dict, list})
"""The types of values into which expressions look."""

PLAIN = frozenset(
    (
        *("builtins", "copyreg", "collections", "datetime", "decimal", "fractions", "uuid"),
        *("zoneinfo", "_codecs", "numpy", "pandas", "polars", "pyarrow", __name__.split(".")[0]),
    )
)
"""Packages whose classes have no code of a user."""


class Stretch(NamedTuple):
    """A piece of a buffer that becomes a part."""

    view: memoryview
    digest: str


class TakenBuffer(NamedTuple):
    """A buffer that pickle passed on."""

    stretches: Sequence[Stretch]
    is_read_only: bool


class File(Protocol):
    """The file for the rest of a pickle, if it is large."""

    def write(self, data: Any) -> None: ...
    def drop(self) -> None: ...


class Parted(NamedTuple):
    """A value without its large buffers."""

    buffers: Sequence[TakenBuffer]
    rest: bytes
    """The rest of the pickle; empty: it is in the file."""
    file: File | None = None
    is_plain: bool = True
    """Whether the pickle has no class or function of the user, whose code would count, too."""
    kind: str = ""
    """The class of an opaque value; empty: expressions can look inside the value."""

    @property
    def stretches(self) -> Iterator[Stretch]:
        return (stretch for taken in self.buffers for stretch in taken.stretches)

    def data(self, rest_part: tuple[str, int] | None = None) -> bytes:
        """The data of the row. ``rest_part``: the digest and the size of the file; None: there is
        no file."""
        head = [list(map(_stored_buffer, self.buffers)), rest_part, self.is_plain, self.kind]
        return encode(head).encode() + b"\n" + self.rest


def _stored_buffer(buffer: TakenBuffer) -> list[Any]:
    """A buffer in the data of a row: whether it is read-only, and the digest and size of each
    part."""
    parts = [[stretch.digest, stretch.view.nbytes] for stretch in buffer.stretches]
    return [buffer.is_read_only, *parts]


NOTHING_TO_FIND = Search(())


def take_apart(
    value: Value,
    create: Callable[[], File],
    search: Search = NOTHING_TO_FIND,
    digest: Callable[[memoryview], str] = digest_of,
) -> Parted:
    """``value`` as parts, which keep its memory alive. ``create``: creates the file for a large
    rest. ``search``: finds texts that must not be stored. ``digest``: digests a part. Raises
    NotPicklable, HoldsSecret and the errors of the file."""
    why = ""
    for pickler in _picklers():
        rest, buffers, foreign = _Rest(create, search), list[TakenBuffer](), list[object]()
        try:
            pickler(rest, _taker(buffers, search, digest), foreign).dump(value)
            is_open = type(value) in OPEN or isinstance(value, ReadAtOnce)
            kind = "" if is_open else type(value).__name__
            return Parted(buffers, rest.in_memory, rest.file, not foreign, kind)
        except (HoldsSecret, OSError, KeyboardInterrupt) as error:
            rest.drop()
            # An OSError that the file did not raise is that of a user's __reduce__.
            if not isinstance(error, OSError) or rest.is_broken:
                raise
            why = why or describe_exception(error, longest=300)
        # A user's __reduce__ may raise anything, even a SystemExit.
        except BaseException as error:
            rest.drop()
            why = why or describe_exception(error, longest=300)
    raise NotPicklable(why)


def is_plain(data: bytes) -> bool:
    """Whether ``data`` of a row determines the whole value, because no class of the user is in it.
    Raises DecodeError."""
    return bool(_head(data)[0][2])


def opaque_kind(data: bytes) -> str:
    """The class of an opaque value; empty: expressions look inside of it. Raises DecodeError."""
    return str(_head(data)[0][3])


def parts_in(data: bytes) -> list[tuple[str, int]]:
    """The digests and the sizes of the parts of a value. Raises DecodeError."""
    (buffers, rest, *_), _ = _head(data)
    parts = [(digest, size) for _, *parts in buffers for digest, size in parts]
    return parts if rest is None else [*parts, (rest[0], rest[1])]


def put_together(data: bytes, read: Callable[[str, int], bytearray]) -> Value:
    """The value whose row has ``data``. The caller must have checked the signature. ``read``:
    returns the bytes of a part. Raises DecodeError and the errors of ``read``."""
    stored, rest = _head(data)
    buffers = [_joined(parts, is_read_only, read) for is_read_only, *parts in stored[0]]
    whole: Any = rest if stored[1] is None else read(*stored[1])
    try:
        with for_the_person():  # a class of the user may be imported
            return pickle.loads(whole, buffers=buffers)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise DecodeError(describe_exception(error, longest=300)) from None


def content_of(data: bytes) -> tuple[bytes, str, bytes]:
    """The content of a value: the parts as JSON, their sizes, and the rest of the pickle. Values
    with different sizes of parts may still be the same."""
    stored, rest = _head(data)
    parts_of_buffers = [parts for _, *parts in stored[0]]
    sizes = [[len(parts), *(size for _, size in parts)] for parts in parts_of_buffers]
    return encode(stored).encode(), encode(sizes), rest


def content_digest(value: Value, digest: Callable[[memoryview], str] = digest_of) -> str | None:
    """The digest of the row's data that ``value`` would have; None: a class of the user is in it,
    or it cannot be pickled. Equal digests mean equal values. ``digest``: digests a part."""
    file = _Hashed()
    try:
        parted = take_apart(value, lambda: file, NOTHING_TO_FIND, digest)
    except NotPicklable:
        return None
    rest = None if parted.file is None else (file.hash.hexdigest(), file.size)
    return hashlib.sha256(parted.data(rest)).hexdigest() if parted.is_plain else None


class _Hashed:
    """A file that keeps only a hash."""

    def __init__(self) -> None:
        self.hash, self.size = hashlib.sha256(), 0

    def write(self, data: Any) -> None:
        self.hash.update(data)
        self.size += memoryview(data).nbytes

    def drop(self) -> None:
        """Do nothing: no file was written."""


def _head(data: bytes) -> tuple[Any, bytes]:
    """The head of ``data`` (buffers, file of the rest, whether it is plain, class), and the rest of
    the pickle after it. Raises DecodeError."""
    text, _, rest = data.partition(b"\n")
    try:
        stored = json.loads(text)
    except (ValueError, RecursionError):
        stored = None
    if not _is_head(stored):
        raise DecodeError("the list of its parts is damaged")
    return stored, rest


_is_part = checker(tuple[str, Annotated[int, lambda size: 0 <= size < 1 << 62]])


def _is_buffer(stored: Any) -> bool:
    """Whether ``stored`` is what `_stored_buffer` returns."""
    if type(stored) is not list or len(stored) < 2:
        return False
    is_read_only, *parts = stored
    return type(is_read_only) is bool and all(map(_is_part, parts))


def _is_head(stored: Any) -> bool:
    """Whether ``stored`` has the form of the head that `Parted.data` writes."""
    if type(stored) is not list or len(stored) != 4:
        return False
    buffers, rest_part, is_plain, kind = stored
    if type(buffers) is not list or not all(map(_is_buffer, buffers)):
        return False
    is_rest_valid = rest_part is None or _is_part(rest_part)
    return is_rest_valid and type(is_plain) is bool and type(kind) is str


def _joined(
    parts: Sequence[tuple[str, int]], is_read_only: bool, read: Callable[[str, int], bytearray]
) -> memoryview:
    """The memory of a buffer from its parts."""
    if len(parts) == 1:
        whole = read(*parts[0])
    else:
        whole = bytearray(sum(size for _, size in parts))
        start = 0
        for digest, size in parts:
            whole[start : start + size] = read(digest, size)
            start += size
    view = memoryview(whole)
    return view.toreadonly() if is_read_only else view


class _Rest:
    """The rest of a pickle, in memory or, if it is large, in a file."""

    def __init__(self, create: Callable[[], File], search: Search) -> None:
        self.file: File | None = None
        self.is_broken = False
        """Whether the file could not be written."""
        self._create, self._search = create, search
        self._memory = io.BytesIO()

    @property
    def in_memory(self) -> bytes:
        return self._memory.getvalue()

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self._search.search_next(data)
        if self.file is None and self._memory.tell() + size <= LEAST:
            return self._memory.write(data)
        try:
            if self.file is None:
                self.file = self._create()
                self.file.write(self.in_memory)
                self._memory = io.BytesIO()
            self.file.write(data)
        except OSError:
            self.is_broken = True
            raise
        return size

    def drop(self) -> None:
        if self.file is not None:
            self.file.drop()


def _taker(
    buffers: list[TakenBuffer], search: Search, digest: Callable[[memoryview], str]
) -> Callable[[pickle.PickleBuffer], bool]:
    """The callback for pickle that takes large buffers. If it returns True, pickle copies the
    buffer into the rest."""

    def take(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        with memoryview(buffer) as view:
            if raw.nbytes < LEAST:
                search.search_buffer(view, raw)
                return True
            stretches = [Stretch(piece, digest(piece)) for piece in cut(view, raw)]
            # Each part was searched, but a text may lie across two parts.
            search.search_buffer(view, raw, stretches[0].digest if len(stretches) == 1 else "")
        buffers.append(TakenBuffer(stretches, raw.readonly))
        return False

    return take


@cache
def _picklers() -> list[Any]:
    return list(map(_with_parts, picklers_in_order()))


def _with_parts(kind: Any) -> Any:
    """A subclass of the pickler ``kind`` that passes large buffers on, and notes the classes and
    functions of the user."""
    inherited_override = getattr(kind, "reducer_override", None)

    class Pickler(kind):  # type: ignore[misc]
        # No method as a callback: a reference cycle would keep the value alive.
        def __init__(self, rest: _Rest, take: Any, foreign: list[object]) -> None:
            super().__init__(rest, protocol=5, buffer_callback=take)
            self._foreign = foreign

        def reducer_override(self, value: Any) -> Any:
            if isinstance(value, CODE) and _is_foreign(value):
                self._foreign.append(value)
            package = type(value).__module__.partition(".")[0]
            if package == "polars" and type(value).__name__ in ("DataFrame", "Series"):
                return _of_polars(value)
            if package == "pandas" and "_pa_array" in getattr(value, "__dict__", ()):
                return _of_arrow(value)
            if package == "numpy" and type(value).__name__ == "ndarray" and _has_times(value):
                return _as_times, (value.view("i8"), value.dtype)
            reduced = without_cache(value)
            if reduced is not NotImplemented:
                return reduced
            if inherited_override is not None:
                return inherited_override(self, value)
            return NotImplemented

    return Pickler


def _is_foreign(code: Any) -> bool:
    """Whether a class or a function is code of the user, or of a package that is not in `PLAIN`."""
    owner = getattr(code, "__self__", code)  # a method in C has no module
    owner = owner if isinstance(owner, type | types.ModuleType) else code
    module = getattr(owner, "__module__", None) or getattr(owner, "__name__", None) or ""
    return module.partition(".")[0] not in PLAIN


def _has_times(array: Any) -> bool:
    """Whether ``array`` has dates or durations, for which numpy offers no buffer."""
    return array.dtype.kind in "mM" and (array.flags.c_contiguous or array.flags.f_contiguous)


def _as_times(numbers: Any, dtype: Any) -> Any:
    return numbers.view(dtype)


def _of_arrow(column: Any) -> Any:
    """The reduced form of a pandas column in Arrow memory, which the usual pickle would copy."""
    state, chunks = dict(vars(column)), column._pa_array.chunks
    # A slice of a column: its pickle leaves the other elements out.
    if len(chunks) != 1 or chunks[0].offset or _unused(chunks[0]) > MOST_UNUSED:
        return NotImplemented
    state["_pa_array"] = chunks[0]
    if "_cache" in state:
        state["_cache"] = {}
    return copyreg.__newobj__, (type(column),), state  # type: ignore[attr-defined]


def _unused(array: Any) -> int:
    """The number of bytes in the memory of an Arrow array that are not its elements."""
    return int(array.get_total_buffer_size()) - int(array.nbytes)


def _of_polars(frame: Any) -> Any:
    """The reduced form of a polars frame, column by column. The usual pickle would copy all of
    them."""
    polars: Any = module_if_loaded("polars")
    if type(frame) is polars.Series:
        return _series, (pickle.PickleBuffer(polars.DataFrame([frame]).serialize()),)
    if type(frame) is not polars.DataFrame:
        return NotImplemented
    columns = (polars.DataFrame([column]).serialize() for column in frame.get_columns())
    return _frame, ([pickle.PickleBuffer(column) for column in columns], frame.height)


def _frame(columns: list[Any], height: int) -> Any:
    polars: Any = importlib.import_module("polars")
    if not columns:
        return polars.DataFrame(height=height) if height else polars.DataFrame()
    return polars.DataFrame([_series(column) for column in columns])


def _series(column: Any) -> Any:
    polars: Any = importlib.import_module("polars")
    return polars.DataFrame.deserialize(io.BytesIO(column)).to_series()
