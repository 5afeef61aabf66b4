"""Gives the prints of user code to the call that prints them, and restores redirected streams.

`sys.stdout` is wrapped while a run is watched. Everything is still printed, and the call gets a
copy. A context variable holds the call, so that only a call that prints pays for the copy. The
prints of a thread that a tool starts belong to no call.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, ClassVar, Protocol


class Prints(Protocol):
    """Gets the prints of a call, on any thread."""

    def add(self, text: str) -> None: ...


printing: ContextVar[Prints | None] = ContextVar("printing", default=None)
"""The receiver of the current user code's prints; None: nobody gets them."""


LineAway = Callable[[str], contextlib.AbstractContextManager[None]]
"""Takes a line that is written again and again out of the way of a text that is printed."""

lines_away: list[LineAway] = []
"""The lines about runs that a terminal shows now."""


class _Copied:
    """A wrapper of `sys.stdout` that gives a copy of each text to the printing call. A line about a run
    does not stand where it prints."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> Any:
        if lines_away and isinstance(text, str):
            with lines_away[-1](text):
                written = self._stream.write(text)
                self._stream.flush()
        else:
            written = self._stream.write(text)
        if (prints := printing.get()) is not None and isinstance(text, str):
            prints.add(text)
        return written

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Watched:
    """Wraps `sys.stdout` for the first watched run and unwraps it after the last one."""

    def __init__(self) -> None:
        self._runs = 0
        self._copied: _Copied | None = None

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        self._runs += 1
        # The kernel may have replaced it since the last run.
        if not isinstance(sys.stdout, _Copied):
            self._copied = sys.stdout = _Copied(sys.stdout)
        try:
            yield
        finally:
            self._runs -= 1
            # Other code may have replaced the stream, or may put the wrapper back later. Then the
            # wrapper stays and does nothing.
            if not self._runs and self._copied is not None and sys.stdout is self._copied:
                sys.stdout = self._copied._stream
                self._copied = None


watched_stdout = _Watched()
"""The context of a watched run."""


class Streams:
    """Restores `sys.stdout` and `sys.stderr` after concurrent calls of one run.
    `contextlib.redirect_stdout` restores the stream that it found. In two concurrent calls it can
    leave the buffer of the first call in place, so that nothing is printed any more. So after the
    last of these calls, the streams from before the first one are restored (decision D144).
    """

    NAMES = ("stdout", "stderr")
    deferred: ClassVar[bool] = False
    """Whether background runs leave the restoring to `put_back`: a cell may run beside them, and
    its own redirection looks the same."""
    _home: ClassVar[tuple[Any, ...]] = (sys.stdout, sys.stderr)
    """The streams of the process, which no call has left behind."""
    _left: ClassVar[dict[str, tuple[Any, Any]]] = {}
    """The stream that was left and the original stream, by name."""

    def __init__(self, in_background: bool) -> None:
        self._in_background = in_background
        """Whether other code of the person runs beside the run."""
        self._calls = 0
        """The number of running calls."""
        self._overlapped = False
        """Whether two of these calls ran at the same time."""
        self._before: tuple[Any, ...] = ()
        """The streams from before the first of these calls."""

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        """The context of a call on a thread."""
        if not self._calls:
            self._before = tuple(getattr(sys, name) for name in self.NAMES)
            self._overlapped = False
        self._calls += 1
        self._overlapped |= self._calls > 1
        try:
            yield
        finally:
            self._calls -= 1
            # A single call may replace a stream for good, as `colorama.init` does.
            if not self._calls and self._overlapped:
                self._restore()

    def _restore(self) -> None:
        """Restore the streams from before the first call, if one of the calls has left another
        one."""
        for name, original in zip(self.NAMES, self._before, strict=True):
            current = getattr(sys, name)
            is_home = any(current is stream for stream in self._home)
            if current is original or isinstance(current, _Copied) or is_home:
                continue
            if self._in_background and Streams.deferred:
                self._left[name] = current, original
            else:
                setattr(sys, name, original)

    @classmethod
    def put_back(cls) -> None:
        """Restore the streams that background runs left. Called between two cells."""
        for name, (left_stream, original) in list(cls._left.items()):
            del cls._left[name]
            if getattr(sys, name) is left_stream:
                setattr(sys, name, original)
