"""Measures the cost of the explorer: `python -m tests.browser.explorer_costs` prints a table.

The measurement uses JupyterLab, headless Chromium and a real kernel. A fan-out of 10,000 elements (4 s) and 500 steps
(10 s) run in turns without a view and with the explorer. The table has the kernel's CPU time and memory, the messages
and bytes on the connection of the page, the frames that the page painted per second, and the sum of its long tasks (of
more than 50 ms).
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from tests.browser.harness import Lab, Notebook, chromium

SETUP = """%load_ext agf_magics
%config AgfMagics.journal = None
import asyncio, json, os, time
import agf_magics
from agf_magics import tool

@tool
async def wait(item: float) -> float:
    await asyncio.sleep(item)
    return item

def rss():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

steps = "".join(f"- tool: {{name: wait, args: {{item: 0.02}}, output: o{n}}}\\n" for n in range(500))
agf_magics.define("pipeline: steps\\nsteps:\\n" + steps)
agf_magics.define('''
pipeline: elements
steps:
- for_each:
    over: ctx.items
    on_error: continue
    do: {tool: {name: wait, args: {item: !expr item}}}
    collect: {transform: {value: count(pipe)}}
    output: done
''')
items = [0.003] * 10_000
times = []"""

RUN = """%config AgfMagics.progress = "VIEW"
cpu, memory = time.process_time(), rss()
NAME
print(json.dumps({"cpu": time.process_time() - cpu, "memory": rss() - memory}))"""

FLOWS = {
    "10,000 elements": "%run_pipeline elements --set items=$items --out r",
    "500 steps": "%run_pipeline steps --out r",
}

# Counts the frames and the long tasks of the page, and waits for the explorer.
WATCH = """() => {
  const found = window.agfCosts = { frames: 0, long: 0, since: performance.now() };
  new PerformanceObserver(list => { for (const entry of list.getEntries()) found.long += entry.duration; })
    .observe({ type: "longtask" });
  const frame = () => { found.frames += 1; found.id = requestAnimationFrame(frame); };
  frame();
  const start = () => {
    const host = document.querySelector(".jp-OutputArea-output .agf-run");
    if (host?.shadowRoot) found.paint = performance.now() - found.since; else setTimeout(start, 5);
  };
  start();
}"""

# Ends the count, and returns it.
COSTS = """() => {
  const { frames, long, since, paint, id } = window.agfCosts;
  cancelAnimationFrame(id);
  return { frames: frames / (performance.now() - since) * 1e3, long, paint: paint ?? 0 };
}"""


class Cost(NamedTuple):
    """The cost of one run."""

    cpu: float
    """The kernel's seconds of CPU."""
    memory: float
    """The MB by which the kernel grew."""
    messages: int
    """The messages on the connection of the page."""
    kilobytes: float
    frames: float
    """The frames that the page painted in a second."""
    long: float
    """Milliseconds of long tasks in the page."""
    paint: float
    """Milliseconds until the explorer was there; 0 without one."""


def measure(lab: Lab, browser: Any, flow: str, view: str, number: int) -> Cost:
    """Measure one run in a new page and a new kernel."""
    name = f"costs-{number}.ipynb"
    first = "%run_pipeline elements --set items=[0] --out r"  # loads the script into the page
    lab.write(name, SETUP, first, RUN.replace("VIEW", view).replace("NAME", FLOWS[flow]))
    sizes: list[int] = []
    page = Notebook(browser, lab, name, watch=lambda payload: sizes.append(len(payload)))
    page.run(0)
    page.run(1)
    page.command("notebook:clear-all-cell-outputs")
    sizes.clear()
    page.page.evaluate(WATCH)
    page.run(2)
    page.says(2, '"cpu"')
    costs, count, size = page.page.evaluate(COSTS), len(sizes), sum(sizes)
    text = next(line for line in page.seen(2).splitlines() if line.startswith('{"cpu"'))
    kernel = json.loads(text)
    page.command("notebook:shutdown-kernel")
    page.close()
    return Cost(kernel["cpu"], kernel["memory"], count, size / 1e3, costs["frames"], costs["long"], costs["paint"])


def main(rounds: int) -> None:
    costs_of: dict[tuple[str, str], list[Cost]] = {}
    with tempfile.TemporaryDirectory() as folder, Lab(Path(folder) / "notebooks") as lab, chromium() as browser:
        number = 0
        for _ in range(rounds):
            for flow in FLOWS:
                for view in ("off", "widget"):
                    number += 1
                    costs_of.setdefault((flow, view), []).append(measure(lab, browser, flow, view, number))
    for key, costs in costs_of.items():
        medians = [statistics.median(column) for column in zip(*costs, strict=True)]
        print(*key, *(f"{name} {median:.2f}" for name, median in zip(Cost._fields, medians, strict=True)), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 3)
