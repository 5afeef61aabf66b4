"""A day with a notebook in JupyterLab: define, draw, run, watch, stop, save and come back."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest

from tests.browser.harness import Lab, Notebook, Open

pytestmark = pytest.mark.browser

SETUP = """%load_ext agf_magics
import asyncio, os, time
from agf_magics import tool

@tool
def gate(name: str) -> str:
    "Waits until the test opens it."
    with open(name) as fifo:
        return fifo.read()

@tool
def sleep() -> None:
    time.sleep(300)

@tool
async def twice(number: int) -> int:
    return 2 * number"""

DRAWN = """%%pipeline --draw
pipeline: doubled
steps:
  - for_each:
      items: [1, 2, 3]
      on_error: abort
      do: {tool: {name: twice, args: {number: !expr item}}}
      collect: {transform: {value: "sum(pipe)"}}
      output: total
  - match:
      on: "total > 10 and 'much' or 'little'"
      cases:
        much: {pipeline: cheer}
      default: {pipeline: cheer}
  - transform: {value: "total + 1", output: more}
---
schema: Total
fields: {total: {type: number}}"""
CHEER = "%%pipeline\npipeline: cheer\nsteps: [{transform: {value: \"'hooray'\"}}]"
GATED = """%%pipeline --run
pipeline: gated
steps:
  - transform: {value: "[1, 2]", output: numbers}
  - for_each:
      over: "numbers"
      on_error: abort
      do: {tool: {name: twice, args: {number: !expr item}}}
      collect: {transform: {value: "pipe"}}
      output: doubled
  - tool: {name: gate, args: {name: GATE}, output: word}
  - transform: {value: "word + '!'"}"""
ASLEEP = "%%pipeline --run\npipeline: asleep\nsteps: [{tool: {name: sleep}}]"
CANCEL = "button:text-is('Cancel')"


@pytest.fixture
def gate(lab: Lab, request: pytest.FixtureRequest) -> Path:
    path = lab.folder / f"{request.node.name}.gate"
    os.mkfifo(path)
    return path


def open_gate(gate: Path) -> None:
    gate.write_text("open")


def pictures(page: Notebook, name: str, cell: int) -> None:
    for theme in ("Dark", "Light"):  # Light comes last, because the server keeps the theme
        page.theme(theme)
        page.picture(f"{name}-{theme.lower()}", cell)


def test_a_pipeline_is_defined_and_drawn(opened: Open) -> None:
    page = opened(SETUP, CHEER, DRAWN)
    page.run_all()
    page.says(2, "doubled")
    page.shows_picture(2)
    pictures(page, "drawn", 2)


def test_a_run_is_watched_and_leaves_a_static_page(opened: Open, gate: Path) -> None:
    page = opened(SETUP, GATED.replace("GATE", gate.name))
    page.run_all(wait=False)
    page.output(1).locator(CANCEL).wait_for()
    page.says(1, "running")
    pictures(page, "running", 1)
    open_gate(gate)
    page.finished()
    page.output(1).locator(CANCEL).first.wait_for(state="hidden")
    page.says(1, "open!")
    pictures(page, "ran", 1)


@pytest.mark.parametrize("by", ["button", "interrupt"])
def test_a_run_in_a_tool_that_sleeps_is_stopped(opened: Open, by: str) -> None:
    page = opened(SETUP, ASLEEP, "6 * 7")
    page.run(0)
    page.run(1, wait=False)
    page.output(1).locator(CANCEL).wait_for()
    if by == "button":
        page.output(1).locator(CANCEL).click()
    else:
        page.interrupt()
    page.finished()
    page.says(1, "RunCancelled" if by == "button" else "RunInterrupted")
    page.picture(f"stopped-by-{by}", 1)
    page.run(2)
    page.says(2, "42")


def test_a_run_in_the_background_is_watched_and_cancelled_while_other_cells_run(opened: Open, gate: Path) -> None:
    define = GATED.replace("GATE", gate.name).replace(" --run", "")
    page = opened(SETUP, define, "h = %run_pipeline_async gated", "6 * 7", "h", "h.status")
    page.run_all()
    page.says(3, "42")
    for cell in (2, 4):
        page.output(cell).locator(CANCEL).wait_for()
        page.says(cell, "running")
    page.picture("behind", 2)
    page.output(4).locator(CANCEL).click()
    for cell in (2, 4):
        page.says(cell, "cancelled")
        page.output(cell).locator(CANCEL).first.wait_for(state="hidden")
    page.picture("behind-cancelled", 2)
    page.run(5)
    page.says(5, "cancelled")
    open_gate(gate)  # lets the plain function end, which still waits


def test_a_mistake_is_shown_where_it_is(opened: Open) -> None:
    page = opened(SETUP, DRAWN.replace("for_each", "for_eech").replace("total + 1", "total +"))
    page.run_all()
    page.says(1, "did you mean for_each?", "^^^^^^^^")
    assert "Traceback" not in page.output(1).inner_text()
    pictures(page, "mistake", 1)


def test_what_is_saved_reads_without_a_kernel_and_untrusted(opened: Open, lab: Lab) -> None:
    page = opened(SETUP, CHEER, DRAWN, "%run_pipeline doubled")
    page.run_all()
    saved = page.save()
    assert "widgets" not in saved.metadata
    kinds = {kind for cell in saved.cells for output in cell.outputs for kind in output.get("data", {})}
    assert kinds <= {"text/html", "text/plain"}
    page.reload()
    page.shows_picture(2)
    page.says(3, "13")

    saved.cells[-1].source += " "  # a changed notebook has no signature of this server, so it is not trusted
    nbformat.write(saved, lab.folder / "from-somebody.ipynb")
    other = opened(file="from-somebody.ipynb")
    other.shows_picture(2)
    other.says(3, "13")
    pictures(other, "untrusted", 2)
    pictures(other, "untrusted-run", 3)


def test_a_page_that_is_loaded_again_during_a_run_shows_its_end(opened: Open, gate: Path) -> None:
    page = opened(SETUP, GATED.replace("GATE", gate.name), "'after'")
    page.run(0)
    page.run(1, wait=False)
    page.output(1).locator(CANCEL).wait_for()
    page.save()
    page.reload(idle=False)
    page.says(1, "the run had not ended")  # JupyterLab asks the kernel for the models, but the cell is busy
    open_gate(gate)
    page.says(1, "open!")
    page.explorer(1)
    assert "Error displaying widget" not in page.seen(1)
    page.picture("reloaded", 1)


def test_words_are_completed_in_the_line_and_in_the_yaml(opened: Open) -> None:
    page = opened(SETUP, CHEER, "", "")
    page.run_all()
    for index, typed, word in ((2, "%run_pipeline ch", "cheer"), (3, "%%pipeline\npipeline: p\nsteps:\n- ma", "match")):
        page.type(index, typed)
        page.press("Tab")
        page.page.locator(f".jp-Completer-item:has-text('{word}')").first.wait_for()
        page.picture(f"completed-{word}")
        page.press("Enter")
        assert word in page.source(index)
