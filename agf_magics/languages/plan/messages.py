"""What a message says: which kind it speaks of, for which instance, and what it writes there.

Messages are plain JSON objects as they stand in a context. Only those that carry data take part in reading; a plain one
(no call wrote it) patches what is there leaf by leaf, one that a call wrote says by its output path what it sets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

from ...flow.values import DEEPEST, Value
from ...text.diagnostics import DefinitionError
from ...text.source import Source
from .destinations import Alternatives, Destination, parse_output
from .reference import MISSING

METHODS: Final = ("set", "merge", "assign", "push", "concat")
PATCH: Final = "patch"
"""A leaf of a plain message: like ``set``, but what stands in its way gives way, a list too."""
SEEKING: Final = {"push": "seek push", "concat": "seek concat"}
"""Of a message without a path: where it goes shows when it is read."""
SOUGHT: Final = frozenset(SEEKING.values())

HIDDEN: Final = ("_call", "_date", "_outputMethod")
"""What a model that is shown a context does not see."""

_INLINE: Final = ("state", "input")
_TYPES: Final = (*_INLINE, "output", "error")
_NOT_DATA: Final = frozenset({"type", "kind", "role", "schema", "description"})


@dataclass(frozen=True, slots=True)
class Message:
    """A message that a tool returns in place of a value."""

    data: Value
    """The value. Required."""
    kind: str | None = None
    """None: the kind that the call's output path declares."""
    method: str | None = None
    """``set``, ``merge``, ``assign``, ``push``, ``concat``; None: the call's."""

    @property
    def content(self) -> dict[str, Value]:
        kind = {"kind": self.kind} if self.kind is not None else {}
        method = {"_outputMethod": self.method} if self.method is not None else {}
        return {"type": "data", **kind, "data": self.data, **method}


@dataclass(frozen=True, slots=True)
class Branch:
    """A value for one of the alternatives of a call's output path: see `branch`."""

    which: int | str
    value: Value


def branch(which: int | str, value: Value) -> Branch:
    """Return a value that a tool returns to select an alternative of its ``_outputPath``.

    Parameters:

    - ``which``: the number of the alternative, counted from 0, or its text. Required.
    - ``value``: the value to write there. Required.

    >>> branch("†state.error", {"code": "closed"})
    Branch(which='†state.error', value={'code': 'closed'})
    """
    if isinstance(which, bool) or not isinstance(which, int | str):
        raise TypeError(f"an alternative is a number or a path, not {which!r}")
    return Branch(which, value)


class Writing(NamedTuple):
    """One write of a message, within its kind and instance."""

    path: tuple[str, ...]
    method: str
    value: Value

    @property
    def covers(self) -> bool:
        """Whether nothing older counts for what stands at its path and below."""
        return self.method in ("set", PATCH)


class Said(NamedTuple):
    """A message that carries data."""

    kind: str
    instance: str | None
    writings: tuple[Writing, ...]


Says = tuple[str, str | None, tuple[Writing, ...]]
"""A `Said`, or the same without its names."""
Told = tuple[Mapping[str, Value], Says | None]
"""A message, and what it says."""


def said(message: Mapping[str, Any]) -> Said | None:
    """What ``message`` says; None: it carries no data."""
    content = message.get("content")
    inner = content if isinstance(content, dict) and "type" in content else message
    found = _payload(inner)
    if found is None:
        return None
    kind, payload = found
    instance = inner.get("_instance", message.get("_instance"))
    method = inner.get("_outputMethod", message.get("_outputMethod")) or "set"
    call = inner.get("_call", message.get("_call"))
    path = call.get("_outputPath") if isinstance(call, dict) else None
    written = _written(kind, payload, path) if isinstance(path, str) else []
    if written:
        addressed = [Writing(where, str(method), value) for where, value in written]
        rest = payload
        for where, _ in written:
            rest = _without(rest, where)
        writings = [*(_plain(kind, rest, "set") if rest is not MISSING else ()), *addressed]
    else:
        writings = list(_plain(kind, payload, str(method)))
    return Said(kind, instance if isinstance(instance, str) and instance else None, tuple(writings))


def as_message(returned: Value) -> dict[str, Value] | None:
    """What a tool returned, if it is a message; None: it is a value."""
    if isinstance(returned, Message):
        return returned.content
    if type(returned) is dict and returned.get("type") in ("data", *_TYPES) and _payload(returned) is not None:
        return returned if returned["type"] == "data" and "data" in returned else None
    return None


def rendered(message: Mapping[str, Value], hidden: tuple[str, ...] = HIDDEN) -> dict[str, Value]:
    """A message as a model is shown it."""
    return {key: value for key, value in message.items() if key not in hidden}


def kind_of(message: Mapping[str, Any]) -> str | None:
    """The kind a message speaks of; None: it carries no data."""
    found = said(message)
    return found.kind if found else None


def inline(message: Mapping[str, Any]) -> dict[str, Value]:
    """What stands in a message itself, where nothing in it holds its data."""
    return {key: value for key, value in message.items() if key not in _NOT_DATA and not key.startswith("_")}


def nested(path: tuple[str, ...], value: Value) -> Value:
    """``value`` under ``path``: ``{"p1": {"p2": value}}``."""
    for segment in reversed(path):
        value = {segment: value}
    return value


@lru_cache(maxsize=4096)
def alternatives(path: str) -> Alternatives:
    """The alternatives of an output path as a message's call tells it; none where it is no path."""
    try:
        return parse_output(Source("<path>", path).span())
    except DefinitionError:
        return ()


def _payload(message: Mapping[str, Any]) -> tuple[str, Value] | None:
    kind = message.get("type")
    if kind == "data":
        named = message.get("kind", "data")
        return (named, message["data"]) if "data" in message and isinstance(named, str) and named else None
    if kind not in _TYPES:
        return None
    if kind in message:
        return kind, message[kind]
    if kind not in _INLINE:
        return None
    found = inline(message)
    return (kind, found) if found else None


def _written(kind: str, payload: Value, path: str) -> list[tuple[tuple[str, ...], Value]]:
    """The declared destinations that the payload holds: of the first alternative that it holds anything of."""
    for destinations in alternatives(path):
        found = [
            (one.path, value)
            for one in destinations
            if one.kind == kind and (value := _at(payload, one)) is not MISSING
        ]
        if found:
            return found
    return []


def _at(payload: Value, destination: Destination) -> Value:
    for segment in destination.path:
        if type(payload) is not dict or segment not in payload:
            return MISSING
        payload = payload[segment]
    return payload


def _without(payload: Value, path: tuple[str, ...]) -> Value:
    """What is left of ``payload``; MISSING: nothing."""
    if payload is MISSING or not path:
        return MISSING
    rest = dict(payload)
    inner = _without(rest.pop(path[0]), path[1:])
    if inner is not MISSING:
        rest[path[0]] = inner
    return rest or MISSING


def _plain(kind: str, payload: Value, method: str) -> Iterator[Writing]:
    """The writes of a message without a path."""
    if kind == "error":  # errors are not merged with each other
        yield Writing((), "set", payload)
    elif method in ("set", "merge"):
        yield from _leaves((), payload)
    else:
        yield Writing((), SEEKING.get(method, method), payload)


def _leaves(path: tuple[str, ...], payload: Value) -> Iterator[Writing]:
    """A deep patch as what it comes to: each leaf replaces what was there. An empty object only makes sure of one."""
    if type(payload) is not dict or len(path) >= DEEPEST:
        yield Writing(path, PATCH, payload)
    elif not payload:
        yield Writing(path, "merge", payload)
    else:
        for key, value in payload.items():
            yield from _leaves((*path, key), value)
