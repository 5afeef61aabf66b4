"""Mistakes that beginners make, each with the exact words that the user sees.

A row of ``tests/vectors/mistakes_*.json`` has a ``title``, the ``cell`` of a notebook (or ``argv``: the arguments of
``python -m agf_magics`` with ``files`` in its folder) and ``says``: all errors and warnings, in order, as printed.
``setup`` lists cells that run before it, and `TOOLS` is always registered. The number of a cell is written as
``In[n]``, and the end of a run's id as ``-ID``. The places where long lines are wrapped or cut do not count (see
`unwrapped`).
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
    r"^(?:[A-Z]\w*(?:Error|Cancelled|Setting|Arguments)|Unanswered|[Ww]arning|[Nn]ote|agf-magics(?: \w+)?: error): .*"
    r"(?:\n +.*)*",
    re.MULTILINE,
)
"""A line that begins with an error or a warning, and the indented lines below it."""


CONTINUATION = re.compile(r"\n {4}(?! |\d+ \|)")
"""A line break within a message or a hint, where the next line is indented by four blanks."""

EXCERPT = re.compile(r"^ *\d+ \| (?P<line>.*)\n +\| (?P<blanks> *)(?P<carets>\^+)$", re.MULTILINE)
CARETS = 40


def findings(printed: str) -> str:
    """The errors and warnings of an output."""
    printed = re.sub(r"-\d+-[0-9a-f]{6}\b", "-ID", re.sub(r"In\[\d+\]", "In[n]", printed))
    return unwrapped("\n".join(FINDING.findall(printed)))


def unwrapped(text: str) -> str:
    """``text`` with every message and hint on one line and, of an excerpt, the text above its carets.

    >>> unwrapped("a long\\n    message [x.y]\\n   1 | one: two\\n     |      ^^^")
    'a long message [x.y]\\n     | two'
    """
    return EXCERPT.sub(_marked, CONTINUATION.sub(" ", text))


def _marked(diagnostic: re.Match[str]) -> str:
    start, size = len(diagnostic["blanks"]), min(len(diagnostic["carets"]), CARETS)
    return f"     | {diagnostic['line'][start : start + size]}"


@pytest.mark.parametrize("row", [row for row in ROWS if "cell" in row], ids=lambda row: row["title"])
def test_a_cell_with_a_mistake_says_what_to_change(row: dict[str, Any], shell: Shell) -> None:
    for cell in (TOOLS, *row.get("setup", ())):
        shell.good(cell)
    result = shell.run(row["cell"])
    assert findings(result.out + result.err) == unwrapped(row["says"])


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
    assert findings(printed.getvalue().replace(f"{tmp_path}/", "")) == unwrapped(row["says"])
