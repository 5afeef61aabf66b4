"""The pytest of a mutant: it collects all tests once and tries each mutant in a fork of itself, for
``python -m tests.mutants``.

A fork replaces the code of the functions that the mutant changes, and runs tests until one fails. A change outside of
functions, such as a default value, needs a new import: the answer is then "import", and the caller starts a pytest on
the changed tree.
"""

from __future__ import annotations

import gc
import inspect
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import zip_longest
from pathlib import Path
from types import CodeType, FunctionType

import pytest

ORDERS, ANSWERS = "AGF_MUTANT_ORDERS", "AGF_MUTANT_ANSWERS"
"""The variables with the numbers of the two pipes to the caller. Each order and each answer is a line of JSON."""

MARK = "AGF_MUTANT"
"""The variable by which the processes of a fork are found."""

TEST_SECONDS = 90
"""Seconds after which a test fails, which kills the mutant."""

SILENCE = TEST_SECONDS + 30
"""Seconds without a finished test after which a fork counts as hanging, where the time limit of a test does not
work."""


Change = tuple[str, str, str]
"""The path of a file, its text, and its text after the change."""


class Unpatchable(Exception):
    """The change cannot be made in functions that exist."""


def codes(code: CodeType, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], CodeType]]:
    """A code object and all inside of it, each with its place."""
    yield path, code
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    for number, constant in enumerate(inner):
        yield from codes(constant, (*path, number))


def patch(functions: Sequence[FunctionType], path: str, source: str, changed: str) -> None:
    """Give those of ``functions`` that come from the file ``path`` the code of ``changed``. Raises Unpatchable."""
    before = dict(codes(compile(source, path, "exec", dont_inherit=True)))
    after = dict(codes(compile(changed, path, "exec", dont_inherit=True)))
    if {place: code.co_name for place, code in before.items()} != {
        place: code.co_name for place, code in after.items()
    }:
        raise Unpatchable
    different = [before[place] for place in before if _own(before[place]) != _own(after[place])]
    if not different or not all(code.co_flags & inspect.CO_NEWLOCALS for code in different):
        raise Unpatchable  # code of a module or a class, which has run
    new = {before[place]: after[place] for place in before}
    for function in functions:
        if function.__code__ in new:
            try:
                function.__code__ = new[function.__code__]
            except ValueError:  # the change drops or adds a variable of an outer function
                raise Unpatchable from None


def _own(code: CodeType) -> tuple[object, ...]:
    """What a code object does, without the code objects inside of it and without its lines."""
    constants = [constant for constant in code.co_consts if not isinstance(constant, CodeType)]
    return code.co_code, [(type(constant), repr(constant)) for constant in constants], code.co_names, code.co_varnames


class NotCollected(Exception):
    """The tests of the changed tree cannot be collected."""


class Tests:
    """The client: a pytest on a tree that has collected its tests. Its files go to ``temporary`` and ``home``;
    ``arguments`` are more of its arguments. Raises NotCollected."""

    def __init__(self, tree: Path, temporary: Path, home: Path, arguments: Sequence[str]) -> None:
        self.temporary = temporary
        orders, writing = os.pipe()
        reading, answers = os.pipe()
        places = {"TMPDIR": temporary, "PYTEST_DEBUG_TEMPROOT": temporary, "HOME": home, "PYTHONPATH": tree}
        settings = {"PYTHONDONTWRITEBYTECODE": "1", ORDERS: str(orders), ANSWERS: str(answers)}
        command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", "-p", "tests.mutated"]
        with (home / "output").open("wb") as output:
            self.process = subprocess.Popen(
                [*command, "-m", "not browser", f"--timeout={TEST_SECONDS}", *arguments],
                cwd=tree,
                env=os.environ | {name: str(place) for name, place in places.items()} | settings,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(orders, answers),
            )
        os.close(orders)
        os.close(answers)
        self.orders, self.answers = os.fdopen(writing, "w"), os.fdopen(reading)
        if not self.answers.readline():
            self.close()
            raise NotCollected((home / "output").read_text(encoding="utf-8", errors="replace")[-2000:])

    def run(
        self, tests: Sequence[str], without: Sequence[str], change: Change | None, seconds: float
    ) -> tuple[str, str]:
        """Run ``tests``, names of tests or of files, on the tree with ``change``, for at most ``seconds``. Returns what
        `Fork.wait` does."""
        shutil.rmtree(self.temporary, ignore_errors=True)
        self.temporary.mkdir()
        order = {"tests": tests, "without": without, "change": change, "seconds": seconds}
        print(json.dumps(order), file=self.orders, flush=True)
        word, told = json.loads(self.answers.readline())
        return word, told

    def close(self) -> None:
        self.orders.close()
        self.answers.close()
        self.process.wait()


class Fork:
    """Runs tests in a fork of this process and tells how they end."""

    def __init__(self, session: pytest.Session, items: Sequence[pytest.Item], change: Callable[[], None]) -> None:
        self.reading, self.writing = os.pipe()
        self.child = os.fork()
        if self.child == 0:
            try:
                self.run(session, items, change)
            finally:
                os._exit(1)
        os.close(self.writing)

    def run(self, session: pytest.Session, items: Sequence[pytest.Item], change: Callable[[], None]) -> None:
        os.setsid()
        os.environ[MARK] = str(os.getpid())
        os.close(self.reading)
        try:
            change()
            session.config.pluginmanager.register(self)
            for item, following in zip_longest(items, items[1:]):
                self.say(f"runs {item.nodeid}")
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            self.say(f"passed {len(items)}")
        except Unpatchable:
            self.say("import")

    def say(self, text: str) -> None:
        os.write(self.writing, f"{text}\n".encode())

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.say(f"failed {report.nodeid}")
            os._exit(1)

    def wait(self, seconds: float) -> tuple[str, str]:
        """How the fork ends within ``seconds``: "passed" and the number of tests; "failed" and the test that failed,
        hung or ended the process; "import"; or "late" and the number of tests that passed."""
        end = time.monotonic() + seconds
        text, said = b"", list[str]()
        while not said or said[-1].startswith("runs "):
            left = min(SILENCE, end - time.monotonic())
            part = os.read(self.reading, 65536) if select.select([self.reading], [], [], max(left, 0))[0] else b""
            if not part:
                break
            text += part
            said = text.decode().splitlines()
        os.close(self.reading)
        self.end()
        word, _, test = (said or ["runs the start"])[-1].partition(" ")
        if word != "runs":
            return word, test
        return ("late", str(max(len(said) - 1, 0))) if time.monotonic() >= end else ("failed", test)

    def end(self) -> None:
        """End the fork and all processes that its tests started, even kernels and workers, which have sessions of their
        own."""
        os.kill(self.child, signal.SIGKILL)
        with suppress(ProcessLookupError):
            os.killpg(self.child, signal.SIGKILL)
        os.waitpid(self.child, 0)
        mark = f"{MARK}={self.child}\0".encode()
        for entry in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):  # the process has ended, or belongs to another user
                if mark in entry.read_bytes():
                    os.kill(int(entry.parent.name), signal.SIGKILL)


class Server:
    """Answers the orders of the caller instead of running the collected tests."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed:
            return None  # pytest tells that a file cannot be imported
        gc.collect()
        functions = [thing for thing in gc.get_objects() if isinstance(thing, FunctionType)]
        gc.freeze()  # the collector of a fork does not visit, and so copy, all these objects
        items = dict[str, list[pytest.Item]]()
        for item in session.items:
            for name in (item.nodeid, item.nodeid.partition("::")[0]):
                items.setdefault(name, []).append(item)
        orders, answers = os.fdopen(int(os.environ[ORDERS])), os.fdopen(int(os.environ[ANSWERS]), "w")
        print(json.dumps("ready"), file=answers, flush=True)
        for line in orders:
            order = json.loads(line)
            left_out = {item for test in order["without"] for item in items.get(test, [])}
            chosen = dict.fromkeys(item for test in order["tests"] for item in items.get(test, []))
            change = partial(patch, functions, *order["change"]) if order["change"] else _nothing
            fork = Fork(session, [item for item in chosen if item not in left_out], change)
            print(json.dumps(fork.wait(order["seconds"])), file=answers, flush=True)
        return True


def _nothing() -> None:
    """No change: the tests run on the code that was imported."""


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Server())
