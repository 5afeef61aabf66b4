"""Measures what a call of a plain function costs in each language, without and with the journal. (The journal is the
default.)"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import agf_magics as agf
from agf_magics.journal.database.store import Store
from agf_magics.settings.settings import current
from tests.bench.flows import graph, plan_of_chained, plan_of_independent, policy, registry
from tests.bench.rounds import Row, paired
from tests.fans import fan_out

CALLS = 300

CHAIN = "pipeline: chain\nsteps:\n" + "- tool: {name: inc, args: {n: !expr ctx.n}}\n" * CALLS

TEXTS = {
    "pipeline: a step": (CHAIN, "pipeline", {"n": 0}),
    "pipeline: an element, 8 at a time": (
        fan_out("inc", argument="n", limit=8),
        "pipeline",
        {"xs": list(range(CALLS))},
    ),
    "policy: a step": (policy(CALLS), "policy", {"n": 0}),
    "plan: a call, each needs the one before": (plan_of_chained(CALLS), "plan", {}),
    "plan: a call, none needs another": (plan_of_independent(CALLS), "plan", {}),
    "graph: a node": (graph(CALLS), "graph", {"n": 0}),
}
"""For each row of the table: a text, its language, and its input."""


def rows() -> list[tuple[str, Row, Row]]:
    """For each way of a call, the microseconds of CPU time of this process without and with the journal."""
    before, results = current.settings, []
    with TemporaryDirectory() as folder:
        try:
            for name, case in TEXTS.items():
                off, on = paired(
                    {"off": _run(*case, None), "on": _run(*case, str(Path(folder, "runs.sqlite")))},  # type: ignore[arg-type]
                    per=CALLS,
                    clock=time.process_time,
                )
                results.append((name, off, on))
        finally:
            Store.close_all()
            current.settings = before
    return results


def _run(text: str, language: str, fields: dict[str, Any], journal: str | None) -> Callable[[], Any]:
    called = registry()
    flow = agf.load(text, language, registry=called)

    def run() -> Any:
        current.settings = replace(current.settings, journal=journal)
        for name in ("chain", "wide"):
            called.contexts.named(name).log = None  # the log would keep all messages
        return agf.run(flow, fields, registry=called)

    return run


if __name__ == "__main__":
    for name, off, on in rows():
        print(f"{name:45} {off.micros:8.1f} {on.micros:8.1f}")
