"""`Place`, where a function finds an object that calls may change: a global, a cell, an attribute.

A function's code, and the functions, classes and modules that it names, are the same in each call
of a run. Calls may change the other objects that it names. The place of such an object is stored,
so that the object can be compared again later (decision D110).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .code_names import Text

MISSING = object()
"""The value of a name that is not bound."""


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """The place of an object."""

    name: str
    """The name for a person: ``FACTOR``, ``helpers.CACHE``, ``scale.calls``."""
    key: str
    """The name that is the same in all processes."""
    holder: object = field(repr=False)
    """The globals, the cell, the function, the class or another object that has the object."""
    slot: str
    """The attribute or the name in ``holder`` under which the object is."""
    look: Callable[[], Any]
    """Returns the object that is there now, or `MISSING`."""
    counts: bool = False
    """Whether the object counts although calls change it, as the attribute of a class does."""
    shared: bool = False
    """Whether ``key`` means the same place for all functions of a process."""

    @property
    def identity(self) -> tuple[int, str]:
        return id(self.holder), self.slot


class Places:
    """The places of all objects that a function names, directly or indirectly."""

    def __init__(self) -> None:
        self.objects: dict[str, Place] = {}
        """The objects by their keys."""
        self.constants: list[tuple[Place, Any]] = []
        """The places of values that cannot change."""
        self.bindings: list[tuple[Place, Any]] = []
        """The places of functions, classes and modules, and in the end of the constants whose names
        no function binds (`_digest_function`), each with its value."""
        self.bound: set[str] = set()
        """The names that the functions bind to another object."""
        self.codes: dict[int, tuple[object, str, str]] = {}
        """The names and digests of functions and classes in objects, by their identity."""
        self.texts: list[Text] = []
        """The texts in the code of the functions."""
        self.readers: set[str] = set()
        """The functions of libraries that look up the words of texts as names."""
        self.globals: dict[int, dict[str, Any]] = {}
        """The globals of the functions, by identity."""
        self.named_in_texts: set[tuple[int, str]] = set()
        """The names in texts that were added, each with the identity of the globals."""
        self._sentinels: dict[int, tuple[object, int]] = {}
        """The objects without a content, `object()`, with their numbers, by identity."""
        self._seen: set[tuple[int, str]] = set()
        """The identities of the places that were added."""

    def add(self, place: Place, value: Any, kind: str) -> None:
        """Add a place once. ``kind``: ``code``, ``constant`` or ``object``."""
        if place.identity in self._seen:
            return
        self._seen.add(place.identity)
        if kind == "code":
            self.bindings.append((place, value))
        elif kind == "constant":
            self.constants.append((place, value))
        else:
            self.add_object(place)

    def number_of(self, sentinel: object) -> int:
        """The number of an `object()`, which functions only compare by identity."""
        return self._sentinels.setdefault(id(sentinel), (sentinel, len(self._sentinels)))[1]

    def add_object(self, place: Place) -> None:
        key = place.key
        number = 1
        while key in self.objects:  # two closures of one factory have the same key
            key, number = f"{place.key}#{number + 1}", number + 1
        self.objects[key] = place

    @property
    def are_bound_again(self) -> bool:
        """Whether a function, a class or a constant was replaced, because a person edited it."""
        return any(place.look() is not value for place, value in self.bindings)


def in_names(names: Mapping[str, Any], name: str) -> Callable[[], Any]:
    return lambda: names.get(name, MISSING)


def in_cell(cell: Any) -> Callable[[], Any]:
    def look() -> Any:
        try:
            return cell.cell_contents
        except ValueError:
            return MISSING

    return look
