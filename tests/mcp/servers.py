"""Starts servers for tests, and looks after their processes."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import agf_magics as agf

PROGRAMS = Path(__file__).parent / "programs"


def program(name: str, *words: str) -> list[str]:
    """The command of a server in ``programs``."""
    return [sys.executable, str(PROGRAMS / f"{name}.py"), *words]


def call(tool: str, **options: Any) -> Any:
    """The run of a pipeline that calls one tool: ``call("good__add", args={"a": 1})``."""
    arguments = options.pop("args", {})
    step = {"name": tool, "args": arguments}
    return agf.run(f"pipeline: main\nsteps: [{{tool: {step!r}}}]".replace("'", '"'), **options)


def is_alive(pid: int) -> bool:
    """Whether a process runs. A process that has ended and waits for its parent does not count."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not (stat.exists() and stat.read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z")


def until(condition: Callable[[], object], seconds: float = 20.0) -> bool:
    """Whether a condition becomes true. It is checked repeatedly."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def marks(path: Path) -> list[str]:
    """The lines that a server has recorded in its file of marks."""
    return path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
