"""A stand-in for rpds-py, whose wheel for browsers is in Pyodide's release and in no package registry.

`referencing` and `jsonschema` use three persistent collections of it. These copy where rpds shares, so they are slower
for large collections; a registry of schemas has a handful of entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any


class HashTrieMap(Mapping[Any, Any]):
    def __init__(self, value: Any = (), **named: Any) -> None:
        self._items = dict(value, **named)

    @classmethod
    def convert(cls, value: Any) -> HashTrieMap:
        return value if isinstance(value, cls) else cls(value)

    @classmethod
    def fromkeys(cls, keys: Iterable[Any], value: Any = None) -> HashTrieMap:
        return cls(dict.fromkeys(keys, value))

    def __getitem__(self, key: Any) -> Any:
        return self._items[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return f"HashTrieMap({self._items!r})"

    def insert(self, key: Any, value: Any) -> HashTrieMap:
        return HashTrieMap({**self._items, key: value})

    def remove(self, key: Any) -> HashTrieMap:
        rest = dict(self._items)
        del rest[key]
        return HashTrieMap(rest)

    def discard(self, key: Any) -> HashTrieMap:
        return self.remove(key) if key in self._items else self

    def update(self, *others: Any, **named: Any) -> HashTrieMap:
        items = dict(self._items)
        for other in others:
            items.update(other)
        return HashTrieMap({**items, **named})


class HashTrieSet(frozenset[Any]):
    def insert(self, value: Any) -> HashTrieSet:
        return HashTrieSet((*self, value))

    def remove(self, value: Any) -> HashTrieSet:
        if value not in self:
            raise KeyError(value)
        return self.discard(value)

    def discard(self, value: Any) -> HashTrieSet:
        return HashTrieSet(each for each in self if each != value)

    def update(self, *others: Iterable[Any]) -> HashTrieSet:
        return HashTrieSet(frozenset(self).union(*others))


class List(tuple[Any, ...]):
    """A list that grows at its front."""

    __slots__ = ()

    def __new__(cls, *values: Any) -> List:
        only = values[0] if len(values) == 1 and isinstance(values[0], Iterable) else values
        return super().__new__(cls, only)

    @property
    def first(self) -> Any:
        if not self:
            raise IndexError("empty list has no first element")
        return self[0]

    @property
    def rest(self) -> List:
        return List(self[1:])

    def push_front(self, value: Any) -> List:
        return List((value, *self))

    def drop_first(self) -> List:
        if not self:
            raise IndexError("empty list has no first element")
        return self.rest


class Stack(List):
    __slots__ = ()
