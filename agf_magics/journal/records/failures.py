"""Converts the failure of a call to JSON, and back."""

from __future__ import annotations

import builtins
import contextlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, TypedDict

from ...flow.step_path import format_path
from ...text.diagnostics import AgfError, Diagnostic, StepError
from ...text.length import weigh
from ...text.raised import args_of, kind_of, text_of
from ...text.source import Source, Span
from ...values.value import Value
from ..codec.json_texts import encode
from ..codec.type_checks import checker
from ..secrets.masking import Secrets
from .fields import LONGEST_ARGUMENTS, LONGEST_NAME, Text, is_path


class UnstoredError(StepError):
    """The result of a call that must not be repeated cannot be stored, or its start. The run ends
    before a step uses the result, or before the call."""


def error_json(error: BaseException, secrets: Secrets) -> str:
    """A failure as JSON (`_AnyFailure`), with masks in place of secrets."""
    diagnostics: Iterable[Diagnostic] = [
        Diagnostic("step.tool-failed", f"{kind_of(error)}: {text_of(error)}")
    ]
    if isinstance(error, AgfError):
        diagnostics = error.diagnostics[:20]
    messages = []
    for masked in map(secrets.diagnostic, diagnostics):
        span = masked.span
        place = (span.source.name, span.start, span.end) if span is not None else None
        messages.append([masked.code, masked.message, masked.hint, place, masked.severity])
    path = error.path if isinstance(error, StepError) else None
    stored: dict[str, Any] = {"at": path, "said": messages}
    # All exceptions of the chain are searched, because a traceback shows them.
    if error.__cause__ is not None and not secrets.raised(error.__cause__):
        stored["cause"] = _cause_json(error.__cause__)
    if isinstance(error, StepError) and error.arrived:
        stored["arrived"] = {part: secrets.text(text) for part, text in error.arrived.items()}
    return encode(stored)


_Said = tuple[str, str, Text, tuple[str, int, int] | None, Literal["error", "warning", "note"]]
"""The code of a diagnostic, its message, hint, place and severity."""


class _Failure(TypedDict):
    """A failure as JSON: the path of its step (None: unknown), and its diagnostics, at least one
    (the condition `bool`)."""

    at: Annotated[list[object], lambda path: is_path(tuple(path))] | None
    said: Annotated[list[_Said], bool]


class _AnyFailure(_Failure, total=False):
    """A failure that may have a cause: its class, its text and its arguments; and, of a model's
    request, what had arrived."""

    cause: tuple[str, str, object]
    arrived: dict[str, str]


_is_failure = checker(_AnyFailure)


def error_from(text: str, sources: Iterable[Source]) -> StepError:
    """The failure in ``text``, with places in ``sources`` and a cause that resembles the original.

    Raises ValueError or another of `UNREADABLE`.
    """
    stored = json.loads(text)
    if not _is_failure(stored):
        raise ValueError("a failure consists of errors, their places and a cause")
    by_name: dict[str | None, Source] = {source.name: source for source in sources}
    error = StepError(*(_diagnostic(by_name, *message) for message in stored["said"]))
    if stored["at"] is not None:
        error.path = tuple(stored["at"])
        error.where = format_path(error.path)
    error.__cause__ = _cause(*stored["cause"]) if "cause" in stored else None
    error.arrived = stored.get("arrived", {})
    return error


def error_at(text: str, span: Span | None) -> StepError:
    """The failure of another run in ``text``, at this place of this run. Raises as `error_from`."""
    error = error_from(text, ())
    placed = StepError(*(replace(problem, span=span) for problem in error.diagnostics))
    placed.__cause__ = error.__cause__
    placed.arrived = error.arrived
    return placed


def _diagnostic(
    sources: Mapping[str | None, Source],
    code: str,
    message: str,
    hint: str | None,
    place: tuple[str, int, int] | None,
    severity: Any,
) -> Diagnostic:
    name, start, end = place or (None, 0, 0)
    source = sources.get(name)
    span = None
    # The definition may have changed, so that a caret would point at the wrong text.
    if source is not None and 0 <= start <= end <= len(source.text):
        span = Span(source, start, end)
    return Diagnostic(code, message, span, hint, severity)


def _cause_json(cause: BaseException) -> list[Value]:
    """The class, the text, and the arguments if they are JSON."""
    text = text_of(cause, "")
    args = list(args_of(cause))
    return [kind_of(cause), text, args if 0 <= weigh(args) <= LONGEST_ARGUMENTS else None]


def _cause(name: str, text: str, args: list[Value] | None) -> BaseException:
    """An exception of Python's class ``name``, or of a new class with that name."""
    name = name if name.isidentifier() and len(name) <= LONGEST_NAME else "Exception"
    # Only Python's own classes: an import by a stored name would run code.
    kind = getattr(builtins, name, None)
    if isinstance(args, list) and isinstance(kind, type) and issubclass(kind, Exception):
        with contextlib.suppress(Exception):
            return kind(*args)
    # The class may be gone or may have changed. A new class with its name looks the same.
    cause: BaseException = type(name, (Exception,), {})(text)
    return cause
