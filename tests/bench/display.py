"""§ 6: 10,000 elements with the live view and without, in a real kernel.

Counted is what the kernel's processor time is spent on, by all of its threads (`time.process_time` in the kernel): the
run, the view's own thread, and the one that sends what is shown. The wall clock does not tell: such a run takes a tenth
of a second, and in that time whoever else uses the machine decides how often the view ticks and how long a message
takes; two equal candidates differed by 10 % by the wall clock and by 1 % so. What the front end does with a message is
its own time.

As it is set, the view opens when a run has gone on for 0.3 s, which these elements do only on a slow machine; opened
at once it costs its widgets too, which are the same few milliseconds for every run.
"""

from __future__ import annotations

import json
import os
import statistics
from typing import Any

from jupyter_client.manager import start_new_kernel

from tests.bench.rounds import Row
from tests.fans import fan_out

ELEMENTS = 10_000

SETUP = """
%load_ext agf_magics
from agf_magics import tool
@tool
async def work(x: int) -> int:
    return x + 1
xs = list(range(10_000))
import agf_magics as agf
agf.define({text!r})
%config AgfMagics.journal = None
"""

ROUNDS = """
import gc, json, time

def once(quiet, after):
    get_ipython().run_line_magic("config", f"AgfMagics.progress_after = {{after}}")
    start = time.process_time()
    get_ipython().run_line_magic("run_pipeline", "fan --set xs=$xs" + " --quiet" * quiet)
    return time.process_time() - start

taken = {{"no view": [], "live view": [], "live view, opened at once": []}}
for number in range(-1, {rounds}):
    gc.collect()
    for found, seconds in zip(taken.values(), (once(True, 0.3), once(False, 0.3), once(False, 0.0))):
        if number >= 0:
            found.append(seconds)
"""


def rows(rounds: int = 25) -> list[Row]:
    """Microseconds an element."""
    # As under Jupyter Server, so that the view is the widget.
    manager, client = start_new_kernel(env={**os.environ, "JPY_SESSION_NAME": "bench.ipynb"})
    try:
        _run(client, SETUP.format(text=fan_out(collect="count(pipe)", name="fan")))
        _run(client, ROUNDS.format(rounds=rounds))
        taken: dict[str, list[float]] = json.loads(_run(client, "", "json.dumps(taken)")[1:-1])
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    base = taken["no view"]
    return [
        Row(
            name,
            statistics.median(each) / ELEMENTS * 1e6,
            statistics.median(a / b for a, b in zip(each, base, strict=True)),
        )
        for name, each in taken.items()
    ]


def _run(client: Any, code: str, asked: str = "None") -> str:
    """Run it, and what the kernel shows of ``asked`` then."""
    reply = client.execute_interactive(
        code, timeout=300, output_hook=lambda message: None, user_expressions={"asked": asked}
    )
    assert reply["content"]["status"] == "ok", reply["content"]
    return str(reply["content"]["user_expressions"]["asked"]["data"]["text/plain"])
