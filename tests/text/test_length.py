"""Whether Python may write the text of a value: a value of few objects can have a text of any length."""

from __future__ import annotations

from collections import UserDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from agf_magics.text.length import DEEPEST, can_write, weigh


def shared(levels: int, kind: type = tuple) -> Any:
    """A value of few objects, whose text has more than 2 to the power of ``levels`` characters."""
    value = kind(["x"])
    for _ in range(levels):
        value = kind([value, value])
    return value


class Written:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"Written({self.value!r})"


class OnlyText:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __str__(self) -> str:
        return f"{self.value}"


class Slotted:
    __slots__ = ("unset", "value")

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return repr(self.value)


class Inherits(Slotted):
    pass


class Pair(NamedTuple):
    one: Any


@dataclass
class Data:
    value: Any


class Odd(Exception):
    def __init__(self, value: Any) -> None:
        super().__init__("odd")
        self.value = value

    def __str__(self) -> str:
        return str(self.value)


class Silent:
    def __init__(self, value: Any) -> None:
        self.value = value


class Kind:
    value: Any = shared(30)


WRITTEN: dict[str, Callable[[Any], Any]] = {
    "a list": lambda value: [1, value],
    "a tuple": lambda value: (1, value),
    "a set": lambda value: {1, value},
    "a frozen set": lambda value: frozenset([value]),
    "a queue": lambda value: deque([value]),
    "the value of a key": lambda value: {"a": value},
    "a key": lambda value: {value: 1},
    "a subclass of dict": lambda value: defaultdict(int, a=value),
    "a named tuple": Pair,
    "an exception": ValueError,
    "a field of an exception": Odd,
    "an object with a repr": Written,
    "an object with a text": OnlyText,
    "a data class": Data,
    "a slot": Slotted,
    "a slot of a base class": Inherits,
    "an object in an object": lambda value: Written([Data(value)]),
    "an object with a dict": lambda value: UserDict(a=value),
}
NOT_WRITTEN: dict[str, Callable[[Any], Any]] = {
    "an object that Python writes as its address": Silent,
    "a class": lambda value: [Kind],
    "the object of an error": lambda value: AttributeError("no", name="a", obj=value),
}


@pytest.mark.parametrize("place", WRITTEN)
def test_a_text_that_is_nearly_endless_is_found_in_each_place_that_is_written(place: str) -> None:
    hold = WRITTEN[place]
    assert can_write(hold(shared(3)), 1_000)
    assert not can_write(hold(shared(10)), 1_000)
    assert not can_write([hold(shared(3))] * 50, 1_000)


def test_a_text_has_a_largest_length_by_default() -> None:
    assert can_write([Written(shared(15))])
    assert not can_write([Written(shared(30))])


@pytest.mark.parametrize("place", NOT_WRITTEN)
def test_what_python_does_not_write_has_any_length(place: str) -> None:
    assert can_write(NOT_WRITTEN[place](shared(30)))


@pytest.mark.parametrize(
    "value", ["text", b"bytes", bytearray(b"bytes"), ["text", (b"bytes",)], Data("text"), {"text": {1}}]
)
def test_a_bound_counts_the_characters(value: Any) -> None:
    assert can_write(value, 3 * len(repr(value)) + 30)
    assert not can_write(value, 3)
    longer = [value, "x" * 1_000, ("y" * 1_000,)]
    assert not can_write(longer, 2_000)
    assert can_write(longer, 2_200 + 3 * len(repr(value)))


def test_a_value_that_contains_itself_is_written_and_one_that_nests_too_deep_is_not() -> None:
    own: list[Any] = [(1,)]
    own.append(own)
    assert can_write(own)
    deep = deeper = Data("x")
    for _ in range(DEEPEST - 1):
        deep = Data(deep)
    for _ in range(DEEPEST + 1):
        deeper = Data(deeper)
    assert (can_write(deep), can_write(deeper)) == (True, False)
    assert not can_write([Data(number) for number in range(150_000)]), "so many objects are not looked at"


@pytest.mark.parametrize("value", [(1,), {1: 2}, object(), [{"a": b"x"}]])
def test_only_json_has_a_weight(value: Any) -> None:
    assert weigh(value) == -1
