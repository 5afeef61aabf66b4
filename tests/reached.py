"""Writes which lines of the package a process reaches, for ``python -m tests.mutants map``.

While the map is made, each Python process that a test starts executes this file before anything else, so it imports
little. It writes each line at once, because many processes are killed. The interpreter tells each line once and then is
silent about it, so the tests run nearly as fast as without the record. Code of modules and classes is left out, because
each process runs all of it.
"""

from __future__ import annotations

import os
import sys
from os import O_APPEND, O_CREAT, O_WRONLY, close, open, write  # a test may replace them in `os`
from types import CodeType

VARIABLE = "AGF_REACH"
"""The variable with the folder to write to. Each process writes to a file of its own, whose name is its number."""

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
PACKAGE = os.path.join(ROOT, "agf_magics", "")
CO_NEWLOCALS = 2
"""The flag of the code of functions."""


class Lines:
    """The lines that this process reaches, written to its file."""

    def __init__(self) -> None:
        monitoring = self.monitoring = sys.monitoring  # type: ignore[attr-defined,unused-ignore]  # Python 3.12
        self.tool, self.silent = monitoring.COVERAGE_ID, monitoring.DISABLE
        self.folder, self.file = "", -1
        monitoring.use_tool_id(self.tool, "reach")
        monitoring.register_callback(self.tool, monitoring.events.PY_START, self.started)
        monitoring.register_callback(self.tool, monitoring.events.LINE, self.reached)
        monitoring.set_events(self.tool, monitoring.events.PY_START)
        os.register_at_fork(after_in_child=self.forked)

    def started(self, code: CodeType, offset: int) -> object:
        # Only functions of the package tell their lines. The others would cost as much as the tests.
        if code.co_filename.startswith(PACKAGE) and code.co_flags & CO_NEWLOCALS:
            self.monitoring.set_local_events(self.tool, code, self.monitoring.events.LINE)
        return self.silent

    def reached(self, code: CodeType, line: int) -> object:
        try:
            folder = os.environ.get(VARIABLE) or self.folder
            if folder != self.folder:
                self.forget()
                self.file = open(os.path.join(folder, str(os.getpid())), O_WRONLY | O_APPEND | O_CREAT, 0o600)
                self.folder = folder
            write(self.file, f"{code.co_filename[len(ROOT) :]}\t{line}\n".encode())
        except (OSError, TypeError):  # the test file has ended, the test lets all writing fail, or Python ends
            pass
        return self.silent

    def forked(self) -> None:
        """Begin anew in a fork, which may belong to another test than the process that forked."""
        self.forget()
        self.monitoring.restart_events()

    def forget(self) -> None:
        if self.file >= 0:
            close(self.file)
        self.folder, self.file = "", -1


if __name__ == "reached" and sys.monitoring.get_tool(sys.monitoring.COVERAGE_ID) is None:  # type: ignore[attr-defined,unused-ignore]
    Lines()
