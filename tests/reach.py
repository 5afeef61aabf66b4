"""Records which test reaches which line of the package: ``pytest -p tests.reach``, for ``python -m tests.mutants map``.

The interpreter tells each line once for each test and then is silent about it, so the tests run nearly as fast as
without the record. Processes that a test starts are not recorded.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
from coverage import CoverageData

ROOT = Path(__file__).parents[1]
PACKAGE = f"{ROOT / 'agf_magics'}{os.sep}"

FOLDER = ROOT / "build" / "mutants"
"""The folder of the records. Each process of pytest writes one."""


def records() -> Iterator[CoverageData]:
    """The records of all processes of the last run."""
    for path in sorted(FOLDER.glob("map-*")):
        data = CoverageData(str(path))
        data.read()
        yield data


class Reach:
    """The lines that were reached since the last look, told by the interpreter."""

    def __init__(self) -> None:
        monitoring = sys.monitoring  # type: ignore[attr-defined,unused-ignore]  # Python 3.12
        self.lines: dict[str, set[int]] = {}
        self.tool = monitoring.COVERAGE_ID
        monitoring.use_tool_id(self.tool, "reach")
        events = monitoring.events

        def started(code: CodeType, offset: int) -> Any:
            # Only functions of the package tell their lines. The others would cost as much as the tests.
            if code.co_filename.startswith(PACKAGE) and not monitoring.get_local_events(self.tool, code):
                monitoring.set_local_events(self.tool, code, events.LINE)
            return monitoring.DISABLE

        def reached(code: CodeType, line: int) -> Any:
            self.lines.setdefault(code.co_filename, set()).add(line)
            return monitoring.DISABLE

        monitoring.register_callback(self.tool, events.PY_START, started)
        monitoring.register_callback(self.tool, events.LINE, reached)
        monitoring.set_events(self.tool, events.PY_START)
        self.restart = monitoring.restart_events
        self.stop = partial(monitoring.register_callback, self.tool, events.PY_START, None)

    def take(self) -> dict[str, set[int]]:
        """The lines since the last call, by file."""
        lines, self.lines = self.lines, {}
        self.restart()
        return lines


class Recorder:
    """Writes the lines of each test to the record of this process."""

    def __init__(self) -> None:
        FOLDER.mkdir(parents=True, exist_ok=True)
        self.reach = Reach()
        self.data = CoverageData(str(FOLDER / f"map-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"))

    def write(self, context: str) -> None:
        """Write the lines since the last call. ``context`` is the name of a test, or empty for what no test reached,
        such as imports."""
        self.data.set_context(context)
        self.data.add_lines(self.reach.take())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self.write("")
        result = yield
        self.write(item.nodeid)
        return result

    def pytest_unconfigure(self) -> None:
        self.reach.stop()  # the interpreter clears this module before its last functions run


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        config.pluginmanager.register(Recorder())
