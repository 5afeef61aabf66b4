"""A run, done or going on, as one page: what it gave, what it kept, what happened, what went wrong."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Protocol

from ..flow.values import Value
from ..progress.progress import Progress
from ..text.diagnostics import Diagnostic
from . import page
from .plain import counted, duration, html, line
from .values import value_html, value_text

MOST_STORES = 30


class Masks(Protocol):
    """What hides the secrets of a run."""

    def shown(self, value: Value) -> Value: ...


class RunLike(Protocol):
    """What a page reads of a run."""

    @property
    def run_id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def output(self) -> Value: ...
    @property
    def stores(self) -> Mapping[str, Value]: ...
    @property
    def error(self) -> BaseException | None: ...
    @property
    def warnings(self) -> Sequence[Diagnostic]: ...
    @property
    def note(self) -> str: ...
    @property
    def progress(self) -> Progress: ...
    @property
    def secrets(self) -> Masks: ...


def run_html(run: RunLike) -> str:
    """The run as HTML: the output first, everything else folded, but what went wrong."""
    failed = run.error is not None
    title = f"<strong>{html(line(run.name, 80))}</strong> · {page.state_html(run.status)}"
    about = f'{title}{_took(run.progress)} · <code style="opacity:0.6">{html(line(run.run_id, 60))}</code>'
    parts = [f'<p style="margin:0 0 4px">{about}</p>']
    if run.note:
        parts.append(f'<p style="margin:0 0 4px"><em>{html(run.note)}</em></p>')
    if run.error is not None:
        parts.append(page.error_html(run.error))
    if run.status == "ok" or run.output is not None:
        parts.append(f'<div style="margin:4px 0">{value_html(run.secrets.shown(run.output))}</div>')
    if run.stores:
        shown = run.secrets.shown
        kept = "".join(_store(name, shown(value)) for name, value in islice(run.stores.items(), MOST_STORES))
        parts.append(_folded(f"{counted(len(run.stores), 'store')}{_more(run.stores)}", kept))
    steps = page.steps_html(run.progress, now=_now(run.progress))
    parts.append(_folded(counted(len(run.progress.rows), "step"), steps, opened=failed))
    parts.append(page.failures_html(run.progress))  # what is missing from the result is not folded away
    parts.append(page.warnings_html(run.warnings))
    return "".join(parts)


def run_text(run: RunLike) -> str:
    """The same as text."""
    now = _now(run.progress)
    said = [f"{page.headline(run.progress, now=now)} · {line(run.run_id, 60)}"]
    if run.note:
        said.append(run.note)
    if run.error is not None:
        said += [page.error_text(run.error)]
    if run.status == "ok" or run.output is not None:
        said += ["output:", *_indented(value_text(run.secrets.shown(run.output)))]
    if run.stores:
        said.append(f"stores:{_more(run.stores)}")
        for name, value in islice(run.stores.items(), MOST_STORES):
            lines = _briefly(value_text(run.secrets.shown(value)))
            one = len(lines) == 1
            said.append(f"  {line(name, 60)}: {lines[0]}" if one else f"  {line(name, 60)}:")
            said += [] if one else [f"    {each}" for each in lines]
    said += [
        "steps:",
        *page.steps_text(run.progress, now=now),
        *page.failures_text(run.progress),
        *page.warnings_text(run.warnings),
    ]
    return "\n".join(said)


def _store(name: str, value: Value) -> str:
    return _folded(f"<code>{html(line(name, 60))}</code>", value_html(value))


def _folded(title: str, inside: str, opened: bool = False) -> str:
    body = f'<div style="padding-left:1.2em">{inside}</div>'
    return f"<details{' open' if opened else ''}><summary>{title}</summary>{body}</details>"


def _more(stores: Mapping[str, Value]) -> str:
    return f" (the first {MOST_STORES})" if len(stores) > MOST_STORES else ""


def _took(progress: Progress) -> str:
    took = [duration(progress.seconds)] if progress.seconds is not None else []
    return "".join(f" · {said}" for said in (*took, *page.tokens(progress)))


def _now(progress: Progress) -> float:
    return time.monotonic() if progress.ended is None else progress.ended


def _indented(text: str) -> list[str]:
    return [f"  {each}" for each in text.split("\n")]


def _briefly(text: str, most: int = 6) -> list[str]:
    lines = text.split("\n")
    return lines if len(lines) <= most else [*lines[:most], f"… {len(lines) - most:,} more lines"]
