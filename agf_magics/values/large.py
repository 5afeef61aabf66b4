"""The large JSON values of a run, which many calls get: copied as a whole, not part by part.

A frame never changes, so a value that was looked through once is known by its identity from then
on. It is held, so that no other value gets this identity. What is known are arguments, and values in
an argument that is a mapping: a graph passes its state, a new mapping around old values.

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
"""Whether each copy is compared with its value, and small values are known too. The tests run with
it: code that changes a value of a frame in place would be missed otherwise."""

FROM_PARTS = 2 if IS_CHECKED else 1_000
"""Parts from which on a value is known: below, a copy takes less time than the search."""

WIDE = 100
"""A mapping with more values is looked at as a whole."""

MOST_KNOWN = 32
MOST_PARTS = 2_000_000
"""Values that are known at a time, and the parts of all of them: about 200 MB."""


class KnownValue:
    """A large value of a frame."""

    __slots__ = ("_again", "copies", "count", "size", "stored", "text", "value")

    def __init__(self, value: Value, count: int) -> None:
        """``count``: its parts."""
        self.value = value
        self.count = count
        self.stored = ""
        """The digest under which the journal has it; empty: it has it not."""
        self.size = 0
        """About how many characters of JSON that are."""
        self.text: str | None = None
        """Its JSON text, as long as the journal has it not."""
        self.copies = 0
        """Most values have one reader or two: for them, bytes would be work in vain."""
        self._again: Callable[[], Value] = partial(isolate, value)
        """Makes the next copy."""

    def copy(self) -> Value:
        copy = self._again()
        assert not IS_CHECKED or copy == read_all(self.value), (
            "a value of a frame was changed in place"
        )
        if self.copies == 2:
            self._again = _copier(self.value, copy)
        self.copies += 1
        return copy


def _copier(value: Value, copy: Value) -> Callable[[], Value]:
    """What makes copies of ``value``. ``copy``: one, in which no list has two places: marshal would
    keep them one."""
    if type(value) is list and are_rows(value):
        # Where values are checked, `copy` compares the live rows with others that nobody has.
        rows = list(map(dict.copy, value)) if IS_CHECKED else value
        return lambda: list(map(dict.copy, rows))
    if not is_json(copy):  # marshal would turn an array into bytes
        return lambda: isolate(value)
    data = marshal.dumps(copy)
    return lambda: marshal.loads(data)


class LargeValues:
    """The large values of one run. Only on its loop."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, KnownValue] = OrderedDict()
        self._parts = 0
        self._fresh: dict[int, tuple[Value, KnownValue]] = {}
        """The copies in the last call's arguments, by identity."""

    def isolate(self, value: Value) -> Value:
        """As `values.isolate`. Raises TooDeep."""
        self._fresh.clear()
        if type(value) is not dict:
            return isolate(value)
        room = Room(value)
        return {name: self._copy_value(part, room, True) for name, part in value.items()}

    def learn(self, value: Value, text: str) -> None:
        """A call returned ``value``, whose JSON text is ``text``: calls are likely to get it."""
        if type(value) in (dict, list) and id(value) not in self._known:
            self._know(value, len(text) // 8).text = text

    def follow(self, before: Mapping[str, Value], after: Mapping[str, Value]) -> None:
        """The last call's arguments were checked, and are now ``after``: pydantic copies a list and
        keeps its parts."""
        for name, part in after.items():
            copied = before.get(name)
            fresh = self._fresh.get(id(copied))
            if fresh is None or type(copied) is not list or type(part) is not list:
                continue
            # As many, and each the same object: else the check has changed a part.
            if len(copied) == len(part) and all(map(operator.is_, copied, part)):
                _, known_value = fresh
                self._fresh[id(part)] = part, known_value

    def known(self, value: Value) -> KnownValue | None:
        """The large value that is known by the identity of ``value``; None: there is none."""
        return self._known.get(id(value))

    @property
    def has_fresh(self) -> bool:
        return bool(self._fresh)

    def fresh(self, value: Value) -> KnownValue | None:
        """What ``value`` is a copy of, if the last call's arguments have it and no code of a user
        has got it."""
        _, known_value = self._fresh.get(id(value), (None, None))
        return known_value

    def _copy_value(self, value: Value, room: Room, looks_inside: bool) -> Value:
        """A copy of an argument, or of a value in it; a large one is known from then on."""
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
        known_value = self._known[id(value)] = KnownValue(value, count)
        self._parts += count
        while len(self._known) > MOST_KNOWN or (self._parts > MOST_PARTS and len(self._known) > 1):
            _, oldest = self._known.popitem(last=False)
            self._parts -= oldest.count
        return known_value
