"""A journal that another process locks, that is replaced or removed, or whose disk is full loses no run and ends no
run."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.journal.database.log_files import log_of
from agf_magics.journal.database.store import Store
from agf_magics.lifecycle.past import past_runs
from tests.attacks.journals import WANT, registry
from tests.engine import kept

posix = pytest.mark.skipif(os.name != "posix", reason="signals, and files that are replaced while they are open")

# --- locked by another process ---

WAITS = """
import os, sys, threading
from dataclasses import replace
import agf_magics as agf
from agf_magics.lifecycle.past import past_runs
from agf_magics.journal.database import file, writer
from agf_magics.settings.settings import current

file.BUSY = writer.BUSY = 36_000.0  # so it is the interrupt that ends the waiting, or nothing is
current.settings = replace(current.settings, journal=os.path.abspath("runs.sqlite"))
waits, sleep = threading.Event(), file.time.sleep

def slept(seconds):  # the first retry says that the file is waited for, without a clock
    if not waits.is_set():
        waits.set()
        print("waits", flush=True)
    sleep(seconds)

file.time.sleep = slept
try:
    {"list": agf.runs, "prune": lambda: past_runs.prune(days=1e-9), "run": lambda: agf.run(sys.argv[2])}[sys.argv[1]]()
except KeyboardInterrupt:
    print("interrupted", flush=True)
os._exit(0)
"""


@posix
@pytest.mark.parametrize("command", ["list", "prune", "run"])
def test_a_journal_that_another_process_holds_answers_an_interrupt(command: str, tmp_path: Path) -> None:
    with kept.journal_in(tmp_path) as path:
        agf.run("main", registry=registry())
    text = "{pipeline: p, steps: [{transform: {value: '1'}}]}"
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        if command == "prune":
            holder.execute("BEGIN IMMEDIATE")  # readers continue, and a delete must wait
        else:
            holder.execute("PRAGMA locking_mode=EXCLUSIVE")
            holder.execute("BEGIN EXCLUSIVE")
            holder.execute("UPDATE runs SET name=name")
        waiting = subprocess.Popen(
            [sys.executable, "-c", WAITS, command, text], cwd=tmp_path, stdout=subprocess.PIPE, text=True
        )
        assert waiting.stdout.readline() == "waits\n"
        waiting.send_signal(signal.SIGINT)
        assert waiting.stdout.read() == "interrupted\n"
        assert waiting.wait() == 0
        waiting.stdout.close()


def test_a_journal_that_is_held_for_too_long_is_an_error_with_a_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agf_magics.journal.database import file as journal_file
    from agf_magics.journal.database import writer

    monkeypatch.setattr(journal_file, "BUSY", 0.0)
    monkeypatch.setattr(writer, "BUSY", 0.0)
    with kept.journal_in(tmp_path) as path:
        agf.run("main", registry=registry())
        kept.flush(path)
        with closing(sqlite3.connect(path, isolation_level=None)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            with pytest.raises(agf.DefinitionError) as caught:
                past_runs.prune(days=1e-9)
            run = agf.run("main", registry=registry())
            assert len(agf.runs()) == 1  # readers do not wait
            holder.execute("ROLLBACK")
    assert caught.value.code == "journal.unwritable"
    assert (run.output, [warning.code for warning in run.warnings]) == (WANT, ["journal.unwritable"])


# --- replaced, removed ---


def _replacing(folder: Path, other: Path) -> agf.Registry:
    """A registry of two tools. The second one replaces the journal by another file."""
    tools, calls = registry(), list[str]()

    def grade(name: str) -> str:
        calls.append(name)
        if len(calls) == 2:
            os.replace(other, folder / "runs.sqlite")
        return f"{name}: good"

    agf.tool(grade, registry=tools)
    return tools


@posix
def test_a_file_that_replaces_the_journal_gets_nothing_of_the_run(tmp_path: Path) -> None:
    with kept.journal_in(tmp_path / "other") as other:
        other_run = agf.run("main", registry=registry()).run_id
    with kept.journal_in(tmp_path / "mine") as path:
        before = agf.run("main", registry=registry()).run_id
        run = agf.run("main", registry=_replacing(path.parent, other))
        assert (run.output, [warning.code for warning in run.warnings]) == (WANT, ["journal.replaced"])
        assert [run.run_id for run in agf.runs()] == [other_run]
        with pytest.raises(agf.DefinitionError) as caught:
            agf.runs(before)
        assert caught.value.code == "journal.unknown-run"
        again = agf.run("main", registry=registry())
        assert again.warnings == ()
        assert [run.run_id for run in agf.runs()] == [again.run_id, other_run]
        assert agf.runs(other_run).load() == agf.runs(again.run_id).load() == WANT
    aside = [entry for entry in path.parent.iterdir() if "-wal-of-replaced-" in entry.name]
    assert len(aside) == 1  # the log of the first file is not lost
    with kept.journal_in(tmp_path / "mine"):
        assert [run.run_id for run in agf.runs()] == [again.run_id, other_run]


@posix
def test_no_other_file_gets_the_log_of_a_removed_file(tmp_path: Path) -> None:
    with kept.journal_in(tmp_path) as path:
        agf.run("main", registry=registry())
        kept.flush(path)
        assert log_of(path).stat().st_size > 0
        path.unlink()
        again = agf.run("main", registry=registry())
        assert again.warnings == ()
        assert [run.run_id for run in agf.runs()] == [again.run_id]


@posix
def test_a_run_of_a_file_that_was_replaced_is_not_read_from_the_new_one(tmp_path: Path) -> None:
    with kept.journal_in(tmp_path / "other") as other:
        agf.run("main", registry=registry())
    with kept.journal_in(tmp_path / "mine") as path:
        past: Any = agf.runs(agf.run("main", registry=registry()).run_id)
        shutil.copy(other, tmp_path / "copy")
        os.replace(tmp_path / "copy", path)
        with pytest.raises(agf.DefinitionError) as caught:
            list(past.calls)
    assert caught.value.code == "journal.replaced"


# --- full ---

FILLS = """
import json, os, sys
from dataclasses import replace
from pathlib import Path
import agf_magics as agf
from agf_magics.lifecycle.past import past_runs
from agf_magics.settings.settings import current

current.settings = replace(current.settings, journal=os.path.abspath("runs.sqlite"))
agf.tool(lambda n: "x" * 3_000 + str(n), name="many", where="loop")
agf.define('''pipeline: main
steps:
- for_each: {over: ctx.numbers, on_error: abort, do: {tool: {name: many, args: {n: !expr item}}},
             collect: {transform: {value: "count(pipe)"}}}
''')
first = agf.run("main", {"numbers": list(range(60))})
assert not first.warnings
fill(first)
last = agf.run("main", {"numbers": list(range(2_000))})
said = [found.code for found in last.warnings]
listed = {one.run_id: [one.status, one.note] for one in agf.runs()}
before = sum(one.stat().st_size for one in Path().glob("runs.sqlite*"))
gone, size = past_runs.prune(days=1e-9)
next = agf.run("main", {"numbers": list(range(60))})
print(json.dumps([last.output, said, listed.get(last.run_id), gone, size < before,
                  [found.code for found in next.warnings], len(agf.runs(next.run_id).calls)]))
"""

LIMITED = """
import resource

def fill(run):
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
"""

ON_A_SMALL_DISK = """
def fill(run):
    pass
"""


def _asked(script: str, folder: Path, before: tuple[str, ...] = ()) -> Any:
    import json

    alone = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    completed = subprocess.run(
        [*before, sys.executable, "-c", script], cwd=folder, env=alone, capture_output=True, text=True, check=False
    )
    assert completed.returncode == 0, completed.stderr
    return json.loads(completed.stdout.splitlines()[-1])


def _is_right(answer: Any) -> None:
    output, codes, listed, gone, smaller, warned, calls = answer
    assert (output, codes) == (2_000, ["journal.full"])
    if listed is not None:  # the end of the run could be written, so the list says that it is incomplete
        assert "calls were not written to the journal" in listed[1], listed
    assert gone >= 1
    assert smaller
    assert (warned, calls) == ([], 60)


@posix
def test_deleting_makes_room_where_files_may_not_grow(tmp_path: Path) -> None:
    _is_right(_asked(LIMITED + FILLS, tmp_path))


def _has_small_disks() -> bool:
    """Whether this user can mount a file system."""
    if sys.platform != "linux" or shutil.which("unshare") is None:
        return False
    probe = ["unshare", "-Urm", "mount", "-t", "tmpfs", "-o", "size=1m", "none", "/mnt"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not _has_small_disks(), reason="no file system of a few MB can be mounted")
@pytest.mark.parametrize("size", ["1m", "3m"])
def test_deleting_makes_room_on_a_full_disk(size: str, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    mount = f'mount -t tmpfs -o size={size} none disk && cd disk && exec "$@"'
    _is_right(_asked(ON_A_SMALL_DISK + FILLS, tmp_path, ("unshare", "-Urm", "sh", "-c", mount, "sh")))


def test_a_run_with_few_recorded_calls_is_listed_as_incomplete(tmp_path: Path) -> None:
    registry = agf.Registry()
    with kept.journal_in(tmp_path) as path:
        writer = Store.at(path).writer

        def large(n: int) -> str:
            (pages,) = writer._connection.execute("PRAGMA page_count").fetchone()
            writer._connection.execute(f"PRAGMA max_page_count={pages + 20}")
            return "x" * 1_000_000

        agf.tool(large, registry=registry)
        agf.tool(lambda n: n, name="small", registry=registry)
        steps = "".join(f"- tool: {{name: {name}, args: {{n: 1}}}}\n" for name in ("small", "large", "small"))
        run = agf.run(f"pipeline: main\nsteps:\n{steps}", registry=registry)
        assert (run.output, [warning.code for warning in run.warnings]) == (1, ["journal.full"])
        (listed,) = agf.runs()
        assert (listed.status, listed.note) == ("ok", "2 calls were not written to the journal")
        past = agf.runs(run.run_id)
        assert (past.note, len(past.calls)) == (listed.note, 1)
