"""Reads, saves and loads named contexts, which hold the messages of plans and their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...catalog import Registry, default
from ...languages.plan import Log, resolve
from ...languages.plan.log.lines import format_lines, parse_lines
from ...languages.plan.log.reference import parse, references
from ...text.diagnostics import DefinitionError, Diagnostic, StepError
from ...text.replaced_file import replaced_file
from ...text.source import Source
from ...values.extent import TooDeep
from ...values.unread import read_all
from ...values.value import Value, settle, type_name
from ..definitions.definition_source import source_of


def context(name: str, *, registry: Registry | None = None) -> NamedContext:
    """Return the context of a name. It is a live view: it shows the messages that plans add later.

    Parameters:

    - ``name``: the name of the context. Required.
    - ``registry``: the `Registry` that contains it. Default None: the registry of this process.
    """
    return NamedContext(name, default(registry))


class NamedContext(Sequence[Mapping[str, Value]]):
    """The messages of a context, oldest first. Messages are never removed."""

    def __init__(self, name: str, registry: Registry) -> None:
        self.name = name
        self._registry = registry

    @property
    def log(self) -> Log:
        context = self._registry.contexts.get(self.name)
        log = context.log if context is not None else None
        return log if isinstance(log, Log) else Log(log or ())

    def __len__(self) -> int:
        return len(self.log)

    def __getitem__(self, at: Any) -> Any:
        return read_all(self.log[at])

    @property
    def instances(self) -> tuple[str, ...]:
        """The names of the instances, in the order of their first message."""
        return self.log.instances

    def resolve(self, reference: str, instance: str | None = None, at: int | None = None) -> Value:
        """Return the value of a reference.

        Parameters:

        - ``reference``: the text of the reference, for example ``"†state.rows"``. Required.
        - ``instance``: the instance to read for. Default None: no instance.
        - ``at``: a number of messages: read the context as it was after that many. Default None:
          all messages.
        """
        try:
            return resolve(self._at(at), reference, instance)
        except StepError as error:
            diagnostic = error.diagnostic
            if at is None or diagnostic.code != "plan.not-found":
                raise
        hint = f"at={at} reads the context after the first {at} of its {len(self)} messages"
        raise StepError(replace(diagnostic, hint=hint))

    def sources(
        self, reference: str, instance: str | None = None, at: int | None = None
    ) -> tuple[int, ...]:
        """Return the numbers of the messages that the value of a reference is composed of, oldest
        first.

        Parameters:

        - ``reference``: the text of the reference. Required.
        - ``instance``: the instance to read for. Default None: no instance.
        - ``at``: a number of messages: read the context as it was after that many. Default None:
          all messages.
        """
        log = self._at(at)
        expression = parse(Source("<reference>", reference).span())
        used = {number for ref in references(expression) for number in log.used(ref, instance)}
        return tuple(sorted(used))

    def append(self, message: Mapping[str, Value]) -> None:
        """Add a message.

        ``message``: the message, a mapping of names to values. Required.

        Raises TypeError if it is no mapping of names, and DefinitionError if it is malformed or a run
        writes to the context.
        """
        if not isinstance(message, Mapping) or not all(isinstance(key, str) for key in message):
            raise TypeError(
                f"a message must be a mapping of names to values, not {type_name(message)}"
            )
        context = self._registry.contexts.named(self.name)
        context.hold("agf.context")
        try:
            context.log = self.log.append(settle(dict(message)))
        except TooDeep as error:
            raise DefinitionError(
                Diagnostic("run.input", f"cannot store the message: {error}")
            ) from None
        finally:
            context.release("agf.context")

    def clear(self) -> None:
        """Start a new, empty context of this name. Raises DefinitionError while a run is writing to
        the old one."""
        self._registry.contexts.renew(self.name)

    def save(self, path: str | Path) -> None:
        """Write the messages to a file, one per line. Of a value that is not JSON only the type and
        the ``repr`` are written.

        ``path``: the file to write; an existing file is replaced. Required.
        """
        with replaced_file(Path(path)) as file:
            file.writelines(f"{line}\n" for line in format_lines(self.log))

    def load(self, path: str | Path) -> None:
        """Start a new context of this name with the messages of a file.

        ``path``: the file to read, as `save` writes it. Required.

        Raises DefinitionError if a line is not a message.
        """
        messages = parse_lines(source_of(Path(path)))
        self._registry.contexts.renew(self.name, Log(messages, loses=True))

    def _at(self, count: int | None) -> Log:
        return self.log if count is None else self.log.until(count)

    def __repr__(self) -> str:
        return f"<context {self.name!r} of {len(self)} messages>"
