"""Mistakes that beginners make, each with the exact words that the user sees.

A row of ``tests/vectors/mistakes_*.json`` has a ``title``, the ``cell`` of a notebook (or ``argv``: the arguments of
``python -m agf_magics`` with ``files`` in its folder) and ``says``: all errors and warnings, in order, as printed.
``setup`` lists cells that run before it. `TOOLS` is always there. The number of a cell is written ``In[n]``.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from agf_magics.__main__ import main
from tests.notebook.conftest import Shell

VECTORS = Path(__file__).parents[1] / "vectors"
ROWS = [row for file in sorted(VECTORS.glob("mistakes_*.json")) for row in json.loads(file.read_text("utf-8"))["rows"]]

TOOLS = """\
@tool
def measure(word: str) -> int:
    return len(word)

@tool
def shout(text: str) -> str:
    return text.upper()

@agent
def writer(prompt: str) -> str:
    return f'{prompt}!'
"""


FINDING = re.compile(
    r"^(?:[A-Z]\w*(?:Error|Cancelled|Setting|Arguments)|[Ww]arning|[Nn]ote|agf-magics: error): .*(?:\n +.*)*",
    re.MULTILINE,
)
"""A line that begins with an error or a warning, and the indented lines below it."""


def findings(printed: str) -> list[str]:
    return FINDING.findall(re.sub(r"In\[\d+\]", "In[n]", printed))


@pytest.mark.parametrize("row", [row for row in ROWS if "cell" in row], ids=lambda row: row["title"])
def test_a_cell_with_a_mistake_says_what_to_change(row: dict[str, Any], shell: Shell) -> None:
    for cell in (TOOLS, *row.get("setup", ())):
        shell.good(cell)
    shown = shell.run(row["cell"])
    assert "\n".join(findings(shown.out + shown.err)) == row["says"]


@pytest.mark.parametrize("row", [row for row in ROWS if "argv" in row], ids=lambda row: row["title"])
def test_a_command_with_a_mistake_says_what_to_change(
    row: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in row.get("files", {}).items():
        (tmp_path / name).write_text(text, "utf-8")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed), contextlib.suppress(SystemExit):
        main(row["argv"])
    assert "\n".join(findings(printed.getvalue())) == row["says"]
