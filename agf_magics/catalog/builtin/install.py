"""Registers the built-in tools in a registry: files, shell and SQL.

The shell is off until the person turns it on; a definition cannot do that (decision P8).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

from ...text.diagnostics import Diagnostic, StepError
from ..decorators import tool
from ..registry import Registry
from .files import Written, read_file, write_file
from .processes import run
from .sql import SECONDS, query_frames

SWITCH = "%config AgfMagics.allow_shell = True"


class Ran(TypedDict):
    """The result of ``shell``."""

    stdout: str
    stderr: str
    exit_code: int


def install(
    registry: Registry,
    *,
    folder: Callable[[], Path],
    allow_shell: Callable[[], bool],
    stopped: Callable[[], bool] = lambda: False,
    protected: Callable[[], Collection[Path]] = tuple,
    switch: Callable[[], str] = lambda: SWITCH,
) -> None:
    """Register the built-in tools.

    ``folder``, ``protected``: return the notebook's folder, and the files of this package that the
    file tools do not open; called for each call. ``stopped``: whether the call on this thread was
    cancelled; a running command calls it, because an interrupt reaches only the main thread.
    ``switch``: what the person writes to turn the shell on.
    """

    def read(path: str) -> str:
        """The text of a file below the notebook's folder."""
        return read_file(Path(os.path.realpath(folder())), path, protected())

    def write(path: str, content: Any) -> Written:
        """Write text, or any JSON value as JSON, to a file below the notebook's folder."""
        return write_file(Path(os.path.realpath(folder())), path, content, protected())

    def shell(
        command: list[str], timeout: float | None = None, success_codes: Sequence[int] = (0,)
    ) -> Ran:
        """Run a program with its arguments in the notebook's folder.

        Off until AgfMagics.allow_shell is True."""
        if not allow_shell():
            raise StepError(Diagnostic("tool.shell-off", "the shell is off", hint=switch()))
        ran = run(command, folder(), timeout, success_codes, stopped)
        return Ran(stdout=ran.stdout, stderr=ran.stderr, exit_code=ran.exit_code)

    def sql(query: str, frames: Mapping[str, Any] | None = None, timeout: float = SECONDS) -> Any:
        """A SELECT over frames by their names, in DuckDB; it can read nothing else."""
        return query_frames(query, frames or {}, timeout, stopped)

    tool(read, group="file", registry=registry, reuse=False)
    tool(write, group="file", registry=registry, reuse=False)
    tool(shell, registry=registry, reuse=False)
    tool(sql, registry=registry)
    for name in ("file__read", "file__write", "shell", "sql"):
        registry.tools.add(replace(registry.tools[name], kernel_only=True, listed_only=True))
