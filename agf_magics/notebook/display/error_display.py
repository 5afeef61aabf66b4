"""Errors of our cells as the notebook shows them: with the source of the cell, without our own
frames.

IPython calls ``_render_traceback_`` of an exception, which ours have while the extension is loaded.
If a tool raised, the frames of the tool are shown too.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import CoroutineType, TracebackType
from typing import Any

from ...lifecycle.launch.launch import arun
from ...lifecycle.runs.run import RunInterrupted
from ...pictures.plain import plain
from ...text.columns import wrap
from ...text.diagnostics import AgfError, Diagnostic, StepError, merge_equal
from ...text.raised import RAISED, cause_of, format_trace, is_a, trace_of
from ...text.suggestions import suggest
from ..config import BadSetting
from .print_problems import MOST, print_problems

HOOK = "_render_traceback_"
OURS = str(Path(__file__).parents[2])
RED = "\x1b[31m"
BOLD = "\x1b[1m"
OFF = "\x1b[0m"


def install_rendering(undo: ExitStack, shell: Any, is_full: Callable[[], bool]) -> None:
    """Let IPython show our errors with `render`. ``is_full()``: whether to show Python's tracebacks
    instead."""

    def hook(error: Any) -> list[str]:
        lines = _full(shell, error) if is_full() else render(shell, error)
        if (frames := _for_debugger(error)) is not None:  # after it is rendered
            error.__traceback__ = sys.last_traceback = frames
        return lines

    for kind in (AgfError, BadSetting, RunInterrupted):
        setattr(kind, HOOK, hook)
        undo.callback(delattr, kind, HOOK)

    def wrong_call(_: Any, kind: Any, error: Any, tb: TracebackType, tb_offset: Any = None) -> None:
        frames = tb if is_full() else _without_ours(tb)
        for name, parameter in _UNEXPECTED.findall(str(error)):
            function = vars(sys.modules["agf_magics"]).get(name)
            if shell.user_ns.get(name, function) is function is not None:  # and not the user's own
                parameters = inspect.signature(function).parameters
                near = suggest(parameter, parameters, "its parameters")
                error.add_note(_MEANT.get((name, parameter), str(near)))
        shell.showtraceback((kind, error, frames), tb_offset=tb_offset)

    # What Python itself raises for a wrong call, we raise too: `agf.run(1)` is a TypeError. A person
    # who has set a handler of their own keeps it.
    if not shell.custom_exceptions:
        shell.set_custom_exc((TypeError, ValueError, LookupError, AttributeError), wrong_call)
        undo.callback(shell.set_custom_exc, (), None)

    warned = set[int]()
    """The coroutines that were warned about, by their ids."""

    def after_cell(result: Any) -> None:
        if near := _near_magic(shell, str(result.error_in_exec)):
            print(near, file=sys.stderr)  # where IPython prints the error
        waiting = {id(value) for value in shell.user_ns.values() if _is_run_not_awaited(value)}
        if waiting - warned:
            print_problems([_NOT_AWAITED])
        warned.clear()  # a later coroutine may have the id of one that is gone
        warned.update(waiting)

    shell.events.register("post_run_cell", after_cell)
    undo.callback(shell.events.unregister, "post_run_cell", after_cell)


def _near_magic(shell: Any, message: str) -> str | None:
    """What to write in the place of a magic that IPython does not know."""
    match = _UNKNOWN_MAGIC.match(message)
    if match is None:
        return None
    sign = match["sign"]
    names = shell.magics_manager.magics["line" if sign == "%" else "cell"]
    return suggest(sign + match["name"], [f"{sign}{name}" for name in names])


def _full(shell: Any, error: BaseException) -> list[str]:
    """Python's traceback."""
    return list(
        shell.InteractiveTB.structured_traceback(
            type(error), error, error.__traceback__, tb_offset=0
        )
    )


def _is_run_not_awaited(value: object) -> bool:
    # By its code: other packages have an `arun` too.
    is_run = type(value) is CoroutineType and value.cr_code is inspect.unwrap(arun).__code__
    return is_run and inspect.getcoroutinestate(value) == "CORO_CREATED"  # type: ignore[arg-type]


_NOT_AWAITED = Diagnostic(
    "run.not-awaited",
    "agf.arun(…) starts when it is awaited",
    hint="write await agf.arun(…), or agf.start(…) for a run in the background",
    severity="warning",
)

_MEANT = {("agent", "model"): "a model is an agent with agf.model_agent(NAME, model=…)"}
"""By a function and a parameter that it does not have."""
_UNEXPECTED = re.compile(r"\A(\w++)(?:\.__init__)?\(\) got an unexpected keyword argument '(\w++)'")


def render(shell: Any, error: AgfError | RunInterrupted) -> list[str]:
    """The lines of an error; of a failed step also the frames of the code that failed, as
    ``%xmode`` has them."""
    red, bold, off = ("", "", "") if _colourless(shell) else (RED, BOLD, OFF)
    lines = []
    name = type(error).__name__
    if isinstance(error, RunInterrupted):
        error = error.error
    problems = merge_equal(error.diagnostics)
    for problem in problems[:MOST]:
        head = name if problem.severity == "error" else problem.severity
        first, *rest = plain(str(problem), 20_000).split("\n")
        message = wrap(f"{head}: {first}").removeprefix(head)
        lines += [f"{red}{head}{off}{bold}{message}{off}", *map(wrap, rest)]
    if len(problems) > MOST:
        lines.append(f"... and {len(problems) - MOST} more")
    if isinstance(error, StepError) and error.path_text:
        lines.append(f"  {error.path_text}")
    cause = error.__cause__
    if isinstance(error, StepError) and cause is not None:
        frames = _theirs(trace_of(cause))
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
    except RAISED:  # IPython reads the exception as it is
        return [format_trace(cause, frames)]
    return shown


def _remote_frames(shell: Any, cause: BaseException) -> list[str]:
    """The frames of an exception that a worker has sent, with the names of cells; none if a worker
    did not send it."""
    from ...workers.sending.tracebacks import RemoteTraceback, with_source

    remote = next((text for text in (cause, cause_of(cause)) if is_a(text, RemoteTraceback)), None)
    if remote is None:
        return []

    def cell(file: str) -> str:
        # IPython's compiler knows the names of the cells; nothing is compiled.
        name = getattr(getattr(shell, "compile", None), "format_code_name", None)
        return " ".join((name(file) if name is not None else None) or ())

    lines = with_source(str(remote.args[0]), cell).rstrip("\n").split("\n")
    return ["", "On the worker:", *(plain(text, 2_000) for text in lines)]


_COLOUR_OR_CONTROL = re.compile(r"(?P<colour>\x1b\[[0-9;]*m)|\x1b|[^\n\t\x1b -~]+")


def _safe(match: re.Match[str]) -> str:
    """A colour of IPython's as it is; anything else as `plain` shows it."""
    return match["colour"] or plain(match[0], 20_000)


_UNKNOWN_MAGIC = re.compile(
    r"(?:Line magic function|Cell magic) `(?P<sign>%%?)(?P<name>\w+)` not found\."
)
"""IPython's own message; it knows of no near names. Where the other kind of magic has that name, it
says so, and a near name would lead astray."""


def _without_ours(tb: TracebackType) -> TracebackType | None:
    """The traceback up to the call of the function that refused it, if a function of ours did."""
    frames = []
    trace: TracebackType | None = tb
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    generated = "<string>"  # the constructor of a dataclass
    while len(frames) > 1 and frames[-1].tb_frame.f_code.co_filename.startswith((OURS, generated)):
        frames.pop()
    return _traceback_of(frames)


def _traceback_of(frames: Sequence[TracebackType]) -> TracebackType | None:
    """A traceback of these frames alone, the outermost first."""
    trace = None
    for frame in reversed(frames):
        trace = TracebackType(trace, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return trace


def _for_debugger(error: BaseException) -> TracebackType | None:
    """The frames of an error, and of what has failed its step, without ours and those of IPython:
    `%debug` and `%pdb on` begin at the innermost one, in the tool, and `up` leads to the cell.
    None if there are no others."""
    cause = cause_of(error) if is_a(error, StepError) else None
    frames: list[TracebackType] = []
    for trace in (trace_of(error), trace_of(cause) if cause is not None else None):
        while trace is not None:
            frame = trace.tb_frame
            module = str(frame.f_globals.get("__name__")).partition(".")[0]
            if not frame.f_code.co_filename.startswith(OURS) and module != "IPython":
                frames.append(trace)
            trace = trace.tb_next
    return _traceback_of(frames)


def _theirs(tb: TracebackType | None) -> TracebackType | None:
    """The part of a traceback that begins in code of others."""
    while tb is not None and tb.tb_frame.f_code.co_filename.startswith(OURS):
        tb = tb.tb_next
    return tb


def _colourless(shell: Any) -> bool:
    return str(getattr(shell, "colors", "")).lower() in ("nocolor", "no color")
