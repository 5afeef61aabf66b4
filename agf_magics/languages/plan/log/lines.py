"""Writes a log as text, one message per line, in which a value that is not JSON is only described."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from ....text.diagnostics import DefinitionError, Diagnostic
from ....text.length import DEEPEST, can_write
from ....text.source import Source
from ....values.unread import Unread
from ....values.value import Room, Value, copy_parts, is_json, parts_of

MARK: Final = "$opaque"
"""The key of the object that stands for a value that is not JSON."""
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
        yield json.dumps(_encode(message), ensure_ascii=False)


def parse_lines(source: Source) -> list[dict[str, Value]]:
    """Parse a text that `format_lines` wrote. Raises DefinitionError for a line that is not a
    message."""
    messages = []
    start = 0
    for line in source.text.split("\n"):
        if line.strip():
            try:
                # The bound is above the deepest value, because the message around it nests, too.
                message = _decode(_isolate(json.loads(line)))
            except (ValueError, RecursionError) as error:
                _refuse(source, start, line, f"this line is not JSON: {error}")
            if not isinstance(message, dict):
                _refuse(source, start, line, "a line must be a message: {…}")
            messages.append(message)
        start += len(line) + 1
    return messages


def lost_in(value: Value) -> Lost | None:
    """The first part of ``value`` that was lost when the log was saved as text; None: no part
    was."""
    if isinstance(value, Lost):
        return value
    return next((lost for part in parts_of(value) if (lost := lost_in(part)) is not None), None)


def _isolate(message: Any) -> Any:
    return copy_parts(message, DEEPEST + 20, Room(message))  # a value, and what is around it


def _encode(value: Any) -> Any:
    """A value as JSON, with a `MARK` in the place of a part that is not JSON."""
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {
            "$" + key if _MARKS.fullmatch(key) else key: _encode(part)
            for key, part in value.items()
        }
    if type(value) is list:
        return [_encode(part) for part in value]
    if is_json(value):
        return value
    if isinstance(value, Lost):
        return {MARK: {"type": value.type, "repr": value.repr}}
    if type(value) is Unread:
        return {MARK: {"type": value.kind, "repr": str(value.shown)[:_LONGEST]}}
    try:
        text = repr(value)[:_LONGEST] if can_write(value) else ""
    except Exception:  # a user's class
        text = ""
    return {MARK: {"type": type(value).__name__, "repr": text}}


def _decode(value: Any) -> Any:
    """The value that `_encode` has written."""
    if isinstance(value, list):
        return [_decode(part) for part in value]
    if not isinstance(value, dict):
        return value
    lost = value.get(MARK)
    if len(value) == 1 and isinstance(lost, dict):
        return Lost(str(lost.get("type", "")), str(lost.get("repr", "")))
    return {key[1:] if _MARKS.fullmatch(key) else key: _decode(part) for key, part in value.items()}


def _refuse(source: Source, start: int, line: str, message: str) -> NoReturn:
    raise DefinitionError(Diagnostic("plan.lines", message, source.span(start, start + len(line))))
