"""Which frames of a traceback are shown: those of a person's code, without our own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from ...text.diagnostics import StepError
from ...text.raised import cause_of, is_a, trace_of

OURS = str(Path(__file__).parents[2])
"""The folder of the files of our frames."""


def theirs(tb: TracebackType | None) -> TracebackType | None:
    """The part of a traceback that begins in code of others."""
    while tb is not None and tb.tb_frame.f_code.co_filename.startswith(OURS):
        tb = tb.tb_next
    return tb


def without_ours(tb: TracebackType) -> TracebackType | None:
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


def for_debugger(error: BaseException) -> TracebackType | None:
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


def _traceback_of(frames: Sequence[TracebackType]) -> TracebackType | None:
    """A traceback of these frames alone, the outermost first."""
    trace = None
    for frame in reversed(frames):
        trace = TracebackType(trace, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return trace
