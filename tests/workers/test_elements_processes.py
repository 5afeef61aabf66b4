"""Whole elements on real processes: prints, exceptions, workers that end, a cancelled run."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.flow import events as ev
from agf_magics.workers.processes import Processes
from tests.engine import kept
from tests.workers import laws

INNER = """
pipeline: inner
steps:
  - {tool: {name: first, args: {x: !expr ctx.item}, output: a}}
  - {tool: {name: second, args: {x: !expr ctx.a}, output: b}}
  - {transform: {value: "[ctx.a, ctx.b]"}}
"""

THREE_STEPS = """
pipeline: main
steps:
  - for_each:
      over: ctx.xs
      on_error: continue
      do: {call: {pipeline: inner, pass: [item]}}
      collect: {transform: {value: pipe}}
"""

ONE_STEP = """
pipeline: main
steps:
  - for_each:
      over: ctx.xs
      on_error: continue
      do: {tool: {name: work, args: {x: !expr item, folder: !expr ctx.folder}}}
      collect: {transform: {value: pipe}}
"""


class TooSmall(Exception):
    pass


def first(x: int) -> int:
    if x % 10 == 7:
        raise TooSmall(f"{x} is too small")
    print("first", x)
    return x + 1


def second(x: int) -> list[int]:
    return [x] * 3


def ends_once(x: int, folder: str) -> int:
    """Ends its process once for each tenth element."""
    mark = Path(folder, str(x))
    if x % 10 == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return x


def ends_always(x: int, folder: str) -> int:
    if x == 13:
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def waits(x: int, folder: str) -> int:
    time.sleep(60)
    return x


def run(
    text: str, tools: dict[str, Any], given: dict[str, Any], on: Any, folder: Path
) -> tuple[agf.Run, Any, list[Any], list[Any]]:
    registry, heard = agf.Registry(), list[Any]()
    for name, function in tools.items():
        agf.tool(function, name=name, registry=registry)
    agf.define(INNER, registry=registry)
    with kept.journal_in(folder) as path:
        ended = agf.run(text, given, registry=registry, on=on, raises=False, on_event=heard.append)
        return ended, laws.records(path), laws.calls(path), heard


def test_the_law_on_processes(processes: Processes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tools, given = {"first": first, "second": second}, {"xs": list(range(60))}
    found, printed = [], []
    for on in (None, processes):
        ended, records, calls, heard = run(THREE_STEPS, tools, given, on, tmp_path / str(on is None))
        found.append((laws.outcome(ended), laws.rows(ended), laws.failures(ended), records, laws.told(heard)))
        printed.append(sorted(capsys.readouterr().out.split("\n")))
        assert all(isinstance(one.error.__cause__, TooSmall) for one in ended.progress.failures)
        assert all(record.digest for record in calls)
    assert found[0] == found[1]
    assert printed[0] == printed[1]
    assert len(ended.progress.failures) == 6
    assert any(isinstance(event, ev.Placed) for event in heard)
    trace = ended.progress.failures[0].error.__cause__.__cause__  # type: ignore[union-attr]
    assert "in first" in str(trace)


def prints_late(x: int, folder: str) -> int:
    print("begins", x)
    if x == 3:
        time.sleep(30)
    return x


@pytest.mark.slow
def test_calls_with_a_time_limit_print_and_are_left_running(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workers, registry, heard = Processes(2), agf.Registry(), list[Any]()
    agf.tool(prints_late, name="work", registry=registry, timeout=0.2)
    try:
        ended = agf.run(ONE_STEP, {"xs": list(range(6)), "folder": ""}, registry=registry, on=workers, stream=True,
                        on_event=heard.append)  # fmt: skip
    finally:
        workers.close()
    assert ended.output == [0, 1, 2, 4, 5]
    message = str(ended.progress.failures[0].error)
    assert re.search(r"took longer than 0\.2 s \(left running: prints_late on process \d+ on \S+\)", message), message
    lines = sorted(f"begins {x}" for x in range(6))
    assert sorted(capsys.readouterr().out.split("\n"))[1:] == lines
    assert sorted(event.text.strip() for event in heard if isinstance(event, ev.StepPrinted)) == lines


@pytest.mark.slow
def test_elements_of_workers_that_end_are_repeated_and_journaled_once(processes: Processes, tmp_path: Path) -> None:
    given = {"xs": list(range(40)), "folder": str(tmp_path)}
    ended, _, calls, _ = run(ONE_STEP, {"work": ends_once}, given, processes, tmp_path / "journal")
    assert ended.output == list(range(40))
    assert ended.progress.failed == 0
    assert sorted(record.at[-1] for record in calls) == list(range(40))


def test_an_element_that_ends_its_process_is_dropped_alone(processes: Processes, tmp_path: Path) -> None:
    given = {"xs": list(range(40)), "folder": str(tmp_path)}
    ended, _, calls, _ = run(ONE_STEP, {"work": ends_always}, given, processes, tmp_path / "journal")
    assert len(ended.output) == 39
    assert os.getpid() not in ended.output
    (failure,) = ended.progress.failures
    assert failure.at == ("steps[0].do", 13)
    assert "step.worker-lost" in str(failure.error)
    assert sorted(record.at[-1] for record in calls) == [i for i in range(40) if i != 13]


def test_a_cancelled_run_ends_its_elements(tmp_path: Path) -> None:
    workers, placed = Processes(1), threading.Event()

    def listen(event: Any) -> None:
        if isinstance(event, ev.Placed) and event.elements:
            placed.set()

    registry = agf.Registry()
    agf.tool(waits, name="work", registry=registry)
    try:
        made = agf.start(ONE_STEP, {"xs": [1, 2, 3], "folder": ""}, registry=registry, on=workers, on_event=listen)
        assert placed.wait(30)
        made.cancel()
        made.wait(30)
        assert made.status == "cancelled"
        assert made.steps["steps[0].do"].cancelled == 2  # one that ran, one that waited for it
        assert workers.pids == []
    finally:
        workers.close()
