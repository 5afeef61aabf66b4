"""Fills texts with slots: ``{name}`` is a variable, ``{state.name}`` a key; other braces are text.

Prompts (prompts.py), commands and questions are such texts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from ....text.diagnostics import Diagnostic, StepError
from ....text.names import same_name
from ....text.source import Span, Text
from ....text.suggestions import suggest
from ....values.value import Value
from ...descend import MISSING
from ..expressions.lookup import find
from ..expressions.reading import Reader
from ..expressions.tokens import LETTER, LETTERS
from ..expressions.value_errors import CANNOT, describe, value_failed
from ..expressions.written_text import format_value

SLOT = re.compile(rf"(?<!\{{)\{{\s*({LETTER}{LETTERS}*(?:\.{LETTERS}+)*)\s*\}}")
"""Not after a second brace, as in ``{{name}}``. A brace behind it is text: ``{"topic": {topic}}``."""


class Slot(NamedTuple):
    """Braces with a path in them."""

    text: str
    names: tuple[str, ...]
    in_state: bool
    span: Span
    certain: bool = True
    """Whether the text needs a value for it."""


class Prompt(NamedTuple):
    """A text with slots."""

    parts: tuple[str | Slot, ...]
    span: Span
    joins: bool = False
    """Whether a list is written as its elements with commas between them, as in a prompt file."""

    @property
    def slots(self) -> tuple[Slot, ...]:
        return tuple(part for part in self.parts if isinstance(part, Slot))

    def fill(
        self, state: Mapping[str, Value], variables: Mapping[str, Value], complete: bool = False
    ) -> str:
        """The text. A slot without a value stays as it is, or, if the text must be ``complete``, is
        a StepError."""
        try:
            return "".join(
                [
                    part
                    if isinstance(part, str)
                    else self.fill_slot(part, state, variables, complete)
                    for part in self.parts
                ]
            )
        except CANNOT as error:
            raise value_failed("the text", self.span, error) from error

    def fill_slot(
        self, slot: Slot, state: Mapping[str, Value], variables: Mapping[str, Value], complete: bool
    ) -> str:
        value = find(state if slot.in_state else variables, slot.names)
        if type(value) is list and self.joins:
            # Only for its errors and warnings: the list as a whole may be too long for a text.
            format_value(value, repr(slot.text))
            return ", ".join(map(format_value, value))
        if value is not MISSING and value is not None:
            return format_value(value, repr(slot.text))
        if not complete:
            return slot.text
        raise no_value(
            slot.names,
            slot.span,
            state if slot.in_state or variables is state else variables,
            state,
        )


def no_value(
    names: tuple[str, ...], span: Span, values: Mapping[str, Value], state: Mapping[str, Value]
) -> StepError:
    """The error for a placeholder without a value in a text for a tool, a command or a person
    (decision Y13). ``values``: the values that the placeholder may name: the state or the
    variables."""
    first, *_ = names
    kind = "keys of the state" if values is state else "variables"
    hint = suggest(first, values, kind) or f"there are no {kind}"
    if first in values:
        hint = f"{first!r} is {describe(values[first])}"
    return StepError(Diagnostic("graph.no-value", f"{'.'.join(names)!r} has no value", span, hint))


def read_text(reader: Reader, text: Text) -> Prompt:
    """A text with slots; a warning for everything in it that only looks like one."""
    parts = split_slots(text.text, text)
    begin = 0
    plain = reader.check_jinja(text, text.text)
    for part in parts:
        size = len(part if isinstance(part, str) else part.text)
        if isinstance(part, str):
            reader.check_text(text, plain[begin : begin + size], begin, prompt=True)
        begin += size
    return Prompt(parts, text.locate(0, len(text.text)))


def split_slots(source: str, text: Text) -> tuple[str | Slot, ...]:
    """The parts of a text."""
    parts = list[str | Slot]()
    end = 0
    for match in SLOT.finditer(source):
        names = tuple(map(same_name, match[1].split(".")))
        in_state = names[0] == "state" and len(names) > 1
        if between := source[end : match.start()]:
            parts.append(between)
        span = text.locate(match.start(1), match.end(1))
        parts.append(Slot(match[0], names[1:] if in_state else names, in_state, span))
        end = match.end()
    if rest := source[end:]:
        parts.append(rest)
    return tuple(parts)
