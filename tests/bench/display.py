"""§ 6: 10,000 elements with the live view and without, in a real kernel."""

from __future__ import annotations

import os
from typing import Any

from jupyter_client.manager import start_new_kernel

from tests.bench.rounds import Row, paired

SETUP = """
%load_ext agf_magics
from agf_magics import tool
@tool
async def work(x: int) -> int:
    return x + 1
xs = list(range(10_000))
import agf_magics as agf
agf.define('''
pipeline: fan
steps:
  - for_each:
      over: ctx.xs
      on_error: abort
      do: {tool: {name: work, args: {x: !expr item}}}
      collect: {transform: {value: count(pipe)}}
''')
%config AgfMagics.progress_after = 0.0
"""


def rows(rounds: int = 9) -> list[Row]:
    """Microseconds an element."""
    # As under Jupyter Server, so that the view is the widget.
    manager, client = start_new_kernel(env={**os.environ, "JPY_SESSION_NAME": "bench.ipynb"})
    try:
        _run(client, SETUP)
        return paired(
            {
                "no view": lambda: _run(client, "%run_pipeline fan --set xs=$xs --quiet"),
                "live view": lambda: _run(client, "%run_pipeline fan --set xs=$xs"),
            },
            per=10_000,
            rounds=rounds,
        )
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def _run(client: Any, code: str) -> None:
    reply = client.execute_interactive(code, timeout=120, output_hook=lambda message: None)
    assert reply["content"]["status"] == "ok", reply["content"]
