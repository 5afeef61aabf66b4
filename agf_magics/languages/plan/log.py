"""The context: messages in the order in which they came, never changed, and what a path of a kind is by them.

Appending and reading do not depend on how much else was said. A log is a view of an index that all its successors
share: a frame keeps its view while later ones grow. Each kind (and instance) has a tree of paths, and every path knows
the writes that stand at it; a reading takes the newest write that covers it and what came after, above and below it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...flow.values import Value
from ...text.diagnostics import Diagnostic, StepError
from .lines import lost_in
from .messages import SOUGHT, Says, Told, Writing, said
from .paths import Paths
from .reference import EVERY, MISSING, Reference, is_index
from .replay import Conflict, replay, walk


class _Index:
    """What all views of one log share. It only ever grows."""

    __slots__ = ("instances", "layers", "loses", "messages", "seeks", "writings", "wrote")

    def __init__(self, loses: bool) -> None:
        self.loses = loses
        """Whether something in it may have been lost when it was saved."""
        self.seeks = False
        """Whether some message pushes without saying where."""
        self.messages: list[Mapping[str, Value]] = []
        self.writings: list[Writing] = []
        self.wrote: list[int] = []
        """Of each of them the message it is of: where that stands in the log."""
        self.layers: dict[tuple[str, str | None], Paths] = {}
        self.instances: dict[str, int] = {}
        """Each instance, with the number of the write that first told of it."""

    def append(self, message: Mapping[str, Value], found: Says | None) -> None:
        """``found``: what it says."""
        if found is not None:
            kind, instance, writings = found
            first = len(self.writings)
            layer = self.layers.get((kind, instance))
            if layer is None:
                layer = self.layers[kind, instance] = Paths(first)
            if instance is not None:
                self.instances.setdefault(instance, first)
            for number, writing in enumerate(writings, first):
                layer.add(writing.path, number, writing.covers)
                self.seeks = self.seeks or writing.method in SOUGHT
                self.writings.append(writing)
                self.wrote.append(len(self.messages))
        self.messages.append(message)


class Log(Sequence[Mapping[str, Value]]):
    """Messages, oldest first. `append` gives the next log and leaves this one as it is."""

    __slots__ = ("_index", "_messages", "_writes")

    def __init__(self, messages: Iterable[Mapping[str, Value]] = (), *, loses: bool = False) -> None:
        """``loses``: the messages were saved as text, and what was no JSON in them is lost."""
        self._index = _Index(loses)
        for message in messages:
            self._index.append(message, said(message))
        self._messages, self._writes = len(self._index.messages), len(self._index.writings)

    def append(self, *messages: Mapping[str, Value]) -> Log:
        """This log with ``messages`` at its end, which nobody may change any more."""
        return self.told([(message, said(message)) for message in messages])

    def told(self, messages: Sequence[Told]) -> Log:
        """The same where it is known what each of them says."""
        index = self._index
        if len(index.messages) != self._messages:  # somebody went on from here already: this one goes its own way
            return Log([*self, *(message for message, _ in messages)], loses=index.loses)
        for message, says in messages:
            index.append(message, says)
        later = Log.__new__(Log)
        later._index, later._messages, later._writes = index, len(index.messages), len(index.writings)
        return later

    def until(self, count: int) -> Log:
        """The log as it was when it had ``count`` messages."""
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
        if reference.instance == EVERY:
            found = [self._read(reference, each) for each in self.instances]
            return [value for value in found if value is not MISSING] or MISSING
        return self._read(reference, reference.instance or instance)

    def used(self, reference: Reference, instance: str | None = None) -> tuple[int, ...]:
        """The messages that a reading of ``reference`` goes by, by their numbers, in the order in which they count."""
        path = self._whole(reference.kind, reference.path, reference.instance or instance)
        numbers, _ = self._collected(reference.kind, path, reference.instance or instance)
        return tuple(dict.fromkeys(map(self._index.wrote.__getitem__, numbers)))

    def _read(self, reference: Reference, instance: str | None) -> Value:
        try:
            value = self._value(reference, instance)
        except Conflict as conflict:
            code, why = conflict.code, str(conflict)
        else:
            lost = lost_in(value) if self._index.loses else None
            if lost is None:
                return value
            code, why = "plan.lost", f"when it was saved, {lost} was no JSON"
        whose = Reference(reference.kind, reference.path)
        raise StepError(Diagnostic(code, f"{whose} cannot be read: {why}", reference.span))

    def _value(self, reference: Reference, instance: str | None) -> Value:
        """Raises Conflict."""
        kind, path, writings = reference.kind, reference.path, self._index.writings
        numbers, covered = self._collected(kind, path, instance)
        if covered and len(numbers) == 1 and not reference.counts:  # nearly always: the call that wrote it did so once
            only = writings[numbers[0]]
            rest = path[len(only.path) :]
            return walk(only.value, rest) if rest else only.value
        whole = self._whole(kind, path, instance)
        if whole != path:
            numbers, _ = self._collected(kind, whole, instance)
        return walk(replay(map(writings.__getitem__, numbers)), path)

    def _whole(self, kind: str, path: tuple[str, ...], instance: str | None) -> tuple[str, ...]:
        """The part of ``path`` that must be put together to know all of it: a list is known as a whole only, and where
        a push without a path goes depends on everything around it."""
        if self._index.seeks and any(writing.method in SOUGHT for writing in self._above(kind, path, instance)):
            return ()
        for depth, segment in enumerate(path):
            if is_index(segment) and any(
                _lists(writing, path[:depth]) for writing in self._above(kind, path[:depth], instance)
            ):
                return path[:depth]
        return path

    def _above(self, kind: str, path: tuple[str, ...], instance: str | None) -> Iterator[Writing]:
        """The writes at ``path`` and above it that count for it."""
        numbers, _ = self._collected(kind, path, instance, below=False)
        return map(self._index.writings.__getitem__, numbers)

    def _collected(
        self, kind: str, path: tuple[str, ...], instance: str | None, below: bool = True
    ) -> tuple[list[int], bool]:
        """The writes that count for ``path``, oldest first, an instance's own on top of everybody's; and whether one of
        them covers it."""
        layers = self._index.layers
        own: list[int] = []
        if instance is not None and (layer := layers.get((kind, instance))) is not None:
            own, covered = layer.newest(path, self._writes, below)
            if covered:
                return own, True
        layer = layers.get((kind, None))
        if layer is None:
            return own, False
        shared, covered = layer.newest(path, self._writes, below)
        return (shared + own if own else shared), covered


def _lists(writing: Writing, path: tuple[str, ...]) -> bool:
    """Whether a write above ``path`` or at it may make a list there."""
    if writing.method in ("push", "concat", *SOUGHT):
        return True
    return type(walk(writing.value, path[len(writing.path) :])) is list
