"""Records which test reaches which line of the package: ``pytest -p tests.reach``, for ``python -m tests.mutants map``.

The processes that a test starts count, too (`tests.reached`): kernels, workers, scripts. A process that goes on after
its test, such as a worker of a cluster that the tests of a file share, counts for all tests of the file.
"""

from __future__ import annotations

import difflib
import json
import os
import shutil
import sys
import sysconfig
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from coverage import CoverageData

from tests.reached import PACKAGE, ROOT, VARIABLE

FOLDER = Path(ROOT) / "build" / "mutants"
"""The records. Each run of the tests has a folder here, with a copy of the package: the lines are those of the copy."""

RUN = "AGF_REACH_RUN"
"""The variable with the folder of this run."""


# --- writing ---


@contextmanager
def recording(anew: bool) -> Iterator[None]:
    """Let this process's tests and all their processes write a record. ``anew``: it replaces the records so far."""
    if anew:
        shutil.rmtree(FOLDER, ignore_errors=True)
    run = FOLDER / time.strftime("%Y-%m-%d-%H%M%S")
    shutil.copytree(PACKAGE, run / "agf_magics", ignore=shutil.ignore_patterns("__pycache__", "labextension"))
    program = str(Path(__file__).with_name("reached.py"))
    names = {"__name__": "reached", "__file__": program}
    start = Path(sysconfig.get_path("purelib")) / f"agf-reach-{os.getpid()}.pth"
    of_this_run = f"os.environ.get({VARIABLE!r}, '').startswith({str(run)!r})"
    code = f"if {of_this_run}:\n with open({program!r}) as file: exec(file.read(), {names!r})"
    start.write_text(f"import os; exec({code!r})\n")
    os.environ |= {RUN: str(run), VARIABLE: str(run)}
    try:
        yield
    finally:
        start.unlink()


class Recorder:
    """Writes the lines of each test to the record of this process of pytest."""

    def __init__(self, run: Path) -> None:
        name = os.environ.get("PYTEST_XDIST_WORKER", "main")
        self.lines = run / f"lines-{name}"
        self.file = ""
        """The file whose tests run."""
        self.read = dict[Path, int]()
        """How much of each process's file was read."""
        self.data = CoverageData(str(run / f"map-{name}"))
        self.seconds, self.times = dict[str, float](), run / f"seconds-{name}.json"

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        file = item.nodeid.partition("::")[0]
        if file != self.file:
            self.file = file
            self.read.clear()
            shutil.rmtree(self.lines, ignore_errors=True)
            folder = self.lines / file.replace(
                "/", "-"
            )  # another name than before, so that this process opens its file
            folder.mkdir(parents=True)
            os.environ[VARIABLE] = str(folder)
        sys.monitoring.restart_events()  # type: ignore[attr-defined,unused-ignore]  # Python 3.12
        begin = time.monotonic()
        result = yield
        self.seconds[item.nodeid] = time.monotonic() - begin
        self.write(item.nodeid)
        return result

    def write(self, test: str) -> None:
        """Write what the processes have reached since the last test."""
        for path in self.lines.glob("*/*"):
            with path.open("rb") as file:
                file.seek(self.read.get(path, 0))
                data = file.read()
                self.read[path] = file.tell()
            lines = dict[str, set[int]]()
            for name, _, line in (text.partition("\t") for text in data.decode().splitlines()):
                if line.isdecimal() and name.endswith(".py"):  # a process without space on its disk writes a part
                    lines.setdefault(name, set()).add(int(line))
            is_shared = path.name != str(os.getpid()) and Path("/proc", path.name).exists()
            for context in (test, self.file) if is_shared else (test,):
                self.data.set_context(context)
                self.data.add_lines(lines)

    def pytest_unconfigure(self) -> None:
        shutil.rmtree(self.lines, ignore_errors=True)
        self.times.write_text(json.dumps(self.seconds), encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        config.pluginmanager.register(Recorder(Path(os.environ[RUN])))


# --- reading ---


class Record(NamedTuple):
    """What one process of pytest has recorded, and the folder of its run."""

    run: Path
    data: CoverageData


@cache
def records() -> Sequence[Record]:
    read = []
    for path in sorted(FOLDER.glob("*/map-*")):
        data = CoverageData(str(path))
        data.read()
        read.append(Record(path.parent, data))
    return read


@cache
def seconds() -> dict[str, float]:
    """How long each test took."""
    return {
        test: took for path in sorted(FOLDER.glob("*/seconds-*")) for test, took in json.loads(path.read_text()).items()
    }


def tests_of(file: str, text: str, lines: Sequence[int]) -> set[str]:
    """The tests, or test files, that reach one of the ``lines`` of a file of the package, which is ``text`` now."""
    tests = set[str]()
    for record in records():
        by_line = record.data.contexts_by_lineno(file)
        then = _lines_then(record.run / file, text)
        tests.update(*(by_line.get(then.get(line, 0), []) for line in lines))
    return tests


@cache
def _lines_then(path: Path, text: str) -> dict[int, int]:
    """For each line of ``text`` that a recorded file has, too, its number there."""
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    matcher = difflib.SequenceMatcher(None, before.splitlines(), text.splitlines(), autojunk=False)
    return {
        now + number + 1: then + number + 1
        for then, now, length in matcher.get_matching_blocks()
        for number in range(length)
    }
