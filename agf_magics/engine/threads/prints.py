"""What user code prints, given to the call that prints it.

`sys.stdout` is wrapped while a run is watched. Everything is still printed where it was; the call
gets a copy. A context variable has the call, so that a call pays for its copy only if it prints. A
thread that a tool starts prints for itself.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, ClassVar, Protocol


class Prints(Protocol):
    """Gets what a call prints, on any thread."""

    def add(self, text: str) -> None: ...


printing: ContextVar[Prints | None] = ContextVar("printing", default=None)
"""Gets what the running user code prints."""


class _Copied:
    """A `sys.stdout` that gives a copy of each text to the call that prints it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> Any:
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
            # Other code may have replaced it meanwhile, or holds it and will put it back: then it
            # stays a plain copy.
            if not self._runs and self._copied is not None and sys.stdout is self._copied:
                sys.stdout = self._copied._stream
                self._copied = None


watched_stdout = _Watched()
"""The context of a watched run."""


class Streams:
    """`sys.stdout` and `sys.stderr` around the calls of one run that are made at the same time.

    `contextlib.redirect_stdout` in two of them can leave the buffer of the first one in place: it
    puts back what it has found. Nothing is printed any more then, until the process ends. So after
    the last of such calls what was there before the first one is put back (decision D144).
    """

    NAMES = ("stdout", "stderr")
    deferred: ClassVar[bool] = False
    """Whether a run in the background leaves that to `put_back`: a cell may run beside it, whose
    own redirection nobody can tell from one that was left."""
    _home: ClassVar[tuple[Any, ...]] = (sys.stdout, sys.stderr)
    _left: ClassVar[dict[str, tuple[Any, Any]]] = {}
    """By name, the stream that was left and the one from before."""

    def __init__(self, in_background: bool) -> None:
        self._in_background = in_background
        self._calls = 0
        self._overlapped = False
        self._before: tuple[Any, ...] = ()

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
            # A call alone may replace a stream for good, as `colorama.init` does.
            if not self._calls and self._overlapped:
                self._restore()

    def _restore(self) -> None:
        """Put back the streams from before the first call, where one of the calls has left its
        own."""
        for name, before in zip(self.NAMES, self._before, strict=True):
            now = getattr(sys, name)
            if (
                now is before
                or isinstance(now, _Copied)
                or any(now is stream for stream in self._home)
            ):
                continue
            if self._in_background and Streams.deferred:
                self._left[name] = now, before
            else:
                setattr(sys, name, before)

    @classmethod
    def put_back(cls) -> None:
        """Put back what was left by runs in the background; between two cells."""
        for name, (left_stream, before) in list(cls._left.items()):
            del cls._left[name]
            if getattr(sys, name) is left_stream:
                setattr(sys, name, before)
