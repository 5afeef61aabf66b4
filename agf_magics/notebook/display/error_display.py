"""Errors of our cells as the notebook shows them: with the source of the cell, without our own
frames.

IPython calls the method ``_render_traceback_`` of an exception. Our exceptions have it while the extension
is loaded. If a tool raised, the frames of the tool are shown, too.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from ...lifecycle.runs.run import RunInterrupted
from ...pictures.plain import plain
from ...text.columns import wrap
from ...text.diagnostics import AgfError, StepError, merge_equal
from ...text.raised import RAISED, cause_of, format_trace, is_a, trace_of
from ..config import BadSetting
from .print_problems import MOST
from .tracebacks import for_debugger, theirs

HOOK = "_render_traceback_"
RED = "\x1b[31m"
YELLOW = "\x1b[33m"
BOLD = "\x1b[1m"
OFF = "\x1b[0m"


def install_rendering(undo: ExitStack, shell: Any, is_full: Callable[[], bool]) -> None:
    """Let IPython show our errors with `render`. ``is_full()``: whether to show Python's tracebacks
    instead."""

    def hook(error: Any) -> list[str]:
        lines = _full(shell, error) if is_full() else render(shell, error)
        if (frames := for_debugger(error)) is not None:  # after it is rendered
            error.__traceback__ = sys.last_traceback = frames
        return lines

    for kind in (AgfError, BadSetting, RunInterrupted):
        setattr(kind, HOOK, hook)
        undo.callback(delattr, kind, HOOK)


def _full(shell: Any, error: BaseException) -> list[str]:
    """Python's traceback."""
    return list(
        shell.InteractiveTB.structured_traceback(
            type(error), error, error.__traceback__, tb_offset=0
        )
    )


def render(shell: Any, error: AgfError | RunInterrupted) -> list[str]:
    """The lines of an error. For a failed step the frames of the code that failed follow, as ``%xmode``
    shows them."""
    red, yellow, bold, off = ("",) * 4 if _colourless(shell) else (RED, YELLOW, BOLD, OFF)
    lines = []
    name = type(error).__name__
    if isinstance(error, RunInterrupted):
        error = error.error
    # What failed comes first; warnings have another colour.
    problems = sorted(
        merge_equal(error.diagnostics), key=lambda problem: problem.severity != "error"
    )
    for problem in problems[:MOST]:
        head = name if problem.severity == "error" else problem.severity
        first, *rest = plain(str(problem), 20_000).split("\n")
        message = wrap(f"{head}: {first}").removeprefix(head)
        colour = red if problem.severity == "error" else yellow
        lines += [f"{colour}{head}{off}{bold}{message}{off}", *map(wrap, rest)]
    if len(problems) > MOST:
        lines.append(f"... and {len(problems) - MOST} more")
    if isinstance(error, StepError) and error.path_text:
        lines.append(f"  {error.path_text}")
    cause = error.__cause__
    if isinstance(error, StepError) and cause is not None:
        frames = theirs(trace_of(cause))
        if frames is not None:
            texts = _frames(shell, cause, frames)
            lines += ["", *(_COLOUR_OR_CONTROL.sub(_safe, text) for text in texts)]
        else:
            lines += _remote_frames(shell, cause)
    return lines


def _frames(shell: Any, cause: BaseException, frames: TracebackType) -> list[str]:
    try:
        shown: list[str] = shell.InteractiveTB.structured_traceback(
            type(cause), cause, frames, tb_offset=0
        )
    except RAISED:  # IPython calls methods of the exception, which may raise anything
        return [format_trace(cause, frames)]
    return shown


def _remote_frames(shell: Any, cause: BaseException) -> list[str]:
    """The frames of an exception that a worker has sent, with the names of cells; empty if the exception
    does not come from a worker."""
    from ...workers.sending.tracebacks import RemoteTraceback, with_source

    remote = next((text for text in (cause, cause_of(cause)) if is_a(text, RemoteTraceback)), None)
    if remote is None:
        return []

    def cell(file: str) -> str:
        # IPython's compiler knows the names of the cells; nothing is compiled.
        format_name = getattr(getattr(shell, "compile", None), "format_code_name", None)
        words = format_name(file) if format_name is not None else None
        return " ".join(words) if words is not None else ""  # ("Cell", "In[3]"); None: no cell

    lines = with_source(str(remote.args[0]), cell).rstrip("\n").split("\n")
    return ["", "On the worker:", *(plain(text, 2_000) for text in lines)]


_COLOUR_OR_CONTROL = re.compile(r"(?P<colour>\x1b\[[0-9;]*m)|\x1b|[^\n\t\x1b -~]+")


def _safe(match: re.Match[str]) -> str:
    """A colour code of IPython unchanged; anything else as `plain` shows it."""
    return match["colour"] or plain(match[0], 20_000)


def _colourless(shell: Any) -> bool:
    return str(getattr(shell, "colors", "")).lower() in ("nocolor", "no color")
