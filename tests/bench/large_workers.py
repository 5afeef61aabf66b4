"""Measures large values on worker processes: `python -m tests.bench.large_workers --megabytes 300`.

``chain``: three calls on workers, each of which gets the frame that the previous one returned. ``fan-out``: 40 calls
that all get the same frame, of a third of the size. ``shared``: one call on a worker returns such a frame, and 40 other
calls get it. The script prints the seconds, the CPU seconds and the memory peak of the kernel, the CPU seconds of the
workers, and the bytes left in the temporary folder. Each run is in a process of its own, in alternating rounds.
`--tree` compares with the package in another folder.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

SESSION = """
import json, os, resource, sys, time
from dataclasses import replace

import numpy as np
import pandas as pd

import agf_magics as agf
from agf_magics.settings.settings import current

what, journal, rows, on = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
current.settings = replace(current.settings, journal=os.path.abspath("runs.sqlite") if journal == "on" else None)

@agf.tool(where="worker")
def load(rows: int) -> object:
    random = np.random.default_rng(1)
    return pd.DataFrame({name: random.random(rows) for name in "abcdefgh"})

@agf.tool(where="worker")
def clean(frame: object) -> object:
    return frame * 2

@agf.tool(where="worker")
def model(frame: object) -> float:
    return float(frame["a"].sum() + frame["h"].sum())

@agf.tool(where="worker")
def weigh(frame: object, x: int) -> float:
    return float(frame["a"].iloc[x] + frame["h"].sum())

agf.define('''
pipeline: chain
steps:
- tool: {name: load, args: {rows: !expr ctx.rows}, output: one}
- tool: {name: clean, args: {frame: !expr one}, output: two}
- tool: {name: model, args: {frame: !expr two}}
''')
agf.define('''
pipeline: fan-out
steps:
- for_each:
    over: ctx.xs
    on_error: abort
    do: {tool: {name: weigh, args: {frame: !expr ctx.frame, x: !expr item}}}
    collect: {transform: {value: sum(pipe)}}
''')

agf.define('''
pipeline: shared
steps:
- tool: {name: load, args: {rows: !expr ctx.rows}, output: one}
- for_each:
    over: ctx.xs
    on_error: abort
    do: {tool: {name: weigh, args: {frame: !expr one, x: !expr item}}}
    collect: {transform: {value: sum(pipe)}}
''')

def given(rows):
    if what == "chain":
        return {"rows": rows}
    xs = list(range(40))
    return {"frame": load(rows // 3), "xs": xs} if what == "fan-out" else {"rows": rows // 3, "xs": xs}

def main():
    agf.run(what, given(300), on=on)  # the processes start
    input = given(rows)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before, cpu, begun = memory("VmRSS"), time.process_time(), time.monotonic()
    output = agf.run(what, input, on=on).output
    wall, cpu, peak = time.monotonic() - begun, time.process_time() - cpu, memory("VmHWM") - before
    print(json.dumps({"wall": wall, "kernel": cpu, "peak": peak, "output": output}))

def memory(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1000 for line in file if line.startswith(name + ":"))

if __name__ == "__main__":
    main()
"""


KINDS = ("chain", "fan-out", "shared")


def session(tree: Path, kind: str, journal: str, rows: int, on: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder, temporary = Path(name), Path(name, "temporary")
        temporary.mkdir()
        environment = {**os.environ, "PYTHONPATH": str(tree), "TMPDIR": str(temporary)}
        (folder / "session.py").write_text(SESSION)
        command = [sys.executable, "session.py", kind, journal, str(rows), on]
        before = os.times()
        ran = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, check=False)
        assert ran.returncode == 0, ran.stderr
        measured: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
        after = os.times()
        measured["all"] = after.children_user + after.children_system - before.children_user - before.children_system
        measured["left"] = sum(path.stat().st_size for path in temporary.rglob("*") if path.is_file())
        return measured


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--megabytes", type=int, default=300, help="of a frame of the chain")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--on", default="processes:2")
    options.add_argument("--tree", type=Path, action="append", default=[], help="another folder with the package")
    options.add_argument("--only", choices=KINDS)
    chosen = options.parse_args()
    rows = chosen.megabytes * 1_000_000 // 64
    trees = [Path.cwd(), *chosen.tree]
    measured = defaultdict[tuple[Path, str, str], list[dict[str, Any]]](list)
    for _ in range(chosen.rounds):
        for kind in (chosen.only,) if chosen.only else KINDS:
            for journal in ("off", "on"):
                for tree in trees:
                    measured[tree, kind, journal].append(session(tree, kind, journal, rows, chosen.on))
    for (tree, kind, journal), sessions in measured.items():
        median = {
            name: statistics.median(measured_session[name] for measured_session in sessions) for name in sessions[0]
        }
        print(
            f"{kind:8} journal {journal:3}: {median['wall']:5.2f} s, kernel {median['kernel']:5.2f} s of CPU and"
            f" {median['peak']:5,.0f} MB more, {median['left'] / 1e6:,.0f} MB left ({tree.name})"
        )


if __name__ == "__main__":
    main()
