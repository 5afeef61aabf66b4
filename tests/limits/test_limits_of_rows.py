"""Each row of a table has the time and the sessions of a whole run: its error says so, and a resumed run may change
them."""

from __future__ import annotations

import queue
import threading
import time
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.flow.progress.events import StepFailed
from agf_magics.lifecycle.past.retried_rows import choose_rows

WAITS = "pipeline: p\nsteps:\n- tool: {name: wait, args: {n: !expr ctx.n}}\n"
TALKS = "pipeline: p\nsteps:\n- agent: {prompt: hi}\n- agent: {prompt: ho}\n"


class Rows:
    """A registry with a tool that waits, and the failures of runs with it."""

    def __init__(self, text: str, seconds: float = 0.3) -> None:
        self.registry, self.events, self.ends = agf.Registry(), list[Any](), threading.Event()
        agf.agent(lambda input: "x", name="anyone", default=True, registry=self.registry)
        agf.tool(lambda n: self.ends.wait(seconds) and n, name="wait", registry=self.registry)
        agf.define(text, registry=self.registry)

    def run(self, rows: int = 1, **limits: Any) -> agf.Run:
        table = [{"n": number} for number in range(rows)]
        options: dict[str, Any] = {"registry": self.registry, "on_event": self.events.append, "raises": False}
        return agf.run("p", over=table, limits=agf.Limits(**limits), **options)

    @property
    def failure(self) -> Any:
        errors: list[Any] = [event.error for event in self.events if type(event) is StepFailed]
        return errors[-1].diagnostic


LIMITS: dict[str, tuple[str, dict[str, Any], dict[str, Any], str, str]] = {
    "time": (
        WAITS,
        {"timeout": 0.1},
        {"timeout": 60},
        "this row took longer than 0.1 s",
        "--timeout sets the limit of each row",
    ),
    "one session": (
        TALKS,
        {"spawns": 1},
        {"spawns": 2},
        "this row has used its 1 agent session",
        "AgfMagics.max_pipeline_spawns",
    ),
}


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.usefixtures("journaled")
def test_the_error_of_a_row_says_what_sets_its_limit_and_what_works_then(name: str) -> None:
    text, low, high, message, where = LIMITS[name]
    rows = Rows(text)
    run = rows.run(**low)
    assert (run.status, run.table.counts["failed"], rows.failure.message) == ("ok", 1, message)
    assert where in rows.failure.hint
    assert rows.failure.hint.endswith(f"%run_pipeline p --retry-failed {run.run_id} runs the rows that failed again")
    options: dict[str, Any] = {"registry": rows.registry, "limits": agf.Limits(**high)}
    again = agf.run("p", over=choose_rows(None, run.run_id), **options)
    assert again.table.counts["ok"] == 1


@pytest.mark.parametrize("seconds", [0.3, 4.0], ids=["ends in its grace", "is left running"])
def test_a_row_whose_call_does_not_stop_at_once_fails_alone(seconds: float) -> None:
    rows = Rows(WAITS, seconds)
    run = rows.run(2, timeout=0.1)
    assert (run.status, run.table.counts["failed"]) == ("ok", 2), run.error
    rows.ends.set()


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"timeout": 60}, {"ok": 6}),
        ({"timeout": 0.5}, {"ok": 3, "failed": 3}),
        ({"timeout": 60, "max_tokens": 9}, {"ok": 6}),
        ({"fan_out_depth": 9}, {"ok": 6}),
        ({}, {"ok": 6}),
    ],
)
@pytest.mark.usefixtures("journaled")
def test_a_resumed_run_gives_its_limits_to_the_rows(limits: dict[str, Any], expected: dict[str, int]) -> None:
    registry, runs = agf.Registry(), queue.SimpleQueue[agf.Run]()
    stops, slow = [True], [0.0]

    @agf.tool(registry=registry)
    def wait(n: int) -> int:
        if n == 2 and stops:
            stops.clear()
            runs.get().cancel()
        time.sleep(slow[0])
        return n

    agf.define(WAITS, registry=registry)
    over = agf.Over(table=[{"n": number} for number in range(6)], width=1)
    run = agf.start("p", over=over, registry=registry, limits=agf.Limits(timeout=30))
    runs.put(run)
    assert run.wait().status == "cancelled"
    slow[0] = 0.8 if "failed" in expected else 0.0
    resumed = agf.resume(run.run_id, registry=registry, limits=agf.Limits(**limits))
    assert {status: count for status, count in resumed.table.counts.items() if count} == expected
