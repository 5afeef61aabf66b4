"""The extension in the real editor: code-server, driven by Playwright; screenshots in build/vscode-check.

    make vscode-check          by hand, not in CI: it builds code-server from npm, which takes some minutes

Problems, hints, completion, a quick fix and colours come from the extension. The cells are run by the kernel of
./kernel, because the Jupyter extension is in no registry.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import TimeoutError, sync_playwright

if TYPE_CHECKING:
    from playwright.sync_api import Frame, Locator, Page

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
BUILD = ROOT / "build" / "vscode-check"
SERVER = os.environ.get(
    "CODE_SERVER", str(ROOT / "build" / "code-server" / "node_modules" / ".bin" / "code-server")
)
PATIENCE = 180
"""Seconds for the slowest step: the first page of the editor."""

TOOLS = 'from agf_magics import tool\n\n\n@tool\ndef fetch(url: str) -> str:\n    """Fetch a page."""\n    return url\n'
FILE = "pipeline: of_a_file\nsteps:\n- tool: {name: fetsh, args: {url: x}}\n"
CELLS = (
    "%load_ext agf_magics\n" + TOOLS.replace("fetch", "gather"),  # a tool that no file has
    "%%pipeline\npipeline: wrong\nsteps:\n- tool: {name: gathr, args: {url: x}}\n",
    "%%pipeline --draw --run --set name=Ada\npipeline: greet\nsteps:\n- transform: {value: \"'hello ' + ctx.name\"}\n",
    "r = %run_pipeline greet --quiet --set name=Bea\nr.output",
)

SETTINGS = {
    "security.workspace.trust.enabled": False,
    "workbench.startupEditor": "none",
    "workbench.enableExperiments": False,
    "telemetry.telemetryLevel": "off",
    "extensions.ignoreRecommendations": True,
    "chat.commandCenter.enabled": False,
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "git.openRepositoryInParentFolders": "never",
    "notebook.output.textLineLimit": 200,
}


def main() -> None:
    shutil.rmtree(BUILD, ignore_errors=True)
    work = BUILD / "work"
    work.mkdir(parents=True)
    (work / "pyproject.toml").touch()
    (work / "tools.py").write_text(TOOLS)
    (work / "p.agf.yaml").write_text(FILE)
    (work / "n.ipynb").write_text(json.dumps(notebook()))
    found = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    with code_server(work) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=next(filter(None, found), None))
        page = browser.new_page(viewport={"width": 1300, "height": 900})
        page.set_default_timeout(PATIENCE * 1000)
        try:
            page.goto(f"{address}/?folder={work}")
            page.locator(".explorer-viewlet >> text=n.ipynb").first.wait_for()
            check_file(page)
            check_cells(page)
            check_run(page)
        except BaseException:
            picture(page, "failed")
            raise
        browser.close()


def notebook() -> dict[str, object]:
    cells = [
        {
            "cell_type": "code",
            "id": f"c{n}",
            "metadata": {},
            "source": text,
            "outputs": [],
            "execution_count": None,
        }
        for n, text in enumerate(CELLS)
    ]
    return {
        "cells": cells,
        "metadata": {"language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


@contextmanager
def code_server(work: Path) -> Iterator[str]:
    """A server with the extension and the kernel; its address."""
    data, extensions = BUILD / "data", BUILD / "extensions"
    kernel = BUILD / "kernel.vsix"
    vsce = HERE.parent / "node_modules" / ".bin" / "vsce"
    run(vsce, "package", "--allow-missing-repository", "--out", kernel, cwd=HERE / "kernel")
    places = ("--user-data-dir", data, "--extensions-dir", extensions)
    for extension in (ROOT / "build" / "agf-magics.vsix", kernel):
        run(SERVER, *places, "--install-extension", extension, cwd=work)
    bridge = [sys.executable, str(HERE / "kernel" / "bridge.py")]
    chosen = {**SETTINGS, "agf-magics.python": sys.executable, "agf-test-kernel.bridge": bridge}
    (data / "User").mkdir(parents=True, exist_ok=True)
    (data / "User" / "settings.json").write_text(json.dumps(chosen))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = (
        "--auth",
        "none",
        "--bind-addr",
        f"127.0.0.1:{port}",
        "--disable-telemetry",
        "--disable-update-check",
    )
    with open(BUILD / "code-server.log", "w") as log:
        server = subprocess.Popen(
            [*map(str, (SERVER, *places, *options, work))], stdout=log, stderr=log, cwd=work
        )
        try:
            wait_for_port(port)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(60)


def run(*command: str | Path, cwd: Path) -> None:
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{command[0]}: {done.stdout}{done.stderr}"[-3_000:])


def wait_for_port(port: int) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            return socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.2)
    sys.exit("code-server does not listen")


def open_file(page: Page, name: str) -> None:
    page.locator(f".explorer-viewlet >> text={name}").first.dblclick()
    page.locator(f".tabs-container .tab[data-resource-name='{name}']").wait_for()


def hover(page: Page, word: Locator, text: str) -> str:
    """What the editor shows at a word: it forgets the pointer while it is busy, so that it is moved
    again."""
    shown = page.locator(".monaco-hover:visible", has_text=text).first
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        page.mouse.move(5, 5)
        word.hover()
        with suppress(TimeoutError):
            shown.wait_for(timeout=5_000)
            return shown.inner_text()
    raise AssertionError(f"no help has {text!r}")


def check_file(page: Page) -> None:
    open_file(page, "p.agf.yaml")
    editor = page.locator(".editor-instance .monaco-editor").first
    editor.locator(".squiggly-error").first.wait_for()
    told = hover(page, editor.locator("span:text-is('fetsh')").first, "did you mean fetch?")
    assert "flow.unknown-tool" in told
    picture(page, "1-file")
    print("a file: the error is underlined, its hint and its code are shown")


def check_cells(page: Page) -> None:
    open_file(page, "n.ipynb")
    cell = page.locator(
        ".notebookOverlay .code-cell-row, .notebookOverlay .cell-list-container .monaco-list-row"
    ).nth(1)
    cell.locator(".squiggly-error").first.wait_for()
    word = cell.locator(".view-line span span", has_text=re.compile("gathr")).last
    hover(page, word, "did you mean gather?")
    picture(page, "2-cell")
    print("a cell: the error is underlined, its hint is shown")
    colours = {span.get_attribute("class") for span in cell.locator(".view-line span span").all()}
    assert len(colours) >= 3, colours
    print(f"a cell: {len(colours)} colours")
    page.keyboard.press("Escape")
    word.click()
    page.keyboard.press("Control+.")
    page.locator(".action-widget >> text=Replace by gather").first.wait_for()
    picture(page, "3-quick-fix")
    page.keyboard.press("Enter")
    cell.locator(".view-line", has_text="name: gather").wait_for()
    cell.locator(".squiggly-error").first.wait_for(state="detached")
    print("a cell: the quick fix takes the error away")
    page.keyboard.press("Control+End")
    page.keyboard.type("- to")
    page.keyboard.press("Control+Space")
    page.locator(".suggest-widget.visible .monaco-list-row", has_text="tool").first.wait_for()
    picture(page, "4-completion")
    print("a cell: Tab offers what a notebook offers")
    page.keyboard.press("Escape")
    for _ in "- to":
        page.keyboard.press("Backspace")


def check_run(page: Page) -> None:
    page.keyboard.press("Control+Shift+P")
    page.keyboard.type("Notebook: Run All")
    page.locator(
        ".quick-input-list .monaco-list-row", has_text="Notebook: Run All"
    ).first.wait_for()
    page.keyboard.press("Enter")
    wait_for_output(page, "hello Ada", "1 of 1 step")
    picture(page, "5-run")
    page.mouse.move(800, 600)
    wait_for_output(page, "hello Bea", scroll=300)
    print("a run: its picture, its page and its output are shown")


def wait_for_output(page: Page, *words: str, scroll: int = 0) -> None:
    """``scroll``: the pixels to go down until it is there: the editor draws only what is in sight."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        texts = [text_of(frame) for frame in page.frames[1:]]
        if any(all(word in text for word in words) for text in texts):
            return
        page.mouse.wheel(0, scroll)
        page.wait_for_timeout(500)
    raise AssertionError(f"no output has {words}")


def text_of(frame: Frame) -> str:
    try:
        return str(frame.evaluate("() => document.body?.innerText ?? ''"))
    except Exception:  # the frame has gone
        return ""


def picture(page: Page, name: str) -> None:
    page.screenshot(path=BUILD / f"{name}.png")


if __name__ == "__main__":
    main()
