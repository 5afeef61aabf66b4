"""What two values share: an object that both reach, so that who changes it in one changes the other.

A result may hold an argument, be a part of one, or be a view of its array. As two pickles they would
have two objects, and a resumed run would go on with a value that nobody has changed. What each value
reaches is what its pickle reaches: nothing is written, and the data of arrays are not read.
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
"""Objects of pandas and polars that are changed in place; their columns are copied on write."""

_UNCHANGING = (tuple, frozenset, enum.Enum, datetime.tzinfo, datetime.date, datetime.timedelta)


class _Nothing:
    """A file that keeps nothing."""

    def write(self, data: Any) -> int:
        return len(data)


class _Reach(pickle.Pickler):
    """What a value reaches. It is kept as long as it is compared: no number of an object is given
    twice."""

    def __init__(self) -> None:
        super().__init__(_Nothing(), protocol=5, buffer_callback=_leave_out)
        self.arrays: list[Any] = []

    def reducer_override(self, thing: Any) -> Any:
        if thing is str:  # what this method itself makes
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
        """The objects that ``values`` reach, by their numbers; those before the first one that cannot
        be pickled."""
        for value in values:
            try:
                self.dump(value)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException:  # of a user's __reduce__
                break
        memo: Any = self.memo
        return {number: thing for number, (_, thing) in memo.copy().items()}


def shared_kind(values: Iterable[Any], others: Iterable[Any]) -> str:
    """The type of an object that both reach and that can be changed; empty: there is none."""
    reach, other = _Reach(), _Reach()
    mine, theirs = reach.all(values), other.all(others)
    both = [mine[number] for number in mine.keys() & theirs.keys() if _may_change(mine[number])]
    if both:
        own = [thing for thing in both if type(thing).__module__ != "builtins"]
        return type((own or both)[0]).__qualname__
    if reach.arrays and other.arrays:
        numpy = sys.modules["numpy"]
        if any(numpy.may_share_memory(one, two) for one in reach.arrays for two in other.arrays):
            return "ndarray"
    return ""


def _may_change(thing: Any) -> bool:
    kind = type(thing)
    if is_constant(thing) or isinstance(thing, (*CODE, *LOCKS, *_UNCHANGING)):
        return False
    package = _package(kind)
    if package in ("pandas", "polars"):
        return kind.__name__ in _CHANGING
    if package == "pyarrow" or (
        package == "numpy" and kind.__name__.startswith(("dtype", "DType"))
    ):
        return False
    try:
        return not isinstance(thing.__reduce_ex__(5), str)  # what a module has under a name
    except Exception:  # of a user's __reduce__
        return True


def _package(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _leave_out(buffer: pickle.PickleBuffer) -> None:
    """The data of an array are not written."""
