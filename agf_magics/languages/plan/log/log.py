"""`Log`, the immutable messages of a context, in order, and the values that they give to paths.

The cost of appending and reading does not depend on the number of other messages. A log is a view
of an index that its successors share, so a frame keeps its own view while later logs grow. Each
kind (and instance) has a tree of paths with the writes at each path. Reading takes the newest write
that covers the path, and later writes above and below it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ....text.diagnostics import Diagnostic, StepError
from ....values.value import Value
from ...descend import MISSING
from .lines import lost_in
from .messages import COVERING, SOUGHT, Writing, inline, kind_of, read_content
from .paths import NO_PATHS, PathIndex
from .reference import EVERY, Reference, as_written, is_index
from .writes import Conflict, find, replay

Layer = tuple[str, str | None]
"""A kind and an instance."""


class _Index:
    """The index that all views of a log share. It only grows."""

    __slots__ = ("first", "layers", "loses", "messages", "writings", "wrote")

    def __init__(self, loses: bool) -> None:
        self.loses = loses
        """Whether the messages were read from text, so that some values may have been lost."""
        self.messages: list[Mapping[str, Value]] = []
        self.writings: list[Writing] = []
        """The writes of all messages, in order; `PathIndex` knows them by their numbers here."""
        self.wrote: list[int] = []
        """The number of the message of each writing."""
        self.layers: dict[Layer, PathIndex] = {}
        self.first: dict[Layer, int] = {}
        """The number of the first writing of each layer, in increasing order."""

    def append(self, message: Mapping[str, Value]) -> None:
        content = read_content(message)
        if content is not None:
            layer = content.kind, content.instance
            self.first.setdefault(layer, len(self.writings))
            paths = self.layers.setdefault(layer, PathIndex())
            for writing in content.writings:
                paths.add(writing.path, len(self.writings))
                self.writings.append(writing)
                self.wrote.append(len(self.messages))
        self.messages.append(message)


class Log(Sequence[Mapping[str, Value]]):
    """Messages, oldest first. `append` returns the next log and does not change this one."""

    __slots__ = ("_index", "_messages", "_values", "_writes")

    def __init__(
        self, messages: Iterable[Mapping[str, Value]] = (), *, loses: bool = False
    ) -> None:
        """``loses``: the messages were read from text, which does not contain values that are not
        JSON."""
        self._index = _Index(loses)
        for message in messages:
            self._index.append(message)
        self._messages = len(self._index.messages)
        self._writes = len(self._index.writings)
        self._values: dict[tuple[str, tuple[str, ...], str | None], Value] = {}
        """The values that were read: a call reads each value twice, when it is ready and when it
        starts."""

    def append(self, *messages: Mapping[str, Value]) -> Log:
        """This log with ``messages`` at its end. The messages must not be changed later."""
        index = self._index
        if len(index.messages) != self._messages:  # this view has a successor already: copy
            return Log([*self, *messages], loses=index.loses)
        for message in messages:
            index.append(message)
        return self._view(len(index.messages), len(index.writings))

    def until(self, count: int) -> Log:
        """The log after its first ``count`` messages."""
        messages = max(0, min(count, self._messages))
        return self._view(messages, bisect_left(self._index.wrote, messages, hi=self._writes))

    def _view(self, messages: int, writes: int) -> Log:
        view = Log.__new__(Log)
        view._index = self._index
        view._messages = messages
        view._writes = writes
        view._values = {}
        return view

    def __len__(self) -> int:
        return self._messages

    def __getitem__(self, number: Any) -> Any:
        return self._index.messages[: self._messages][number]

    def __iter__(self) -> Iterator[Mapping[str, Value]]:
        return iter(self[:])

    def __repr__(self) -> str:
        return f"<Log of {self._messages} messages>"

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The kinds with their instances, in the order of their first appearance."""
        first = self._index.first.copy().items()
        return tuple(layer for layer, writing in first if writing < self._writes)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of messages without an instance."""
        return tuple(kind for kind, instance in self.layers if instance is None)

    @property
    def instances(self) -> tuple[str, ...]:
        """The names of the instances, in the order of their first appearance."""
        return tuple(dict.fromkeys(instance for _, instance in self.layers if instance is not None))

    def read(self, reference: Reference, instance: str | None = None) -> Value:
        """The value of ``reference`` for a reader of ``instance``, or MISSING. The value is shared:
        do not change it.

        Raises StepError: ``plan.type-conflict``, ``plan.unknown-method``.
        """
        if reference.instance is not None:
            if reference.instance == EVERY:
                values = [self._read(reference, name) for name in self.instances]
                return [value for value in values if value is not MISSING] or MISSING
            instance = reference.instance or instance
        return self._read(reference, instance)

    def used(self, reference: Reference, instance: str | None = None) -> tuple[int, ...]:
        """The numbers of the messages that the value of ``reference`` depends on, in the order of
        their effect."""
        instances: tuple[str | None, ...] = (reference.instance or instance,)
        if reference.instance == EVERY:
            instances = self.instances
        writings = (number for name in instances for number in self._writes_of(reference, name))
        return tuple(dict.fromkeys(self._index.wrote[number] for number in writings))

    def _read(self, reference: Reference, instance: str | None) -> Value:
        try:
            value = self._value(reference, instance)
        except Conflict as conflict:
            code = conflict.code
            why = str(conflict)
        else:
            if not self._index.loses or (lost := lost_in(value)) is None:
                return value
            code = "plan.lost"
            why = f"it was saved as text, which cannot contain {lost}"
        place = as_written(Reference(reference.kind, reference.path, sign=reference.sign))
        raise StepError(Diagnostic(code, f"cannot read {place}: {why}", reference.span))

    def _value(self, reference: Reference, instance: str | None) -> Value:
        """The value of ``reference`` for a reader of ``instance``, or MISSING. Raises Conflict."""
        place = reference.kind, reference.path, instance
        if place not in self._values:
            writings = self._writes_of(reference, instance).values()
            self._values[place] = find(replay(writings), reference.path)
        return self._values[place]

    def _writes_of(self, reference: Reference, instance: str | None) -> dict[int, Writing]:
        """The writes that the value is replayed from. A list is only known as a whole, and the
        place of a push without a path depends on everything around it."""
        kind = reference.kind
        path = reference.path
        for depth, segment in enumerate(path):
            if is_index(segment) and any(
                _may_list(writing, path[:depth])
                for writing in self._writings(kind, path[:depth], instance, below=False).values()
            ):
                path = path[:depth]
                break
        writings = self._writings(kind, path, instance)
        if any(writing.method in SOUGHT for writing in writings.values()):
            return self._writings(kind, (), instance)
        return writings

    def _writings(
        self, kind: str, path: tuple[str, ...], instance: str | None, below: bool = True
    ) -> dict[int, Writing]:
        """The writes that affect ``path``, from the newest write that covers it, by their numbers:
        oldest first, the writes of the instance last.

        ``below``: whether to include the writes below ``path``.
        """
        newest: dict[int, Writing] = {}
        for owner in dict.fromkeys((instance, None)):
            layer = self._index.layers.get((kind, owner), NO_PATHS)
            for number in reversed(layer.overlapping(path)):
                if number >= self._writes:
                    continue
                writing = self._index.writings[number]
                is_below = len(writing.path) > len(path)
                if below or not is_below:
                    newest[number] = writing
                if writing.method in COVERING and not is_below:
                    return dict(reversed(newest.items()))
        return dict(reversed(newest.items()))


def remove_secrets(
    log: Iterable[Mapping[str, Value]],
    paths: Collection[tuple[str, ...]],
    holds: Callable[[Value], bool],
) -> Log:
    """The log without the values at ``paths`` (a kind, or a kind and a name in it) and without
    messages that hold a secret. They are removed, not masked: a later run must not continue with a
    mask."""
    rest = (_without(message, paths) for message in log)
    return Log(message for message in rest if not holds(message))


def _may_list(writing: Writing, path: tuple[str, ...]) -> bool:
    """Whether a write at ``path`` or above may create a list at ``path``."""
    if writing.method in ("push", "concat", *SOUGHT):
        return True
    return type(find(writing.value, path[len(writing.path) :])) is list


def _without(
    message: Mapping[str, Value], paths: Collection[tuple[str, ...]]
) -> Mapping[str, Value]:
    """A message without the values at ``paths``."""
    inner = message.get("content")
    if type(inner) is dict and "type" in inner:
        return {**message, "content": _without(inner, paths)}
    kind = kind_of(message)

    def is_secret(name: str) -> bool:
        return (kind,) in paths or (kind, name) in paths

    key = "data" if message.get("type") == "data" else str(kind)
    if key not in message:  # the fields are directly in the message
        secret = set(filter(is_secret, inline(message)))
        return {name: value for name, value in message.items() if name not in secret}
    fields = message[key]
    if type(fields) is dict:
        return {**message, key: {name: fields[name] for name in fields if not is_secret(name)}}
    return {**message, key: {}} if (kind,) in paths else message
