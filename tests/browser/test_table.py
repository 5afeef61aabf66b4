"""The table of a run over data in the explorer: pages, order, filters, labels, and the calls of a row."""

from __future__ import annotations

import pytest

from tests.browser.harness import Open

pytestmark = pytest.mark.browser

SETUP = """%load_ext agf_magics
%config AgfMagics.journal = "runs.sqlite"
import agf_magics as agf
from agf_magics import tool

cut = 3
@tool
def size(name: str) -> dict:
    if name == "n7":
        raise ValueError("no sevens")
    return {"length": len(name) * 10 + int(name[1:]) % cut, "note": "<b>bold</b>"}

agf.define("pipeline: sizes\\nsteps: [{tool: {name: size, args: {name: !expr ctx.name}}}]")
first = agf.run("sizes", over=[{"name": f"n{i}"} for i in range(120)])
cut = 4"""

RUN = """r = agf.run("sizes", over=[{"name": f"n{i}"} for i in range(120)])
agf.score_over(r, lambda output, row: output["length"] / 100)
r.table.add_column("quality", [None, float("nan"), "text", *[i / 100 for i in range(117)]])
r"""
AGAIN = "[agf.runs(r.run_id).table[place]['label'] for place in (3, 4)]"


def test_a_table_is_paged_sorted_filtered_and_labelled(opened: Open) -> None:
    page = opened(SETUP, "%runs", AGAIN)
    page.write(1, RUN) if hasattr(page, "write") else None
    page.run_all()
