"""Finds objects that two values share, so that a change in one value changes the other.

A result may hold an argument, be a part of it, or be a view of its array. Two pickles would make
two objects of a shared one, so that a resumed run would go on with an unchanged value. A pickler
that writes nothing finds the objects that each value reaches; the data of arrays are not read.
"""

from __future__ import annotations

import datetime
import enum
import pickle
import sys
from collections.abc import Iterable
from typing import Any

from ...catalog.digests.digest import is_constant
from .fingerprints import CODE, LOCKS

_CHANGING = ("DataFrame", "Series")
"""Classes of pandas and polars whose objects can be changed in place; their columns are copied on
write."""

_UNCHANGING = (tuple, frozenset, enum.Enum, datetime.tzinfo, datetime.date, datetime.timedelta)


class _Nothing:
    """A file that keeps nothing."""

    def write(self, data: Any) -> int:
        return len(data)


class _Reach(pickle.Pickler):
    """A pickler that collects the objects that values reach. It keeps them, so that no identity is
    used twice."""

    def __init__(self) -> None:
        super().__init__(_Nothing(), protocol=5, buffer_callback=_leave_out)
        self.arrays: list[Any] = []

    def reducer_override(self, thing: Any) -> Any:
        if thing is str:  # made by this method
            return NotImplemented
        kind = type(thing)
        if isinstance(thing, CODE) or kind in LOCKS:
            return str, ("",)
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(thing, numpy.ndarray):
            self.arrays.append(thing)
            return NotImplemented if thing.dtype.hasobject else (str, ("",))
        if _package(kind) in ("pandas", "polars", "pyarrow"):
            return str, ("",)
        return NotImplemented

    def all(self, values: Iterable[Any]) -> dict[int, Any]:
        """The objects that ``values`` reach, by identity, up to the first one that cannot be
        pickled."""
        for value in values:
            try:
                self.dump(value)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException:  # raised by a user's __reduce__
                break
        memo: Any = self.memo
        return {number: thing for number, (_, thing) in memo.copy().items()}


def shared_kind(values: Iterable[Any], other_values: Iterable[Any]) -> str:
    """The type of a changeable object that both ``values`` and ``other_values`` reach; empty: there
    is none."""
    reach, other_reach = _Reach(), _Reach()
    objects, other_objects = reach.all(values), other_reach.all(other_values)
    shared = [
        objects[number]
        for number in objects.keys() & other_objects.keys()
        if _may_change(objects[number])
    ]
    if shared:
        user_things = [thing for thing in shared if type(thing).__module__ != "builtins"]
        return type((user_things or shared)[0]).__qualname__
    if reach.arrays and other_reach.arrays:
        numpy = sys.modules["numpy"]
        if any(
            numpy.may_share_memory(array, other_array)
            for array in reach.arrays
            for other_array in other_reach.arrays
        ):
            return "ndarray"
    return ""


def _may_change(thing: Any) -> bool:
    """Whether a call can change ``thing`` in place."""
    kind = type(thing)
    if is_constant(thing) or isinstance(thing, (*CODE, *LOCKS, *_UNCHANGING)):
        return False
    package = _package(kind)
    if package in ("pandas", "polars"):
        return kind.__name__ in _CHANGING
    is_dtype = package == "numpy" and kind.__name__.startswith(("dtype", "DType"))
    if package == "pyarrow" or is_dtype:
        return False
    try:
        return not isinstance(thing.__reduce_ex__(5), str)  # a global of a module, pickled by name
    except Exception:  # of a user's __reduce__
        return True


def _package(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _leave_out(buffer: pickle.PickleBuffer) -> None:
    """Do nothing: the data of arrays are not written."""
