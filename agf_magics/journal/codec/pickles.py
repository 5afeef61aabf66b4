"""Pickles values up to a bounded size, and refuses a value that is too large before copying it.

Python's pickle comes first. It stores a class of the notebook by name, so that the current class is
used later. Values that it cannot pickle (a lambda, a class in a function) are pickled by
cloudpickle, if that is installed.
"""

from __future__ import annotations

import contextlib
import copyreg
import importlib
import io
import pickle
import sys
from collections import ChainMap
from collections.abc import MutableMapping
from functools import cache
from typing import Any, cast

from ...compat.imports import installed_only, module_if_loaded
from ...text.raised import describe_exception
from ...values.value import Value


class PickleTooLarge(Exception):
    """The pickle has more bytes than it may have."""


class NotPicklable(Exception):
    """The value cannot be pickled. The message has the reason."""


def pickled(value: Value, most: int) -> bytes:
    """``value`` as a pickle of at most ``most`` bytes. Raises PickleTooLarge or NotPicklable."""
    # The size is known without the elements, whose copy may not fit into the memory.
    if bytes_of_data(value) > most:
        raise PickleTooLarge
    why = ""
    for pickler in _picklers(most):
        file = _Bounded(most)
        try:
            pickler(file, protocol=5).dump(value)
            return file.getvalue()
        except (PickleTooLarge, KeyboardInterrupt):
            raise
        # Of a user's __reduce__, even a SystemExit.
        except BaseException as error:
            why = why or describe_exception(error, longest=300)
    raise NotPicklable(why)


class _Bounded(io.BytesIO):
    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def write(self, data: Any) -> int:
        if self.tell() + memoryview(data).nbytes > self.most:
            raise PickleTooLarge
        return super().write(data)


def bytes_of_data(value: Value) -> int:
    """The size of ``value`` if it is bytes, an array or a table; 0 for everything else. The library
    of such a value is already loaded."""
    package = type(value).__module__.partition(".")[0]
    if package == "pyarrow":
        return int(value.nbytes) if is_data(value) else 0
    if package not in ("numpy", "pandas", "polars"):
        return len(value) if type(value) is bytes else 0
    library: Any = sys.modules[package]
    if package == "numpy":
        return int(value.nbytes) if type(value) in (library.ndarray, library.memmap) else 0
    if package == "polars":
        return (
            int(value.estimated_size()) if type(value) in (library.DataFrame, library.Series) else 0
        )
    if type(value) is library.DataFrame:
        return sum(int(column.nbytes) for _, column in value.items())
    return int(value.nbytes) if type(value) is library.Series else 0


_DATA = {
    "builtins": ("bytes",),
    "numpy": ("ndarray",),
    "pandas": ("DataFrame", "Series"),
    "polars": ("DataFrame", "Series"),
    "pyarrow": ("Table", "RecordBatch", "ChunkedArray"),
}


def is_data(value: Value) -> bool:
    """Whether ``value`` is bytes, an array or a table, so that its pickle determines it."""
    kind = type(value)
    return kind.__name__ in _DATA.get(kind.__module__.partition(".")[0], ())


def picklers_in_order() -> list[Any]:
    """Python's pickler, and cloudpickle's if it is installed."""
    # Python's comes first, because cloudpickle stores a class of the notebook by value.
    picklers: list[Any] = [pickle.Pickler]
    with contextlib.suppress(ImportError), installed_only():
        picklers.append(_cloud_pickler())
    return picklers


@cache
def _cloud_pickler() -> Any:
    """cloudpickle's pickler without those of its ways that give a value of another type: bytes for
    a view of numbers, a text in memory for a file."""
    pickler = importlib.import_module("cloudpickle").Pickler
    stored = pickler.dispatch_table

    def reduced(value: Any) -> Any:
        if value is sys.stdout or value is sys.stderr:
            return stored[type(value)](value)
        raise TypeError(f"cannot pickle {type(value).__name__!r} object")

    table = ChainMap(dict.fromkeys((memoryview, io.TextIOWrapper), reduced), stored)
    return type("Pickler", (pickler,), {"dispatch_table": table})


def without_cache(thing: Any) -> Any:
    """The reduced form of a pandas object without its cache, which fills when somebody reads the
    object; NotImplemented for anything else."""
    if type(thing).__module__.partition(".")[0] != "pandas" or "_cache" not in _fields(thing):
        return NotImplemented
    if "_pa_array" in _fields(thing):  # it leaves its cache out itself
        return NotImplemented
    reduced = thing.__reduce_ex__(5)
    if type(reduced) is not tuple or len(reduced) < 3:
        return reduced
    make, arguments, state, *others = reduced
    if type(state) is tuple:  # the state of a class in C, perhaps with attributes
        parts = map(_without_cache_entry, state)
        state = tuple(part for part in parts if type(part) is not dict or part)
    return (make, arguments, _without_cache_entry(state) or None, *others)


def _fields(thing: Any) -> Any:
    return getattr(thing, "__dict__", ())


def _without_cache_entry(part: Any) -> Any:
    if type(part) is not dict:
        return part
    return {name: value for name, value in part.items() if name != "_cache"}


def _picklers(most: int) -> list[Any]:
    picklers, polars = picklers_in_order(), module_if_loaded("polars")
    if polars is not None:
        picklers = [_limited(pickler, most, polars) for pickler in picklers]
    if module_if_loaded("pandas") is not None:
        picklers = list(map(_without_caches, picklers))
    return picklers


@cache
def _without_caches(kind: Any) -> Any:
    """The pickler ``kind`` without the caches of pandas: two pickles of an unchanged table are
    equal."""
    before = getattr(kind, "reducer_override", None)

    class Pickler(kind):  # type: ignore[misc]
        def reducer_override(self, thing: Any) -> Any:
            reduced = without_cache(thing)
            if reduced is not NotImplemented or before is None:
                return reduced
            return before(self, thing)

    return Pickler


@cache
def _limited(pickler: Any, most: int, polars: Any) -> Any:
    """``pickler`` with a limit for polars frames inside a value, which are copied as a whole before
    any byte is written. numpy, pandas and pyarrow write in parts."""

    def reduced(frame: Any) -> Any:
        if bytes_of_data(frame) > most:
            raise PickleTooLarge
        return frame.__reduce_ex__(5)

    limits: dict[Any, Any] = {polars.DataFrame: reduced, polars.Series: reduced}
    # cloudpickle has a mapping here, Python's pickler a slot.
    table: Any = getattr(pickler, "dispatch_table", None)
    if not isinstance(table, MutableMapping):
        table = copyreg.dispatch_table
    table = ChainMap(limits, cast("Any", table))
    return type(pickler.__name__, (pickler,), {"dispatch_table": table})
