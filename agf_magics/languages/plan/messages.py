"""The output path of a call, parsed to alternatives of which one is selected.

The notation is that of references. ``&&`` writes a result to all destinations; ``||`` separates
alternatives: a value is written to the first one, a failure to the last one.

The content of a message: its kind, its instance and what it writes.

Messages are plain JSON objects, as a context contains them. Only messages with data take part in
reading. A message that no call wrote patches the kind leaf by leaf; one that a call wrote has an
output path, which says what it sets.

A tree of paths, each with the numbers of the writes at it.

The value after a sequence of writes.

Values in a log are shared and never changed. A replay copies each container once before it changes
it, so ten thousand pushes are ten thousand appends to one list.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, combinations, islice, product
from typing import Any, Final, NamedTuple, NoReturn

from ...flow.values import DEEPEST, Value, type_name
from ...text.diagnostics import DefinitionError, Diagnostic, Source, Span, Text
from ..documents import MISSING, descend
from .reference import (
    KIND,
    SIGNS,
    Both,
    Expression,
    Literal,
    Reference,
    as_written,
    is_index,
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
        for first, second in combinations(destinations, 2):
            if first.kind == second.kind and overlap(first.path, second.path):
                message = f"the output path writes to {first} and to {second}, which overlap"
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
    for operand in expression.operands:
        _check_operands(operand, whole)


def _distributed(expression: Expression, whole: Span) -> Alternatives:
    """``(a || b) && c`` as ``a && c || b && c``."""
    if isinstance(expression, Reference):
        return ((Destination(expression.kind, expression.path),),)
    inner = [_distributed(operand, whole) for operand in expression.operands]
    ways: Iterable[tuple[Destination, ...]] = chain(*inner)
    if isinstance(expression, Both):
        ways = map(tuple, map(chain.from_iterable, product(*inner)))
    # A product of short lists is long: no more of it is made than is refused.
    alternatives = tuple(islice(ways, MOST_DESTINATIONS + 1))
    if sum(map(len, alternatives)) > MOST_DESTINATIONS:
        _refuse(f"an output path may have at most {MOST_DESTINATIONS} destinations", whole)
    return alternatives


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


def plain_message(kind: str, data: Value, instance: str | None = None) -> dict[str, Value]:
    """A message that no call wrote."""
    kinds = {"kind": kind} if kind != "data" else {}
    instances = {"_instance": instance} if instance is not None else {}
    return {"type": "data", **kinds, **instances, "data": data}


def as_message(returned: Value) -> dict[str, Value] | None:
    """The message that a tool returned; None: it returned a value."""
    if isinstance(returned, Message):
        return returned.content
    is_data = type(returned) is dict and returned.get("type") == "data"
    return returned if is_data and _payload(returned) is not None else None


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
            if one.kind == kind and (value := descend(payload, one.path)) is not MISSING
        ]
        if found:
            return found
    return []


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


class Paths:
    """One place and everything below it, each with the numbers of what is written there."""

    __slots__ = ("below", "numbers")

    def __init__(self) -> None:
        self.below: defaultdict[str, Paths] = defaultdict(Paths)
        self.numbers: list[int] = []

    def add(self, path: tuple[str, ...], number: int) -> None:
        place = self
        for segment in path:
            place = place.below[segment]
        place.numbers.append(number)

    def overlapping(self, path: tuple[str, ...]) -> list[int]:
        """Every number at ``path``, above and below it, in increasing order."""
        place, numbers = self, [*self.numbers]
        for segment in path:
            if segment not in place.below:
                return sorted(numbers)
            place = place.below[segment]
            numbers += place.numbers
        inside = [*place.below.values()]
        for place in inside:  # grows
            numbers += place.numbers
            inside += place.below.values()
        return sorted(numbers)


NO_PATHS: Final = Paths()
"""Of a kind that nothing writes. It is only read."""


GAP = 10_000
"""The most elements that a write after the end of a list may leave empty."""


class Conflict(Exception):
    """A write cannot be applied to the value at its place."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def replay(writings: Iterable[Writing]) -> Value:
    """The value of the whole kind after ``writings``, or MISSING. Raises Conflict."""
    tree, apply = MISSING, _Replay()
    for writing in writings:
        tree = apply.write(tree, writing, 0)
    return tree


def find(value: Value, path: tuple[str, ...]) -> Value:
    """The value at ``path`` of ``value``, or MISSING. A part of the path may be the index of a
    list."""
    return descend(value, path, _element)


def _element(value: Value, segment: str) -> Value:
    if type(value) is list and is_index(segment) and int(segment) < len(value):
        return value[int(segment)]
    return MISSING


class _Replay:
    def __init__(self) -> None:
        self.own: dict[int, Any] = {}
        """The containers made here, by identity. Holding them keeps their identities unique."""

    def write(self, value: Value, writing: Writing, depth: int) -> Value:
        """``value``, which is ``depth`` segments down the path, after the write."""
        if depth == len(writing.path):
            return self.effect(value, writing)
        segment = writing.path[depth]
        if type(value) is list and is_index(segment) and writing.method != PATCH:
            return self.element(value, int(segment), writing, depth)
        fields: dict[str, Value] = self.own_copy(value) if type(value) is dict else self.owned({})
        fields[segment] = self.write(fields.get(segment, MISSING), writing, depth + 1)
        return fields

    def element(self, value: list[Value], index: int, writing: Writing, depth: int) -> Value:
        if index - len(value) > GAP:
            raise Conflict(
                "plan.type-conflict",
                f"writing element {index} of a list of {len(value)} elements leaves too many empty",
            )
        items: list[Value] = self.own_copy(value)
        items.extend([None] * (index - len(items)))
        before = items[index] if index < len(items) else MISSING
        items[index : index + 1] = [self.write(before, writing, depth + 1)]
        return items

    def effect(self, value: Value, writing: Writing) -> Value:
        method, given = writing.method, writing.value
        if method in EFFECTS:
            return EFFECTS[method](self, value, given, writing.path)
        raise Conflict(
            "plan.unknown-method",
            f"unknown method {method!r} in a message; use {', '.join(METHODS)}",
        )

    def merge(self, value: Value, given: Value, path: tuple[str, ...]) -> Value:
        if type(value) is not dict or type(given) is not dict:
            return given
        fields = self.own_copy(value)
        for key, inner in given.items():
            fields[key] = self.merge(fields[key], inner, path) if key in fields else inner
        return fields

    def assign(self, value: Value, given: Value, path: tuple[str, ...]) -> Value:
        if type(value) is not dict or type(given) is not dict:
            return given
        fields = self.own_copy(value)
        fields.update(given)
        return fields

    def concat(
        self, value: Value, given: Value, path: tuple[str, ...], action: str = "concatenate to"
    ) -> Value:
        if value is MISSING or value is None:
            return given if type(given) in (list, str) else self.owned([given])
        if type(value) is str and type(given) is str:
            return value + given
        if type(value) is not list:
            where = str(Reference("", path))[1:].lstrip(".") or "it"
            message = f"cannot {action} {where}: it is {type_name(value)}, not a list"
            raise Conflict("plan.type-conflict", message)
        items: list[Value] = self.own_copy(value)
        items.extend(given if type(given) is list else [given])
        return items

    def seek(self, value: Value, given: Value, path: tuple[str, ...], method: str) -> Value:
        """A push or concat without a path: follow the payload to the first list."""
        if type(value) is list or type(given) is not dict:
            return EFFECTS[method](self, value, given, path)
        fields: dict[str, Value] = self.own_copy(value) if type(value) is dict else self.owned({})
        for key, inner in given.items():
            fields[key] = self.seek(fields.get(key, MISSING), inner, (*path, key), method)
        return fields

    def own_copy(self, value: Any) -> Any:
        return value if id(value) in self.own else self.owned(value.copy())

    def owned(self, made: Any) -> Any:
        self.own[id(made)] = made
        return made


Effect = Callable[[_Replay, Value, Value, tuple[str, ...]], Value]

EFFECTS: dict[str, Effect] = {
    "set": lambda replay, value, given, path: given,
    PATCH: lambda replay, value, given, path: given,
    "merge": _Replay.merge,
    "assign": _Replay.assign,
    "push": lambda replay, value, given, path: replay.concat(value, [given], path, "push to"),
    "concat": _Replay.concat,
    SEEKING["push"]: lambda replay, value, given, path: replay.seek(value, given, path, "push"),
    SEEKING["concat"]: lambda replay, value, given, path: replay.seek(value, given, path, "concat"),
}
"""The effect of each method on the value at its path."""
