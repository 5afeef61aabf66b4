"""A package that another thread is still importing, with only some of its names, changes nothing for a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.notebook.conftest import Kernel, headless, kernel, kernels, page_kernel  # noqa: F401
from tests.processes import printed

HALF = """
import importlib, sys, threading

reached, go = threading.Event(), threading.Event()

def hold(event, found):
    # An audit hook: no lock of the imports is held there, as it is in a finder.
    if event == "import" and found[0] == INNER and not reached.is_set():
        reached.set()
        go.wait()

sys.addaudithook(hold)
importing = threading.Thread(target=importlib.import_module, args=(PACKAGE,), daemon=True)
importing.start()
assert reached.wait(60)
"""


def half(package: str, inner: str) -> str:
    """Code that imports ``package`` up to its module ``inner``, and continues after ``go.set()``."""
    return f"PACKAGE, INNER = {package!r}, {inner!r}{HALF}"


BEGINNING = """
import datetime
import agf_magics as agf
from agf_magics.catalog.tools.numpy_types import numpy_json_type
from agf_magics.values.sequences import is_array
from agf_magics.values.times import is_numpy_time

class Point:
    pass

@agf.tool
def gives() -> object:
    return Point()

flow = agf.define("{pipeline: p, steps: [{tool: {name: gives, args: {}}}]}")
"""
CASES = {
    "an array": ("numpy", "numpy._globals", "is_array([1]) is False"),
    "a time": ("numpy", "numpy._globals", "is_numpy_time(datetime.date(2026, 1, 2)) is False"),
    "an annotation": ("numpy", "numpy._globals", "numpy_json_type(Point) is None"),
    "a pickled value": ("polars", "polars.lazyframe", "type(agf.run(flow).output) is Point"),
}
"""For each case: a package, its module that is imported halfway, and an expression that must hold then."""


@pytest.mark.parametrize("case", CASES)
def test_questions_during_the_import_are_answered(case: str, tmp_path: Path) -> None:
    package, inner, says = CASES[case]
    end = f"print({says})\ngo.set()\nimporting.join()\n"
    assert printed(BEGINNING + half(package, inner) + end, tmp_path) == ["True"]


def test_a_background_run_works_during_the_import_of_the_widgets(kernel: Kernel) -> None:  # noqa: F811
    """The first explorer imports the widgets on the thread of the cell, while the loop of the runs asks for its
    output."""
    kernel.good("%config AgfMagics.progress = 'html'")
    kernel.good("%%pipeline\npipeline: held\nsteps:\n- transform: {value: '1 + 1'}")
    kernel.good(half("ipywidgets", "ipywidgets.widgets.widget"))
    result = kernel.good("handle = %run_pipeline_async held\nprint(handle.result().output)\ngo.set(); importing.join()")
    assert result.printed == "2\n"
