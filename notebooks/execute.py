"""Run notebooks with a real kernel, as *Run All* does, and keep the result as a page to look at.

They run in a copy of their folder, so the files that they write do not end up in the checkout; as many at a time as
the computer has processors. ``--save`` also stores the outputs in the notebooks themselves. Outputs that differ only
in what no two runs have in common (times, ids of runs, the order of concurrent calls; see `stable`) leave it as it is.
``--record`` stores instead what models and tools answered, in ``recordings/NAME.agf`` beside the notebook: a test runs
it from there, without a model.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbconvert import HTMLExporter

SECONDS_A_CELL = 300
MOST_BYTES = 500_000
"""The largest notebook that is stored, with its outputs."""

VARIES = "varies"
"""The tag of a cell whose output depends on the environment: only the kinds of its outputs are compared."""

READS_JOURNAL = "agf.runs("
"""Cells with this text are left out with a recording: the journal has no run whose calls were not made."""

KEPT_METADATA = {"kernelspec", "language_info"}
KEPT_LANGUAGE = {"name", "file_extension", "mimetype", "pygments_lexer"}
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
UNSTABLE = tuple(
    (re.compile(pattern), stand_in)
    for pattern, stand_in in (
        (r"\b([\w.-]+-\d+)-[0-9a-f]{4,}\b", r"\1-ID"),
        (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?", "DATE"),
        (r"\b\d\d:\d\d(?::\d\d)?\b", "TIME"),
        (r"(?:< ?)?\b\d+(?:\.\d+)? ?(?:ms|µs|s|min|h)\b(?: \d+ ?(?:s|min)\b)?", "DURATION"),
        (r"\b[\d.,]+ (?:bytes|kB|MB)\b", "SIZE"),
        (r"\b0x[0-9a-f]+\b", "ADDRESS"),
        (r"█+", ""),
    )
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notebooks", nargs="+", type=Path)
    parser.add_argument("--into", type=Path, default=Path("build/notebooks"), help="a folder, emptied first")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--save", action="store_true", help="store the outputs in the notebooks")
    what.add_argument("--record", action="store_true", help="store what models and tools answered")
    options = parser.parse_args()
    shutil.rmtree(options.into, ignore_errors=True)
    leave_out = shutil.ignore_patterns(Path(__file__).name, ".*", "__pycache__")
    for folder in {notebook.parent for notebook in options.notebooks}:
        shutil.copytree(folder, options.into, ignore=leave_out, dirs_exist_ok=True)
    (options.into / "pyproject.toml").touch()  # a project of its own: no settings and no journal of another one
    paths = [options.into / notebook.name for notebook in options.notebooks]
    for path in paths if options.record else ():
        recording_of(path).parent.mkdir(exist_ok=True)
        recording_of(path).unlink(missing_ok=True)
        nbformat.write(within_recording(nbformat.read(path, as_version=4), recording_of(path), new=True), path)
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        succeeded = list(threads.map(execute, paths))
    if options.save and all(succeeded):
        for notebook in options.notebooks:
            save(options.into / notebook.name, notebook)
    for notebook, path in zip(options.notebooks, paths, strict=True) if options.record and all(succeeded) else ():
        recording_of(notebook).parent.mkdir(exist_ok=True)
        shutil.copy(recording_of(path), recording_of(notebook))
    return 0 if all(succeeded) else 1


def execute(path: Path) -> bool:
    """Whether it ran to its end; prints the last output or the error."""
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


def recording_of(notebook: Path) -> Path:
    return notebook.parent / "recordings" / f"{notebook.stem}.agf"


def within_recording(notebook: nbformat.NotebookNode, file: Path, *, new: bool) -> nbformat.NotebookNode:
    """The notebook with a cell before it that takes the outcomes of its calls from the file, and one behind it that
    checks that all were taken. Its model has an address where nothing listens. ``new``: the file is written instead.
    """
    options = 'missing="record"' if new else "strict=True"
    begin = [
        "import agf_magics as agf",
        f"recording = agf.replay({str(file.resolve())!r}, {options})",
        "recording.__enter__();",
    ]
    begin += [] if new else ['agf.registry.choose("openai:scripted", base_url="http://127.0.0.1:9/v1");']
    cells = [cell for cell in notebook.cells if READS_JOURNAL not in cell.source]
    first, last = "\n".join(begin), "recording.__exit__(None, None, None);"
    notebook.cells = [nbformat.v4.new_code_cell(first), *cells, nbformat.v4.new_code_cell(last)]
    return notebook


def last_output(notebook: nbformat.NotebookNode) -> str:
    """The last output on the page that has a text."""
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    texts = (output.get("text") or output.get("data", {}).get("text/plain", "") for output in reversed(outputs))
    return next((text.rstrip() for text in texts if text.strip()), "")


def save(executed: Path, into: Path) -> None:
    """Store the outputs of an executed copy in a notebook, unless they say nothing new."""
    old, new = nbformat.read(into, as_version=4), clean(nbformat.read(executed, as_version=4))
    if old.cells and stable(old) == stable(new) and clean(old) == old:
        return
    text = nbformat.writes(new) + "\n"
    if len(text.encode()) > MOST_BYTES:
        sys.exit(f"{into} has {len(text.encode()):,} bytes, and at most {MOST_BYTES:,} are stored")
    into.write_text(text, encoding="utf-8")


def clean(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """A copy without what belongs to this computer: times of execution, the version and the folder of Python."""
    done = nbformat.reads(nbformat.writes(notebook).replace(sys.prefix, "/usr"), as_version=4)
    done.metadata = {name: value for name, value in notebook.metadata.items() if name in KEPT_METADATA}
    language = done.metadata.get("language_info", {})
    done.metadata["language_info"] = {name: value for name, value in language.items() if name in KEPT_LANGUAGE}
    for cell in done.cells:
        cell.metadata = {name: value for name, value in cell.metadata.items() if name == "tags"}
    return done


def stable(notebook: nbformat.NotebookNode) -> dict[str, list[Any]]:
    """What every run of a notebook has in common: the outputs of each code cell as words without times and ids.

    The words are sorted and without commas, because concurrent calls end in any order.
    """
    return {
        cell.id: [[kind, [] if VARIES in cell.metadata.get("tags", ()) else words] for kind, words in _outputs(cell)]
        for cell in notebook.cells
        if cell.cell_type == "code"
    }


def _outputs(cell: nbformat.NotebookNode) -> Iterator[tuple[str, list[str]]]:
    """The kind and the words of each output; pieces of one stream are one."""
    streams: dict[str, str] = {}
    for output in cell.outputs:
        if output.output_type == "stream":
            streams[output.name] = streams.get(output.name, "") + output.text
        elif output.output_type == "error":
            yield f"error {output.ename}", _words("\n".join(output.traceback))
        else:
            pictures = "".join(output.data.values()).count("data:image/") if "text/html" in output.data else 0
            kinds = " ".join([*sorted(output.data), f"{pictures} pictures"])
            yield kinds, _words(output.data.get("text/plain", ""))
    for name, text in sorted(streams.items()):
        yield name, _words(text)


def _words(text: str) -> list[str]:
    text = COLOURS.sub("", text).replace(sys.prefix, "/usr")
    for pattern, stand_in in UNSTABLE:
        text = pattern.sub(stand_in, text)
    return sorted(word.strip(",;") for word in text.split())


if __name__ == "__main__":
    sys.exit(main())
