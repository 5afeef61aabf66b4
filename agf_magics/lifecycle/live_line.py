"""The line of a terminal that a run writes again and again while it runs."""

from __future__ import annotations

import shutil
from typing import TextIO

from ..engine.runner import clock
from ..pictures.page import live_line
from .run import Run

_BEGIN = "\r\x1b[2K"
"""Goes to the begin of the line and empties it."""


class LiveLine:
    """It is written only into a terminal, and only while a run has it: what is left is the end of
    the run, which others write."""

    SECONDS = 0.25

    def __init__(self, file: TextIO) -> None:
        self._file, self._is_terminal, self._shown = file, file.isatty(), ""

    def show(self, run: Run) -> None:
        if not self._is_terminal or run.done or run.progress.asked:
            return self.clear()
        text = live_line(run.progress, clock())[: shutil.get_terminal_size().columns - 1]
        if text != self._shown:
            self._shown = text
            self._file.write(f"{_BEGIN}{text}")
            self._file.flush()

    def clear(self) -> None:
        if self._shown:
            self._shown = ""
            self._file.write(_BEGIN)
            self._file.flush()
