"""Named contexts, for people: what plans have said, what it comes to, saved and loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .define import source_of
from .flow.values import TooDeep, Value, settle, type_name
from .languages.plan import Log, resolve
from .languages.plan.lines import lines, messages
from .languages.plan.reference import parse, references
from .registry import Registry, default
from .text.diagnostics import DefinitionError, Diagnostic
from .text.source import Source


def context(name: str, *, registry: Registry | None = None) -> NamedContext:
    """The context of that name: a view of it, also while plans add to it."""
    return NamedContext(name, registry or default())


class NamedContext(Sequence[Mapping[str, Value]]):
    """The messages of a context, oldest first. Nothing is ever taken out of one."""

    def __init__(self, name: str, registry: Registry) -> None:
        self.name = name
        self._registry = registry

    @property
    def log(self) -> Log:
        held = self._registry.contexts.get(self.name)
        return held.log if held is not None and held.log is not None else Log()

    def __len__(self) -> int:
        return len(self.log)

    def __getitem__(self, at: Any) -> Any:
        return self.log[at]

    def __iter__(self) -> Iterator[Mapping[str, Value]]:
        return iter(self.log)

    @property
    def instances(self) -> tuple[str, ...]:
        """In the order of their first appearance."""
        return self.log.instances

    def resolve(self, reference: str, instance: str | None = None, at: int | None = None) -> Value:
        """What a reference is: for an instance, and as it was when there were ``at`` messages."""
        return resolve(self._at(at), reference, instance)

    def sources(self, reference: str, instance: str | None = None, at: int | None = None) -> tuple[int, ...]:
        """The messages that its value is put together from, oldest first, by their numbers."""
        log, expression = self._at(at), parse(Source("<reference>", reference).span())
        return tuple(sorted({number for ref in references(expression) for number in log.used(ref, instance)}))

    def append(self, message: Mapping[str, Value]) -> None:
        """Say something more. Raises DefinitionError for what is no message, and while a run adds to it."""
        if not isinstance(message, Mapping) or not all(isinstance(key, str) for key in message):
            raise TypeError(f"a message is a mapping of names to values, not {type_name(message)}")
        held = self._registry.contexts.named(self.name)
        held.hold("agf.context")
        try:
            held.log = self.log.append(settle(dict(message)))
        except TooDeep as error:
            raise DefinitionError(Diagnostic("run.input", f"the message cannot be kept: {error}")) from None
        finally:
            held.release("agf.context")

    def clear(self) -> None:
        """Begin a new context of this name. Raises DefinitionError while a run adds to the old one."""
        self._registry.contexts.renew(self.name)

    def save(self, path: str | Path) -> None:
        """Write it to a file, one message a line. What is no JSON is kept as its type and its repr only."""
        Path(path).write_text("".join(f"{line}\n" for line in lines(self.log)), encoding="utf-8")

    def load(self, path: str | Path) -> None:
        """Begin a new context of this name with the messages of a file. Raises DefinitionError for what is none."""
        found = messages(source_of(Path(path)))
        self._registry.contexts.renew(self.name, Log(found, loses=True))

    def _at(self, count: int | None) -> Log:
        return self.log if count is None else self.log.until(count)

    def __repr__(self) -> str:
        return f"<context {self.name!r} of {len(self)} messages>"
