"""Errors, warnings and notes as static HTML and as text, with the lines of source that are wrong."""

from __future__ import annotations

from collections.abc import Iterable

from ..text.columns import wrap
from ..text.diagnostics import AgfError, Diagnostic
from ..text.raised import is_a, kind_of, text_of
from .amounts import counted
from .plain import details, html, lines_html, plain

WIDE = 78
"""Columns of a message: JupyterLab shows about 90 when the file browser is open."""

_MARKS = {"error": "✗", "warning": "⚠", "note": "·"}
_EDGES = {"error": "#d64545", "warning": "#a56c00", "note": "#7d7d7d"}


def error_html(error: BaseException) -> str:
    """The error with its place and its hint."""
    diagnostics = error.diagnostics if isinstance(error, AgfError) else None
    return (
        diagnostics_html(diagnostics)
        if diagnostics
        else _finding_html("error", format_exception(error))
    )


def error_text(error: BaseException) -> str:
    diagnostics = error.diagnostics if isinstance(error, AgfError) else None
    return diagnostics_text(diagnostics) if diagnostics else f"✗ error: {format_exception(error)}"


def diagnostics_html(diagnostics: Iterable[Diagnostic]) -> str:
    return "".join(
        _with_help(
            _finding_html(diagnostic.severity, plain(str(diagnostic), 6_000)), diagnostic.code
        )
        for diagnostic in diagnostics
    )


def diagnostics_text(diagnostics: Iterable[Diagnostic]) -> str:
    return "\n".join(
        f"{_MARKS[diagnostic.severity]} {diagnostic.severity}: {plain(str(diagnostic), 6_000)}"
        for diagnostic in diagnostics
    )


def warnings_html(warnings: Iterable[Diagnostic]) -> str:
    listed = list(warnings)
    if not listed:
        return ""
    return details(f"⚠ {counted(len(listed), 'warning')}", diagnostics_html(listed[:20]))


def warnings_text(warnings: Iterable[Diagnostic]) -> list[str]:
    listed = list(warnings)
    return [f"⚠ {counted(len(listed), 'warning')}", diagnostics_text(listed[:20])] if listed else []


def format_exception(error: BaseException) -> str:
    """The message of an error, after its class if the class is not one of ours."""
    if is_a(error, AgfError):
        return plain(error.diagnostic.message, 1_000)
    message = text_of(error)
    return plain(f"{kind_of(error)}: {message}" if message else kind_of(error), 1_000)


def brief_exception(error: BaseException) -> str:
    """`format_exception` for a list, without the words that every failure of a call has: ``fetch:
    TimeoutError: 30 s`` for ``tool 'fetch' failed: TimeoutError: 30 s``."""
    callee, why = _callee_and_reason(error)
    return f"{callee}: {why}" if callee else why


def brief_reason(error: BaseException) -> str:
    """`format_exception` for a column of failures of the same call, without its name:
    ``TimeoutError: 30 s``."""
    _, why = _callee_and_reason(error)
    return why


def _callee_and_reason(error: BaseException) -> tuple[str, str]:
    """The name of the call that failed, and why it failed. The name is empty if no call did."""
    text = format_exception(error)
    if not is_a(error, AgfError):
        return "", text
    kind = error.code.removeprefix("step.").removesuffix("-failed")
    callee, failed, why = text.partition(" failed: ")
    if not failed or not callee.startswith((f"{kind} '", f'{kind} "')):
        return "", text
    return callee.removeprefix(kind)[2:-1], why


def _with_help(page: str, code: str) -> str:
    """``page`` with a tooltip at the code of a problem: the magic that explains it (decision D9)."""
    shown = f"[{html(code)}]"
    return page.replace(shown, f'<span title="%explain {html(code)}">{shown}</span>', 1)


def _finding_html(severity: str, text: str) -> str:
    style = (
        f"border-left:3px solid {_EDGES[severity]};padding:2px 0 2px 10px;margin:6px "
        f"0;white-space:pre;overflow:auto"
    )
    first, *rest = wrap(f"{severity}: {text}").split("\n")
    head = (
        f"<strong>{_MARKS[severity]} {severity}:</strong>{html(first.removeprefix(f'{severity}:'))}"
    )
    return lines_html("\n".join([head, *map(html, rest)]), style)
