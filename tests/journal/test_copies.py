"""Reused results of a fan-out are copied in batches, and the journal is as if each had been written alone."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.journal.database.store import ROOM, Store
from agf_magics.journal.records.records import StoredValue
from agf_magics.journal.runs import list_runs, records
from tests.engine import kept
from tests.fans import fan_out

FAN = fan_out(on_error="continue", limit=4)


class Tools:
    """A tool that writes its calls into a file, because a tool with changing fields is never the same tool again."""

    def __init__(self, folder: Path) -> None:
        self.made = folder / "calls.txt"
        self.registry = agf.Registry()
        path = str(self.made)

        @agf.tool(registry=self.registry)
        async def work(x: int) -> Any:
            with open(path, "a") as file:
                file.write(f"{x}\n")
            return result(x)

        self.flow = agf.load(FAN, registry=self.registry)

    def run(self, xs: list[int], reuse: bool = False) -> agf.Run:
        self.made.write_text("")
        return agf.run(self.flow, {"xs": xs}, registry=self.registry, reuse=reuse)

    @property
    def calls(self) -> Counter[int]:
        return Counter(map(int, self.made.read_text().split()))


def result(x: int) -> Any:
    if x == 13:
        raise ValueError(x)
    return [x, {1, 2}] if x % 50 == 49 else {"n": x, "text": "é" * (x % 7)}


def rows_of(run_id: str, path: Path) -> list[Any]:
    """The checked rows of a run, without times and numbers."""
    store = Store.at(path)
    num = next(head.num for head in list_runs(store) if head.run_id == run_id)
    rows = list(records(store, num))
    assert [row.line for row in rows] == sorted({row.line for row in rows})
    assert all(row.started is not None and row.started <= (row.ended or 0) for row in rows if row.kind)
    bare = (row._replace(line=0, started=None, ended=None, result=without_names(row.result)) for row in rows)
    return sorted(bare, key=repr)


def without_names(result: StoredValue) -> StoredValue:
    """A stored value without its signature and without the names of its objects, which differ in each run."""
    data = result.data.partition(b"AGFI")[0] if isinstance(result.data, bytes) else result.data
    return result._replace(sign=None, data=data)


@pytest.mark.parametrize("count", [1, 32, 150])
def test_copied_rows_are_the_rows_that_were_copied(count: int, tmp_path: Path) -> None:
    tools, xs = Tools(tmp_path), list(range(count))
    with kept.journal_in(tmp_path) as path:
        first = tools.run(xs)
        second = tools.run(xs, reuse=True)
        assert (second.output, tools.calls) == (first.output, Counter({13: 1}) if count > 13 else {})
        assert rows_of(second.run_id, path) == rows_of(first.run_id, path)


def test_elements_that_moved_repeat_or_are_new_get_their_own_results(tmp_path: Path) -> None:
    before = [*range(100), *range(20), *range(60, 80)]
    after = [*range(50, 90), 1000, 7, *range(30), 1000, *range(99, 90, -1), 7, 7]
    tools = Tools(tmp_path)
    with kept.journal_in(tmp_path):
        tools.run(before)
        second = tools.run(after, reuse=True)
        new = Counter(after) - Counter(before)
        assert new.total() == 4
        assert tools.calls == new + Counter([13])
        assert second.output == [result(x) for x in after if x != 13]
        assert tools.run(after, reuse=True).output == second.output
        assert tools.calls == Counter([13])  # the copied results are reused like any others


@pytest.mark.parametrize("column", ["value", "digest", "given", "at", "ended", "name"])
def test_a_damaged_row_is_never_copied(column: str, tmp_path: Path) -> None:
    tools, xs = Tools(tmp_path), list(range(12))
    with kept.journal_in(tmp_path) as path:
        tools.run(xs)
        Store.close_all()
        to = {"value": """'{"n":8,"text":""}'""", "ended": "ended + 1", "digest": "zeroblob(32)"}.get(column, "'[9]'")
        with closing(sqlite3.connect(path)) as connection:
            changed = connection.execute(f"UPDATE records SET {column}={to} WHERE given='{{\"x\":7}}'")
            assert changed.rowcount == 1
            connection.commit()
        with pytest.raises(agf.DefinitionError, match="has changed since it was written"):
            tools.run(xs, reuse=True)
        assert not tools.calls


SESSION = """
import os, resource, signal, sys
from dataclasses import replace
from pathlib import Path
import agf_magics as agf
from agf_magics.journal.runs import list_runs
from agf_magics.journal.database.store import Store
from agf_magics.flow.progress import events as ev
from agf_magics.settings.settings import current

current.settings = replace(current.settings, journal=os.path.abspath("runs.sqlite"))

@agf.tool
async def work(x: int) -> dict:
    with open("calls.txt", "a") as file:
        file.write(f"{x}\\n")
    return {"n": x}

what, until, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
seen = 0

def listen(event):
    global seen
    if isinstance(event, ev.StepReplayed):
        seen += 1
        if seen == until and what == "kill":
            os.kill(os.getpid(), signal.SIGKILL)

flow = agf.load(open("flow.yaml").read())
if what == "full":
    resource.setrlimit(resource.RLIMIT_FSIZE, (until, resource.RLIM_INFINITY))
given = {"xs": list(range(count))}
run = agf.resume() if what == "resume" else agf.run(flow, given, reuse=what != "run", on_event=listen)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
(lost,) = (head.lost for head in list_runs(Store.at(Path(current.settings.journal))) if head.run_id == run.run_id)
print(run.output == [{"n": x} for x in range(count)], run.status, *[found.code for found in run.warnings], lost)
"""


class Session:
    def __init__(self, folder: Path, count: int) -> None:
        self.folder, self.count = folder, count
        (folder / "flow.yaml").write_text(FAN)

    def run(self, program: str, until: int = 0) -> str:
        # Coverage is not measured, because that would need disk space of its own.
        alone = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
        (self.folder / "calls.txt").write_text("")
        completed = subprocess.run(
            [sys.executable, "-c", SESSION, program, str(until), str(self.count)],
            cwd=self.folder, env=alone, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (completed.returncode, completed.stderr) == (-signal.SIGKILL if program == "kill" else 0, "")
        return completed.stdout.strip()

    @property
    def calls(self) -> list[int]:
        return sorted(map(int, (self.folder / "calls.txt").read_text().split()))

    @property
    def numbers(self) -> list[int]:
        """The elements of the newest run that have a row."""
        with closing(sqlite3.connect(self.folder / "runs.sqlite")) as connection:
            (num,) = connection.execute("SELECT num FROM runs ORDER BY started DESC LIMIT 1").fetchone()
            sql = "SELECT at FROM records WHERE line>? AND line<? AND what='finished' ORDER BY line"
            return [json.loads(path)[-1] for (path,) in connection.execute(sql, (num, num + ROOM))]


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
def test_a_run_that_is_killed_while_it_copies_is_resumed_with_its_results(part: float, tmp_path: Path) -> None:
    session = Session(tmp_path, count := 3_000)
    assert session.run("run") == "True ok 0"
    assert session.run("kill", 1 + int(part * (count - 1))) == ""
    assert session.calls == []
    had = session.numbers
    assert len(had) == len(set(had))
    assert session.run("resume") == "True ok 0"
    assert session.calls == sorted({*range(count)} - {*had})
    assert sorted(session.numbers) == list(range(count))


@pytest.mark.skipif(os.name != "posix", reason="needs a limit of the file's size")
def test_a_disk_that_is_full_while_a_run_copies_does_not_end_the_run(tmp_path: Path) -> None:
    session = Session(tmp_path, 2_000)
    assert session.run("run") == "True ok 0"
    room = (tmp_path / "runs.sqlite").stat().st_size // 3  # space for the log, which the copies fill
    answer = session.run("full", room)
    assert session.calls == []
    had = session.numbers
    assert 0 < len(had) < 2_000
    assert answer == f"True ok journal.full {2_000 - len(had)}"
