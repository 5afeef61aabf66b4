"""A log as text, one message per line. A value that is not JSON is written as its type and repr,
and is lost.

The context: messages in the order in which they were added, never changed, and the values that
they give to paths.

The cost of appending and reading does not depend on the number of other messages. A log is a view
of an index that its successors share: a frame has its own view while later ones grow. Each kind
(and instance) has a tree of paths with the writes at each path; reading takes the newest write that
covers the path and the later ones above and below it.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from ...flow.values import DEEPEST, Value
from ...text.diagnostics import DefinitionError, Diagnostic, Source, StepError
from ..documents import MISSING
from .messages import (
    COVERING,
    SOUGHT,
    Conflict,
    Content,
    Entry,
    Paths,
    Writing,
    find,
    inline,
    kind_of,
    read_content,
    replay,
)
from .reference import EVERY, Reference, as_written, is_index

MARK: Final = "$opaque"
_MARKS = re.compile(r"\$++opaque")
_LONGEST: Final = 200
"""The most characters of a repr that are written."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The placeholder of a value that text cannot contain. Reading it is an error."""

    type: str
    repr: str

    def __str__(self) -> str:
        return f"{self.type} {self.repr}"


def format_lines(messages: Iterable[Mapping[str, Value]]) -> Iterator[str]:
    """Format each message as a line of JSON."""
    for message in messages:
        yield json.dumps(_encoded(message, DEEPEST + 20), ensure_ascii=False)


def parse_lines(source: Source) -> list[dict[str, Value]]:
    """Parse such a text. Raises DefinitionError for a line that is not a message."""
    found, start = [], 0
    for line in source.text.split("\n"):
        if line.strip():
            try:
                message = json.loads(line)
            except (ValueError, RecursionError) as error:
                _refuse(source, start, line, f"this line is not JSON: {error}")
            if not isinstance(message, dict):
                _refuse(source, start, line, "a line must be a message: {…}")
            try:
                found.append(_decoded(message, DEEPEST + 20))
            except ValueError as error:
                _refuse(source, start, line, f"cannot read this message: {error}")
        start += len(line) + 1
    return found


def lost_in(value: Value) -> Lost | None:
    """The first value in it that was lost when the log was saved as text."""
    if isinstance(value, Lost):
        return value
    parts = value.values() if type(value) is dict else value if type(value) is list else ()
    return next((lost for part in parts if (lost := lost_in(part)) is not None), None)


def _encoded(value: Any, room: int) -> Any:
    if isinstance(value, Mapping) and room and all(isinstance(key, str) for key in value):
        return {
            "$" + key if _MARKS.fullmatch(key) else key: _encoded(v, room - 1)
            for key, v in value.items()
        }
    if type(value) is list and room:
        return [_encoded(part, room - 1) for part in value]
    if (
        value is None
        or type(value) in (str, int, bool)
        or (type(value) is float and value - value == 0)
    ):
        return value
    if isinstance(value, Lost):
        return {MARK: {"type": value.type, "repr": value.repr}}
    try:
        text = repr(value)[:_LONGEST]
    except Exception:  # a user's class
        text = ""
    return {MARK: {"type": type(value).__name__, "repr": text}}


def _decoded(value: Any, room: int) -> Any:
    if not isinstance(value, dict | list):
        return value
    if not room:
        raise ValueError(f"it nests deeper than {DEEPEST} levels")
    if isinstance(value, list):
        return [_decoded(part, room - 1) for part in value]
    held = value.get(MARK)
    if len(value) == 1 and isinstance(held, dict):
        return Lost(str(held.get("type", "")), str(held.get("repr", "")))
    return {
        key[1:] if _MARKS.fullmatch(key) else key: _decoded(part, room - 1)
        for key, part in value.items()
    }


def _refuse(source: Source, start: int, line: str, message: str) -> NoReturn:
    raise DefinitionError(Diagnostic("plan.lines", message, source.span(start, start + len(line))))


class _Index:
    """What all views of a log share. It only grows."""

    __slots__ = ("instances", "layers", "loses", "messages", "seeks", "writings", "wrote")

    def __init__(self, loses: bool) -> None:
        self.loses = loses
        """Whether saving may have lost values of it."""
        self.seeks = False
        """Whether a message pushes without a path."""
        self.messages: list[Mapping[str, Value]] = []
        self.writings: list[Writing] = []
        self.wrote: list[int] = []
        """The number of the message of each writing."""
        self.layers: dict[tuple[str, str | None], Paths] = {}
        self.instances: dict[str, int] = {}
        """Each instance, with the number of its first writing."""

    def append(self, message: Mapping[str, Value], content: Content | None) -> None:
        if content is not None:
            kind, instance, writings = content
            first = len(self.writings)
            layer = self.layers.get((kind, instance))
            if layer is None:
                layer = self.layers[kind, instance] = Paths(first)
            if instance is not None:
                self.instances.setdefault(instance, first)
            for number, writing in enumerate(writings, first):
                layer.add(writing.path, number, writing.method in COVERING)
                if writing.method in SOUGHT:
                    self.seeks = True
                self.writings.append(writing)
                self.wrote.append(len(self.messages))
        self.messages.append(message)


class Log(Sequence[Mapping[str, Value]]):
    """Messages, oldest first. `append` returns the next log and does not change this one."""

    __slots__ = ("_index", "_messages", "_writes")

    def __init__(
        self, messages: Iterable[Mapping[str, Value]] = (), *, loses: bool = False
    ) -> None:
        """``loses``: the messages were read from text, which does not contain values that are not
        JSON."""
        self._index = _Index(loses)
        for message in messages:
            self._index.append(message, read_content(message))
        self._messages, self._writes = len(self._index.messages), len(self._index.writings)

    def append(self, *messages: Mapping[str, Value]) -> Log:
        """This log with ``messages`` at its end. The messages must not be changed later."""
        return self.extended([(message, read_content(message)) for message in messages])

    def extended(self, entries: Sequence[Entry]) -> Log:
        """`append` for messages with a known content."""
        index = self._index
        if len(index.messages) != self._messages:  # this view has a successor already: copy
            return Log([*self, *(message for message, _ in entries)], loses=index.loses)
        for message, content in entries:
            index.append(message, content)
        later = Log.__new__(Log)
        later._index, later._messages, later._writes = (
            index,
            len(index.messages),
            len(index.writings),
        )
        return later

    def until(self, count: int) -> Log:
        """The log after its first ``count`` messages."""
        view = Log.__new__(Log)
        view._index, view._messages = self._index, max(0, min(count, self._messages))
        view._writes = bisect_left(self._index.wrote, view._messages, hi=self._writes)
        return view

    def __len__(self) -> int:
        return self._messages

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return self._index.messages[: self._messages][at]
        if not -self._messages <= at < self._messages:
            raise IndexError(at)
        return self._index.messages[at % self._messages]

    def __iter__(self) -> Iterator[Mapping[str, Value]]:
        for at in range(self._messages):
            yield self._index.messages[at]

    def __repr__(self) -> str:
        return f"<Log of {self._messages} messages>"

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of messages without an instance, in the order of their first appearance."""
        layers = self._index.layers.copy().items()
        return tuple(
            kind
            for (kind, instance), paths in layers
            if instance is None and paths.first < self._writes
        )

    @property
    def instances(self) -> tuple[str, ...]:
        """In the order of their first appearance."""
        return tuple(
            name for name, first in self._index.instances.copy().items() if first < self._writes
        )

    def has_layer(self, kind: str, instance: str) -> bool:
        """Whether the instance has a message of ``kind``."""
        layer = self._index.layers.get((kind, instance))
        return layer is not None and layer.first < self._writes

    def read(self, reference: Reference, instance: str | None = None) -> Value:
        """The value of ``reference`` for a reader of ``instance``, or MISSING. The value is shared:
        do not change it.

        Raises StepError: ``plan.type-conflict``, ``plan.unknown-method``.
        """
        if reference.instance is not None:
            if reference.instance == EVERY:
                found = [self._read(reference, each) for each in self.instances]
                return [value for value in found if value is not MISSING] or MISSING
            instance = reference.instance or instance
        return self._read(reference, instance)

    def used(self, reference: Reference, instance: str | None = None) -> tuple[int, ...]:
        """The numbers of the messages that the value of ``reference`` depends on, in the order of
        their effect."""
        path = self._whole(reference.kind, reference.path, reference.instance or instance)
        numbers = self._collected(reference.kind, path, reference.instance or instance)
        return tuple(dict.fromkeys(map(self._index.wrote.__getitem__, numbers)))

    def _read(self, reference: Reference, instance: str | None) -> Value:
        try:
            value = self._value(reference, instance)
        except Conflict as conflict:
            code, why = conflict.code, str(conflict)
        else:
            if not self._index.loses or (lost := lost_in(value)) is None:
                return value
            code, why = "plan.lost", f"it was saved as text, which cannot contain {lost}"
        place = as_written(Reference(reference.kind, reference.path, sign=reference.sign))
        raise StepError(Diagnostic(code, f"cannot read {place}: {why}", reference.span))

    def _value(self, reference: Reference, instance: str | None) -> Value:
        """Raises Conflict."""
        kind, path, writings = reference.kind, reference.path, self._index.writings
        whole = self._whole(kind, path, instance)
        numbers = self._collected(kind, whole, instance)
        return find(replay(map(writings.__getitem__, numbers)), path)

    def _whole(self, kind: str, path: tuple[str, ...], instance: str | None) -> tuple[str, ...]:
        """The part of ``path`` that must be replayed as a whole: a list is only known as a whole,
        and the place of a push without a path depends on everything around it."""
        if self._index.seeks and any(
            writing.method in SOUGHT for writing in self._above(kind, path, instance)
        ):
            return ()
        for depth, segment in enumerate(path):
            if is_index(segment) and any(
                _may_list(writing, path[:depth])
                for writing in self._above(kind, path[:depth], instance)
            ):
                return path[:depth]
        return path

    def _above(self, kind: str, path: tuple[str, ...], instance: str | None) -> Iterator[Writing]:
        """The writes at ``path`` and above that affect it."""
        numbers = self._collected(kind, path, instance, below=False)
        return map(self._index.writings.__getitem__, numbers)

    def _collected(
        self, kind: str, path: tuple[str, ...], instance: str | None, below: bool = True
    ) -> list[int]:
        """The writes that affect ``path``, oldest first, those of the instance last."""
        numbers: list[int] = []
        for owner in dict.fromkeys((instance, None)):
            if layer := self._index.layers.get((kind, owner)):
                newest, covered = layer.newest(path, self._writes, below)
                numbers = newest + numbers
                if covered:
                    break
        return numbers


def remove_secrets(
    log: Sequence[Mapping[str, Value]],
    paths: Collection[tuple[str, ...]],
    holds: Callable[[Value], bool],
) -> Log:
    """The log without the values at ``paths`` (a kind, or a kind and a name in it) and without
    messages that hold a secret; the same log if there are none. They are removed, not masked: a
    later run must not continue with a mask."""
    remaining = [left for message in log if not holds(left := _without(message, paths))]
    if len(remaining) == len(log) and all(
        one is message for one, message in zip(remaining, log, strict=True)
    ):
        return log if isinstance(log, Log) else Log(log)
    return Log(remaining)


def _may_list(writing: Writing, path: tuple[str, ...]) -> bool:
    """Whether a write at ``path`` or above may create a list there."""
    if writing.method in ("push", "concat", *SOUGHT):
        return True
    return type(find(writing.value, path[len(writing.path) :])) is list


def _without(
    message: Mapping[str, Value], paths: Collection[tuple[str, ...]]
) -> Mapping[str, Value]:
    inner = message.get("content")
    if type(inner) is dict and "type" in inner:
        left = _without(inner, paths)
        return message if left is inner else {**message, "content": left}
    kind = kind_of(message)
    whole, names = (
        (kind,) in paths,
        {path[1] for path in paths if len(path) > 1 and path[0] == kind},
    )
    if kind is None or not (whole or names):
        return message
    key = "data" if message["type"] == "data" else kind
    if key not in message:
        gone = {name for name in inline(message) if whole or name in names}
        return (
            {name: value for name, value in message.items() if name not in gone}
            if gone
            else message
        )
    data = message[key]
    if whole:
        return {**message, key: {}}
    if type(data) is not dict or names.isdisjoint(data):
        return message
    return {**message, key: {name: value for name, value in data.items() if name not in names}}
