"""A run with large results is killed and resumed: `python -m tests.bench.large_results --megabytes 1000`.

Five steps, each of which needs some seconds, pass on a frame of pandas that grows by a column. The process is killed in
the fifth. Prints the calls, the seconds and the seconds of CPU of the resumed run, the bytes of the store to the
distinct bytes of the columns, and what storing has cost: the CPU of a whole run with and without the journal.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SESSION = """
import json, os, resource, signal, sys, time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

import agf_magics as agf
from agf_magics.settings.settings import current

what, rows, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
journal = None if what == "without" else os.path.abspath("runs.sqlite")
current.settings = replace(current.settings, journal=journal)
made = []

@agf.tool
def load() -> object:
    made.append("load")
    time.sleep(2 * pause)
    random = np.random.default_rng(1)
    return pd.DataFrame({name: random.random(rows) for name in "abcdefgh"})

@agf.tool
def grow(frame: object, name: str) -> object:
    made.append(name)
    time.sleep(pause)
    return frame.assign(**{name: frame["a"] * ord(name)})

@agf.tool
def last(frame: object) -> list:
    made.append("last")
    if what == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    return [float(frame[name].sum()) for name in frame]

agf.define('''
pipeline: growing
steps:
- tool: {name: load, output: one}
- tool: {name: grow, args: {frame: !expr one, name: i}, output: two}
- tool: {name: grow, args: {frame: !expr two, name: j}, output: three}
- tool: {name: grow, args: {frame: !expr three, name: k}, output: four}
- tool: {name: last, args: {frame: !expr four}}
''')
counters = Path("/proc/self/io")
bytes_before = int(counters.read_text().split()[1]) if counters.exists() else 0
begun, before = time.monotonic(), time.process_time()
run = agf.resume("growing") if what == "resumed" else agf.run("growing")
print(json.dumps({
    "calls": made, "output": run.output, "seconds": time.monotonic() - begun, "cpu": time.process_time() - before,
    "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
    "read": int(counters.read_text().split()[1]) - bytes_before if bytes_before else 0,
}))
"""


def session(folder: Path, what: str, rows: int, pause: float) -> dict[str, Any]:
    command = [sys.executable, "-c", SESSION, what, str(rows), str(pause)]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    if what == "killed":
        assert ran.returncode == -9, ran.stderr
        return {}
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--megabytes", type=int, default=1000, help="of the first frame")
    options.add_argument("--pause", type=float, default=5.0, help="seconds of a step")
    chosen = options.parse_args()
    rows = chosen.megabytes * 1_000_000 // 64
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        session(folder, "killed", rows, chosen.pause)
        stored = sum(path.stat().st_size for path in (folder / "values").iterdir())
        resumed = session(folder, "resumed", rows, chosen.pause)
    whole = {}
    for what in ("with", "without"):
        with tempfile.TemporaryDirectory() as name:
            whole[what] = session(Path(name), what, rows, chosen.pause)
    assert resumed["output"] == whole["without"]["output"], "a resumed run has the output of an uninterrupted one"
    gigabytes = 11 * 8 * rows / 1e9
    print(
        f"resumed: {len(resumed['calls'])} of 5 calls, {resumed['seconds']:.1f} s, {resumed['cpu']:.1f} s of CPU,"
        f" {resumed['peak']:,.0f} MB at most, {resumed['read'] / 1e9:.2f} GB read;"
        f" the store has {stored / 1e9 / gigabytes:.2f} x the {gigabytes:.2f} GB of columns"
    )
    for what, found in whole.items():
        print(f"{what} the journal: {found['seconds']:.1f} s, {found['cpu']:.2f} s of CPU, {found['peak']:,.0f} MB")
    more = (whole["with"]["cpu"] - whole["without"]["cpu"]) / gigabytes
    print(f"seconds of CPU for each distinct GB: {more:.2f}")


if __name__ == "__main__":
    main()
