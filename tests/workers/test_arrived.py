"""A result that has arrived when its run is stopped is kept, so that a resumed run does not make its call again."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.lifecycle.runs.run import state_of
from tests.engine import kept
from tests.workers.fans import FAN
from tests.workers.in_process import InProcess


@pytest.mark.parametrize("options", [{}, {"reuse": False}], ids=["plain", "with an effect"])
def test_a_result_that_arrives_with_the_cancellation_is_kept(options: Any, tmp_path: Path) -> None:
    def work(x: str) -> str:
        with open(x, "a") as file:
            file.write("made ")
        return x

    backend, registry, log = InProcess(lanes=1, holds=True), agf.Registry(), tmp_path / "log"
    agf.tool(work, registry=registry, **options)
    flow = agf.load(FAN.format(on_error="abort"), registry=registry)
    with kept.journal_in(tmp_path):
        run = agf.start(flow, {"xs": [str(log)]}, registry=registry, on=backend)
        assert backend.arrived.wait(20)
        job, over = state_of(run).job, threading.Event()
        assert job is not None

        def cancel_and_release() -> None:
            run.cancel()
            backend.release()
            over.set()

        job._engine.loop.call_soon_threadsafe(cancel_and_release)
        assert over.wait(20)
        assert run.wait(20).status == "cancelled"
        resumed = agf.resume(run.run_id, registry=registry, on=InProcess())
        assert (resumed.output, log.read_text()) == ([str(log)], "made ")
