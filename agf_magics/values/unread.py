"""`Unread`, an opaque value that an earlier session stored and that is read when somebody needs it.

An `Unread` stands in a frame in place of its value. Expressions pass it on as any opaque value;
user code and readers of public names get the value itself. So a resumed run reads only the values
that its calls still need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar, final

from ..text.diagnostics import Diagnostic, StepError
from .extent import CONTAINERS

V = TypeVar("V")


class LostError(StepError):
    """A stored value cannot be read any more."""

    unread: Unread | None = None
    """The value that cannot be read."""


class CannotRead(Exception):
    """The error that the function ``read`` of an `Unread` raises. The message has the reason."""

    def __init__(self, why: str, tell: Callable[[], None] = lambda: None) -> None:
        """``tell``: tells a person that the call is made again."""
        super().__init__(why)
        self.tell = tell


class ReadAtOnce:
    """The base of classes into which flows look. A stored result of such a class is read as soon as
    its call is replayed."""

    __slots__ = ()


_NOTHING: Any = object()
"""In place of a value that is not in memory."""


@final
class Unread:
    """A stored value, read at first use."""

    __slots__ = (
        *("__weakref__", "_find", "_read", "_tell", "_value", "_why"),
        *("digest", "kind", "make_again", "shown"),
    )

    def __init__(
        self,
        kind: str,
        shown: Any,
        read: Callable[[], Any],
        find: Callable[[], Any] = lambda: None,
        digest: str | None = None,
    ) -> None:
        """``kind``: the name of the value's class. ``shown``: its preview. ``read``: reads the
        value, or raises CannotRead. ``find``: returns the same object if it came into memory with
        another value, else None. ``digest``: the digest of its content; default None: it has no
        digest."""
        self.kind, self.shown, self.digest = kind, shown, digest
        self.make_again: Any = None
        """The call that returned the value; the engine sets and reads it."""
        self._read, self._find, self._value = read, find, _NOTHING
        self._why = ""
        """The reason why it cannot be read; empty: nobody has tried, or it was read."""
        self._tell: Callable[[], None] | None = None
        """Tells a person that the call is made again; None: there is nothing to tell."""

    @property
    def value(self) -> Any:
        """The value. Raises LostError."""
        if self._value is _NOTHING and not self._why:
            try:
                self.put(self._read())
            except CannotRead as why:
                self._why, self._tell = str(why), why.tell
        if self._value is _NOTHING:
            raise self._lost()
        return self._value

    def tell_made_again(self) -> None:
        """Tell a person, once, that the call is made again."""
        tell, self._tell = self._tell, None
        if tell is not None:
            tell()

    def _lost(self) -> LostError:
        """The error for a value that cannot be read."""
        message = f"a stored {self.kind} cannot be read: {self._why}"
        hint = "a run that reuses this one (--reuse) makes the call again"
        lost = LostError(Diagnostic("journal.lost-value", message, None, hint))
        lost.unread = self
        return lost

    @property
    def known(self) -> Any:
        """The value if it is in memory; otherwise this object."""
        if self._value is _NOTHING and (same_object := self._find()) is not None:
            self.put(same_object)
        return self if self._value is _NOTHING else self._value

    def put(self, value: Any) -> None:
        """Set the value, so that neither a read nor a call is needed any more."""
        self._value, self.make_again = value, None

    # Code that uses this object directly finds the value behind it.

    def __repr__(self) -> str:
        return repr(self.value)

    def __str__(self) -> str:
        return str(self.value)

    def __reduce__(self) -> Any:
        return _same, (self.value,)


def _same(value: V) -> V:
    return value


def opened(value: Any) -> Any:
    """``value`` itself, read if it was unread. Raises LostError."""
    return value.value if type(value) is Unread else value


def read_all(value: Any) -> Any:
    """``value`` with all unread values in it read; the same object if it has none. Raises
    LostError."""
    if type(value) is Unread:
        return value.value
    return _with_values(value, {}) if type(value) in CONTAINERS else value


def _with_values(value: Any, seen: dict[int, Any]) -> Any:
    """``value`` with the unread values in it read. ``seen``: the containers that were visited
    already."""
    visited_copy = seen.get(id(value))
    if visited_copy is not None:
        return visited_copy
    seen[id(value)] = value  # while its parts are visited; no value contains itself
    parts: Iterable[tuple[Any, Any]] = value.items() if type(value) is dict else enumerate(value)
    changed = {}
    for key, part in parts:
        if type(part) is Unread:
            changed[key] = part.value
        elif type(part) in CONTAINERS and (inner := _with_values(part, seen)) is not part:
            changed[key] = inner
    if changed:
        seen[id(value)] = copy = value.copy()
        for key, part in changed.items():
            copy[key] = part
    return seen[id(value)]


class ReadWhenUsed(dict[str, Any]):
    """A dict of values by name. A value is read when somebody asks for it."""

    def __getitem__(self, name: str) -> Any:
        return read_all(super().__getitem__(name))

    def get(self, name: str, default: Any = None) -> Any:
        return read_all(super().get(name, default))

    def setdefault(self, name: str, default: Any = None) -> Any:
        return read_all(super().setdefault(name, default))

    def pop(self, name: str, *default: Any) -> Any:
        return read_all(super().pop(name, *default))

    def popitem(self) -> tuple[str, Any]:
        name, value = super().popitem()
        return name, read_all(value)

    # Python copies a dict without calling its methods, unless it defines `__iter__`.
    def __iter__(self) -> Iterator[str]:
        return super().__iter__()

    def values(self) -> Any:
        return [self[name] for name in self]

    def items(self) -> Any:
        return [(name, self[name]) for name in self]

    def __repr__(self) -> str:
        return repr(dict(self.items()))

    def __reduce__(self) -> Any:
        return dict, (self.items(),)
