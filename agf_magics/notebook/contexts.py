"""The state of a plan's context after each message: the references, their values, and the calls
that wrote them.

A log never changes, so the state at a moment is that of the log up to a message. A page shows the
last messages only.

The context of a plan: a table of its values and messages, over which the page draws a slider.

As of a run, the document only has the table. The slider is the one of `State over time` in the
explorer of a run: its moments are the numbers of messages.

``%context``: the named contexts of plans are shown, read, loaded, saved and cleared.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from ..catalog import Context
from ..flow.values import Value, type_name
from ..languages.documents import MISSING as UNSET
from ..languages.plan import Log, Reading, Reference, as_log, read_content
from ..languages.plan.log import format_lines, parse_lines
from ..languages.plan.messages import PATCH
from ..lifecycle.define import source_of
from ..lifecycle.moments import MOST_DIFFERENCES
from ..pictures.difference import MISSING, find_differences
from ..pictures.plain import counted, details, html, line
from ..pictures.values import table_html, table_text, value_json
from ..text.diagnostics import AgfError, DefinitionError
from .explorer_calls import Json, Refused, natural
from .explorer_requests import describe_difference
from .given import count, near_file, write_file
from .notebook import Notebook
from .options import ParsedLine, Token, check_known, line_error
from .output import Bundle, show
from .view import show_over

MOST_ROWS = 60
"""The last references and messages that are shown."""

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
        return (
            table_html(self.columns, self.rows, html(self.title))
            if self.rows
            else f"<p>{html(self.title)}</p>"
        )

    @property
    def text(self) -> str:
        return "\n".join([self.title, *(table_text(self.columns, self.rows) if self.rows else ())])


def messages(log: Log) -> Cells:
    """The log, one row per write."""
    rows = [
        row for number, message in _last(log) for row in _writes(log.until(number + 1), message)
    ]
    title = counted(len(log), "message")
    return Cells(
        title + (f", the last {MOST_ROWS:,}" if len(log) > MOST_ROWS else ""), _LOG, tuple(rows)
    )


def state(log: Log) -> Cells:
    """Every reference that a message of ``log`` writes, its value at the end, and the messages that
    wrote it."""
    found = list(references(log))
    rows = tuple(_row(log, reference) for reference in found[-MOST_ROWS:])
    more = f", the last {MOST_ROWS:,} of {len(found):,}" if len(found) > MOST_ROWS else ""
    after = (
        f"after {counted(len(log), 'message')}, the last by {writer(log[-1])}"
        if len(log)
        else NO_MESSAGE
    )
    return Cells(after + more, _STATE, rows)


def _last(log: Log) -> Iterator[tuple[int, Mapping[str, Value]]]:
    start = max(0, len(log) - MOST_ROWS)
    return enumerate(log[start:], start)


def _writes(log: Log, message: Mapping[str, Value]) -> Iterator[tuple[str, ...]]:
    """The writes of the last message of ``log``, each with the resulting value if that is another
    one."""
    content, number = read_content(message), str(len(log) - 1)
    by, when = writer(message), line(str(message.get("_date", "")), 30)
    if content is None:
        yield number, by, "", "", "", "", when
        return
    for writing in content.writings[:MOST_ROWS]:
        reference = Reference(content.kind, writing.path, content.instance)
        written, then = _value(writing.value), _row(log, reference)[1]
        name, method = (
            line(str(reference), 100),
            "" if writing.method in ("set", PATCH) else writing.method,
        )
        yield number, by, name, method, written, then if then != written else "", when


def references(log: Log) -> list[Reference]:
    """The references that the last messages write, in the order of their first write."""
    found: dict[Reference, None] = {}
    for content in filter(None, (read_content(message) for _, message in _last(log))):
        for writing in content.writings[:MOST_ROWS]:
            found.setdefault(Reference(content.kind, writing.path, content.instance))
    return list(found)


def _row(log: Log, reference: Reference) -> tuple[str, str, str]:
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
    try:
        text = json.dumps(value, ensure_ascii=False, default=lambda one: f"<{type_name(one)}>")
    except (ValueError, RecursionError):
        text = f"<{type_name(value)}>"
    return line(text, 100)


def show_context(name: str, log: Log, shell: Any) -> None:
    """Show the context ``name``, with a slider in a front end with scripts. ``shell``: None for
    the values alone."""
    page = static(name, log)
    if not len(log):
        return show(page)
    requests = {
        "moments": lambda _: {"total": len(log) + 1, "note": ""},
        "moment": lambda given: _moment(log, natural(given.get("at")), natural(given.get("since"))),
    }
    return show_over(page, shell, {"context": line(name, 80)}, requests)


def static(name: str, log: Log) -> Bundle:
    """The values of the context, and its messages folded."""
    title = f"context {line(name, 80)}"
    now, all_ = state(log), messages(log)
    folded = details(html(all_.title), all_.html) if len(log) else ""
    page = f"<p><strong>{html(title)}</strong></p>{now.html}{folded}"
    return {"text/html": page, "text/plain": "\n\n".join([title, now.text, all_.text])}


def _moment(log: Log, at: int, since: int) -> Json:
    """The values after ``at`` messages, and how they differ from those after ``since``
    messages."""
    if max(at, since) > len(log):
        raise Refused(f"the context has no moment {max(at, since) + 1}")
    now, then = (_values(log.until(count)) for count in (at, since))
    parts = list(islice(_differences(then, now), MOST_DIFFERENCES + 1))
    changed = {name for name, *_ in parts}
    return {
        "label": writer(log[at - 1]) if at else NO_MESSAGE,
        "took": "",
        "values": [
            [name, value_json(now[name]), name in changed]
            for name in sorted(now, key=lambda name: name not in changed)
        ],
        "more": 0,
        "differs": [
            describe_difference(name + path, *both)
            for name, path, *both in parts[:MOST_DIFFERENCES]
        ],
        "isMore": len(parts) > MOST_DIFFERENCES,
    }


def _differences(
    then: dict[str, Value], now: dict[str, Value]
) -> Iterator[tuple[str, str, Any, Any]]:
    """The name, the path in the value, and both values of each part that differs."""
    for name in {**then, **now}:
        for part in find_differences(then.get(name, MISSING), now.get(name, MISSING)):
            yield name, *part


def _values(log: Log) -> dict[str, Value]:
    """The values of the last references, by their texts; an error in place of a value that cannot
    be read."""
    found: dict[str, Value] = {}
    for reference in references(log):
        try:
            value = log.read(reference)
        except AgfError as error:
            value = line(error.diagnostic.message, 120)
        if value is not UNSET:
            found[line(str(reference), 100)] = value
    return found


def run_context(notebook: Notebook, parsed: ParsedLine) -> Any:
    name, reference = _operands(parsed)
    source, target = parsed.word("--load"), parsed.word("--save")
    if source is not None:
        _load(notebook, name, source)
    held = _context(notebook, name, parsed)
    if "--clear" in parsed:
        notebook.registry.contexts.renew(held.name)
        print(f"context {held.name}: empty")
        return None
    log, at = as_log(held.log if held.log is not None else ()), count(parsed, "--at", None)
    log = log.until(at) if at is not None else log
    if target is not None:
        write_file(target, "".join(f"{line}\n" for line in format_lines(log)))
    elif reference is not None:
        return Reading(reference).evaluate({"messages": log})
    else:
        show_context(held.name, log, notebook.ipython if at is None else None)
    return None


def _context(notebook: Notebook, name: Token | None, parsed: ParsedLine) -> Context:
    contexts = notebook.registry.contexts
    if name is None:
        last = notebook.last
        found = (last.context if last is not None else None) or next(iter(contexts.values()), None)
        if found is None:
            hint = "run a plan, or write %context NAME --load FILE"
            raise line_error(
                "unknown-context", "there is no context yet", parsed.source.span(), hint
            )
        return found
    message = f"there is no context {name.text!r}"
    otherwise = "a plan creates the context of its name when it runs"
    check_known("unknown-context", message, name, contexts, "contexts", otherwise)
    return contexts[name.text]


def _load(notebook: Notebook, name: Token | None, word: Token) -> None:
    if name is None:
        hint = f"write %context NAME --load {word.text}"
        raise line_error("missing", "--load needs the NAME of a context", word, hint)
    try:
        source = source_of(Path(word.text))
    except DefinitionError as error:
        raise line_error("file", error.diagnostic.message, word, near_file(word.text)) from None
    log = Log(parse_lines(source), loses=True)
    notebook.registry.contexts.renew(name.text, log)
    print(f"context {name.text}: {len(log)} messages")


def _operands(parsed: ParsedLine) -> tuple[Token | None, Token | None]:
    """The name and the reference, both optional."""
    name, reference = parsed.word("NAME"), parsed.word("REFERENCE")
    if name is not None and reference is None and name.text.lstrip("( ")[:1] in ("†", "$"):
        return None, name
    return name, reference
