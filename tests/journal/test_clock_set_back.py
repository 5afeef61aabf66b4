"""A clock that is set back during a run: no call and no step took less than no time."""

from __future__ import annotations

import time

import pytest

import agf_magics as agf

STEPS = "pipeline: p\nsteps:\n- tool: {name: work}\n- tool: {name: set_back}\n- tool: {name: work}\n"


@pytest.mark.usefixtures("journaled")
def test_no_duration_is_negative(monkeypatch: pytest.MonkeyPatch) -> None:
    registry, real, offsets = agf.Registry(), time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: real() + offsets[0])
    fails = [True]

    @agf.tool(registry=registry)
    def work() -> None:
        if offsets[0] and fails:
            fails.pop()
            raise ValueError("not yet")

    @agf.tool(registry=registry)
    def set_back() -> None:
        offsets[0] = -5_000.0

    failed = agf.run(STEPS, registry=registry, raises=False)
    resumed = agf.resume(failed.run_id, registry=registry)
    for run in (failed, resumed, agf.runs(failed.run_id)):
        assert [row for row in run.trace if (row["seconds"] or 0.0) < 0.0] == []
    assert all(call["seconds"] >= 0.0 for call in agf.runs(failed.run_id).calls)
