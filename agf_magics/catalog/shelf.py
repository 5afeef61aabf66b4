"""`Shelf`, the part of the registry with the things of one kind, by name.

A shelf is a dict that is changed by single operations and read as a snapshot. Both are atomic for
other threads, so a cell may register while a run or a listing reads.
"""

from __future__ import annotations

import copy
from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from typing import NamedTuple, Protocol, Self, TypeVar

from ..text.diagnostics import Diagnostic
from ..text.names import same_name
from ..text.source import Span
from ..text.suggestions import suggest


class Named(Protocol):
    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=Named)


class Gone(NamedTuple):
    """The reason why things are no longer on their shelf, and the hint how to get them back."""

    why: str
    hint: str


class Shelf(Mapping[str, T]):
    """Things of one kind by name, iterated in the order of names."""

    def __init__(self, word: str, how: str) -> None:
        """``word``: the word for one thing; ``how``: the hint for an empty shelf."""
        self._word = word
        self._how = how
        self._things: dict[str, T] = {}
        self.left: dict[str, Gone] = {}
        """Reasons for things that left the shelf together, by the common beginning of their
        names."""
        self._version = object()

    @property
    def version(self) -> object:
        """An object that differs after each change."""
        return self._version

    def add(self, thing: T) -> None:
        """Register a thing, and replace a thing with the same name. Names that look the same are
        the same (decision D150)."""
        self._things[same_name(thing.name)] = thing
        self._version = object()

    def remove(self, name: str) -> None:
        """Remove a thing, if it is here."""
        self._things.pop(same_name(name), None)
        self._version = object()

    def copy(self) -> Self:
        """A shelf with the same things. Additions to the copy do not change this shelf."""
        other = copy.copy(self)
        other._things, other.left = dict(self._things), dict(self.left)
        return other

    def __getitem__(self, name: str) -> T:
        things = self._things
        return things[name if name in things or not isinstance(name, str) else same_name(name)]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(list(self._things)))  # noqa: C414 - the list is the snapshot

    def __len__(self) -> int:
        return len(self._things)

    def items(self) -> ItemsView[str, T]:
        """A snapshot, like `values`."""
        return dict(sorted(self._things.copy().items(), key=lambda pair: pair[0])).items()

    def values(self) -> ValuesView[T]:
        return dict(self.items()).values()

    def gone(self, name: str) -> Gone | None:
        """The reason why the thing ``name`` left the shelf together with others; None: it did
        not."""
        return next((gone for start, gone in self.left.items() if name.startswith(start)), None)

    def missing(self, name: str, span: Span | None, code: str) -> Diagnostic:
        """The error for a ``name`` that is not here."""
        if (gone := self.gone(name)) is not None:
            return Diagnostic(code, f"no {self._word} {name!r}: {gone.why}", span, gone.hint)
        hint = (
            suggest(name, self, f"{self._word}s")
            if len(self)
            else f"no {self._word} is registered: {self._how}"
        )
        return Diagnostic(code, f"no {self._word} {name!r}", span, hint)

    def __repr__(self) -> str:
        return f"<{self._word}s: {', '.join(self) or 'none'}>"


class Functions(Shelf[T]):
    """Things with a Python function. ``%autoreload`` changes functions in place, so the parameters
    of a changed function are read again."""

    def _renew(self, names: Iterable[str]) -> None:
        for name in names:
            thing = self._things.get(name)
            renew = getattr(thing, "renewed", None)  # a model has no function
            renewed = renew() if renew is not None else thing
            if renewed is not None and renewed is not thing:
                # Not the `add` of a subclass: nobody has registered it anew.
                super().add(renewed)

    @property
    def version(self) -> object:
        self._renew(list(self._things))
        return self._version

    def __getitem__(self, name: str) -> T:
        self._renew((name,))
        return super().__getitem__(name)

    def items(self) -> ItemsView[str, T]:
        self._renew(list(self._things))
        return super().items()


class Definitions(Shelf[T]):
    """Things that cells and files define."""

    def __init__(self, word: str, how: str) -> None:
        super().__init__(word, how)
        self._origins: dict[str, str | None] = {}

    def define(self, thing: T, origin: str | None) -> str | None:
        """Register a thing. Return a note if another origin (a cell's id, a file) or another
        language has defined that name."""
        name = same_name(thing.name)
        before = self._things.get(name)
        origin_before = self._origins.get(name)
        self.add(thing)
        self._origins[name] = origin
        if before is None:
            return None
        language = getattr(thing, "language", None)
        other = getattr(before, "language", None)
        if language != other:
            return f"{self._word} {name!r} replaces the {other} of that name"
        if origin != origin_before:
            return (
                f"{self._word} {name!r} was defined by another cell or file; this definition "
                f"replaces it"
            )
        return None

    def copy(self) -> Self:
        other = super().copy()
        other._origins = dict(self._origins)
        return other

    def origin(self, name: str) -> str | None:
        """The cell or file that has defined a name."""
        return self._origins.get(same_name(name))

    def remove(self, name: str) -> None:
        super().remove(name)
        self._origins.pop(same_name(name), None)
