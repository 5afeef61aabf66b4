"""Values (decision A1).

Dicts with text keys, lists, text, ints, floats, bools and None are JSON. All others (a DataFrame,
an array, a date, a model, a connection) are opaque: they are passed by reference from step to step;
expressions may pass them on and compare them by identity, but not look inside.

Opaque values that have an obvious text or obvious fields (decision A1), for pages and for the
previews of a journal.

A value is recognized by its exact class, and a record by its base class. No method of a class of
the user is called: ``repr`` and properties may run any code.

Opaque values that a fan-out can iterate over: sequences that return an element for each number.

A ``range``, a NumPy array, a memory-mapped file, the rows of a data set: they are read one element
at a time and never copied as a whole. The element of a number must be the same each time it is
read, because a resumed run reads it again. So a generator is none: it can be read once. Neither are
texts, bytes and mappings. A table is none, because the number of its elements is that of its rows,
and its ``[0]`` is a column.

The large JSON values of a run, which many calls get: copied as a whole, not part by part.

A frame never changes, so a value that was looked through once is known by its identity from then
on. It is held, so that no other value gets this identity. What is known are arguments, and values in
an argument that is a mapping: a graph passes its state, a new mapping around old values.

A lazy copy would be cheaper, but C code (json, ``dict(x)``, pydantic) reads past the methods of a
subclass. So each call has a copy of its own, which its function may change.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import decimal
import fractions
import marshal
import math
import operator
import os
import pathlib
import sys
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain
from typing import Any, final

Value = Any
"""Any value: an opaque one may have any type."""

ATOMS = frozenset({str, int, float, bool, type(None)})
"""The exact types of values without parts; `settle` converts their subclasses."""

TEXT = frozenset({str})
ROW = frozenset({dict})
CONTAINERS = frozenset({dict, list})

DEEPEST = 200
"""The deepest nesting of a value."""
LARGEST = 5_000_000
"""The most parts of a copied value: a small value with shared parts may be huge when it is
copied."""


class TooDeep(ValueError):
    """A value nests deeper than DEEPEST, or contains itself, or has more than LARGEST parts."""


def isolate(value: Value) -> Value:
    """A copy of the JSON containers in ``value``, with opaque values by reference (decision P6).

    Only for calls of user code: frames share values. Raises TooDeep.
    """
    return copy_parts(value, DEEPEST, [LARGEST])


def copy_parts(value: Value, room: int, left: list[int]) -> Value:
    """`isolate` for a value that is part of another: at most ``room`` levels and ``left[0]`` parts,
    which it counts."""
    if type(value) not in CONTAINERS:
        return value
    left[0] -= len(value)
    if left[0] < 0 or not room:
        raise _too_deep(room)
    if type(value) is dict:
        return _with_parts(value, copy_parts, room, left)
    return _list_of(value, copy_parts, room, left)


def _with_parts(
    value: dict[str, Value],
    copy: Callable[[Value, int, list[int]], Value],
    room: int,
    left: list[int],
) -> dict[str, Value]:
    if ATOMS.issuperset(map(type, value.values())):
        return value.copy()
    return {k: (v if type(v) in ATOMS else copy(v, room - 1, left)) for k, v in value.items()}


def _list_of(
    value: Any, copy: Callable[[Value, int, list[int]], Value], room: int, left: list[int]
) -> list[Value]:
    # A large list is nearly always one of objects without containers: rows. C looks through all of
    # them and copies them in half of the time that a call for each takes.
    if type(value) is list and room > 1 and _are_rows(value):
        left[0] -= sum(map(len, value))
        if left[0] < 0:
            raise _too_deep(room)
        return list(map(dict.copy, value))
    return [v if type(v) in ATOMS else copy(v, room - 1, left) for v in value]


def _are_rows(value: list[Any]) -> bool:
    """Whether all parts are objects without containers and opaque values."""
    return (
        ROW.issuperset(map(type, value))
        and TEXT.issuperset(map(type, chain.from_iterable(value)))
        and ATOMS.issuperset(map(type, chain.from_iterable(map(dict.values, value))))
    )


def _too_deep(room: int) -> TooDeep:
    if not room:
        return TooDeep(f"it nests deeper than {DEEPEST} levels, or contains itself")
    return TooDeep(f"it has more than {LARGEST:,} parts")


def settle(value: Value) -> Value:
    """The result of a tool or an agent as a value: a copy, with similar types converted to JSON.

    A tuple becomes a list, a numpy scalar a Python number, a subclass of dict or str (Counter, a
    text enum) the base type. A dict with a key that is not a text remains opaque. Raises TooDeep.

    >>> settle(((1, 2), {"a": (3,)}))
    [[1, 2], {'a': [3]}]
    """
    return _settled(value, DEEPEST, [LARGEST])


def _settled(value: Value, room: int, left: list[int]) -> Value:
    kind = type(value)
    if kind in ATOMS:
        return value
    if isinstance(value, (dict, list, tuple)):
        left[0] -= len(value)
        if left[0] < 0 or not room:
            raise _too_deep(room)
        if isinstance(value, dict):
            if kind is dict and TEXT.issuperset(map(type, value)):
                return _with_parts(value, _settled, room, left)
            # Not JSON, and nothing is looked for inside: it stays one opaque value.
            if not all(isinstance(k, str) for k in value):
                return value
            return {str.__str__(k): _settled(v, room - 1, left) for k, v in value.items()}
        parts = _list_of(value, _settled, room, left)
        names = getattr(kind, "_fields", None)  # a named tuple's
        return (
            dict(zip(names, parts, strict=True))
            if names is not None and isinstance(value, tuple)
            else parts
        )
    # The exact type: a subclass has methods of its own, which expressions would call.
    for base, plain in _PLAIN:
        if isinstance(value, base):
            return plain(value)
    if (
        kind.__module__ == "numpy"
        and getattr(value, "shape", None) == ()
        and hasattr(value, "item")
    ):
        number = value.item()  # a numpy scalar; numpy may not be installed
        return number if type(number) in ATOMS else value
    return value


_PLAIN: tuple[tuple[type, Callable[[Any], Value]], ...] = (
    (str, str.__str__),
    (int, int),
    (float, float),
)


def is_json(value: Value) -> bool:
    """Whether ``value`` and all its parts are JSON."""
    kind = type(value)
    if kind in ATOMS:
        return kind is not float or value - value == 0  # neither infinite nor NaN
    if kind is list:
        return all(map(is_json, value))
    return kind is dict and TEXT.issuperset(map(type, value)) and all(map(is_json, value.values()))


def as_json(value: Value) -> Value:
    """``value`` with a text in the place of each part that is not JSON."""
    kind = type(value)
    if kind is list:
        return [as_json(part) for part in value]
    if kind is dict and TEXT.issuperset(map(type, value)):
        return {key: as_json(part) for key, part in value.items()}
    if kind is not int and is_json(value):
        return value
    try:
        text = repr(value)
    except Exception:  # code of a user, and a number of more digits than Python writes
        return f"⟨{kind.__name__}⟩"
    return value if kind is int else text


NAMES = {
    str: "text",
    int: "a number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
    list: "a list",
    dict: "an object",
}


def type_name(value: Value) -> str:
    """The type of a value in an error: the language's word for a JSON type, the class of an opaque
    value.

    >>> type_name([1]), type_name(None), type_name(object())
    ('a list', 'null', 'an opaque object')
    """
    return NAMES.get(type(value)) or f"an opaque {type(value).__name__}"


def is_true(value: Value) -> bool:
    """Python's truth for JSON; opaque values are true (an array or a DataFrame would raise)."""
    return bool(value) if type(value) in NAMES else True


def equal(a: Value, b: Value) -> bool:
    """Python's equality for JSON (``true == 1``, decision P17), identity for opaque values, also
    nested ones."""
    return equal_within(a, b, math.inf) is True


def equal_within(a: Value, b: Value, room: float) -> bool | None:
    """`equal`, but None when more than ``room`` parts would have to be looked at.

    Parts can be shared, so two small values may be equal only after 2 ** 100 comparisons.
    """
    left, right = [a], [b]
    while left:
        first, second = left.pop(), right.pop()
        if first is second:
            continue
        kind = type(first)
        if kind in ATOMS and type(second) in ATOMS:
            # Atoms only: the `==` of a user may run any code, or return an array.
            if first != second:
                return False
        elif kind is not type(second) or kind not in (list, dict) or len(first) != len(second):
            return False
        elif kind is list:
            left += first
            right += second
            room -= len(first)
        elif first.keys() != second.keys():
            return False
        else:
            left += first.values()
            right += map(second.__getitem__, first)
            room -= len(first)
        if room < 0:
            return None
    return True


LONGEST_BYTES = 60
"""Bytes of a bytes value that are shown."""

_PRINTABLE = frozenset(
    {
        datetime.date,
        datetime.datetime,
        datetime.time,
        datetime.timedelta,
        datetime.timezone,
        decimal.Decimal,
        fractions.Fraction,
        complex,
        uuid.UUID,
        pathlib.PosixPath,
        pathlib.WindowsPath,
        range,
    }
)
"""Classes whose ``str`` is the value as a person writes it."""


def describe_scalar(value: Any) -> str | None:
    """``value`` as text if it is a date, a Decimal, bytes or similar; otherwise None.

    >>> describe_scalar(decimal.Decimal("1.50"))
    '1.50'
    >>> describe_scalar(object())
    """
    kind = type(value)
    if kind in _PRINTABLE:
        return str(value)
    if kind is bytes:
        return (
            repr(value)
            if len(value) <= LONGEST_BYTES
            else f"{value[:LONGEST_BYTES]!r}… {len(value):,} bytes"
        )
    timestamp = getattr(sys.modules.get("pandas"), "Timestamp", None)
    return str(value) if kind is timestamp else None


def describe_array(value: Any) -> str | None:
    """The shape, the dtype and the first values of a numpy array; None for anything else.

    >>> describe_array([1, 2])
    """
    if type(value) is not getattr(sys.modules.get("numpy"), "ndarray", None):
        return None
    shape = " × ".join(f"{size:,}" for size in value.shape) or "scalar"
    head = f"ndarray · {shape} · {value.dtype}"
    if value.dtype.kind not in "biufcSU":  # objects and records may contain anything
        return head
    first = ", ".join(str(number) for number in value.flat[:8].tolist())
    return f"{head} · [{first}{', …' if value.size > 8 else ''}]"


def fields_of(value: Any) -> dict[str, Any] | None:
    """The fields of a dataclass or a pydantic model, without those that its ``repr`` omits; None
    for anything else."""
    kind = type(value)
    model = getattr(sys.modules.get("pydantic"), "BaseModel", None)
    if model in kind.__mro__:
        names = [name for name, field in kind.model_fields.items() if field.repr]
        # Past the properties of the class, which may run any code.
        held = object.__getattribute__(value, "__dict__")
        return {name: held[name] for name in names if name in held}
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind) if field.repr]
        with contextlib.suppress(Exception):  # a field that was never set
            return {name: object.__getattribute__(value, name) for name in names}
    return None


_TEXTS = (str, bytes, bytearray, memoryview)

_QUICK = frozenset({range, tuple})


@final
class Numbered:
    """A sequence as the elements of a graph's ``map``: ``{name: element, "_map_index":
    number}``."""

    __slots__ = ("name", "source")

    def __init__(self, source: Value, name: str) -> None:
        self.source, self.name = source, name

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, number: int) -> dict[str, Value]:
        return {self.name: self.source[number], "_map_index": number}


def is_sequence(value: Value) -> bool:
    """Whether it has ``__len__`` and ``__getitem__`` by number. No method of it is called.

    >>> is_sequence(range(3)), is_sequence((1, 2)), is_sequence("text"), is_sequence(iter([]))
    (True, True, False, False)
    """
    kind = type(value)
    return (
        _has(kind, "__len__")
        and _has(kind, "__getitem__")
        and not issubclass(kind, _TEXTS)
        and not (is_array(value) and not value.shape)
        and not is_mapping(kind)
        and not is_table(kind)
    )


def is_mapping(kind: type) -> bool:
    return issubclass(kind, Mapping) or _has(kind, "keys")


def is_table(kind: type) -> bool:
    """Whether objects of this class have columns, which ``[…]`` reads: a DataFrame, a table of
    pyarrow."""
    return _has(kind, "columns") or (
        kind.__module__.startswith("pyarrow") and _has(kind, "num_columns")
    )


def why_no_sequence(value: Value) -> str | None:
    """A hint for a value that a fan-out cannot iterate over although Python can; None for any
    other."""
    kind = type(value)
    if kind in (str, dict):
        return None
    if is_table(kind):
        return (
            "let a tool return its rows, frame.to_dict('records'), or the numbers or paths of "
            "its parts"
        )
    if is_mapping(kind):
        return "let a tool return the list of its keys or values"
    if _has(kind, "__next__"):
        return (
            "it can be read only once: let a tool return a list, or an object with __len__ and "
            "__getitem__"
        )
    if _has(kind, "__iter__") and not _has(kind, "__getitem__"):
        return "its elements have no numbers: let a tool return a list of them"
    return None


def is_quick(value: Value) -> bool:
    """Whether an element takes no time and no code of a user to read: of a range, a tuple or an
    array."""
    kind = type(value)
    return kind in _QUICK or is_array(value) or (kind is Numbered and is_quick(value.source))


def source_of(value: Value) -> Value:
    """The sequence that the author of the definition knows."""
    return value.source if type(value) is Numbered else value


def sequence_name(value: Value) -> str:
    """A sequence in a message.

    >>> sequence_name(range(3))
    'the range'
    """
    return f"the {type_name(source_of(value)).removeprefix('an opaque ')}"


def is_array(value: Value) -> bool:
    """Whether it is an array of NumPy, perhaps in a file."""
    numpy: Any = sys.modules.get("numpy")
    return numpy is not None and type(value) in (numpy.ndarray, numpy.memmap)


def _has(kind: type, name: str) -> bool:
    # Without `getattr`, which would run the `__getattr__` of a metaclass; None means that the class has
    # taken the method away.
    return any(vars(base).get(name) is not None for base in _MRO.__get__(kind))


_MRO: Any = type.__dict__["__mro__"]


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
        self.value, self.count = value, count
        self.stored, self.size = "", 0
        """The digest under which the journal has it, and about how many characters that are."""
        self.text: str | None = None
        """Its JSON text, as long as the journal has it not."""
        self.copies = 0
        """Most values have one reader or two: for them, bytes would be work in vain."""
        self._again: Callable[[], Value] = partial(isolate, value)
        """Makes the next copy."""

    def copy(self) -> Value:
        made = self._again()
        assert not IS_CHECKED or made == self.value, "a value of a frame was changed in place"
        if self.copies == 2:
            self._again = _copier(self.value, made)
        self.copies += 1
        return made


def _copier(value: Value, made: Value) -> Callable[[], Value]:
    """What makes copies of ``value``. ``made``: one, in which no list has two places: marshal would
    keep them one."""
    if type(value) is list and _are_rows(value):
        # Where values are checked, `copy` compares the live rows with others that nobody has.
        rows = list(map(dict.copy, value)) if IS_CHECKED else value
        return lambda: list(map(dict.copy, rows))
    if not is_json(made):  # marshal would turn an array into bytes
        return lambda: isolate(value)
    data = marshal.dumps(made)
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
        left = [LARGEST]
        return {name: self._copied(part, left, True) for name, part in value.items()}

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
                self._fresh[id(part)] = part, fresh[1]

    def known(self, value: Value) -> KnownValue | None:
        """What is known of a value of a frame."""
        return self._known.get(id(value))

    @property
    def has_fresh(self) -> bool:
        return bool(self._fresh)

    def fresh(self, value: Value) -> KnownValue | None:
        """What ``value`` is a copy of, if the last call's arguments have it and no code of a user
        has got it."""
        copied = self._fresh.get(id(value))
        return copied[1] if copied is not None else None

    def _copied(self, value: Value, left: list[int], looks_inside: bool) -> Value:
        if type(value) not in CONTAINERS:
            return value
        known = self._known.get(id(value))
        if known is not None:
            self._known.move_to_end(id(value))
            made = known.copy()
        elif looks_inside and type(value) is dict and len(value) <= WIDE:
            return {name: self._copied(part, left, False) for name, part in value.items()}
        else:
            before = left[0]
            made = copy_parts(value, DEEPEST, left)
            if before - left[0] < FROM_PARTS:
                return made
            known = self._know(value, before - left[0])
            known.copies = 1
        self._fresh[id(made)] = made, known
        return made

    def _know(self, value: Value, count: int) -> KnownValue:
        known = self._known[id(value)] = KnownValue(value, count)
        self._parts += count
        while len(self._known) > MOST_KNOWN or (self._parts > MOST_PARTS and len(self._known) > 1):
            self._parts -= self._known.popitem(last=False)[1].count
        return known
