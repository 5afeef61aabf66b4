"""What a saved cell shows of a run without a kernel: the rows of a table."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.notebook.conftest import Cell, Kernel

pytestmark = pytest.mark.kernel

SIZES = """\
%%pipeline
pipeline: sizes
steps:
- tool: {name: size, args: {name: !expr ctx.name}}
"""
SIZE = """\
@tool
def size(name: str) -> dict:
    if name == 'n7':
        raise ValueError('no sevens')
    return {'length': len(name)}

def right(output, row):
    return output['length'] == 2

rows = [{'name': f'n{number}'} for number in range(60)]
"""


@pytest.fixture
def sizes(kernel: Kernel) -> Iterator[Kernel]:
    kernel.good('%config AgfMagics.journal = "runs.sqlite"')
    kernel.good(SIZE)
    kernel.good(SIZES)
    yield kernel
    kernel.good("%config AgfMagics.journal = None")


def rows_of(cell: Cell) -> tuple[str, list[list[str]]]:
    """The caption of the table of rows in the first output, and its lines."""
    page = cell.outputs[0]["text/html"]
    table = page[page.index("<caption") :]
    caption = re.search(r"<caption[^>]*>(.*?)</caption>", table)
    assert caption is not None
    lines = re.findall(r"<tr>(.*?)</tr>", table[: table.index("</table>")])
    return caption[1], [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", each) for each in lines]


def test_the_page_of_a_run_over_a_table_has_its_first_rows(sizes: Kernel) -> None:
    cell = sizes.good("%run_pipeline sizes --over $rows --yes")
    caption, (head, *lines) = rows_of(cell)
    assert caption == "60 rows: 59 ok, 1 failed; the failed ones and the first 19 others are shown"
    assert head[:5] == ["row", "status", "error_text", "length", "name"]
    assert len(lines) == 20
    assert lines[0][:5] == ["7", "failed", "ValueError: no sevens", "", "n7"]
    assert [line[0] for line in lines[1:]] == [str(number) for number in range(20) if number != 7]
    assert f"{caption}\n" in cell.outputs[0]["text/plain"]
    assert len(cell.outputs[0]["text/html"]) < 240_000


def test_the_page_has_the_scores_that_its_cell_computes_after_the_run(sizes: Kernel) -> None:
    cell = sizes.good("%run_pipeline sizes --over $rows --yes --limit 12 --score right")
    _, (head, *lines) = rows_of(cell)
    scores = [line[head.index("right")] for line in lines]
    assert scores == ["true"] * 7 + [""] + ["true"] * 2 + ["false"] * 2
    assert len(cell.outputs) == 2, "the page once, and the summary of the scores"


def test_another_run_has_no_rows(sizes: Kernel) -> None:
    page = sizes.good("%run_pipeline sizes --set name=n1").outputs[0]
    assert "rows" not in page["text/html"] + page["text/plain"]
