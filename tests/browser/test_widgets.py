"""A run and a picture as ordinary widgets, in a box of ipywidgets and in a page of Voilà."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from tests.browser.harness import PICTURES, SECONDS, Lab, Open

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

SETUP = """import agf_magics as agf
import ipywidgets

@agf.tool
def twice(n: int) -> int:
    return 2 * n

flow = agf.load('''pipeline: boxed
steps:
- tool: {name: twice, args: {n: 4}, output: eight}
- tool: {name: twice, args: {n: !expr eight}, output: sixteen}''', "pipeline")
run = agf.run(flow)"""
SHOWN = """ipywidgets.VBox([ipywidgets.HTML("<b>above</b>"), run.widget(), agf.draw(flow).widget()])"""

EXPLORERS = """[...document.querySelectorAll("*")]
  .map(node => node.shadowRoot?.querySelector(".explorer")).filter(Boolean)"""
"""The explorers of a page, wherever they are."""


def check_widgets(page: Page) -> None:
    """Check that the run and the picture are in the page, have their sizes, and react."""
    page.wait_for_function(f"{EXPLORERS}.length === 2 && {EXPLORERS}[1].querySelectorAll('g.box').length > 1")
    heights = page.evaluate(f"{EXPLORERS}.map(node => [node.clientWidth, node.clientHeight])")
    assert all(width > 400 and height > 80 for width, height in heights), heights
    run = page.locator(".explorer").first
    run.locator(".row", has_text="twice").last.click()
    run.locator(".panel h4:text-is('Output')").wait_for()
    run.locator(".panel pre", has_text="16").first.wait_for()
    picture = page.locator(".explorer").last
    assert not picture.locator("header").is_visible()
    picture.locator("g.box", has_text="twice").first.click()
    picture.locator(".panel mark").wait_for()


def test_a_run_and_a_picture_stand_in_a_box(opened: Open) -> None:
    page = opened(SETUP, SHOWN)
    page.run_all()
    check_widgets(page.page)
    page.picture("widget-box", 1)
    assert not page.errors


def test_a_run_and_a_picture_stand_in_a_page_of_voila(lab: Lab, browser: Browser) -> None:
    lab.write("app.ipynb", SETUP, SHOWN)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "voila", str(lab.folder / "app.ipynb"), "--no-browser", f"--port={port}"]
    server = subprocess.Popen([*command, "--Voila.ip=127.0.0.1"], stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        next(line for line in server.stderr if "is running at" in line)
        threading.Thread(target=server.stderr.read, daemon=True).start()  # a full pipe would stop the server
        page = browser.new_page(viewport={"width": 1000, "height": 900})
        page.set_default_timeout(SECONDS * 1000)
        page.goto(f"http://127.0.0.1:{port}", wait_until="domcontentloaded")
        check_widgets(page)
        PICTURES.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=PICTURES / "widget-voila.png")
        page.close()
    finally:
        server.terminate()
        server.wait()
