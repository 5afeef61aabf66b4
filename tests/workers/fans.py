"""Runs fan-outs over one tool call on workers, with results, reports or questions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import agf_magics as agf
from agf_magics.flow.progress.events import Progressed

FAN = """
pipeline: main
steps:
  - for_each:
      over: ctx.xs
      on_error: {on_error}
      do: {{tool: {{name: work, args: {{x: !expr item}}}}}}
      collect: {{transform: {{value: pipe}}}}
"""


def run_fan(work: Any, xs: list[Any], on: object, on_error: str = "abort", **options: Any) -> agf.Run:
    """Run ``work`` for each x on workers. ``options``: the options of the tool."""
    registry = agf.Registry()
    agf.tool(work, name="work", registry=registry, **options)
    return agf.run(FAN.format(on_error=on_error), {"xs": xs}, registry=registry, on=on, raises=False)


def run_reporting(on: object, folder: Path) -> tuple[agf.Run, list[Progressed]]:
    """Run a fan-out whose calls report, and end only after the kernel has received the report. Returns the run and its
    reports."""
    registry, reports, go = agf.Registry(), list[Progressed](), folder / "go"

    def work(x: int, go: str, call: agf.ToolContext) -> int:
        import pathlib
        import time

        for number in range(1_000_000):
            call.progress(number % 10, total=10, text=f"part {number}")
            if pathlib.Path(go).exists():
                break
            time.sleep(0.01)
        return x

    def listen(event: Any) -> None:
        if isinstance(event, Progressed):
            reports.append(event)
            go.touch()

    agf.tool(work, registry=registry)
    text = FAN.format(on_error="abort").replace("x: !expr item", "x: !expr item, go: !expr ctx.go")
    run = agf.run(text, {"xs": [7], "go": str(go)}, registry=registry, on=on, on_event=listen)
    return run, reports


def ask_from_a_worker(on: object) -> agf.Run:
    registry = agf.Registry()

    def work(x: int, call: agf.ToolContext) -> str:
        return call.ask_and_wait("Go on?")

    agf.tool(work, registry=registry)
    text = FAN.format(on_error="abort")
    return agf.run(text, {"xs": [7]}, registry=registry, on=on, raises=False, ask=lambda question: "yes")
