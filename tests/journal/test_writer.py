"""The writer of the journal: a record that is reported as durable can be read, whoever else writes meanwhile."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.journal.database import writer
from agf_magics.journal.database.errors import JournalError
from agf_magics.journal.database.store import ADD, Store
from agf_magics.journal.database.writer import LOG
from tests.engine import kept
from tests.processes import script

LONGEST = 60.0
"""Seconds after which the awaited event will not come any more."""


def line(number: int, value: Any = "x") -> tuple[Any, ...]:
    return (number, "finished", "[]", "", "tool", "t", 1.0, 2.0, None, 0, "json", value, None, None, None, None, 0)


def write_and_read(store: Store, numbers: range) -> None:
    """On a loop of this thread, eight tasks write lines, and look for each line when the writer reports it as
    durable."""
    with closing(sqlite3.connect(store.path)) as reading:

        async def write(lines: range) -> None:
            for number in lines:
                await store.writer.write(ADD, line(number))
                assert reading.execute("SELECT 1 FROM records WHERE line=?", (number,)).fetchone() == (1,)

        async def main() -> None:
            await asyncio.gather(*(write(numbers[start::8]) for start in range(8)))

        asyncio.run(main())


def test_a_durable_line_can_be_read_on_whatever_thread_its_loop_is(tmp_path: Path) -> None:
    with kept.journal_in(tmp_path) as path:
        store, wrong = Store.at(path), list[BaseException]()

        def there(numbers: range) -> None:
            try:
                write_and_read(store, numbers)
            except BaseException as error:
                wrong.append(error)

        beside = [threading.Thread(target=there, args=(range(n * 1_000, n * 1_000 + 160),)) for n in range(1, 4)]
        for thread in beside:
            thread.start()
        there(range(160))  # on the main thread, whose lines another thread commits
        for thread in beside:
            thread.join()
        assert wrong == []
        with closing(sqlite3.connect(path)) as reading:
            assert reading.execute("SELECT count(*) FROM records").fetchone() == (640,)


BOTH = """\
pipeline: main
steps:
- parallel:
    branches:
      one: {tool: {name: quick}}
      other: {tool: {name: looks}}
    collect: {transform: {value: pipe}}
"""


def test_a_line_is_written_also_while_a_call_blocks_its_loop(tmp_path: Path) -> None:
    registry = agf.Registry()
    with kept.journal_in(tmp_path) as path:

        @agf.tool(registry=registry)
        async def quick() -> str:
            return "done"

        @agf.tool(where="loop", registry=registry)
        def looks() -> str:
            """Blocks the loop until the other call's line is durable."""
            until = time.monotonic() + LONGEST
            with closing(sqlite3.connect(path)) as reading:
                while time.monotonic() < until:
                    if reading.execute("SELECT 1 FROM records WHERE name='quick'").fetchone():
                        return "seen"
            return "not seen"

        assert agf.run(agf.load(BOTH, registry=registry), registry=registry).output["other"] == "seen"


def test_a_loop_continues_while_another_process_holds_the_file(tmp_path: Path) -> None:
    registry, turns = agf.Registry(), list[int]()
    with kept.journal_in(tmp_path) as path:

        @agf.tool(registry=registry)
        async def quick() -> str:
            return "done"

        @agf.tool(registry=registry)
        async def looks() -> str:
            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                for turn in range(500):
                    await asyncio.sleep(0)
                    turns.append(turn)
                assert other.execute("SELECT 1 FROM records WHERE name='quick'").fetchone() is None
            return "seen"

        text = BOTH.replace("one: {tool: {name: quick}}", "b: {tool: {name: looks}}").replace("other:", "a:")
        text = text.replace("a: {tool: {name: looks}}", "c: {tool: {name: quick}}")
        run = agf.run(agf.load(text, registry=registry), registry=registry)
        assert (run.output, run.warnings, len(turns)) == ({"b": "seen", "c": "done"}, (), 500)
        assert [kind for kind, *_ in kept.lines(path)].count("finished") == 2


def test_lines_that_another_process_keeps_from_the_file_are_given_up_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "BUSY", 0.01)
    with kept.journal_in(tmp_path) as path:
        store = Store.at(path)
        begun, begin = list[bool](), store.writer._begin

        def counted(patient: bool) -> bool:
            begun.append(patient)
            return begin(patient)

        monkeypatch.setattr(store.writer, "_begin", counted)

        async def main() -> list[BaseException | None]:
            return await asyncio.gather(*(store.writer.write(ADD, line(n)) for n in range(8)), return_exceptions=True)

        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with store.writer._committing:  # all lines are queued before the first is handled
                loop = asyncio.new_event_loop()
                writing = loop.create_task(main())
                loop.run_until_complete(asyncio.sleep(0))
            assert all(isinstance(error, JournalError) for error in loop.run_until_complete(writing))
            loop.close()
            other.execute("ROLLBACK")
    assert begun == [True]  # the writer waits once for the file, not once for each line


def test_the_log_begins_anew_when_it_is_long(tmp_path: Path) -> None:
    with kept.journal_in(tmp_path) as path:
        store, log = Store.at(path), Path(f"{path}-wal")

        async def write(number: int, value: str) -> None:
            await store.writer.write(ADD, line(number, value))

        for number in range(5):
            asyncio.run(write(number, "x" * (LOG // 4)))
        store.flush()
        store.flush()  # the thread has looked after the log by then
        asyncio.run(write(9, "y"))
        assert log.stat().st_size < LOG / 2
        with closing(sqlite3.connect(path)) as reading:
            assert reading.execute("SELECT count(*) FROM records").fetchone() == (6,)


def test_the_log_is_as_short_each_time_it_begins_anew(tmp_path: Path) -> None:
    with kept.journal_in(tmp_path) as path:
        store, log = Store.at(path), Path(f"{path}-wal")

        async def write(number: int) -> None:
            await store.writer.write(ADD, line(number, "x" * (LOG // 4)))

        for number in range(16):
            asyncio.run(write(number))
            store.flush()
            store.flush()  # the thread has looked after the log by then
            assert log.stat().st_size < LOG * 1.75


def test_a_line_that_cannot_be_written_affects_no_other_line(tmp_path: Path) -> None:
    with kept.journal_in(tmp_path) as path:
        store = Store.at(path)

        async def main() -> list[Any]:
            wishes = [store.writer.write(ADD, line(number, value)) for number, value in ((1, "a"), (2, []), (3, "c"))]
            return await asyncio.gather(*wishes, return_exceptions=True)

        first, second, third = asyncio.run(main())
        assert (first, third) == (None, None)
        assert isinstance(second, JournalError)
        with closing(sqlite3.connect(path)) as reading:
            assert reading.execute("SELECT line FROM records ORDER BY line").fetchall() == [(1,), (3,)]


def test_all_rows_are_written_except_impossible_ones(tmp_path: Path) -> None:
    with kept.journal_in(tmp_path) as path:
        store, failed = Store.at(path), list[JournalError]()
        rows = [line(1, "a"), line(2, []), line(3, "c"), line(3, "again"), line(4, "d")]
        store.writer.later(ADD, rows, failed.append)
        store.flush()
        with closing(sqlite3.connect(path)) as reading:
            stored = reading.execute("SELECT line, value FROM records ORDER BY line").fetchall()
        assert (stored, len(failed)) == ([(1, "a"), (3, "c"), (4, "d")], 2)


@pytest.mark.parametrize("on_main", [False, True], ids=["a loop commits", "the thread commits"])
def test_a_run_has_the_same_records_whoever_commits(on_main: bool, tmp_path: Path) -> None:
    registry = agf.Registry()
    agf.tool(lambda n: n + 1, name="inc", where="loop", registry=registry)
    text = """\
pipeline: main
steps:
- for_each: {over: ctx.xs, max_parallel: 4, on_error: abort, do: {tool: {name: inc, args: {n: !expr item}}},
             collect: {transform: {value: pipe}}}
"""
    with kept.journal_in(tmp_path) as path:
        flow, fields = agf.load(text, registry=registry), {"xs": list(range(200))}
        run = (asyncio.run(agf.arun(flow, fields, registry=registry)) if on_main
               else agf.run(flow, fields, registry=registry))  # fmt: skip
        assert (run.output, run.warnings) == (list(range(1, 201)), ())
        assert len(kept.lines(path)) == 200


KILLED = """
import os, signal, sys
from dataclasses import replace
import agf_magics as agf
from agf_magics.settings.settings import current

current.settings = replace(current.settings, journal=os.path.abspath("runs.sqlite"))
started = 0

@agf.tool(where="loop")
async def note(n: int) -> int:
    global started
    started += 1
    if started == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
    return n

agf.run('''pipeline: main
steps:
- for_each: {over: ctx.xs, max_parallel: 16, on_error: abort, do: {tool: {name: note, args: {n: !expr item}}},
             collect: {transform: {value: pipe}}}
''', {"xs": list(range(1000))})
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("started", [1, 18, 523])
def test_every_element_is_durable_before_the_next_one_starts_in_its_slot(started: int, tmp_path: Path) -> None:
    completed = script(KILLED, tmp_path, str(started))
    assert completed.returncode == -signal.SIGKILL, completed.stderr
    with closing(sqlite3.connect(tmp_path / "runs.sqlite")) as reading:
        (kept_lines,) = reading.execute("SELECT count(*) FROM records WHERE what='finished'").fetchone()
    assert started - 16 <= kept_lines < started


# --- who commits ---


def who_commits(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """A list that gets, at each commit of the writer, whether a loop made it."""
    by_loop, commit = list[bool](), store.writer._commit

    def seen(loop: asyncio.AbstractEventLoop | None = None) -> bool:
        by_loop.append(loop is not None)
        return commit(loop)

    monkeypatch.setattr(store.writer, "_commit", seen)
    return by_loop


def written_one_by_one(store: Store, count: int, apart: bool) -> None:
    """Write ``count`` lines, each after the previous one, on a loop of this thread or (``apart``) of another thread."""

    async def main() -> None:
        for number in range(count):
            await store.writer.write(ADD, line(number))

    if not apart:
        asyncio.run(main())
        return
    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    thread.join()


def test_a_loop_commits_its_own_lines_and_does_not_wake_the_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kept.journal_in(tmp_path) as path:
        by_loop = who_commits(Store.at(path), monkeypatch)
        written_one_by_one(Store.at(path), 400, apart=True)
        assert sum(by_loop) > 200  # the thread commits a few lines that wait for 10 ms on a busy machine
        assert len(by_loop) - sum(by_loop) < 200


def test_the_main_thread_commits_nothing_where_an_interrupt_may_raise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kept.journal_in(tmp_path) as path:
        by_loop = who_commits(Store.at(path), monkeypatch)
        written_one_by_one(Store.at(path), 50, apart=False)
        assert len(by_loop) >= 50
        assert not any(by_loop)


def test_a_cancelled_wait_for_a_line_affects_no_other_line(tmp_path: Path) -> None:
    with kept.journal_in(tmp_path) as path:
        store = Store.at(path)

        async def main() -> None:
            first, second = (store.writer.write(ADD, line(number)) for number in (1, 2))
            first.cancel()
            await second

        asyncio.run(main())
        with closing(sqlite3.connect(path)) as reading:
            assert reading.execute("SELECT line FROM records ORDER BY line").fetchall() == [(1,), (2,)]


def test_a_loop_never_waits_in_sqlite_also_after_the_thread_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "BUSY", 0.01)
    with kept.journal_in(tmp_path) as path:
        store = Store.at(path)

        async def main() -> None:
            await store.writer.write(ADD, line(1))

        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(JournalError):
                asyncio.run(main())
            other.execute("ROLLBACK")
        assert store.writer._connection.execute("PRAGMA busy_timeout").fetchone() == (0,)


@pytest.mark.skipif(sys.platform == "win32", reason="a file that is open cannot be replaced")
def test_no_line_is_written_and_no_log_is_moved_once_the_file_was_replaced(tmp_path: Path) -> None:
    with kept.journal_in(tmp_path / "other") as other:
        Store.at(other)
    with kept.journal_in(tmp_path / "mine") as path:
        store = Store.at(path)

        async def write(number: int) -> None:
            await store.writer.write(ADD, line(number))

        asyncio.run(write(1))
        other.replace(path)
        before = path.read_bytes()
        store.writer._full = 0
        store.writer._move_log()
        with pytest.raises(JournalError) as caught:
            asyncio.run(write(2))
        assert caught.value.code == "journal.replaced"
        assert path.read_bytes() == before
        with closing(sqlite3.connect(path)) as reading:
            assert reading.execute("SELECT count(*) FROM records").fetchone() == (0,)


# --- when lines are committed ---


def on_another_loop(main: Any) -> None:
    """Run ``main()`` on a loop of another thread, where the loop commits."""
    wrong = list[BaseException]()

    def there() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:
            wrong.append(error)

    thread = threading.Thread(target=there)
    thread.start()
    thread.join()
    assert not wrong, wrong


def lines_in(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as reading:
        return [number for (number,) in reading.execute("SELECT line FROM records ORDER BY line")]


def test_a_line_that_comes_alone_is_durable_in_the_turn_in_which_it_is_written(tmp_path: Path) -> None:
    with kept.journal_in(tmp_path) as path:
        store = Store.at(path)

        async def main() -> None:
            # The thread commits the first line, and may still hold the file when the next line comes.
            for number in range(2_000):
                written = store.writer.write(ADD, line(number), at_once=True)
                if written.done():
                    assert lines_in(path) == list(range(number + 1))
                    return
                await written
            raise AssertionError("none was durable at once")

        on_another_loop(main)


def test_a_line_that_may_wait_is_durable_with_the_next_lines(tmp_path: Path) -> None:
    with kept.journal_in(tmp_path) as path:
        store, failed = Store.at(path), list[JournalError]()

        async def main() -> None:
            await store.writer.write(ADD, line(1))
            store.writer.before_next(ADD, line(2), failed.append)
            await store.writer.write(ADD, line(3))
            assert lines_in(path) == [1, 2, 3]

        on_another_loop(main)
        assert failed == []


@pytest.mark.parametrize("awake", [False, True], ids=["the thread sleeps", "the thread beats"])
def test_a_line_that_no_other_follows_is_committed_soon(awake: bool, tmp_path: Path) -> None:
    with kept.journal_in(tmp_path) as path:
        store = Store.at(path)

        async def main() -> None:
            if awake:
                await store.writer.write(ADD, line(1))
            store.writer.before_next(ADD, line(2), lambda error: None)
            until = time.monotonic() + LONGEST
            while 2 not in lines_in(path):
                assert time.monotonic() < until
                await asyncio.sleep(0.01)

        on_another_loop(main)
