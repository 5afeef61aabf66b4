"""Install the wheel beside the kernel that Colab has, run the cells of the quickstart there, and cancel a run while its
cell waits.

    python .ci/colab.py dist/agf_magics-*.whl      (make colab)

Colab's kernel does not start again when its IPython is replaced, so the installation must change none of the three
packages. Colab's page and its own kernel class are in no registry: this is their stock environment, with the variable
by which Colab is known.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "colab"

STOCK = ("ipython==7.34.0", "ipykernel==6.17.1", "ipywidgets==7.7.1")
"""What Colab had in April 2026."""

CELLS = """
import sys

import nbformat
from nbclient import NotebookClient

notebook = nbformat.read(sys.argv[1], as_version=4)
more = (
    "%runs",
    "h = %run_pipeline_async packages",
    "print(len(h.result().output) > 10)",
    "%explain pipeline.unknown-key",
    "h.widget()",
    "%unload_ext agf_magics",
    "%load_ext agf_magics",
)
notebook.cells += [nbformat.v4.new_code_cell(cell) for cell in more]
NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
pages = [
    output.data
    for cell in notebook.cells
    for output in cell.get("outputs", ())
    if output.output_type in ("display_data", "execute_result")
]
assert any("data:image/svg+xml" in page.get("text/html", "") for page in pages), "no picture was drawn"
assert any("application/vnd.jupyter.widget-view+json" in page for page in pages), "no widget was opened"
told = [line for cell in notebook.cells for output in cell.get("outputs", ()) for line in output.get("traceback", ())]
assert any("fiter" in line for line in told), told
print(sum(cell.cell_type == "code" for cell in notebook.cells), "cells")
"""
"""Runs the cells; every magic that takes a line is among them."""


def run(*command: str | Path, cwd: Path = FOLDER) -> str:
    env = {**os.environ, "COLAB_RELEASE_TAG": "stand-in", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    env.pop("PYTHONPATH", None)  # it may name the checkout
    done = subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    if done.returncode:
        sys.exit((done.stdout + done.stderr)[-6_000:])
    return done.stdout


def main(wheel: Path) -> None:
    venv.create(FOLDER / "env", clear=True, with_pip=True)
    python = FOLDER / "env" / "bin" / "python"
    pip = (python, "-m", "pip", "--quiet")
    run(*pip, "install", *STOCK, "setuptools", "nbclient", "nbformat")
    run(*pip, "install", wheel.resolve())
    have = run(python, "-m", "pip", "list", "--format", "freeze").lower().split()
    if changed := [one for one in STOCK if one not in have]:
        sys.exit(f"the installation replaced {changed}")
    (
        FOLDER / "pyproject.toml"
    ).touch()  # a project of its own: no settings and no journal of another one
    (FOLDER / "cells.py").write_text(CELLS, encoding="utf-8")
    ran = run(python, "cells.py", ROOT / "notebooks" / "quickstart.ipynb")
    print(f"{' '.join(STOCK)}: unchanged, and runs {ran.strip()}")
    print(run(python, ROOT / ".ci" / "busy_cell.py", "hears").strip())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
