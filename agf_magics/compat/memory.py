"""Reads how much memory a process uses, by the means of each operating system."""

from __future__ import annotations

import os
import subprocess
import sys


def memory_of(pid: int) -> int | None:
    """The bytes of memory that the process ``pid`` of this machine uses; None if the system does
    not tell."""
    try:
        if sys.platform == "linux":
            with open(f"/proc/{pid}/statm", encoding="ascii") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return memory_by_program(pid)
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return None


def memory_by_program(pid: int) -> int | None:
    """`memory_of` by a program of the system, ``ps`` or ``tasklist``."""
    windows = ["tasklist", "/FI", f"PID eq {pid}", "/FO", "CSV", "/NH"]
    command = windows if sys.platform == "win32" else ["ps", "-o", "rss=", "-p", str(pid)]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False).stdout
    # The last column of tasklist is "12,345 K"; ps prints such kilobytes, too.
    return int("".join(filter(str.isdigit, printed.rpartition(',"')[2]))) << 10
