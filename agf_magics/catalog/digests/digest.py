"""`Digest`, a hash of all parts of a value that a function can read.

`add_parts` adds the parts of an object by its class. plain_parts.py, class_parts.py, table_parts.py
and functions.py register further classes.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import functools
import hashlib
import ipaddress
import pathlib
import re
import types
import uuid
import zoneinfo
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NewType, TypeVar, get_args, get_origin

from .origins import find_installed, has_plain_state, is_ours
from .places import MISSING, Place, Places

MAX_PARTS = 100_000
"""The largest number of parts. A larger function or value has no digest."""


MOST_JSON = 100_000_000
"""The largest number of characters of a value that is digested as one JSON text. A value with a
longer text is digested part by part, each shared part once."""


class NoDigest(Exception):
    """A value has no digest."""

    def __init__(self, why: str = "") -> None:
        """``why``: the reason; empty: the type of the value is reason enough."""
        super().__init__(why)
        self.why = why
        self.names: list[str] = []
        """The names that lead to the value, outermost first."""

    def __str__(self) -> str:
        return f"{' → '.join(self.names)} ({self.why})" if self.names else self.why


class Digest:
    """A hash of all parts of an object, each with its kind and its length."""

    def __init__(
        self, most: int | None = None, places: Places | None = None, is_state: bool = False
    ) -> None:
        """``most``: the largest number of bytes of all parts; default None: no limit. ``places``:
        collects the objects that calls may change; default None: these objects are parts.
        ``is_state``: whether this is the digest of such an object, in which code is represented by
        the digest of the code; default False."""
        self.most = most
        self.places = places
        self.is_state = is_state
        self.hash = hashlib.sha256()
        self.digests_by_name: dict[str, str] = {}
        """The digests of the named parts of the outermost function."""
        self._depth = 0
        """The number of parts that are open now (see `part`)."""
        self._room = most
        """The number of bytes that may still be added; None: no limit."""
        self._seen: dict[int, int] = {}
        """The numbers of the objects that were added, by identity."""
        self._alive: list[Any] = []
        """The added objects, kept so that no new object gets one of their identities."""
        self._remaining = MAX_PARTS
        """The number of parts that may still be added."""

    def add(self, kind: str, data: bytes | str = b"") -> None:
        raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
        self.reserve(len(raw))
        self.add_reserved(kind, raw)

    def add_reserved(self, kind: str, raw: bytes) -> None:
        """Add bytes for which `reserve` was called."""
        self.hash.update(f"{kind}:{len(raw)}:".encode())
        self.hash.update(raw)

    def reserve(self, size: int) -> None:
        """Reserve ``size`` bytes before they are copied. Raises NoDigest if fewer bytes are
        left."""
        if self._room is not None:
            if size > self._room:
                raise NoDigest(f"more than {self.most:,} bytes")
            self._room -= size

    def add_value(self, thing: Any) -> None:
        """Add a value with all its parts. A value that was added before is added as its number.
        Raises NoDigest."""
        self._remaining -= 1
        if self._remaining < 0:
            raise NoDigest(f"more than {MAX_PARTS:,} parts")
        kind = type(thing)
        if kind in _TEXTS:
            self.add(f"{kind.__module__}.{kind.__qualname__}", _TEXTS[kind](thing))
        elif id(thing) in self._seen:
            self.add("again", str(self._seen[id(thing)]))
        else:
            self._seen[id(thing)] = len(self._seen)
            self._alive.append(thing)
            try:
                add_parts.dispatch(kind)(thing, self)  # by its type: an object may fake `__class__`
            except NoDigest as error:
                error.why = error.why or f"a {kind.__qualname__} of {kind.__module__}"
                raise

    def add_code(self, thing: Any, name: str) -> None:
        """Add a function or a class, ``thing``, that an object holds."""
        assert self.places is not None
        if id(thing) not in self.places.codes:
            inner = Digest(self.most, self.places)
            inner.add_value(thing)
            self.places.codes[id(thing)] = thing, name, inner.hash.hexdigest()
        _, _, digest = self.places.codes[id(thing)]
        self.add("code", digest)

    def add_place(self, place: Place) -> None:
        """Add the object at ``place`` as a part if it is code, or if all objects are parts;
        otherwise note the place."""
        value = place.look()
        if value is MISSING:
            return
        is_code = isinstance(value, CODE) or type(value).__module__ == "typing"
        if self.places is not None:
            kind = "constant" if is_constant(value) else "object"
            if is_code:
                kind = "code"
            self.places.add(place, value, kind)
        if is_code or self.places is None:
            with self.part(place.name):
                self.add_value(value)

    def add_all(self, kind: str, things: Iterable[Any]) -> None:
        parts = list(things)
        self.add(kind, str(len(parts)))
        for part in parts:
            self.add_value(part)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Join everything that the block adds to one part ``name``, so that a comparison of two
        digests can name the differing part."""
        whole = self.hash
        self.hash = hashlib.sha256()
        self._depth += 1
        try:
            yield
        except NoDigest as error:
            error.names.insert(0, name)
            self.hash = whole
            raise
        finally:
            self._depth -= 1
        if not self._depth:
            self.digests_by_name[name] = self.hash.hexdigest()[:16]
        whole.update(f"part {name}:".encode() + self.hash.digest())
        self.hash = whole


BY_PACKAGE: dict[str, Callable[[Digest, Any, str], None]] = {}
"""The functions that add instances of a package's classes, by the package; table_parts.py fills
it."""


@functools.singledispatch
def add_parts(thing: Any, digest: Digest) -> None:
    """Add the parts of ``thing``. This default is for instances of the notebook's classes. Raises
    NoDigest."""
    kind = type(thing)
    package = kind.__module__.partition(".")[0]
    if package in BY_PACKAGE:
        BY_PACKAGE[package](digest, thing, package)
    elif kind.__module__ == "typing":
        _add_typing(digest, thing)
    elif kind is object and digest.places is not None:
        digest.add("sentinel", str(digest.places.number_of(thing)))
    elif (is_ours(kind.__module__) or package in _PLAIN_PACKAGES) and has_plain_state(kind):
        # Only lists and dicts have items besides their state; they are registered separately.
        _, arguments, state = (*thing.__reduce_ex__(2), None)[:3]
        digest.add_all("instance", (arguments, state))
    else:
        add_installed_object(digest, thing)


_PLAIN_PACKAGES = frozenset({"pydantic", "annotated_types", "typing_extensions"})
"""Installed packages whose instances hold plain data, and nothing outside Python: the fields and the
conditions of models and of annotations. Instances of other packages may stand for a connection or a
file."""


def add_installed_object(digest: Digest, thing: Any) -> None:
    """Add an object of an installed module that is not a Python function."""
    installed = find_installed(thing)
    if installed is None:
        raise NoDigest
    digest.add("installed", installed)


def _add_typing(digest: Digest, thing: Any) -> None:
    if get_origin(thing) is not None:
        add_generic(thing, digest)
    elif isinstance(thing, TypeVar):
        digest.add_all("variable", (thing.__name__, thing.__bound__, thing.__constraints__))
    elif isinstance(thing, NewType):
        digest.add_all("new type", (thing.__name__, thing.__supertype__))
    elif hasattr(thing, "__value__"):  # the `type` statement, of Python 3.12
        digest.add_all("alias", (thing.__name__, thing.__value__))
    else:
        digest.add("typing", repr(thing))


def add_generic(alias: Any, digest: Digest) -> None:
    """Add the parts of a generic type: ``list[int]``, ``int | None``, ``Annotated[int, Gt(3)]``."""
    digest.add_value(get_origin(alias))
    digest.add_all("arguments", get_args(alias))


def zone_text(zone: datetime.tzinfo | None) -> str:
    """A time zone as text. Raises NoDigest for a user's class."""
    # a zone that was read from a file has no key
    if isinstance(zone, zoneinfo.ZoneInfo) and zone.key is None:
        raise NoDigest
    if zone is not None and type(zone) not in (datetime.timezone, zoneinfo.ZoneInfo):
        raise NoDigest
    return repr(zone)


CACHED_FUNCTION = type(functools.cache(len))
"""The type of the functions that `functools.lru_cache` makes."""

CODE = (
    *(types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.MethodWrapperType),
    *(type, types.ModuleType, types.GenericAlias, types.UnionType, functools.partial, enum.Enum),
    *(staticmethod, classmethod, property, functools.cached_property),
    *(types.MemberDescriptorType, types.MethodDescriptorType, types.WrapperDescriptorType),
    CACHED_FUNCTION,
)
"""The types of objects that are code, or that hold code and other objects."""


def is_constant(value: Any) -> bool:
    """Whether ``value`` cannot change, so that only its name can be bound to another value."""
    kind = type(value)
    return kind in _TEXTS or (kind in (tuple, frozenset) and all(map(is_constant, value)))


def _moment(moment: Any) -> str:
    return f"{moment!r} {zone_text(moment.tzinfo)}"


_ADDRESSES: tuple[type, ...] = (
    *(ipaddress.IPv4Address, ipaddress.IPv4Network, ipaddress.IPv4Interface),
    *(ipaddress.IPv6Address, ipaddress.IPv6Network, ipaddress.IPv6Interface),
)

_TEXTS: dict[type, Callable[[Any], str | bytes]] = {
    **dict.fromkeys((int, float, complex, bool, type(None), type(Ellipsis)), repr),
    **dict.fromkeys((str, bytes), lambda value: value),
    datetime.datetime: _moment,
    datetime.time: _moment,
    datetime.date: repr,
    datetime.timedelta: repr,
    datetime.timezone: zone_text,
    zoneinfo.ZoneInfo: zone_text,
    **dict.fromkeys((decimal.Decimal, range, *_ADDRESSES), repr),
    fractions.Fraction: repr,
    uuid.UUID: lambda value: f"{value!r} {value.is_safe}",
    re.Pattern: lambda pattern: (
        f"{pattern.flags} {type(pattern.pattern).__name__} {pattern.pattern!r}"
    ),  # its repr would be truncated
    **dict.fromkeys(
        (pathlib.PosixPath, pathlib.WindowsPath, pathlib.PurePosixPath, pathlib.PureWindowsPath),
        repr,
    ),
}
"""Exact classes whose values have a complete text; the repr of a pattern is truncated."""
