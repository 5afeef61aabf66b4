"""Runs notebooks with a real kernel, as a user's `Run All` would, and leaves each as a page to look at.

They run in a copy of their folder, so whatever they write lies beside their pages and a checkout stays clean; as many
at once as the computer has processors.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbconvert import HTMLExporter

SECONDS_A_CELL = 300


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notebooks", nargs="+", type=Path)
    parser.add_argument("--into", type=Path, required=True, help="a folder, made anew, for the executed notebooks")
    asked = parser.parse_args()
    shutil.rmtree(asked.into, ignore_errors=True)
    leave_out = shutil.ignore_patterns(Path(__file__).name, ".*", "__pycache__")
    for folder in {notebook.parent for notebook in asked.notebooks}:
        shutil.copytree(folder, asked.into, ignore=leave_out, dirs_exist_ok=True)
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        went = list(threads.map(ran, [asked.into / notebook.name for notebook in asked.notebooks]))
    return 0 if all(went) else 1


def ran(path: Path) -> bool:
    """Whether it ran to its end; says how it went."""
    print(f"running {path.name} ...", flush=True)
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=SECONDS_A_CELL,
        resources={"metadata": {"path": str(path.parent)}},
        store_widget_state=False,
        extra_arguments=["--log-level=ERROR"],
    )
    start, failure = time.perf_counter(), None
    try:
        client.execute()
    except CellExecutionError as error:
        failure = error
    seconds = time.perf_counter() - start
    nbformat.write(notebook, path)
    page = path.with_suffix(".html")
    page.write_text(HTMLExporter().from_notebook_node(notebook)[0], encoding="utf-8")
    if failure:
        print(f"{failure}\n{path.name} FAILED. Its page: {page}", file=sys.stderr, flush=True)
        return False
    print(f"{last_output(notebook)}\n\n{path.name} ran in {seconds:.1f} s. Its page: {page}", flush=True)
    return True


def last_output(notebook: nbformat.NotebookNode) -> str:
    """What stands last on the page, as text."""
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    texts = (output.get("text") or output.get("data", {}).get("text/plain", "") for output in reversed(outputs))
    return next((text.rstrip() for text in texts if text.strip()), "")


if __name__ == "__main__":
    sys.exit(main())
