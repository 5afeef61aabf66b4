"""The records of quick plain calls in a fan-out are durable and complete, and at most one for each slot is missing."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from tests.engine import kept
from tests.fans import fan_out
from tests.processes import script

LONGEST = 60.0
"""Seconds after which the awaited event will not come any more."""

ELEMENTS = 200


def run(function: Any, on_error: str = "abort", count: int = ELEMENTS) -> agf.Run:
    registry = agf.Registry()
    agf.tool(function, name="work", registry=registry)
    flow = agf.load(fan_out(limit=4, on_error=on_error), registry=registry)
    return agf.run(flow, {"xs": list(range(count))}, registry=registry, raises=False)


def finished(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        (count,) = connection.execute("SELECT count(*) FROM records WHERE what='finished'").fetchone()
    return int(count)


def test_records_are_durable_while_a_call_takes_long(tmp_path: Path) -> None:
    with kept.journal_in(tmp_path) as path:

        def work(x: int) -> str:
            if x != 103:
                return "quick"
            until = time.monotonic() + LONGEST
            while time.monotonic() < until:
                if finished(path) >= 103:
                    return "seen"
            return "not seen"

        assert run(work).output[103] == "seen"


def test_failures_and_opaque_values_have_records(tmp_path: Path) -> None:
    def work(x: int) -> Any:
        if x % 7 == 0:
            raise ValueError(x)
        return {1: x} if x % 5 == 0 else x  # opaque, because its key is not a text

    with kept.journal_in(tmp_path) as path:
        ended = run(work, "continue")
        kept.flush(path)
        with closing(sqlite3.connect(path)) as connection:
            rows = connection.execute("SELECT what, form, count(DISTINCT at), count(*) FROM records WHERE kind!='' "
                                       "GROUP BY what, form ORDER BY what, form").fetchall()  # fmt: skip
    failed, opaque = len(range(0, ELEMENTS, 7)), sum(x % 5 == 0 and x % 7 > 0 for x in range(ELEMENTS))
    plain = ELEMENTS - failed - opaque
    assert ended.status == "ok"
    assert rows == [
        ("failed", "json", failed, failed),
        ("finished", "json", plain, plain),
        ("finished", "pickle", opaque, opaque),
    ]


def test_a_failure_stops_the_calls_that_were_built_ahead(tmp_path: Path) -> None:
    with kept.journal_in(tmp_path) as path:
        calls = list[int]()

        def work(x: int) -> int:
            calls.append(x)
            if x == 50:
                raise ValueError(x)
            return x

        ended = run(work)
        assert ended.status == "error"
        assert 50 in calls
        assert len(calls) < ELEMENTS
        kept.flush(path)
        # The failed call, and calls that ran beside it and ended after the run.
        unrecorded = len(calls) - finished(path)
        again = agf.resume(ended.run_id, registry=_fixed(calls), raises=False)
        assert (again.status, again.output) == ("ok", list(range(ELEMENTS)))
        twice = {x for x, count in Counter(calls).items() if count == 2}
        assert 50 in twice
        assert len(twice) == unrecorded
        assert len(calls) == ELEMENTS + len(twice)  # every other call was made once


def _fixed(calls: list[int]) -> agf.Registry:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def work(x: int) -> int:
        calls.append(x)
        return x

    return registry


KILLED = """
import os, signal, sys
import agf_magics as agf
from agf_magics.settings.settings import current
from dataclasses import replace
path, at = sys.argv[1], int(sys.argv[2])
current.settings = replace(current.settings, journal=path)
registry = agf.Registry()
log = open(path + ".calls", "a", buffering=1)
def work(x):
    print(x, file=log)
    if x == at:
        os.kill(os.getpid(), signal.SIGKILL)
    return x
agf.tool(work, registry=registry)
agf.define(sys.argv[3], registry=registry)
agf.run("main", {"xs": list(range(100))}, registry=registry)
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
@pytest.mark.parametrize("moment", [0, 17, 99])
def test_a_killed_process_loses_at_most_the_records_of_its_slots(tmp_path: Path, moment: int) -> None:
    path, text = tmp_path / "runs.sqlite", fan_out(limit=4)
    completed = script(KILLED, tmp_path, str(path), str(moment), text)
    assert completed.returncode == -signal.SIGKILL, completed.stderr
    calls = [int(line) for line in Path(f"{path}.calls").read_text().split()]
    assert len(calls) - finished(path) <= 4
    again = list[int]()
    with kept.journal_in(tmp_path):
        registry = _fixed(again)
        agf.define(text, registry=registry)
        assert agf.resume(agf.runs()[0].run_id, registry=registry).output == list(range(100))
    assert len(calls) + len(again) <= 100 + 4
    assert {*calls, *again} == set(range(100))
