"""The context: messages in the order in which they came, never changed, and what a path of a kind is by them.

Appending and reading do not depend on how much else was said. A log is a view of an index that all its successors
share: a frame keeps its view while later ones grow. Each kind (and instance) has a tree of paths, and every path knows
the writes that stand at it; a reading takes the newest write that covers it and what came after, above and below it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...flow.values import Value
from ...text.diagnostics import Diagnostic, StepError
from ...text.source import Span
from .lines import lost_in
from .messages import SEEKING, Writing, said
from .paths import Paths
from .reference import EVERY, MISSING, Reference, is_index
from .replay import Conflict, replay, walk


class Write(NamedTuple):
    """A write, and the message it is of."""

    message: int
    """Where the message stands in the log."""
    kind: str
    instance: str | None
    writing: Writing


class _Index:
    """What all views of one log share. It only ever grows."""

    __slots__ = ("instances", "layers", "loses", "messages", "seeks", "writes")

    def __init__(self, loses: bool) -> None:
        self.loses = loses
        """Whether something in it may have been lost when it was saved."""
        self.seeks = False
        """Whether some message pushes without saying where."""
        self.messages: list[Mapping[str, Value]] = []
        self.writes: list[Write] = []
        self.layers: dict[tuple[str, str | None], Paths] = {}
        self.instances: dict[str, int] = {}
        """Each instance, with the number of the write that first told of it."""

    def append(self, message: Mapping[str, Value]) -> None:
        found = said(message)
        for writing in found.writings if found else ():
            assert found is not None
            number = len(self.writes)
            if found.instance is not None:
                self.instances.setdefault(found.instance, number)
            layer = self.layers.setdefault((found.kind, found.instance), Paths())
            layer.add(writing.path, number, writing.covers)
            self.seeks = self.seeks or writing.method in SEEKING.values()
            self.writes.append(Write(len(self.messages), found.kind, found.instance, writing))
        self.messages.append(message)


class Log(Sequence[Mapping[str, Value]]):
    """Messages, oldest first. `append` gives the next log and leaves this one as it is."""

    __slots__ = ("_index", "_messages", "_writes")

    def __init__(self, messages: Iterable[Mapping[str, Value]] = (), *, loses: bool = False) -> None:
        """``loses``: the messages were saved as text, and what was no JSON in them is lost."""
        self._index = _Index(loses)
        for message in messages:
            self._index.append(message)
        self._messages, self._writes = len(self._index.messages), len(self._index.writes)

    def append(self, *messages: Mapping[str, Value]) -> Log:
        """This log with ``messages`` at its end, which nobody may change any more."""
        index = self._index
        if len(index.messages) != self._messages:  # somebody went on from here already: this one goes its own way
            return Log([*self, *messages], loses=index.loses)
        for message in messages:
            index.append(message)
        later = Log.__new__(Log)
        later._index, later._messages, later._writes = index, len(index.messages), len(index.writes)
        return later

    def until(self, count: int) -> Log:
        """The log as it was when it had ``count`` messages."""
        view = Log.__new__(Log)
        writes = self._index.writes
        view._index, view._messages = self._index, max(0, min(count, self._messages))
        view._writes = bisect_left(writes, view._messages, hi=self._writes, key=lambda write: write.message)
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
        """The kinds that some message for everybody speaks of, in the order of their first appearance."""
        layers = list(self._index.layers.items())
        return tuple(kind for (kind, instance), paths in layers if instance is None and paths.first < self._writes)

    @property
    def instances(self) -> tuple[str, ...]:
        """In the order of their first appearance."""
        return tuple(name for name, first in list(self._index.instances.items()) if first < self._writes)

    def speaks_of(self, kind: str, instance: str) -> bool:
        """Whether some message of ``kind`` is for this instance."""
        layer = self._index.layers.get((kind, instance))
        return layer is not None and layer.first < self._writes

    def read(self, reference: Reference, instance: str | None = None) -> Value:
        """What ``reference`` is for a reader of ``instance``, or MISSING. The value is shared: nobody may change it.

        Raises StepError: ``plan.type-conflict``, ``plan.unknown-method``.
        """
        kind, path = reference.kind, reference.path
        if reference.instance == EVERY:
            found = [self._read(kind, path, each, reference.span) for each in self.instances]
            return [value for value in found if value is not MISSING] or MISSING
        return self._read(kind, path, reference.instance or instance, reference.span)

    def used(self, reference: Reference, instance: str | None = None) -> tuple[Write, ...]:
        """The writes that a reading of ``reference`` goes by, in the order in which they are applied."""
        path = self._whole(reference.kind, reference.path, reference.instance or instance)
        return self._collected(reference.kind, path, reference.instance or instance)

    def _read(self, kind: str, path: tuple[str, ...], instance: str | None, span: Span | None) -> Value:
        try:
            value = self._value(kind, path, instance)
        except Conflict as conflict:
            code, why = conflict.code, str(conflict)
        else:
            lost = lost_in(value) if self._index.loses else None
            if lost is None:
                return value
            code, why = "plan.lost", f"when it was saved, {lost} was no JSON"
        raise StepError(Diagnostic(code, f"{Reference(kind, path)} cannot be read: {why}", span))

    def _value(self, kind: str, path: tuple[str, ...], instance: str | None) -> Value:
        """Raises Conflict."""
        writes = self._collected(kind, path, instance)
        if len(writes) == 1:  # nearly always: the call that wrote it did so once
            only = writes[0].writing
            if only.covers and len(only.path) <= len(path) and not any(map(is_index, path)):
                return walk(only.value, path[len(only.path) :])
        whole = self._whole(kind, path, instance)
        writes = writes if whole == path else self._collected(kind, whole, instance)
        return walk(replay(write.writing for write in writes), path)

    def _whole(self, kind: str, path: tuple[str, ...], instance: str | None) -> tuple[str, ...]:
        """The part of ``path`` that must be put together to know all of it: a list is known as a whole only, and where
        a push without a path goes depends on everything around it."""
        if self._index.seeks:
            above = self._collected(kind, path, instance, below=False)
            if any(write.writing.method in SEEKING.values() for write in above):
                return ()
        for depth, segment in enumerate(path):
            if is_index(segment) and self._may_be_list(kind, path[:depth], instance):
                return path[:depth]
        return path

    def _may_be_list(self, kind: str, path: tuple[str, ...], instance: str | None) -> bool:
        above = self._collected(kind, path, instance, below=False)
        return any(_lists(write.writing, path) for write in above)

    def _collected(
        self, kind: str, path: tuple[str, ...], instance: str | None, below: bool = True
    ) -> tuple[Write, ...]:
        """The writes that count for ``path``, oldest first, an instance's own on top of everybody's."""
        own: list[int] = []
        layers, stopped = self._index.layers, False
        if instance is not None and (layer := layers.get((kind, instance))):
            own, stopped = layer.newest(path, self._writes, below)
        shared: list[int] = []
        if not stopped and (layer := layers.get((kind, None))):
            shared, _ = layer.newest(path, self._writes, below)
        return tuple(self._index.writes[number] for number in (*shared, *own))


def _lists(writing: Writing, path: tuple[str, ...]) -> bool:
    """Whether a write above ``path`` or at it may make a list there."""
    if writing.method in ("push", "concat", *SEEKING.values()):
        return True
    return type(walk(writing.value, path[len(writing.path) :])) is list
