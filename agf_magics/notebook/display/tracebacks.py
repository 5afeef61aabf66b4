"""Which frames of a traceback are shown: the frames of a person's code, without ours."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from ...text.diagnostics import StepError
from ...text.raised import cause_of, is_a, trace_of

OURS = str(Path(__file__).parents[2])
"""The folder of this package: a frame whose file is in it is ours."""


def theirs(tb: TracebackType | None) -> TracebackType | None:
    """The part of a traceback that begins at the first frame that is not ours."""
    while tb is not None and tb.tb_frame.f_code.co_filename.startswith(OURS):
        tb = tb.tb_next
    return tb


def without_ours(tb: TracebackType) -> TracebackType | None:
    """The traceback without our frames at its end: it ends where a person's code called our function."""
    frames = []
    trace: TracebackType | None = tb
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    generated = "<string>"  # the file name of a dataclass's constructor
    while len(frames) > 1 and frames[-1].tb_frame.f_code.co_filename.startswith((OURS, generated)):
        frames.pop()
    return _traceback_of(frames)


def for_debugger(error: BaseException) -> TracebackType | None:
    """The frames of an error and of its cause in a step, without our frames and IPython's. `%debug` and
    `%pdb on` begin at the innermost frame, in the tool, and `up` leads to the cell. None if no frame is
    left."""
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
