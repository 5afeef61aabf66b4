"""The built site in headless Chromium, as a visitor has it: `make browse-lite`, after `make lite`.

The quickstart runs whole, asks no other host for anything, and is photographed (build/screenshots/lite.png). Then a
run that fails is written, a page is opened, loaded again without a network, and the run is resumed there from the
journal in the browser's storage. What a worker of the site keeps for that is each address that was opened, from the
second page on. Without headers for SharedArrayBuffer, as Read the Docs and GitHub Pages serve it. `--no-jspi`: a
browser that cannot suspend.
"""

from __future__ import annotations

import functools
import http.server
import json
import shutil
import sys
import threading
import time
from typing import Any

from playwright.sync_api import Page, sync_playwright

from .site import SITE
from .wheels import HERE

SHOTS = HERE.parent / "build" / "screenshots"
LOADED = "%load_ext agf_magics"
TOOL = """\
from pathlib import Path
from agf_magics import tool
@tool
def count(word: str) -> int:
    with open('calls.txt', 'a') as file:
        file.write(word + ' ')
    if word == 'bad' and not Path('ok').exists():
        raise ValueError(word)
    return len(word)"""
FLOW = """\
%%pipeline --run --quiet --set 'words=[a, bb, bad, dddd]'
pipeline: lengths
steps:
- for_each:
    over: ctx.words
    on_error: abort
    max_parallel: 1
    do: {tool: {name: count, args: {word: !expr item}}}
    collect: {transform: {value: pipe}}
    output: lengths"""
RESUME = """\
Path('ok').touch()
r = %resume lengths-1
print(r.output, '|', r.note, '|', Path('calls.txt').read_text())"""
JOURNAL, AGAIN = [LOADED, TOOL, FLOW], [LOADED, TOOL, RESUME]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *given: Any) -> None:
        """Nothing is logged."""


class Visit:
    """A page of the site with a notebook."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url = page, url

    def open(self, notebook: str, seconds: float = 150) -> None:
        start = time.monotonic()
        self.page.goto(
            f"{self.url}/notebooks/index.html?path={notebook}", wait_until="domcontentloaded"
        )
        self.page.wait_for_function(IDLE, arg=notebook, timeout=seconds * 1000)
        print(f"{notebook}: kernel idle after {time.monotonic() - start:.1f} s", flush=True)

    def run(self, seconds: float = 300) -> list[dict[str, Any]]:
        """Run each cell, also after one that fails, and return the code cells."""
        cells: list[dict[str, Any]] = json.loads(self.page.evaluate(f"JSON.stringify({CELLS})"))
        for index, cell in enumerate(cells):
            if cell["cell_type"] == "code":
                self.page.evaluate(RUN, index)
                self.page.wait_for_function("window.ranCell", timeout=seconds * 1000)
        cells = json.loads(self.page.evaluate(f"JSON.stringify({CELLS})"))
        return [cell for cell in cells if cell["cell_type"] == "code"]

    def write(self, notebook: str, codes: list[str]) -> None:
        """Put a notebook into the browser's storage."""
        cells = [
            {
                "cell_type": "code",
                "id": f"c{number}",
                "metadata": {},
                "outputs": [],
                "execution_count": None,
                "source": code,
            }
            for number, code in enumerate(codes)
        ]
        kernel = {"name": "python", "display_name": "Python (Pyodide)", "language": "python"}
        content = {
            "cells": cells,
            "metadata": {"kernelspec": kernel},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
        self.page.evaluate(SAVE, [notebook, content])


CELLS = (
    "[...window.jupyterapp.shell.currentWidget.content.model.cells].map((cell) => cell.toJSON())"
)
IDLE = """(name) => {
  const context = window.jupyterapp?.shell.currentWidget?.sessionContext;
  return context?.path === name && context.session?.kernel?.status === "idle";
}"""
RUN = """(index) => {
  const app = window.jupyterapp;
  window.ranCell = false;
  app.shell.currentWidget.content.activeCellIndex = index;
  app.commands.execute("notebook:run-cell").finally(() => { window.ranCell = true; });
}"""
SAVE = """([name, content]) => window.jupyterapp.serviceManager.contents.save(
  name, { type: "notebook", format: "json", content })"""


def texts(cell: dict[str, Any]) -> str:
    """What a cell shows, as text."""
    shown = []
    for output in cell["outputs"]:
        data = output.get("data", {}).get("text/plain", "")
        shown.append("".join(output.get("text", [])) + "".join(data) + output.get("evalue", ""))
    return "\n".join(shown)


def main() -> int:
    jspi = "--no-jspi" not in sys.argv
    handler = functools.partial(Quiet, directory=str(SITE))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    SHOTS.mkdir(parents=True, exist_ok=True)
    flags = ["--no-sandbox", *([] if jspi else ["--js-flags=--no-experimental-wasm-jspi"])]
    foreign: set[str] = set()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        context = browser.new_context(viewport={"width": 1250, "height": 1500})
        context.on(
            "request",
            lambda request: (
                foreign.add(request.url)
                if not request.url.startswith((url, "data:", "blob:"))
                else None
            ),
        )
        page = context.new_page()
        visit = Visit(page, url)
        visit.open("quickstart.ipynb")
        facts = page.evaluate("['Suspending' in WebAssembly, window.crossOriginIsolated]")
        print(f"JSPI {facts[0]}, SharedArrayBuffer {facts[1]}")
        cells = visit.run()
        failed = [
            cell
            for cell in cells
            if any(output["output_type"] == "error" for output in cell["outputs"])
        ]
        wanted = [cell for cell in cells if "raises-exception" in cell["metadata"].get("tags", [])]
        print(f"quickstart: {len(cells)} cells, {len(failed)} failed, {len(wanted)} are meant to")
        page.evaluate("document.querySelector('.agf-run, .agf-figure')?.scrollIntoView()")
        page.wait_for_timeout(1000)
        page.screenshot(path=SHOTS / f"lite{'' if jspi else '-no-jspi'}.png")
        visit.write("journal.ipynb", JOURNAL)
        visit.open("journal.ipynb")
        print("a run that fails:", texts(visit.run()[-1])[:200])
        visit.write("again.ipynb", AGAIN)
        visit.open("again.ipynb")
        context.set_offline(True)
        offline = True
        try:
            visit.open("again.ipynb")
        except Exception as error:
            offline = False
            print("offline:", str(error)[:200])
            context.set_offline(False)
            visit.open("again.ipynb")
        last = texts(visit.run()[-1])
        print(f"resumed after a reload {'without' if offline else 'only with'} a network:", last)
        browser.close()
    server.shutdown()
    print("other hosts:", sorted(foreign) or "none")
    good = failed == wanted and not foreign and "[1, 2, 3, 4] | resumed: 2 calls" in last
    return 0 if good and offline else 1


if __name__ == "__main__":
    sys.exit(main())
