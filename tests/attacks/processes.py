"""Scripts in processes of their own, for attacks that may hang, kill or fork a process."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

PATIENCE = 120.0
"""Seconds after which a process is taken to hang. Nothing waits that long but a failure."""


def script(text: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a Python script in ``folder``, which becomes a project, to its end. Raises TimeoutExpired if it hangs."""
    (folder / "pyproject.toml").touch()
    command = [sys.executable, "-c", textwrap.dedent(text), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False)


def printed(text: str, folder: Path, *arguments: str) -> list[str]:
    """The lines that a script prints, which must succeed."""
    done = script(text, folder, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
