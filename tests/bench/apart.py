"""Runs a part of the benchmark in a process of its own, and ends the process if it hangs."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time

LOOK = 0.5
"""Seconds between two checks of a process."""


class LeftOut(Exception):
    """The reason why a part has no figures. ``lines``: what the part printed before."""

    def __init__(self, why: str, lines: list[str]) -> None:
        super().__init__(why)
        self.lines = lines


def run_apart(module: str, *words: str, seconds: float) -> list[str]:
    """The lines that ``python -m module`` prints. Raises LeftOut if it fails, or is silent for ``seconds``."""
    with tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as errors:
        # The output goes to files, because a grandchild that continues would keep a pipe open. The process has a
        # session of its own, so that all its processes can be ended together.
        process = subprocess.Popen(
            [sys.executable, "-m", module, *words], stdout=printed, stderr=errors, start_new_session=True
        )
        size, until, hangs = 0, time.monotonic() + seconds, False
        try:
            while process.poll() is None and not hangs:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(LOOK)
                if (now := os.fstat(printed.fileno()).st_size) != size:
                    size, until = now, time.monotonic() + seconds
                hangs = process.poll() is None and time.monotonic() > until
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        printed.seek(0)
        lines = printed.read().splitlines()
        if hangs:
            raise LeftOut(f"it did nothing for {seconds:.0f} s", lines)
        if process.returncode:
            errors.seek(0)
            last = (errors.read().splitlines() or [f"it ended with {process.returncode}"])[-1]
            raise LeftOut(last[:200], lines)
        return lines
