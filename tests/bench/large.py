"""Measures large things: pictures of up to 480 steps, a table of 1 GB through ten steps, the page of 10,000 calls."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from random import Random
from typing import NamedTuple

import agf_magics as agf
from agf_magics.flow.flow import Flow
from agf_magics.pictures.diagram import Diagram
from agf_magics.pictures.layout.graphviz import NoPicture
from tests.pictures.random_flows import LANGUAGES, text_of

SIZES = (30, 100, 200, 300, 400, 480)
FLOWS = 3
"""The number of flows for each language and size."""
CALLS = 10_000


class Drawn(NamedTuple):
    """The pictures of one language and size."""

    language: str
    steps: int
    seconds: float
    """The CPU seconds of the slowest drawn picture; 0.0: none was drawn."""
    refused: int
    """The number of flows that are displayed as an outline instead."""
    longest_refusal: float
    """The CPU seconds until the decision to display a flow as an outline."""


def pictures(seed: int) -> list[Drawn]:
    """Draw random flows from ``seed``, with all work from the flow to the SVG."""
    random, drawings = Random(seed), list[Drawn]()
    Diagram(agf.load("pipeline: warm\nsteps:\n- transform: {value: '1'}")).svg()
    for language, make in sorted(LANGUAGES.items()):
        for size in SIZES:
            flows = [agf.load(text_of(make(random, size)), language) for _ in range(FLOWS)]
            taken = [_draw(flow) for flow in flows]
            drawn, refused = ([seconds for seconds, ok in taken if ok is is_drawn] for is_drawn in (True, False))
            drawings.append(Drawn(language, size, max(drawn, default=0.0), len(refused), max(refused, default=0.0)))
    return drawings


def _draw(flow: Flow) -> tuple[float, bool]:
    start = time.process_time()
    try:
        Diagram(flow).svg()
    except NoPicture:
        return time.process_time() - start, False
    return time.process_time() - start, True


class Passed(NamedTuple):
    """One kind of table that passes ten steps, with the journal."""

    kind: str
    seconds: float
    megabytes: float
    """The growth of the highest memory of the process. Linux only."""


KINDS = {
    "NumPy": "import numpy; table = numpy.ones((12_500_000, 10))",
    "pandas": "import numpy, pandas; table = pandas.DataFrame(numpy.ones((12_500_000, 10)))",
    "pandas, text": "import pandas; table = pandas.DataFrame({'a': ['some words of a text'] * 40_000_000})",
    "polars": "import numpy, polars; table = polars.DataFrame({f'c{i}': numpy.ones(12_500_000) for i in range(10)})",
    "pyarrow": "import numpy, pyarrow; table = pyarrow.table({f'c{i}': numpy.ones(12_500_000) for i in range(10)})",
}
"""The kinds of tables, each of 1 GB."""

TEN = """
import json, time
from pathlib import Path
import agf_magics as agf
%s
@agf.tool
def load() -> object:
    return table
@agf.tool
def same(table: object) -> object:
    return table
lines = ["pipeline: ten", "steps:", "- tool: {name: load, output: t0}"]
lines += [f"- tool: {{name: same, args: {{table: !expr t{i}}}, output: t{i + 1}}}" for i in range(9)]
agf.define("\\n".join([*lines, "- transform: {value: '1'}"]))
agf.define("pipeline: warm\\nsteps:\\n- tool: {name: same, args: {table: 1}}")
agf.run("warm")
def highest():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
Path("/proc/self/clear_refs").write_text("5")  # the highest memory counts from now on
before, start = highest(), time.process_time()
run = agf.run("ten")
taken = time.process_time() - start
assert run.stores["t9"] is table
print(json.dumps([taken, (highest() - before) / 1000]))
"""


def tables() -> list[Passed]:
    """Measure each kind of table in a process of its own."""
    found = []
    for kind, code in KINDS.items():
        command = [sys.executable, "-c", TEN % code]
        with tempfile.TemporaryDirectory() as folder:
            ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
        found.append(Passed(kind, *json.loads(ran.stdout.splitlines()[-1])))
    return found


def page() -> float:
    """The megabytes of the page of a plan with 10,000 calls."""
    registry = agf.Registry()

    @agf.tool(registry=registry)
    async def fetch(number: int) -> dict[str, object]:
        return {"number": number, "text": "some words of a result"}

    calls = [{"_tool": "fetch", "number": i, "_outputPath": f"†state.v{i}"} for i in range(CALLS)]
    run = agf.run(
        agf.load(json.dumps({"calls": calls}, ensure_ascii=False), "plan", registry=registry), registry=registry
    )
    return sum(len(text.encode()) for text in run._repr_mimebundle_().values()) / 1e6


if __name__ == "__main__":
    for one in pictures(1):
        print(one)
    for passed in tables():
        print(passed)
    print(f"{page():.2f} MB")
