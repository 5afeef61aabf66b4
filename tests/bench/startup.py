"""§ 7: what ``%load_ext agf_magics`` costs in a fresh kernel: a fresh process with everything of IPython's imported."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

from tests.bench.rounds import Row

TIMED = """
import time
import ipykernel.ipkernel, ipykernel.zmqshell
from IPython.core.interactiveshell import InteractiveShell
ip = InteractiveShell.instance()
start = time.perf_counter()
{code}
print((time.perf_counter() - start) * 1e6)
"""

CODES = {
    "%load_ext agf_magics": "ip.run_line_magic('load_ext', 'agf_magics')",
    "import pydantic": "import pydantic",
    "import jsonschema": "import jsonschema",
}


def rows(rounds: int = 7) -> list[Row]:
    """Microseconds, the median of fresh processes."""
    taken: dict[str, list[float]] = {name: [] for name in CODES}
    # As installed: with bytecode, which the first round writes.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for number in range(rounds + 1):
        for name, code in CODES.items():
            command = [sys.executable, "-c", TIMED.format(code=code)]
            ran = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
            if number:
                taken[name].append(float(ran.stdout))
    base = statistics.median(taken["%load_ext agf_magics"])
    return [Row(name, statistics.median(each), statistics.median(each) / base) for name, each in taken.items()]
