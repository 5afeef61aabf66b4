"""The output path of a call, parsed to alternatives of which one is selected.

The notation is that of references. ``&&`` writes a result to all destinations; ``||`` separates
alternatives: a value is written to the first one, a failure to the last one.

The content of a message: its kind, its instance and what it writes.

Messages are plain JSON objects, as a context contains them. Only messages with data take part in
reading. A message that no call wrote patches the kind leaf by leaf; one that a call wrote has an
output path, which says what it sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MethodType
from typing import Any, Final, NamedTuple, NoReturn

from ...flow.values import DEEPEST, Value
from ...text.diagnostics import DefinitionError, Diagnostic
from ...text.source import Source, Span, Text
from ..documents import MISSING
from .reference import (
    KIND,
    SIGNS,
    Both,
    Either,
    Expression,
    Literal,
    Reference,
    as_written,
    parse,
    sign_of,
)

MOST_DESTINATIONS: Final = 64
"""The most destinations of one output path, all alternatives together."""


def _refuse(message: str, span: Span, hint: str | None = None) -> NoReturn:
    raise DefinitionError(Diagnostic("plan.bad-output-path", message, span, hint))


class Destination(NamedTuple):
    """A place that a result is written to."""

    kind: str
    path: tuple[str, ...]

    def __str__(self) -> str:
        return str(Reference(self.kind, self.path))


Alternatives = tuple[tuple[Destination, ...], ...]
"""One is selected; the result is written to all its destinations."""


def parse_output(text: Text, sign: str = SIGNS[0]) -> Alternatives:
    """Parse an ``_outputPath``. ``sign``: the sign of hints where the text itself has none.

    Raises DefinitionError: ``plan.bad-output-path`` and those of `parse`.
    """
    whole = text.locate(0, len(text.text))
    if not text.text.lstrip().lstrip("(").lstrip().startswith(SIGNS):
        path = text.text.strip()
        hint = f"write {sign}{path}" if KIND.match(path) else f"for example {sign}state.result"
        _refuse("an output path must begin with † or $", whole, hint)
    expression = parse(text)
    _check_operands(expression, whole)
    alternatives = _distributed(expression, whole)
    for destinations in alternatives:
        for i, one in enumerate(destinations):
            for other in destinations[:i]:
                if one.kind == other.kind and overlap(one.path, other.path):
                    message = f"the output path writes to {other} and to {one}, which overlap"
                    hint = "keep one of them, or join alternatives with ||"
                    _refuse(message.replace("†", sign_of(text.text)), whole, hint)
    return alternatives


def overlap(a: tuple[str, ...], b: tuple[str, ...]) -> bool:
    """Whether one path equals or contains the other."""
    least = min(len(a), len(b))
    return a[:least] == b[:least]


def _check_operands(expression: Expression, whole: Span) -> None:
    if isinstance(expression, Literal):
        message = f"an output path is made of references: cannot write to {expression}"
        _refuse(message, expression.span or whole)
    if isinstance(expression, Reference) and expression.instance is not None:
        message = f"an output path cannot select an instance: {as_written(expression)}"
        hint = "a call writes to its own instance; _instance: NAME sets it"
        _refuse(message, expression.span or whole, hint)
    if isinstance(expression, Either | Both):
        for operand in expression.operands:
            _check_operands(operand, whole)


def _distributed(expression: Expression, whole: Span) -> Alternatives:
    """``(a || b) && c`` as ``a && c || b && c``."""
    if isinstance(expression, Either):
        found = tuple(
            one for operand in expression.operands for one in _distributed(operand, whole)
        )
    elif isinstance(expression, Both):
        found = ((),)
        for operand in expression.operands:
            more = _distributed(operand, whole)
            _check_count(len(found) * len(more), whole)
            found = tuple((*left, *right) for left in found for right in more)
    else:
        assert isinstance(expression, Reference)
        return ((Destination(expression.kind, expression.path),),)
    _check_count(sum(map(len, found)), whole)
    return found


def _check_count(count: int, whole: Span) -> None:
    if count > MOST_DESTINATIONS:
        _refuse(f"an output path may have at most {MOST_DESTINATIONS} destinations", whole)


METHODS: Final = ("set", "merge", "assign", "push", "concat")
METHOD_SLIPS: Final[Mapping[str, str]] = {
    "append": "push",
    "extend": "concat",
    "replace": "set",
    "update": "assign",
}
"""Words of Python for the methods."""
PATCH: Final = "patch"
"""The method of a leaf of a plain message: like ``set``, but it also replaces a list on its way."""
COVERING: Final = frozenset({"set", PATCH})
"""The methods that replace everything older at the path and below."""
SEEKING: Final = {"push": "seek push", "concat": "seek concat"}
"""The methods of a message without a path: its place is decided when it is read."""
SOUGHT: Final = frozenset(SEEKING.values())

HIDDEN: Final = ("_call", "_date", "_outputMethod")
"""The fields of a message that a model does not see."""

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


class Content(NamedTuple):
    """What a message with data says."""

    kind: str
    instance: str | None
    writings: tuple[Writing, ...]


Entry = tuple[Mapping[str, Value], Content | None]
"""A message and its content."""


def one_writing(
    kind: str, instance: str | None, path: tuple[str, ...], method: str, value: Value
) -> Content:
    """The content of a message with one write, as each result of a call has: made in half the time
    of the classes."""
    return _content((kind, instance, (_writing((path, method, value)),)))


_content: Callable[[tuple[str, str | None, tuple[Writing, ...]]], Content] = MethodType(
    tuple.__new__, Content
)
_writing: Callable[[tuple[tuple[str, ...], str, Value]], Writing] = MethodType(
    tuple.__new__, Writing
)


def read_content(message: Mapping[str, Any]) -> Content | None:
    """The content of a message; None: it has no data."""
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
    return Content(
        kind, instance if isinstance(instance, str) and instance else None, tuple(writings)
    )


def as_message(returned: Value) -> dict[str, Value] | None:
    """The message that a tool returned; None: it returned a value."""
    if isinstance(returned, Message):
        return returned.content
    if (
        type(returned) is dict
        and returned.get("type") in ("data", *_TYPES)
        and _payload(returned) is not None
    ):
        return returned if returned["type"] == "data" and "data" in returned else None
    return None


def rendered(message: Mapping[str, Value], hidden: tuple[str, ...] = HIDDEN) -> dict[str, Value]:
    """A message as a model sees it."""
    return {key: value for key, value in message.items() if key not in hidden}


def kind_of(message: Mapping[str, Any]) -> str | None:
    """The kind of a message; None: it has no data."""
    found = read_content(message)
    return found.kind if found else None


def inline(message: Mapping[str, Any]) -> dict[str, Value]:
    """The data of a message that has its fields directly in it."""
    return {
        key: value
        for key, value in message.items()
        if key not in _NOT_DATA and not key.startswith("_")
    }


def nested(path: tuple[str, ...], value: Value) -> Value:
    """``value`` under ``path``: ``{"p1": {"p2": value}}``."""
    for segment in reversed(path):
        value = {segment: value}
    return value


@lru_cache(maxsize=4096)
def _alternatives(path: str) -> Alternatives:
    """The alternatives of the output path in a message's call; none if it is invalid."""
    try:
        return parse_output(Source("<path>", path).span())
    except DefinitionError:
        return ()


def _payload(message: Mapping[str, Any]) -> tuple[str, Value] | None:
    kind = message.get("type")
    if kind == "data":
        named = message.get("kind", "data")
        return (
            (named, message["data"])
            if "data" in message and isinstance(named, str) and named
            else None
        )
    if kind not in _TYPES:
        return None
    if kind in message:
        return kind, message[kind]
    if kind not in _INLINE:
        return None
    found = inline(message)
    return (kind, found) if found else None


def _written(kind: str, payload: Value, path: str) -> list[tuple[tuple[str, ...], Value]]:
    """The destinations that the payload contains, of the first alternative of which it contains
    any."""
    for destinations in _alternatives(path):
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
    """``payload`` without the value at ``path``; MISSING: nothing is left."""
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
    """A deep patch as its leaves, each of which replaces the earlier value. An empty object ensures
    that one exists."""
    if type(payload) is not dict or len(path) >= DEEPEST:
        yield Writing(path, PATCH, payload)
    elif not payload:
        yield Writing(path, "merge", payload)
    else:
        for key, value in payload.items():
            yield from _leaves((*path, key), value)
