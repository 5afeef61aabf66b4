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
from typing import Any, Protocol


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
