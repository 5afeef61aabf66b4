"""In a fan-out, at most ``max_parallel`` calls have started without a durable record.

Each call checks this promise of the journal through its own connection. It counts first the calls that have started,
itself included, and then the durable records. Both numbers only grow, so a difference above the limit breaks the
promise, even if the call looks late.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.journal.database.store import Store
from agf_magics.settings.settings import current
from tests.fans import fan_out

ELEMENTS = 80
LIMITS = (1, 2, 3, 8, 16)


class Look:
    """Counts calls that have started and records that are durable."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.started = self.worst = 0
        """The largest number of calls that had started without a durable record."""
        self.together = self.running = 0
        """The largest number of concurrent calls."""
        self._lock = threading.Lock()
        self._thread = threading.local()

    def __call__(self) -> None:
        with self._lock:
            self.started += 1
            started = self.started
        with self._lock:
            self.worst = max(self.worst, started - self._durable())

    def __enter__(self) -> None:
        with self._lock:
            self.running += 1
            self.together = max(self.together, self.running)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.running -= 1

    def _durable(self) -> int:
        connection = getattr(self._thread, "connection", None)
        if connection is None:
            connection = self._thread.connection = sqlite3.connect(self.path, isolation_level=None)
        count = connection.execute("SELECT count(*) FROM records WHERE what IN ('finished', 'failed')").fetchone()[0]
        return int(count)


@pytest.fixture
def look(tmp_path: Path) -> Iterator[Look]:
    path, before = tmp_path / "runs.sqlite", current.settings
    current.settings = replace(before, journal=str(path))
    try:
        yield Look(path)
    finally:
        Store.close_all()
        current.settings = before


def tools(look: Look) -> agf.Registry:
    registry = agf.Registry()

    def plain(x: int) -> int:
        look()
        return x

    def sleeping(x: int) -> int:
        look()
        with look:
            time.sleep(0.002)
        return x

    def growing(x: int) -> int:
        """First quick, then slow, then quick again, so that threads are added in the middle."""
        return sleeping(x) if 20 <= x < 50 else plain(x)

    def failing(x: int) -> int:
        look()
        if x % 3 == 0:
            raise ValueError(x)
        return x

    async def coroutine(x: int) -> int:
        look()
        return x

    async def waiting(x: int) -> int:
        look()
        await asyncio.sleep(0)
        return x

    def returned(x: int) -> Any:
        return waiting(x)

    for tool in (plain, sleeping, growing, failing, coroutine, waiting, returned):
        agf.tool(tool, registry=registry)
    return registry


def run(look: Look, tool: str, limit: int, on_error: str = "abort", elements: int = ELEMENTS) -> agf.Run:
    registry = tools(look)
    flow = agf.load(fan_out(tool, limit=limit, on_error=on_error, collect="count(pipe)"), registry=registry)
    return agf.run(flow, {"xs": list(range(elements))}, registry=registry)


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("tool", ["plain", "sleeping", "growing", "coroutine", "waiting", "returned"])
def test_at_most_limit_calls_have_started_without_a_durable_record(look: Look, tool: str, limit: int) -> None:
    assert run(look, tool, limit).output == ELEMENTS
    assert look.started == ELEMENTS
    assert 1 <= look.worst <= limit


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize(("on_error", "calls"), [("continue", ELEMENTS), ("retry(2)", 3)])
def test_a_failure_is_durable_before_the_next_call_starts(look: Look, limit: int, on_error: str, calls: int) -> None:
    if on_error == "continue":
        assert run(look, "failing", limit, on_error).output == ELEMENTS - len(range(0, ELEMENTS, 3))
    else:
        with pytest.raises(agf.StepError):
            run(look, "failing", limit, on_error, elements=1)
    assert look.started == calls
    assert 1 <= look.worst <= limit


def test_functions_that_wait_run_concurrently(look: Look) -> None:
    assert run(look, "sleeping", 8).output == ELEMENTS
    assert 2 <= look.together <= 8
