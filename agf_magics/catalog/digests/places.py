"""The places where a function finds objects that calls may change: globals, cells, attributes.

A function's code, and the functions, classes and modules that it names, are the same in each call
of a run. The other objects that it names may be changed by its calls, or by calls beside them. Such
an object is known by its place, so that it can be looked at again (decision D110).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

MISSING = object()
"""The value of a name that is not bound."""


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Where an object is found."""

    name: str
    """Its name for a person: ``FACTOR``, ``helpers.CACHE``, ``scale.calls``."""
    key: str
    """Its name in all processes."""
    holder: object = field(repr=False)
    slot: str
    """The attribute of ``holder``, or the name in it, that has the object."""
    look: Callable[[], Any]
    """Returns the object that is there now, or `MISSING`."""
    counts: bool = False
    """Whether it counts although calls change it: the attribute of a class."""
    shared: bool = False
    """Whether ``key`` means the same place for all functions of a process."""

    @property
    def identity(self) -> tuple[int, str]:
        return id(self.holder), self.slot


class Places:
    """What a function names, directly or indirectly, besides code."""

    def __init__(self) -> None:
        self.objects: dict[str, Place] = {}
        """The objects by their keys."""
        self.constants: list[tuple[Place, Any]] = []
        """Places of values that cannot change."""
        self.bindings: list[tuple[Place, Any]] = []
        """Places of functions, classes and modules."""
        self.bound: set[str] = set()
        """The names that the functions bind to another object."""
        self.codes: dict[int, tuple[object, str, str]] = {}
        """Functions and classes in objects, by their ids: each with its name and its digest."""
        self._seen: set[tuple[int, str]] = set()

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

    def add_object(self, place: Place) -> None:
        key = place.key
        number = 1
        while key in self.objects:  # two closures of one factory
            key, number = f"{place.key}#{number + 1}", number + 1
        self.objects[key] = place

    @property
    def are_bound_again(self) -> bool:
        """Whether a function, a class or a value that cannot change was replaced: a person has
        edited it."""
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
