"""The state of a plan's context after each message: the references, their values, and the calls
that wrote them.

A log never changes, so the state at a moment is the state of the log up to a message. A page shows only
the last messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ...languages.plan import Log, Reference, read_content
from ...languages.plan.log.messages import PATCH
from ...pictures.amounts import counted
from ...pictures.plain import html, line
from ...pictures.text_tables import table_html, table_text
from ...text.diagnostics import AgfError
from ...values.extent import dump_bounded
from ...values.value import Value, type_name

MOST_ROWS = 60
"""The most references and messages that are shown: the last ones."""

MOST_WRITES = 60
"""The most writes of one message that are shown: the first ones."""

NO_MESSAGE = "before the first message"

_STATE = ("reference", "value", "given by")
_LOG = ("#", "by", "writes", "how", "value", "value after it", "when")


class Cells(NamedTuple):
    """A table of texts and its title."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def html(self) -> str:
        if not self.rows:
            return f"<p>{html(self.title)}</p>"
        return table_html(self.columns, self.rows, html(self.title))

    @property
    def text(self) -> str:
        return "\n".join([self.title, *(table_text(self.columns, self.rows) if self.rows else ())])


def messages(log: Log) -> Cells:
    """The log, one row per write."""
    rows = [
        row for number, message in _last(log) for row in _writes(log.until(number + 1), message)
    ]
    title = counted(len(log), "message")
    if len(log) > MOST_ROWS:
        title += f", the last {MOST_ROWS:,}"
    return Cells(title, _LOG, tuple(rows))


def state(log: Log) -> Cells:
    """Every reference that a message of ``log`` writes, its value at the end, and the messages that
    wrote it."""
    written = references(log)
    rows = tuple(_row(log, reference) for reference in written[-MOST_ROWS:])
    title = NO_MESSAGE
    if len(log):
        title = f"after {counted(len(log), 'message')}, the last by {writer(log[-1])}"
    if len(written) > MOST_ROWS:
        title += f", the last {MOST_ROWS:,} of {len(written):,}"
    return Cells(title, _STATE, rows)


def _last(log: Log) -> Iterator[tuple[int, Mapping[str, Value]]]:
    """The last messages, each with its number."""
    start = max(0, len(log) - MOST_ROWS)
    return enumerate(log[start:], start)


def _writes(log: Log, message: Mapping[str, Value]) -> Iterator[tuple[str, ...]]:
    """The writes of the last message of ``log``, each with the value that results if it is not the
    written value."""
    content = read_content(message)
    number = str(len(log) - 1)
    by = writer(message)
    when = line(str(message.get("_date", "")), 30)
    if content is None:
        yield number, by, "", "", "", "", when
        return
    for writing in content.writings[:MOST_WRITES]:
        reference = Reference(content.kind, writing.path, content.instance)
        name, result, _ = _row(log, reference)
        written = _value(writing.value)
        # A patch shows its value and the value after it, which tell all.
        method = "" if writing.method in ("set", PATCH) else writing.method
        yield number, by, name, method, written, result if result != written else "", when


def references(log: Log) -> list[Reference]:
    """The references that the messages of ``log`` write, in the order of their first write."""
    references: dict[Reference, None] = {}
    for content in filter(None, map(read_content, log)):
        for writing in content.writings:
            references.setdefault(Reference(content.kind, writing.path, content.instance))
    return list(references)


def _row(log: Log, reference: Reference) -> tuple[str, str, str]:
    """A reference, its value, and the messages that wrote it."""
    try:
        value = log.read(reference)
        numbers = log.used(reference)
    except AgfError as error:
        return line(str(reference), 100), line(error.diagnostic.message, 120), ""
    by = ", ".join(f"{number} {writer(log[number])}" for number in numbers[-4:])
    return line(str(reference), 100), _value(value), ("… " if len(numbers) > 4 else "") + by


def writer(message: Mapping[str, Value]) -> str:
    """The call that wrote a message, or the kind of the message."""
    call = message.get("_call")
    if isinstance(call, Mapping):
        return line(str(call.get("_tool") or call.get("_delegate") or "a call"), 60)
    kind = message.get("kind") or message.get("type")
    return f"({line(str(kind), 40)})"


def _value(value: Any) -> str:
    def named(part: Any) -> str:
        return f"<{type_name(part)}>"

    try:
        text = dump_bounded(value, 1_000_000, ensure_ascii=False, default=named)
    except (ValueError, RecursionError):
        text = f"<{type_name(value)}>"
    return line(text, 100)
