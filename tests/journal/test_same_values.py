"""The comparison of two stored values by their bytes, without unpickling."""

from __future__ import annotations

import collections
import datetime
import decimal
import pickle
import pickletools
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from agf_magics.catalog.tools.tool import MASK
from agf_magics.journal.codec.fingerprints import CONTENTS
from agf_magics.journal.codec.json_texts import encode
from agf_magics.journal.codec.same_values import (
    LONGEST_SORTED,
    MOST_INSTRUCTIONS,
    Essence,
    essence,
    have_same,
    is_same,
    is_same_json,
)
from tests.journal.test_parted import Memory


class Kept(NamedTuple):
    """A stored value as the journal has it."""

    form: str | None
    """The form in which the value is stored: ``json``, ``pickle`` … With ``again`` only its preview is stored."""
    data: str | bytes | None
    """The stored value; None if it is not stored."""
    shown: str | None = None
    """The preview of the value as JSON; None if it has none."""


class Point:
    def __init__(self, x: Any) -> None:
        self.x = x

    def __repr__(self) -> str:
        return f"Point({self.x!r})"


class Shelf(list[Any]):
    """A list class of the user's."""


class Names(dict[str, Any]):
    """A mapping class of the user's."""


class Slotted:
    __slots__ = ("a",)

    def __init__(self, a: Any) -> None:
        self.a = a


class Made:
    """A class whose pickle passes the argument by name (`NEWOBJ_EX`)."""

    def __new__(cls, *, a: Any = None) -> Made:
        instance = super().__new__(cls)
        instance.a = a  # type: ignore[attr-defined]
        return instance

    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, Any]]:
        return (), {"a": self.a}  # type: ignore[attr-defined]


def pickled(value: Any, protocol: int = 5) -> Kept:
    return Kept("pickle", pickle.dumps(value, protocol))


VALUES: dict[str, Any] = {
    "null": None,
    "true": True,
    "false": False,
    "a number": 7,
    "another": 8,
    "a large number": 2**70,
    "a float": 7.0,
    "a text": "a",
    "bytes": b"a",
    "a byte array": bytearray(b"b"),
    "an empty list": [],
    "an empty tuple": (),
    "an empty mapping": {},
    "an empty set": set(),
    "a list": [1, 2],
    "a list in another order": [2, 1],
    "a longer list": [1, 2, 3],
    "a tuple": (1, 2),
    "a tuple with another beginning": (3, 2),
    "a long tuple": (1, 2, 3, 4),
    "in another order": (4, 3, 2, 1),
    "tuples of other lengths": [(1,), (1, 2, 3), (1, 2, 3, 4)],
    "a mapping": {"a": 1, "b": 2},
    "another mapping": {"a": 2, "b": 1},
    "a set": {1, 2},
    "a frozen set": frozenset({1, 2}),
    "a list in a list": [[1], [2]],
    "both in one": [[1, 2]],
    "an object": Point(1),
    "an object with another value": Point(2),
    "an object in an object": Point(Point(1)),
    "a list of the user": Shelf([1, 2]),
    "with other elements": Shelf([1]),
    "a mapping of the user": Names(a=1),
    "a slotted object": Slotted(1),
    "made with a name": Made(a=1),
    "made with another": Made(a=2),
    "a date": datetime.date(2026, 1, 2),
    "a decimal": decimal.Decimal("1.5"),
    "a counter": collections.Counter("aab"),
    "a class": Point,
    "another class": Shelf,
    "a function": len,
}


_SIMPLE = (int, float, str, bytes, tuple, type(None))


@pytest.mark.parametrize("case", VALUES)
def test_a_value_is_the_same_however_it_is_pickled(case: str) -> None:
    value = VALUES[case]
    # The first protocols write objects in another way, and the fourth also byte arrays.
    protocols = (2, 3, 4, 5) if isinstance(value, _SIMPLE) and value != b"a" else (5,)
    pickles = [pickled(value, protocol) for protocol in protocols]
    pickles.append(Kept("pickle", pickletools.optimize(pickle.dumps(value, 5))))
    assert {is_same(first, second) for first in pickles for second in pickles} == {True}


@pytest.mark.parametrize("case", VALUES)
def test_two_values_are_not_the_same(case: str) -> None:
    same_as = {name: is_same(pickled(VALUES[case]), pickled(VALUES[name])) for name in VALUES}
    assert [name for name, same in same_as.items() if same is not False] == [case]


def test_the_order_counts_where_a_value_has_one() -> None:
    assert is_same(pickled({"a": 1, "b": 2}), pickled({"b": 2, "a": 1}))
    assert is_same(pickled([1, 2]), pickled([2, 1])) is False
    first, other = set(range(0, 9, 8)), set(range(8, -1, -8))
    assert [*first] != [*other], "a set has the order in which numbers with one place came"
    assert is_same(pickled([first, frozenset(first)]), pickled([other, frozenset(other)]))


def test_a_text_in_two_places_is_the_same_as_two_texts() -> None:
    text = "".join(["a", "b"])
    again = "".join(["a", "b"])
    assert pickle.dumps([text, text]) != pickle.dumps([text, again])
    assert is_same(pickled([text, text]), pickled([text, again]))


def test_a_buffer_of_its_own_and_one_in_the_pickle_are_not_followed_alike() -> None:
    data = pickle.PickleBuffer(b"abc")
    apart = Kept("pickle", pickle.dumps(data, 5, buffer_callback=lambda _: False))
    assert is_same(apart, apart) is True
    assert is_same(apart, pickled(b"abc")) is False


def nested() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


UNREAD: dict[str, tuple[Any, Any]] = {
    "no pickle": (b"abc", b"abx"),
    "half a pickle": (pickle.dumps([1, 2])[:-1], pickle.dumps([1, 3])[:-1]),
    "a persistent id": (b"K\x01Q.", b"K\x02Q."),
    "what contains itself": (pickle.dumps(nested()), pickle.dumps([nested()])),
    "too many instructions": (
        pickle.dumps([1.5] * MOST_INSTRUCTIONS),
        pickle.dumps([1.5] * MOST_INSTRUCTIONS + [1]),
    ),
    "two values": (b"K\x01K\x02.", b"K\x01K\x03."),
    "a mark that is missing": (b"]K\x01e.", b"]K\x02e."),
    "elements of a number": (b"K\x01(K\x02e.", b"K\x01(K\x03e."),
}


@pytest.mark.parametrize("case", UNREAD)
def test_a_pickle_that_is_not_followed_is_the_same_only_by_its_bytes(case: str) -> None:
    first, other = (Kept("pickle", data) for data in UNREAD[case])
    assert is_same(first, first) is True
    assert is_same(first, other) is None
    assert essence(first).is_certain is False


def test_a_class_that_is_written_out_is_the_same_only_by_its_bytes() -> None:
    assert is_same(pickled(["cloudpickle", 1]), pickled(["cloudpickle", 2])) is None
    assert is_same(pickled(["cloudpickle", 1]), pickled(["cloudpickle", 1], 4)) is True


# --- other forms ---


JSON: list[tuple[str | None, str | None, bool]] = [
    ('{"a": 1, "b": 2}', '{"b": 2, "a": 1}', True),
    ('{"a": 1}', '{"a": 2}', False),
    ("[1, 2]", "[2, 1]", False),
    ("1", "1.0", False),
    ("no JSON", "no JSON", True),
    ("no JSON", "no json", False),
    (None, None, True),
    (None, "null", False),
    ("null", None, False),
]
"""Two texts of JSON, and whether they stand for the same value."""


@pytest.mark.parametrize(("first", "other", "same"), JSON)
def test_json_is_compared_without_the_order_of_names(first: str | None, other: str | None, same: bool) -> None:
    assert is_same_json(first, other) is same
    assert is_same(Kept("json", first), Kept("json", other)) is same or None in (first, other)


def test_names_of_a_very_long_text_are_not_sorted() -> None:
    long = "x" * LONGEST_SORTED
    first, other = f'{{"a":"{long}","b":1}}', f'{{"b":1,"a":"{long}"}}'
    assert not is_same_json(first, other)
    assert is_same_json(first, first)


def test_values_of_two_forms_are_not_the_same() -> None:
    assert is_same(Kept("json", "1"), pickled(1)) is False
    assert is_same(Kept("json", "1"), Kept("none", None)) is False


PREVIEWS: list[tuple[Kept, Kept, bool | None]] = [
    (Kept("again", None, "1"), Kept("again", None, "1"), None),
    (Kept("again", None, "1"), Kept("again", None, "2"), False),
    (Kept("again", None, "1"), Kept("json", "1"), None),
    (Kept("again", None, "1"), Kept("json", "2"), False),
    (Kept("json", "2"), Kept("again", None, "1"), False),
    (Kept("again", None, encode(MASK)), Kept("again", None, "2"), None),
    (Kept("again", None, "2"), Kept("again", None, encode(MASK)), None),
]
"""Two stored values, and whether they are the same; None: nobody can tell."""


@pytest.mark.parametrize(("first", "other", "same"), PREVIEWS)
def test_previews_that_differ_are_those_of_different_values(first: Kept, other: Kept, same: bool | None) -> None:
    assert is_same(first, other) is same


def test_the_digests_of_unstored_values_distinguish_them() -> None:
    layout, other_layout = b"l" * CONTENTS, b"m" * CONTENTS
    first = Kept("again", layout + b"a", "x")
    assert is_same(first, Kept("again", layout + b"a", "y")) is None, "equal ones say nothing"
    assert is_same(first, Kept("again", layout + b"b", "x")) is False
    assert is_same(first, Kept("again", other_layout + b"b", "x")) is None, "of other sizes"
    assert essence(first) == Essence("again", b"a", essence(first).shown, True, layout.hex())


@pytest.mark.parametrize(
    ("first", "other", "same"),
    [
        (Essence("parts", b"a", b"s", True, "1"), Essence("parts", b"a", b"s", True, "1"), True),
        (Essence("parts", b"a", b"s", True, "1"), Essence("parts", b"b", b"s", True, "1"), False),
        (Essence("parts", b"a", b"s", True, "1"), Essence("parts", b"b", b"s", True, "2"), None),
        (Essence("parts", b"a", b"s", False, "1"), Essence("parts", b"b", b"s", True, "1"), None),
        (Essence("parts", b"a", b"s", True, "1"), Essence("parts", b"b", b"s", False, "1"), None),
        (Essence("parts", b"a", b"s", True, "1"), Essence("pickle", b"a", b"s", True, "1"), False),
        (Essence("again", b"", b"s"), Essence("again", b"b", b"t"), False),
        (Essence("again", b"", b"s"), Essence("again", b"b", b"s"), None),
    ],
)
def test_two_essences_say_whether_their_values_are_the_same(first: Essence, other: Essence, same: bool | None) -> None:
    assert have_same(first, other) is same
    assert have_same(other, first) is same


N = 20_000

PARTS: dict[str, tuple[Any, Any, bool | None]] = {
    "equal arrays": (np.arange(N), np.arange(N), True),
    "arrays with another element": (np.arange(N), np.append(np.arange(N - 1), 0), False),
    "arrays of another length": (np.arange(N), np.arange(N + 1), None),
    "equal arrays, in other values": ([np.arange(N), 1], [np.arange(N), 2], False),
    "with names in another order": ({"a": np.arange(N), "b": 1}, {"a": np.arange(N), "b": 1}, True),
    "with a text in two places": ([np.arange(N), "ab", "ab"], [np.arange(N), "ab", "".join("ab")], True),
    "of Arrow, equal": (pa.table({"a": np.arange(N)}), pa.table({"a": np.arange(N)}), True),
    "of Arrow, with another element": (
        *(pa.table({"a": np.arange(N)}), pa.table({"a": np.append(np.arange(N - 1), 0)})),
        None,
    ),
}
"""For each case: two large values, and whether they are the same; None: nobody can tell."""


@pytest.mark.parametrize("case", PARTS)
def test_large_values_are_the_same_if_their_parts_and_the_rest_are(case: str) -> None:
    first, other, same = PARTS[case]
    memory = Memory()
    stored = [Kept("parts", memory.stored(value)) for value in (first, other)]
    assert have_same(essence(stored[0]), essence(stored[1])) is same
    assert essence(stored[0]).form == "parts"


def test_parts_that_cannot_be_read_are_the_same_only_by_their_bytes() -> None:
    first, other = Kept("parts", b"abc"), Kept("parts", b"abx")
    assert (is_same(first, first), is_same(first, other)) == (True, None)
