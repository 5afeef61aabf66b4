"""One process may use any number of journals, because journals that no run uses are closed."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.journal.database import store as stores
from agf_magics.journal.database.errors import JournalError
from agf_magics.journal.database.file import open_journal
from agf_magics.journal.database.store import ADD, Store
from agf_magics.settings.settings import current
from tests.journal.test_writer import line

MOST = 4

TEXT = """
pipeline: main
steps:
  - tool: {name: work}
"""


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = current.settings
    monkeypatch.setattr(stores, "MOST_OPEN", MOST)
    Store.close_all()
    yield
    Store.close_all()
    current.settings = before


def use(folder: Path) -> Path:
    path = folder / "runs.sqlite"
    current.settings = replace(current.settings, journal=str(path))
    return path


def registry(function: Any = lambda: "done") -> agf.Registry:
    registry = agf.Registry()
    agf.tool(function, name="work", registry=registry)
    agf.define(TEXT, registry=registry)
    return registry


def run(folder: Path, function: Any = lambda: "done") -> agf.Run:
    use(folder)
    return agf.run("main", registry=registry(function), raises=False)


def threads() -> int:
    return sum(thread.name == "agf-journal" for thread in threading.enumerate())


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts the descriptors of the process")
def test_many_projects_do_not_take_more_descriptors(tmp_path: Path) -> None:
    counts = list[int]()
    for number in range(3 * MOST):
        assert run(tmp_path / str(number)).output == "done"
        counts.append(len(os.listdir("/proc/self/fd")))
    assert counts[-1] <= counts[MOST]
    assert len(Store._open) <= MOST
    assert threads() <= MOST


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts the descriptors of the process")
def test_projects_that_were_removed_do_not_take_descriptors(tmp_path: Path) -> None:
    """Such projects are the temporary folders of a user's tests."""
    counts = list[int]()
    for number in range(3 * MOST):
        assert run(tmp_path / str(number)).output == "done"
        shutil.rmtree(tmp_path / str(number))
        counts.append(len(os.listdir("/proc/self/fd")))
    assert counts[-1] <= counts[MOST]
    assert len(Store._open) <= MOST
    assert threads() <= MOST


def test_the_runs_of_a_closed_journal_are_complete_and_can_be_read(tmp_path: Path) -> None:
    first = run(tmp_path / "first")
    past = agf.runs(first.run_id)
    run_ids = {run(tmp_path / str(number)).run_id for number in range(MOST)}
    assert (tmp_path / "first" / "runs.sqlite").absolute() not in Store._open
    assert (past.status, [call["output"] for call in past.calls]) == ("ok", ["done"])
    use(tmp_path / "first")
    listed = {run.run_id for run in agf.runs()}  # may include runs of other tests without a journal
    assert first.run_id in listed
    assert not listed & run_ids


def test_a_run_of_a_closed_journal_can_be_resumed(tmp_path: Path) -> None:
    def fails() -> None:
        raise ValueError("no")

    failed = run(tmp_path / "first", fails)
    for number in range(MOST):
        run(tmp_path / str(number))
    use(tmp_path / "first")
    again = agf.resume(failed.run_id, registry=registry())
    assert (again.output, agf.runs(failed.run_id).status) == ("done", "ok")


def test_a_journal_is_not_closed_while_a_run_uses_it(tmp_path: Path) -> None:
    async def main() -> agf.Run:
        started, ends = asyncio.Event(), asyncio.Event()

        async def work() -> str:
            started.set()
            await ends.wait()
            return "late"

        use(tmp_path / "first")
        waiting = asyncio.create_task(agf.arun("main", registry=registry(work)))
        await started.wait()
        for number in range(2 * MOST):
            use(tmp_path / str(number))
            await agf.arun("main", registry=registry())
        ends.set()
        return await waiting

    run_made = asyncio.run(main())
    assert (run_made.output, run_made.warnings) == ("late", ())
    use(tmp_path / "first")
    assert agf.runs(run_made.run_id).status == "ok"


def test_a_journal_that_was_closed_before_its_run_starts_is_opened_again(tmp_path: Path) -> None:
    path = use(tmp_path / "first")
    store = Store.at(path)
    for number in range(MOST):
        Store.at(tmp_path / str(number) / "runs.sqlite")

    class Journal:
        may_write = True

    journal = Journal()
    again = store.used_by(journal)
    assert again is not store
    assert again is Store.at(path)
    assert again.is_used


def test_a_row_for_a_closed_journal_is_refused(tmp_path: Path) -> None:
    store, failed = Store.at(use(tmp_path)), list[JournalError]()
    Store.close_all()
    store.writer.later(ADD, [line(1), line(2)], failed.append)

    async def main() -> None:
        with pytest.raises(JournalError, match="is closed"):
            await store.writer.write(ADD, line(3))

    asyncio.run(main())
    store.flush()
    assert [error.code for error in failed] == ["journal.unwritable"] * 2


@pytest.mark.parametrize("name", ["ProcessLock", "create_reserve"])
def test_a_journal_that_cannot_be_opened_to_its_end_leaves_nothing_open(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process may reach its limit of descriptors at any of these files."""
    path = tmp_path / "runs.sqlite"
    opened = list[Any]()

    def seen(place: Path) -> Any:
        opened.append(open_journal(place))
        return opened[-1]

    def full(*_: Any) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(stores, "open_journal", seen)
    monkeypatch.setattr(stores, name, full)
    with pytest.raises(JournalError) as caught:
        Store.at(path)
    assert caught.value.code == "journal.unwritable"
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        opened[0].execute("SELECT 1")
    assert not list((tmp_path / "owners").glob("*"))
    monkeypatch.undo()
    assert Store.at(path).is_there
