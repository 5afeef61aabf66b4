"""The line about a running run in a terminal: the headline with a bar, written again and again."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from ...flow.progress.progress import Progress
from ...text.columns import fitting
from ..row_words import outer_fans, tallies
from .parts import headline, steps_done


def live_line(progress: Progress, now: float) -> str:
    """The headline with a bar: how much of the outermost fan-outs has ended, or of the steps."""
    fans = outer_fans(progress, tallies(progress))
    ended, total = steps_done(progress)
    if fans:
        ended = sum(tally.ended for _, tally in fans)
        total = sum(tally.total for _, tally in fans)
    bar = f"{'▰' * (10 * ended // max(total, 1)):▱<10}"
    return f"{bar} {headline(progress, now=now)}"


class LiveLine:
    """A line about a run that is written again and again into a terminal, and into nothing else. It is
    cleared when the run asks a question or ends: others write the question and the end."""

    SECONDS = 0.25
    """Seconds between two calls of `show`; the caller waits for them."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._is_terminal = file.isatty()
        self._shown = ""
        self._lock = threading.RLock()
        self._is_inside = False
        """Whether the last line that others printed has no end yet."""

    @contextmanager
    def away(self, text: str) -> Iterator[None]:
        """Clear the line while others print ``text``, on any thread."""
        with self._lock:
            self.clear()
            yield
            self._is_inside = not text.endswith("\n") if text else self._is_inside

    def show(self, progress: Progress, now: float) -> None:
        if not self._is_terminal or progress.ended is not None or progress.open_questions:
            return self.clear()
        text = live_line(progress, now)
        text = text[: fitting(text, shutil.get_terminal_size().columns - 1)]
        with self._lock:
            if text != self._shown and not self._is_inside:
                self._shown = text
                self._file.write(f"{_EMPTY_LINE}{text}")
                self._file.flush()

    def clear(self) -> None:
        with self._lock:
            if self._shown:
                self._shown = ""
                self._file.write(_EMPTY_LINE)
                self._file.flush()


_EMPTY_LINE = "\r\x1b[2K"
"""Goes to the beginning of the line and empties it."""
