"""Fan-outs over one tool call."""

from __future__ import annotations

from typing import Any

import agf_magics as agf

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
    """Run ``work`` for each x. ``options``: of the tool."""
    registry = agf.Registry()
    agf.tool(work, name="work", registry=registry, **options)
    return agf.run(FAN.format(on_error=on_error), {"xs": xs}, registry=registry, on=on, raises=False)
