"""What a cell shows of the runs that it starts with functions of Python."""

from __future__ import annotations

import re

import pytest

from tests.notebook.conftest import Cell, Kernel, started
from tests.notebook.test_explorer import journaled, open_gate

pytestmark = pytest.mark.kernel

__all__ = ["journaled"]

FLOWS = """\
import asyncio, threading, time
import agf_magics as agf

@tool
def pear() -> int:
    return 1

@tool
def choosy(n: int) -> int:
    if n % 2:
        raise ValueError(f"no {n}")
    return n

@tool
def inner() -> int:
    return agf.run("{pipeline: inside, steps: [{tool: {name: pear}}]}").output
"""
PEARS = "%%pipeline\npipeline: pears\nsteps: [{tool: {name: pear}}]"
CHOSEN = "%%pipeline\npipeline: chosen\nsteps: [{tool: {name: choosy, args: {n: !expr ctx.n}}}]"
NESTED = "%%pipeline\npipeline: nested\nsteps: [{tool: {name: inner}}]"
GATED = "%%pipeline\npipeline: gated\nsteps: [{tool: {name: gate, args: {name: gate}}}, {tool: {name: pear}}]"


@pytest.fixture
def ready(journaled: Kernel) -> Kernel:
    for cell in (FLOWS, PEARS, CHOSEN, NESTED, GATED):
        journaled.good(cell)
    return journaled


def pages(cell: Cell) -> list[str]:
    """The names of the runs whose pages are in the outputs of a cell."""
    texts = [str(output.get("text/html", "")) for output in cell.outputs]
    return [name[1] for text in texts if 'class="agf-run' in text and (name := re.search(r'data-run="(\w+)-', text))]


def others(cell: Cell) -> list[str]:
    """The lines about other runs of a cell."""
    texts = [str(output.get("text/plain", "")) for output in cell.outputs]
    return [text for text in texts if "of this cell" in text]


@pytest.mark.parametrize(
    ("cell", "shown", "line"),
    [
        ("agf.run('pears')", ["pears"], []),
        ("run = agf.run('pears')", ["pears"], []),
        ("run = agf.run('pears')\nrun", ["pears"], []),
        ("print(agf.run('pears').output)", ["pears"], []),
        ("%time _ = agf.run('pears')", ["pears"], []),
        ("await agf.arun('pears')", ["pears"], []),
        ("run = await agf.arun('pears')", ["pears"], []),
        ("_ = agf.start('pears').wait()", ["pears"], []),
        ("def go():\n    return agf.run('pears').output\ngo()", ["pears"], []),
        (
            "_ = agf.resume(agf.run('chosen', {'n': 1}, raises=False), raises=False)",
            ["chosen"],
            ["1 more run of this cell: 1 error"],
        ),
        ("_ = agf.rerun(agf.run('pears', quiet=True), 'steps[0]')", ["pears"], []),
        ("for _ in range(60):\n    agf.run('pears')", ["pears"], ["59 more runs of this cell: 59 ok"]),
        ("_ = agf.run('pears')\nsecond = agf.run('chosen', {'n': 2})", ["pears"], ["1 more run of this cell: 1 ok"]),
        (
            "_ = await asyncio.gather(agf.arun('pears'), agf.arun('chosen', {'n': 2}))",
            ["pears"],
            ["1 more run of this cell: 1 ok"],
        ),
        (
            "runs = [agf.run('chosen', {'n': n}, raises=False) for n in range(5)]",
            ["chosen"],
            ["4 more runs of this cell: 3 ok, 1 error"],
        ),
        ("_ = agf.run('nested')", ["nested"], []),
        ("_ = agf.run('pears', quiet=True)", [], []),
        ("_ = await agf.arun('pears', quiet=True)", [], []),
        ("_ = agf.start('pears', quiet=True).wait()", [], []),
        ("thread = threading.Thread(target=lambda: agf.run('pears'))\nthread.start()\nthread.join()", [], []),
        ("%%capture\n_ = agf.run('pears')", [], []),
        ("exec(\"import agf_magics\\nagf_magics.run('pears')\", {})", [], []),
    ],
)  # fmt: skip
def test_a_cell_shows_the_run_that_it_starts_and_counts_the_others(
    ready: Kernel, cell: str, shown: list[str], line: list[str]
) -> None:
    done = ready.good(cell)
    assert pages(done) == shown
    assert others(done) == line


def test_the_page_is_live_while_the_cell_waits(ready: Kernel) -> None:
    waiting = ready.begin("run = agf.run('gated')")
    waiting.until("comm_msg", "'type': 'update'")
    open_gate(ready)
    waiting.end()
    (start,) = [start for _, _, start in started(waiting.messages)]
    assert start["tree"]["name"] == "gated"
    assert start["update"]["live"]
    assert pages(waiting) == ["gated"]


def test_a_later_run_takes_the_page_when_it_has_run_for_a_second(ready: Kernel) -> None:
    waiting = ready.begin("first = agf.run('pears')\nsecond = agf.run('gated')")
    waiting.until("comm_msg", "'name': 'gated'")
    waiting.until("update_display_data", "1 more run of this cell: 1 ok")
    open_gate(ready)
    waiting.end()
    assert pages(waiting) == ["gated"]
    assert others(waiting) == ["1 more run of this cell: 1 ok"]


def test_a_background_run_is_live_after_its_cell(ready: Kernel) -> None:
    begun = ready.good("handle = agf.start('gated')")
    late = Cell(ready, begun.id)
    late.until("comm_msg", "'name': 'gated'")
    shown = ready.good("handle", id="b-cell")  # this cell has no page yet
    open_gate(ready)
    ready.good("_ = handle.wait()", id="c-cell")
    assert pages(begun) == ["gated"]
    assert pages(shown) == ["gated"]


def test_a_document_that_a_program_executes_has_what_its_author_displays(headless: Kernel) -> None:
    for cell in (FLOWS, PEARS):
        headless.good(cell)
    assert headless.good("run = agf.run('pears')").outputs == []


def test_the_runs_of_a_long_loop_are_not_kept(ready: Kernel) -> None:
    ready.good("import gc, weakref\nseen = []")
    ready.good("for _ in range(12):\n    seen.append(weakref.ref(agf.run('pears')))")
    counted = ready.good("gc.collect()\nprint(sum(ref() is not None for ref in seen))")
    assert int(counted.printed) <= 2  # the one of the page, and the last value of IPython
