"""Measures the memory of a kernel that works on a large table in parts: `python -m tests.bench.large_data --megabytes
1000`.

The script writes a Parquet file of random numbers, which cannot be compressed, and starts a real kernel. The kernel
runs a fan-out like those of docs/howto/large-data.md: the row groups are the elements, and each result is the path of a
file. The script prints the peak of the kernel's memory before and after the run.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from jupyter_client.manager import start_new_kernel

BYTES_OF_A_ROW = 32

DEFINE = """
import json, os
from pathlib import Path

import agf_magics as agf
from agf_magics import tool

%load_ext agf_magics
%config AgfMagics.journal = os.path.abspath("runs.sqlite")

@tool
def groups(path: str) -> int:
    import pyarrow.parquet as pq
    return pq.ParquetFile(path).num_row_groups

@tool
def scale(path: str, group: int) -> str:
    "Writes twice the numbers of a row group, and returns the path of the file."
    import pyarrow as pa, pyarrow.compute as pc, pyarrow.parquet as pq
    pa.set_memory_pool(pa.system_memory_pool())
    table = pq.ParquetFile(path, memory_map=False).read_row_group(group)
    table = pa.table({name: pc.multiply(table[name], 2.0) for name in table.column_names})
    made, temporary = f"results/{group}.parquet", f"results/{group}.tmp"
    pq.write_table(table, temporary)
    os.replace(temporary, made)
    return made

Path("results").mkdir()

from concurrent.futures import ProcessPoolExecutor
import multiprocessing
executor = ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn"))
from agf_magics.workers.backends.processes import Processes
own = Processes(2)

def peak() -> int:
    "Kilobytes."
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
"""

FLOW = """%%pipeline
pipeline: scale_all
steps:
- for_each:
    over: ctx.groups
    on_error: abort
    max_parallel: {width}
    do: {{tool: {{name: scale, args: {{path: !expr ctx.path, group: !expr item}}}}}}
    collect: {{transform: {{value: pipe}}}}
"""

RUN = """
number = groups("large.parquet")
before = peak()
run = agf.run("scale_all", {{"path": "large.parquet", "groups": range(number)}}{on})
print(json.dumps({{"before": before, "after": peak(), "parts": number, "files": len(run.output)}}))
"""


def write(path: Path, megabytes: int, part: int) -> None:
    """Write a table in row groups of ``part`` megabytes."""
    rows = part * 1_000_000 // BYTES_OF_A_ROW
    random = np.random.default_rng(1)
    schema = pa.schema([(name, pa.float64()) for name in "abcd"])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for _ in range(max(1, megabytes // part)):
            writer.write_table(pa.table({name: random.random(rows) for name in "abcd"}, schema=schema), rows)


def measure(folder: Path, width: int, on: str | None) -> dict[str, Any]:
    """The peaks of a kernel's memory in kilobytes."""
    manager, client = start_new_kernel(kernel_name="python3", cwd=str(folder))
    try:
        option_on = f", on={on}" if on else ""
        for cell in (DEFINE, FLOW.format(width=width), RUN.format(on=option_on)):
            texts = list[str]()

            def hook(message: dict[str, Any], texts: list[str] = texts) -> None:
                content = message["content"]
                if message["msg_type"] == "stream" and content["name"] == "stdout":
                    texts.append(content["text"])

            reply = client.execute_interactive(cell, output_hook=hook, timeout=600)
            if reply["content"]["status"] != "ok":
                raise RuntimeError("\n".join(reply["content"]["traceback"]))
        measured: dict[str, Any] = json.loads("".join(texts).strip().splitlines()[-1])
        return measured
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--megabytes", type=int, default=1000)
    options.add_argument("--part", type=int, default=16, help="megabytes of a row group")
    options.add_argument("--width", type=int, default=8, help="max_parallel")
    options.add_argument("--on", help="the workers of the run, as an expression: '\"processes\"', or 'executor'")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "large.parquet", chosen.megabytes, chosen.part)
        measured = measure(folder, chosen.width, chosen.on)
        size = (folder / "large.parquet").stat().st_size
        stored = sum(path.stat().st_size for path in (folder / "results").iterdir())
        journal = (folder / "runs.sqlite").stat().st_size
    grown = (measured["after"] - measured["before"]) / 1000
    print(
        f"{size / 1e6:,.0f} MB in {measured['parts']} parts became {stored / 1e6:,.0f} MB in {measured['files']} files;"
        f" the kernel's peak grew by {grown:,.0f} MB to {measured['after'] / 1000:,.0f} MB;"
        f" the journal has {journal / 1e3:,.0f} kB"
    )


if __name__ == "__main__":
    main()
