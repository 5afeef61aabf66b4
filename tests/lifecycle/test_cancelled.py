"""A run of the journal that waits or was interrupted is cancelled without being resumed, and can be resumed later."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.journal.claims import cancel, claim
from agf_magics.lifecycle.past.cancelled import cancel_past_run
from agf_magics.lifecycle.storage.lookup import find_run, journal
from tests.engine import kept

TEXT = """
name: asks
nodes:
  w: {type: tool, tool: work, variables: {n: 4}, state_key: made}
  q: {type: interrupt, message: "Which colour?", resume_key: colour}
edges: [{from: START, to: w}, {from: w, to: q}, {from: q, to: END}]
"""


class Asking:
    """A flow that calls a tool and asks, and the calls of the tool."""

    def __init__(self) -> None:
        self.registry, self.calls = agf.Registry(), list[int]()

        @agf.tool(registry=self.registry)
        def work(n: int) -> int:
            self.calls.append(n)
            return n

        self.flow = agf.load(TEXT, registry=self.registry)

    def run(self, **options: Any) -> agf.Run:
        return agf.run(self.flow, registry=self.registry, raises=False, **options)


@pytest.mark.parametrize("before", ["waiting", "interrupted"])
def test_a_run_is_cancelled_in_the_journal_and_makes_no_call(before: str, tmp_path: Path) -> None:
    asking = Asking()
    with kept.journal_in(tmp_path) as path:
        run_id = asking.run().run_id
        if before == "interrupted":
            path = kept.cut(path, len(kept.lines(path)), tmp_path / "cut")
    with kept.journal_in(path.parent):
        assert agf.runs(run_id).status == before
        cancelled = cancel_past_run(run_id, "the client has gone")
        for run in (cancelled, agf.runs(run_id)):
            assert (run.status, run.error.code) == ("cancelled", "run.cancelled")
            assert "(the client has gone)" in str(run.error)
        assert cancelled.seconds is not None
        assert cancelled.seconds < 60
        assert [row.id for row in cancelled.progress.rows.values()][:1] == ["nodes.w"]
        cancelled.export(tmp_path / "run.json")
        assert asking.calls == [4]
        resumed = agf.resume(run_id, answer="red", registry=asking.registry)
        assert (resumed.status, asking.calls) == ("ok", [4])


@pytest.mark.parametrize(("divisor", "status"), [(1, "ok"), (0, "error")])
def test_a_run_that_has_ended_stays_as_it_is(divisor: int, status: str, tmp_path: Path) -> None:
    asking = Asking()
    with kept.journal_in(tmp_path):
        run = asking.run(ask=lambda question: str(1 / divisor))
        assert cancel_past_run(run.run_id, "the client has gone").status == status


def test_a_run_that_goes_on_meanwhile_is_not_cancelled(tmp_path: Path) -> None:
    asking = Asking()
    with kept.journal_in(tmp_path):
        run_id = asking.run().run_id
        store = journal()
        head = find_run(store, run_id).head
        assert claim(store, head)
        assert not cancel(store, head, "{}")
        with pytest.raises(agf.DefinitionError, match="is running"):
            cancel_past_run(run_id, "the client has gone")


def test_the_only_run_of_the_notebook_that_is_running_is_said_so(tmp_path: Path) -> None:
    asking = Asking()
    gate = threading.Event()
    with kept.journal_in(tmp_path):
        asking.run(ask=lambda question: "1")
        agf.tool(lambda: gate.wait(), name="hold", registry=asking.registry)
        running = agf.start("pipeline: holding\nsteps:\n- tool: {name: hold}\n", registry=asking.registry)
        while running.run_id not in {run.run_id for run in agf.runs()}:
            pass
        for name in (None, "holding"):
            with pytest.raises(agf.DefinitionError, match=f"{running.run_id}.* is running"):
                agf.resume(name, registry=asking.registry)
        gate.set()
        running.wait()
