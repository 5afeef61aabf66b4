"""What a plan's context was after each of its messages: which references there are, what each was, who gave it.

A log is never changed, so nothing needs to be kept for this: a moment is the log up to a message. What is shown of one
is bounded however long the log is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..flow.values import Value, type_name
from ..languages.plan import Log, Reference, said
from ..languages.plan.messages import PATCH
from ..pictures.plain import counted, html, line
from ..pictures.values import table_html, table_text
from ..text.diagnostics import AgfError

MOST_ROWS = 60
"""References of a moment, and messages of a log, that are shown: the last ones."""

STATE = ("reference", "value", "given by")
LOG = ("#", "by", "writes", "how", "value", "which then is", "when")


class Cells(NamedTuple):
    """A table of texts and its title."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def html(self) -> str:
        return table_html(self.columns, self.rows, html(self.title)) if self.rows else f"<p>{html(self.title)}</p>"

    @property
    def text(self) -> str:
        return "\n".join([self.title, *(table_text(self.columns, self.rows) if self.rows else ())])


def messages(log: Log) -> Cells:
    """The log, a write a row."""
    rows = [row for number, message in _last(log) for row in _writes(log.until(number + 1), message)]
    title = counted(len(log), "message")
    return Cells(title + (f", the last {MOST_ROWS:,}" if len(log) > MOST_ROWS else ""), LOG, tuple(rows))


def state(log: Log) -> Cells:
    """Every reference that a message of ``log`` writes, what it is at its end, and which message gave it."""
    found = list(_references(log))
    rows = tuple(_row(log, reference) for reference in found[-MOST_ROWS:])
    more = f", the last {MOST_ROWS:,} of {len(found):,}" if len(found) > MOST_ROWS else ""
    after = f"after message {len(log) - 1}: {_by(log[-1])}" if len(log) else "before the first message"
    return Cells(after + more, STATE, rows)


def _last(log: Log) -> Iterator[tuple[int, Mapping[str, Value]]]:
    start = max(0, len(log) - MOST_ROWS)
    return enumerate(log[start:], start)


def _writes(log: Log, message: Mapping[str, Value]) -> Iterator[tuple[str, ...]]:
    """What the last message of ``log`` writes, and what that is from then on, where it is more than was written."""
    told, number = said(message), str(len(log) - 1)
    by, when = _by(message), line(str(message.get("_date", "")), 30)
    if told is None:
        yield number, by, "", "", "", "", when
        return
    for writing in told.writings[:MOST_ROWS]:
        reference = Reference(told.kind, writing.path, told.instance)
        written, then = _value(writing.value), _row(log, reference)[1]
        name, method = line(str(reference), 100), "" if writing.method in ("set", PATCH) else writing.method
        yield number, by, name, method, written, then if then != written else "", when


def _references(log: Log) -> list[Reference]:
    """Those of the last messages that say something, in the order in which they were first written."""
    found: dict[Reference, None] = {}
    for _, message in _last(log):
        told = said(message)
        for writing in told.writings[:MOST_ROWS] if told else ():
            found.setdefault(Reference(told.kind, writing.path, told.instance))  # type: ignore[union-attr]
    return list(found)


def _row(log: Log, reference: Reference) -> tuple[str, str, str]:
    try:
        value = log.read(reference)
        numbers = log.used(reference)
    except AgfError as error:
        return line(str(reference), 100), line(error.diagnostic.message, 120), ""
    by = ", ".join(f"{number} {_by(log[number])}" for number in numbers[-4:])
    return line(str(reference), 100), _value(value), ("… " if len(numbers) > 4 else "") + by


def _by(message: Mapping[str, Value]) -> str:
    """Which call gave a message; what it is otherwise."""
    call = message.get("_call")
    if isinstance(call, Mapping):
        return line(str(call.get("_tool") or call.get("_delegate") or "a call"), 60)
    kind = message.get("kind") or message.get("type")
    return f"({line(str(kind), 40)})"


def _value(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, default=lambda one: f"<{type_name(one)}>")
    except (ValueError, RecursionError):
        text = f"<{type_name(value)}>"
    return line(text, 100)
