"""Copies the large JSON values of a run as a whole, not part by part, for the many calls that get
them.

A frame never changes, so a value that was checked once can be recognized by its identity. It stays
in memory, so that no other value gets that identity. The recognized values are arguments, and the
values in an argument that is a mapping: a graph passes its state, a new mapping around old values.
A lazy copy would be cheaper, but C code (json, ``dict(x)``, pydantic) reads past the methods of a
subclass. So each call has a copy of its own, which its function may change.
"""

from __future__ import annotations

import marshal
import operator
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial

from ..text.length import DEEPEST
from .extent import CONTAINERS, are_rows
from .unread import Unread, read_all
from .value import Room, Value, copy_parts, is_json, isolate

IS_CHECKED = os.environ.get("AGF_CHECK_VALUES") == "1"
"""Whether each copy is compared with its value, and small values are remembered, too. The tests set
it, because otherwise they would miss code that changes a value of a frame in place."""

FROM_PARTS = 2 if IS_CHECKED else 1_000
"""The number of parts from which on a value is remembered. A smaller value is copied faster than
found."""

WIDE = 100
"""The largest number of values of a mapping that are remembered one by one."""

MOST_KNOWN = 32
MOST_PARTS = 2_000_000
"""The largest number of remembered values, and of their parts together, which take about 200 MB."""


class KnownValue:
    """A large value of a frame."""

    __slots__ = ("_again", "copies", "count", "size", "stored", "text", "value")

    def __init__(self, value: Value, count: int) -> None:
        """``count``: the number of parts of ``value``."""
        self.value = value
        self.count = count
        self.stored = ""
        """The digest under which the journal has the value; empty: the journal does not have it."""
        self.size = 0
        """The approximate number of characters of its JSON."""
        self.text: str | None = None
        """The JSON text of the value, until the journal has it."""
        self.copies = 0
        """The number of copies so far. Bytes are made only for a value with several readers: most
        values have one or two."""
        self._again: Callable[[], Value] = partial(isolate, value)
        """The function that makes the next copy."""

    def copy(self) -> Value:
        """A copy of the value for a call."""
        copy = self._again()
        assert not IS_CHECKED or copy == read_all(self.value), (
            "a value of a frame was changed in place"
        )
        if self.copies == 2:  # this is the third one, so there are several readers
            self._again = _copier(self.value, copy)
        self.copies += 1
        return copy


def _copier(value: Value, copy: Value) -> Callable[[], Value]:
    """A function that makes copies of ``value``. ``copy``: a first copy, in which no list stands in
    two places: marshal would keep it one list."""
    if type(value) is list and are_rows(value):
        # With IS_CHECKED, `copy` compares the rows with a second copy that no code can change.
        rows = list(map(dict.copy, value)) if IS_CHECKED else value
        return lambda: list(map(dict.copy, rows))
    if not is_json(copy):  # marshal would turn an array into bytes
        return lambda: isolate(value)
    data = marshal.dumps(copy)
    return lambda: marshal.loads(data)


class LargeValues:
    """The large values of one run. Only the loop of the run may use this object."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, KnownValue] = OrderedDict()
        """The remembered values by their identity, least recently used first."""
        self._parts = 0
        """The number of their parts."""
        self._fresh: dict[int, tuple[Value, KnownValue]] = {}
        """The values whose copies are in the last call's arguments, by the identity of the copy."""

    def isolate(self, value: Value) -> Value:
        """A copy of ``value``, as `values.isolate` makes it, but faster. Raises TooDeep."""
        self._fresh.clear()
        if type(value) is not dict:
            return isolate(value)
        room = Room(value)
        return {name: self._copy_value(part, room, True) for name, part in value.items()}

    def learn(self, value: Value, text: str) -> None:
        """Remember ``value``, a call's result with the JSON ``text``, because later calls may get
        it."""
        if type(value) in (dict, list) and id(value) not in self._known:
            self._know(value, len(text) // 8).text = text

    def follow(self, before: Mapping[str, Value], after: Mapping[str, Value]) -> None:
        """Recognize the last call's arguments after a check by pydantic, which copies lists and
        keeps their parts. ``before``: the arguments before the check; ``after``: those after it."""
        for name, part in after.items():
            copied = before.get(name)
            fresh = self._fresh.get(id(copied))
            if fresh is None or type(copied) is not list or type(part) is not list:
                continue
            # The same number of parts, each the same object: otherwise the check changed a part.
            if len(copied) == len(part) and all(map(operator.is_, copied, part)):
                _, known_value = fresh
                self._fresh[id(part)] = part, known_value

    def known(self, value: Value) -> KnownValue | None:
        """The remembered large value that is ``value`` itself; None: there is none."""
        return self._known.get(id(value))

    @property
    def has_fresh(self) -> bool:
        """Whether the last call's arguments have copies of large values."""
        return bool(self._fresh)

    def fresh(self, value: Value) -> KnownValue | None:
        """The large value of which ``value`` is an unchanged copy: the last call's arguments have
        it, and no code of a user got it yet; None: there is none."""
        _, known_value = self._fresh.get(id(value), (None, None))
        return known_value

    def _copy_value(self, value: Value, room: Room, looks_inside: bool) -> Value:
        """A copy of an argument or of a value in it. A large value is remembered."""
        if type(value) not in CONTAINERS:
            return value.value if type(value) is Unread else value
        known_value = self._known.get(id(value))
        if known_value is not None:
            self._known.move_to_end(id(value))
            copy = known_value.copy()
        elif looks_inside and type(value) is dict and len(value) <= WIDE:
            return {name: self._copy_value(part, room, False) for name, part in value.items()}
        else:
            before = room.taken
            copy = copy_parts(value, DEEPEST, room)
            if room.taken - before < FROM_PARTS:
                return copy
            known_value = self._know(value, room.taken - before)
            known_value.copies = 1
        self._fresh[id(copy)] = copy, known_value
        return copy

    def _know(self, value: Value, count: int) -> KnownValue:
        """Remember a value with ``count`` parts. If there are too many, the least recently used one
        is forgotten."""
        known_value = self._known[id(value)] = KnownValue(value, count)
        self._parts += count
        while len(self._known) > MOST_KNOWN or (self._parts > MOST_PARTS and len(self._known) > 1):
            _, oldest = self._known.popitem(last=False)
            self._parts -= oldest.count
        return known_value
