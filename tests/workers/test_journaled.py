"""Calls on workers in the journal: such a call changes no object of the kernel, and the journal knows changes in the
kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import agf_magics as agf
from agf_magics.workers.backends.processes import Processes
from tests.engine import kept

TEXT = """
pipeline: main
steps:
- tool: {name: make, output: values}
- tool: {name: total, args: {values: !expr values}, output: before}
- tool: {name: change, args: {values: !expr values}}
- tool: {name: total, args: {values: !expr values}, output: after}
- tool: {name: last, args: {totals: !expr "[before, after]"}}
"""


@pytest.mark.parametrize("count", [1_000, 300_000])
@pytest.mark.parametrize("where", ["worker", "kernel"])
def test_a_resumed_run_makes_the_calls_again_that_changed_something_here(
    where: Any, count: int, processes: Processes, tmp_path: Path
) -> None:
    registry, calls, ends = agf.Registry(), list[str](), [RuntimeError("not yet")]

    @agf.tool(registry=registry)
    def make() -> Any:
        calls.append("make")
        return np.ones(count)

    @agf.tool(registry=registry, where=where)
    def total(values: Any) -> float:
        values *= 2
        return float(values.sum())

    @agf.tool(registry=registry)
    def change(values: Any) -> None:
        calls.append("change")
        values += 1

    @agf.tool(registry=registry)
    def last(totals: list[float]) -> list[float]:
        for error in ends:
            raise error
        return totals

    # In the kernel, `total` changes the array of the later steps.
    expected = {"worker": [2.0 * count, 4.0 * count], "kernel": [2.0 * count, 6.0 * count]}[where]
    with kept.journal_in(tmp_path):
        run = agf.run(TEXT, registry=registry, on=processes, raises=False)
        assert (run.status, calls) == ("error", ["make", "change"])
        ends.clear()
        calls.clear()
        assert agf.resume(run.run_id, registry=registry, on=processes).output == expected
    assert "change" in calls
