"""A background run that was resumed in its process is listed as it is now, while its first handle lives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import agf_magics as agf
from agf_magics.journal.database.store import Store
from agf_magics.lifecycle.runs.live import live
from agf_magics.settings.settings import current

FLOWS = """
{name: asks, state: {a: str, b: str}, edges: [{from: START, to: p}, {from: p, to: q}, {from: q, to: END}],
 nodes: {p: {type: interrupt, message: First?, resume_key: a}, q: {type: interrupt, message: Second?, resume_key: b}}}
"""
FAILS = "{pipeline: fails, steps: [{tool: {name: fragile, args: {}}}]}"


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[agf.Registry]:
    monkeypatch.setattr(current, "settings", replace(current.settings, journal=str(tmp_path / "runs.sqlite")))
    registry, good = agf.Registry(), tmp_path / "good"

    @agf.tool(registry=registry)
    def fragile() -> int:
        if not good.exists():
            good.touch()
            raise ValueError("not yet")
        return 1

    agf.define(FLOWS, language="graph", registry=registry)
    agf.define(FAILS, registry=registry)
    yield registry
    Store.close_all()


def ended(name: str, registry: agf.Registry) -> agf.Run:
    """A background run that has ended, and that this test refers to."""
    run = agf.start(name, registry=registry)
    run.wait()
    return run


CASES: dict[str, tuple[str, list[Callable[[str, agf.Registry], agf.Run]], list[str]]] = {
    # a flow, what is done with its run, and its status after each
    "it failed": ("fails", [lambda run_id, registry: agf.resume(run_id, registry=registry)], ["error", "ok"]),
    "it waits, is answered, and waits again": (
        "asks",
        [lambda run_id, registry: agf.resume(run_id, answer="x", registry=registry, raises=False)] * 2,
        ["waiting", "waiting", "ok"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_resumed_run_is_listed_as_it_is_now(case: str, registry: agf.Registry) -> None:
    flow, steps, statuses = CASES[case]
    handle = ended(flow, registry)
    assert status_of(handle.run_id) == statuses[0]
    for step, status in zip(steps, statuses[1:], strict=True):
        resumed = step(handle.run_id, registry)
        assert resumed.status == status
        assert status_of(handle.run_id) == status
    assert handle.status == statuses[0]  # the handle stays that of the first part
    assert handle not in live.ended


def status_of(run_id: str) -> str:
    """The status of a run, which the list, a filter of it, and the run itself have in common."""
    (listed,) = (run.status for run in agf.runs() if run.run_id == run_id)
    assert run_id in [run.run_id for run in agf.runs(status=listed)]
    assert agf.runs(run_id).status == listed
    return str(listed)
