"""JupyterLab shows the texts of results as text, and does not typeset them as mathematics."""

from __future__ import annotations

import pytest

from tests.browser.harness import Open

pytestmark = pytest.mark.browser

SETUP = r"""%load_ext agf_magics
import agf_magics as agf
from agf_magics import tool
from IPython.display import HTML, Math

TEXTS = ["from $5 to $6", "$$x^2$$", r"\(a_b\)", r"\[c^d\]", r"\begin{equation}e\end{equation}",
         r"$\href{https://a.example}{CLICK}$"]

@tool
def quote(text: str) -> str:
    if text.startswith("$$"):
        raise ValueError(text)
    return text"""

FLOW = r"""%%pipeline --run --set texts=$TEXTS
pipeline: prices
description: from $1 to $2
steps:
- for_each:
    over: ctx.texts
    on_error: continue
    do: {tool: {name: quote, args: {text: !expr item}}}
    collect: {transform: {value: pipe}}
    output: quoted
- transform: {value: "'costs $7 or $8'", output: price}"""

CELLS = (
    SETUP,
    FLOW,
    "run = agf.runs(agf.runs()[0].run_id)\nrun",
    "run.trace",
    "agf.draw('prices')",
    "agf.run('prices', over=[{'texts': [text]} for text in TEXTS]).table",
    "%runs",
    r"""agf.run("pipeline: fails\nsteps: [{tool: {name: quote, args: {text: '$$x and $5 to $6'}}}]", raises=False)""",
    "Math('x^2')",
)


def test_no_output_of_a_run_is_shown_as_mathematics(opened: Open) -> None:
    page = opened(*CELLS)
    page.run_all()
    # The last cell is mathematics. Once it is typeset, all cells before it have been checked.
    page.wait("document.querySelectorAll('.jp-OutputArea mjx-container').length > 0")
    typeset = page.page.evaluate(
        "[...document.querySelectorAll('.jp-Cell')].map(cell => cell.querySelectorAll('mjx-container').length)"
    )
    assert typeset[:-1] == [0] * (len(CELLS) - 1)
    assert typeset[-1] == 1
    page.says(2, "costs $7 or $8")
