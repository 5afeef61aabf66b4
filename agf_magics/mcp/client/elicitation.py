"""Puts the questions of a server (elicitation) to the person who runs the call that asks.

Since protocol version 2026-07-28 a question is part of the answer to a call, and arrives in the
context of that call (`Elicitation.during`). In earlier versions nothing says which call asks: if
exactly one call is in flight, that call asks; if several are, the question is declined. Only forms
are shown to the person. A question to open an address is reported and declined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from mcp_types import ElicitResult

from ...catalog import ToolContext
from ...catalog.tools.context import MOST_CHOICES
from ...schemas.json_schema import judge
from ...schemas.violations import describe_all
from ...text.diagnostics import Diagnostic, Diagnostics, StepError
from ...text.source import Source
from ...text.yaml.nodes import Fields, plain
from ...text.yaml.reader import documents
from ...values.value import Value
from .foreign_text import Masked, clean
from .listing import unusable

TRIES = 3
"""Answers to one question that are tried."""
LONGEST_QUESTION = 2_000
"""Characters."""
MOST_FIELDS = 20
"""Fields of a form; a server's larger form is declined."""
LARGEST = 1e15
"""The largest number that a server may report as progress."""
DECLINING_WORD = "decline"
"""The word with which a person declines a question, and the protocol's name for that action."""


class Call:
    """A call that waits for the server: its context reaches the person who runs it."""

    def __init__(self, context: ToolContext, masked: Masked) -> None:
        self.context = context
        self.masked = masked

    async def report(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Show how far the server says the call is."""
        if 0 <= progress <= LARGEST:
            if total is not None and not 0 < total <= LARGEST:
                total = None
            self.context.progress(progress, total, clean(message or "", 200, self.masked))


class Elicitation:
    """The questions of one connection."""

    def __init__(self, masked: Masked) -> None:
        self._masked = masked
        self._calls: list[Call] = []
        """The calls in flight."""
        self._current: ContextVar[Call | None] = ContextVar("call", default=None)
        """The call in whose context a question arrives; None: the protocol does not tell it."""

    @contextmanager
    def during(self, call: Call) -> Iterator[None]:
        """A block in which questions of the server may belong to ``call``."""
        token = self._current.set(call)
        self._calls.append(call)
        try:
            yield
        finally:
            self._calls.remove(call)
            self._current.reset(token)

    async def answer(self, params: Any, note: Callable[[str], None]) -> ElicitResult:
        """The answer of the person. If nobody is asked, ``note`` is called with the reason."""
        call = self._current.get()
        # An earlier version: the question arrives outside of every call.
        if call is None and len(self._calls) == 1:
            call = self._calls[0]
        message = clean(params.message, LONGEST_QUESTION, self._masked)
        if call is None:
            note(f"it asks {message!r:.200} and does not say for which call: declined")
            return ElicitResult(action="decline")
        if getattr(params, "mode", "form") != "form":
            note(f"it wants {clean(str(params.url), 200, self._masked)!r} to be opened: declined")
            return ElicitResult(action="decline")
        schema = params.requested_schema
        if why := unusable(schema) or _no_form(schema):
            note(f"it asks {message!r:.200} and {why}: declined")
            return ElicitResult(action="decline")
        try:
            content = await _ask(call, message, schema)
        except StepError as error:
            note(f"{clean(error.diagnostic.message)}: declined")
            return ElicitResult(action="decline")
        if content is None:
            return ElicitResult(action="decline")
        return ElicitResult(action="accept", content=content)


async def _ask(call: Call, message: str, schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The fields that the person fills in; None: the person declines. Raises StepError if nobody
    answers, or if no answer fits."""
    fields = schema.get("properties", {})
    choices = _choices(fields, call.masked)
    violations = judge(schema)
    question = f"{message} (for the server of this tool)"
    if not choices:
        question += f"\n{_form(fields, schema.get('required', ()), call.masked)}"
    for _ in range(TRIES):
        question_text = clean(question, LONGEST_QUESTION, call.masked)
        answer = await call.context.ask(
            question_text, [*choices, DECLINING_WORD] if choices else ()
        )
        if answer.strip() == DECLINING_WORD:
            return None
        content = {next(iter(fields)): choices[answer]} if choices else _content(answer, fields)
        wrong = "it is no mapping" if content is None else describe_all(violations(content))
        if content is not None and not wrong:
            return content
        question = f"this answer cannot be used: {wrong}\n{question}"
    why = f"it asks {message!r:.200}, and no answer fits: {wrong}"
    raise StepError(Diagnostic("tool.ask", why))


def _no_form(schema: Mapping[str, Any]) -> str:
    """The reason why a person cannot fill in a form with this schema; empty if a person can."""
    fields = schema.get("properties", {})
    wrong = [name for name, field in fields.items() if not isinstance(field, Mapping)]
    if wrong:
        return f"says nothing about its field {clean(wrong[0], 80)!r}"
    if len(fields) > MOST_FIELDS:
        return f"its form has {len(fields)} fields, more than {MOST_FIELDS}"
    return ""


def _choices(fields: Mapping[str, Any], masked: Masked) -> dict[str, Value]:
    """The values that a person chooses from, by their texts; empty if the form is not one
    choice."""
    if len(fields) != 1:
        return {}
    (field,) = fields.values()
    if field.get("type") == "boolean":
        return {"yes": True, "no": False}
    options = _options(field)
    if not all(isinstance(value, str) for value in options):
        return {}
    choices = {clean(title or value, 200, masked): value for value, title in options.items()}
    # A value that reads like another one or declines the question could not be chosen, and a question
    # has room for so many choices. Then the value is written into the form.
    is_clear = len(choices) == len(options) and DECLINING_WORD not in choices
    return choices if is_clear and len(choices) < MOST_CHOICES else {}


def _options(field: Mapping[str, Any]) -> dict[Any, str]:
    """The values of which a field has one, each with the title that a person reads; empty if the
    schema does not list them. The protocol has two forms of titles: ``oneOf`` with a ``const`` each,
    and before, ``enumNames`` beside ``enum``."""
    values = field.get("enum", ())
    titles = field.get("enumNames")
    if not isinstance(titles, list) or len(titles) != len(values):
        titles = [""] * len(values)
    listed = field.get("oneOf") or field.get("anyOf") or ()
    if not values and all(isinstance(each, Mapping) and "const" in each for each in listed):
        values = [each["const"] for each in listed]
        titles = [each.get("title") or "" for each in listed]
    if not all(isinstance(value, str | int | float | bool | None) for value in values):
        return {}
    return dict(zip(values, map(str, titles), strict=True))


def _form(fields: Mapping[str, Any], required: Any, masked: Masked) -> str:
    """The fields of a form as lines of a question, and how to answer it."""
    lines = []
    for name, field in fields.items():
        about = clean(str(field.get("description") or field.get("title") or ""), 200, masked)
        kind = _kind(field)
        default = (
            f", default {clean(repr(field['default']), 100, masked)}" if "default" in field else ""
        )
        optional = "" if name in required or default else ", optional"
        kind = clean(kind, 200, masked)
        lines.append(f"{clean(name, 80, masked)} ({kind}{default}{optional}): {about}")
    how = f"answer as {{{next(iter(fields), 'name')}: …}}, or {DECLINING_WORD}"
    return "\n".join([*lines, how])


def _kind(field: Mapping[str, Any]) -> str:
    """The values that a person may write into a field: those that the schema lists, else its type."""
    options = _options(field)
    if options:
        named = (
            f"{value} for {title}" if title else str(value) for value, title in options.items()
        )
        return " or ".join(named)
    items = field.get("items")
    if field.get("type") == "array" and isinstance(items, Mapping):
        return f"a list of {_kind(items)}"
    return str(field.get("type", "any"))


def _content(answer: str, fields: Mapping[str, Any]) -> dict[str, Any] | None:
    """The fields of an answer, with the defaults of fields that it leaves out; None if the answer
    is not one mapping in YAML."""
    problems = Diagnostics()
    nodes = documents(Source("", answer), problems)
    if problems.errors or len(nodes) != 1 or not isinstance(nodes[0], Fields):
        return None
    defaults = {name: field["default"] for name, field in fields.items() if "default" in field}
    return {**defaults, **plain(nodes[0])}
