"""§ 5: what keeping a run costs, calls of 276-byte results, off and on. CPU time of all threads, paired
rounds.

On means durable: an element's line is written before the next one starts in its slot.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import agf_magics as agf
from agf_magics.journal.store import Store
from agf_magics.lifecycle.settings import current
from tests.bench.orchestration import GATHER, gathered
from tests.bench.rounds import Row, paired
from tests.fans import fan_out

STEPS, ITEMS = 100, 1000
RESULT = {"text": "x" * 236, "number": 12345}


async def work(x: int) -> dict[str, Any]:
    return RESULT


def rows() -> tuple[list[Row], list[Row]]:
    """A linear step, and an element of a fan-out at 16 side by side."""
    before = current.settings
    with TemporaryDirectory() as folder:
        try:
            fan = fan_out(limit=16, collect="count(pipe)")
            return _pair(_linear(), STEPS, Path(folder)), _pair(fan, ITEMS, Path(folder))
        finally:
            Store.close_all()
            current.settings = before


def _pair(text: str, per: int, folder: Path) -> list[Row]:
    registry = agf.Registry()
    agf.tool(work, registry=registry)
    flow = agf.load(text, registry=registry)
    given = {"n": 1, "xs": list(range(ITEMS))}

    def kept(where: str | None) -> Callable[[], Any]:
        def run() -> Any:
            current.settings = replace(current.settings, journal=where)
            return agf.run(flow, given, registry=registry)

        return run

    loop = asyncio.new_event_loop()
    bare = sqlite3.connect(folder / f"bare{per}.sqlite", isolation_level=None)
    try:
        return paired(
            {
                "off": kept(None),
                "on": kept(str(folder / "runs.sqlite")),
                "sqlite3 alone, a commit each": _committing(bare, per),
                GATHER: lambda: loop.run_until_complete(gathered(per)),
            },
            per=per,
            clock=time.process_time,
        )
    finally:
        bare.close()
        loop.close()


def _committing(bare: sqlite3.Connection, count: int) -> Callable[[], Any]:
    bare.execute("PRAGMA journal_mode=WAL")
    bare.execute("PRAGMA synchronous=NORMAL")
    bare.execute("CREATE TABLE results (id INTEGER PRIMARY KEY, value TEXT)")
    text = json.dumps(RESULT)

    def commit() -> None:
        for _ in range(count):
            bare.execute("INSERT INTO results (value) VALUES (?)", (text,))

    return commit


def _linear() -> str:
    return "pipeline: linear\nsteps:\n" + "  - tool: {name: work, args: {x: !expr ctx.n}}\n" * STEPS
