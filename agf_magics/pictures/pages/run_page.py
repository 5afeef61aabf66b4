"""The page of a run: its status, output, stores, steps and problems, as HTML and as text."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Protocol

from ...flow.progress.progress import Progress
from ...text.diagnostics import DefinitionError, Diagnostic
from ...values.value import Value
from ..amounts import counted
from ..plain import details, html, line, not_saved
from ..problems import error_html, error_text, warnings_html, warnings_text
from ..row_words import listed
from ..text_tables import WRAP
from ..values import value_brief, value_html, value_text
from . import parts as page

MOST_STORES = 30
"""The most stores of a page."""
MOST_SAVED = 240_000
"""The most characters of the HTML of a page: a cell saves at most 300 kB (decision D58)."""
MOST_BODY = 120_000
"""The most characters of the parts below the header that may be large: output, stores, steps."""
MOST_PLAIN = 50_000
"""The most characters of a page as text."""
_MOST_LINES = 6
"""The most lines of one store in the text."""


class Masks(Protocol):
    """Hides the secrets of a run."""

    def shown(self, value: Value) -> Value: ...


class RowsLike(Protocol):
    """The rows of a run over a table, which display themselves as HTML and, by ``repr``, as text. Both
    raise DefinitionError for a damaged journal."""

    def _repr_html_(self) -> str: ...


class RunLike(Protocol):
    """What the page reads of a run."""

    @property
    def run_id(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def shown_output(self) -> Value: ...
    @property
    def stores(self) -> Mapping[str, Value]: ...
    @property
    def error(self) -> BaseException | None: ...
    @property
    def warnings(self) -> Sequence[Diagnostic]: ...
    @property
    def note(self) -> str: ...
    @property
    def how_to_continue(self) -> str: ...
    @property
    def progress(self) -> Progress: ...
    @property
    def secrets(self) -> Masks: ...
    @property
    def table(self) -> RowsLike:
        """The rows of a run over a table. Raises DefinitionError ``over.no-rows`` for another run."""
        ...


def run_html(run: RunLike) -> str:
    return run_header_html(run) + body_html(run)


def run_text(run: RunLike) -> str:
    return "\n".join([page.headline(run.progress, run.run_id, now=_now(run)), *body_text(run)])


def run_header_html(run: RunLike, at: str = "") -> str:
    """The line with the status. A live view has its button beside this line. ``at``: see
    `header_html`."""
    return page.header_html(run.progress, run.run_id, now=_now(run), at=at)


def body_html(
    run: RunLike,
    *,
    error: bool = True,
    questions: bool = True,
    rows: bool = True,
    more: Iterable[tuple[str, str]] = (),
) -> str:
    """Everything below the status: how to continue, the error, the output, the rows, the stores and
    the steps. Stores are folded, and so are the steps of a run that ended well. ``error``,
    ``questions``: False where the cell shows them elsewhere. ``rows``: False in a page that is made so
    often that the rows cannot be read each time. ``more``: named parts after the rows, as far as there
    is room."""
    parts = [f'<p style="margin:0 0 4px;{WRAP}"><em>{html(run.note)}</em></p>'] if run.note else []
    if continuing := run.how_to_continue:
        parts.append(f'<p style="margin:0 0 4px">to continue: <code>{html(continuing)}</code></p>')
    if error and run.error is not None:
        parts.append(error_html(run.error))
    large: list[tuple[str, str]] = []
    if _has_output(run):
        output = f'<div style="margin:4px 0">{_value_html(run, run.shown_output)}</div>'
        large.append(("the output", output))
    if rows:
        large.append(("the rows", _rows_html(run)))
    large += more
    stores = run.progress.stores
    if stores:
        listed_stores = "".join(
            _store(run, name, value) for name, value in islice(stores.items(), MOST_STORES)
        )
        title = f"{counted(len(stores), 'store')}{_more(stores)}"
        large.append(("the stores", _folded(title, listed_stores)))
    steps = page.steps_html(run.progress, now=_now(run))
    if len(steps) > MOST_BODY:
        steps = page.steps_html(run.progress, now=_now(run), has_folds=False)
    if run.progress.ended is not None:
        steps = _folded(_steps_title(run.progress), steps, opened=run.status != "ok")
    large.append(("the steps", steps))
    parts.append(fitted(large, run.run_id, MOST_BODY))
    parts.append(page.questions_html(run.progress) if questions else "")
    parts += [page.failures_html(run.progress), warnings_html(run.warnings)]
    return "".join(parts)


def _steps_title(progress: Progress) -> str:
    """``24 steps``, as the header counts them, ``and 5 inside them``."""
    rows = listed(progress)
    outer = sum(not row.depth for row in rows)
    them = "it" if outer == 1 else "them"
    inside = f" and {len(rows) - outer:,} inside {them}" if len(rows) > outer else ""
    return counted(outer, "step") + inside


def fitted(parts: Iterable[tuple[str, str]], run_id: str, room: int) -> str:
    """Named parts of a page, as far as they fit. A sentence takes the place of a part that does not
    fit, and says how to get it. ``room``: the characters that all parts may have."""
    shown = ""
    for name, part in parts:
        if len(shown) + len(part) > room:
            part = not_saved(name, len(part), f"agf.runs({run_id!r})")
        shown += part
    return shown


def _rows_html(run: RunLike) -> str:
    """The rows of a run over a table; empty for another run."""
    try:
        return run.table._repr_html_()
    except DefinitionError as error:
        why = _no_rows(error)
        return f"<p><em>{html(why)}</em></p>" if why else ""


def _rows_text(run: RunLike) -> list[str]:
    try:
        return ["rows:", *(f"  {row}" for row in repr(run.table).split("\n"))]
    except DefinitionError as error:
        return list(filter(None, [_no_rows(error)]))


def _no_rows(error: DefinitionError) -> str:
    """Why the rows are not shown; empty for a run that has none. The rest of the page needs no
    journal."""
    if error.code == "over.no-rows":
        return ""
    return f"the rows cannot be read: {line(error.diagnostic.message, 300)}"


def body_text(
    run: RunLike, *, error: bool = True, questions: bool = True, rows: bool = True
) -> list[str]:
    lines = [run.note] if run.note else []
    if continuing := run.how_to_continue:
        lines.append(f"to continue: {continuing}")
    if error and run.error is not None:
        lines.append(error_text(run.error))
    if _has_output(run):
        lines += [
            "output:",
            *(f"  {text_line}" for text_line in _value_lines(run, run.shown_output)),
        ]
    lines += _rows_text(run) if rows else []
    stores = run.progress.stores
    if stores:
        lines.append(f"stores:{_more(stores)}")
        for name, value in islice(stores.items(), MOST_STORES):
            lines_of_value = _value_lines(run, value)
            if len(lines_of_value) == 1:
                lines.append(f"  {line(name, 60)}: {lines_of_value[0]}")
                continue
            more = (
                [f"… {len(lines_of_value) - _MOST_LINES:,} more lines"]
                if len(lines_of_value) > _MOST_LINES
                else []
            )
            lines += [
                f"  {line(name, 60)}:",
                *(f"    {text_line}" for text_line in [*lines_of_value[:_MOST_LINES], *more]),
            ]
    lines += ["steps:", *page.steps_text(run.progress, now=_now(run))]
    lines += page.questions_text(run.progress) if questions else []
    return short_time([*lines, *page.failures_text(run.progress), *warnings_text(run.warnings)])


def short_time(lines: list[str]) -> list[str]:
    """The first lines, at most `MOST_PLAIN` characters."""
    size = 0
    for number, text in enumerate(lines):
        size += len(text) + 1
        if size > MOST_PLAIN:
            return [*lines[:number], f"… {len(lines) - number:,} more lines are not saved here"]
    return lines


def _has_output(run: RunLike) -> bool:
    if run.progress.ended is None:
        return False
    return run.status == "ok" or run.shown_output is not None


def _value_html(run: RunLike, value: Value) -> str:
    mask = run.secrets.shown
    return value_html(
        mask(value), mask, is_reply=run.progress.is_reply(value), replies=run.progress.is_reply
    )


def _value_lines(run: RunLike, value: Value) -> list[str]:
    return value_text(run.secrets.shown(value), run.secrets.shown).split("\n")


def _store(run: RunLike, name: str, value: Value) -> str:
    about = html(value_brief(value, run.secrets.shown))
    return _folded(f"<code>{html(line(name, 60))}</code> · {about}", _value_html(run, value))


def _folded(title: str, inside: str, opened: bool = False) -> str:
    return details(title, f'<div style="padding-left:1.2em">{inside}</div>', opened)


def _more(stores: Mapping[str, Value]) -> str:
    return f" (the first {MOST_STORES})" if len(stores) > MOST_STORES else ""


def _now(run: RunLike) -> float:
    return time.monotonic() if run.progress.ended is None else run.progress.ended
