"""The fan-out that many tests and benchmarks use: one tool call for each element of ``ctx.xs``."""

from __future__ import annotations


def fan_out(
    tool: str = "work",
    *,
    argument: str = "x",
    limit: int | None = None,
    on_error: str = "abort",
    collect: str = "pipe",
    name: str = "main",
) -> str:
    """The text of a pipeline with this fan-out. ``limit``: the value of ``max_parallel``; None: not set."""
    most = f"\n      max_parallel: {limit}" if limit is not None else ""
    return f"""
pipeline: {name}
steps:
  - for_each:
      over: ctx.xs{most}
      on_error: {on_error}
      do: {{tool: {{name: {tool}, args: {{{argument}: !expr item}}}}}}
      collect: {{transform: {{value: {collect}}}}}
"""
