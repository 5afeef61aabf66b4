"""What a newcomer was told of a mistake is told still: the name, the text under the caret, and the cure.

Somebody who had only the docs made these mistakes, and judged each message. Beside the table of what is right and gets
no warning (test_quiet.py) this is the one of what is wrong and must get one.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.notebook.conftest import Shell
from tests.notebook.test_mistakes import TOOLS, VECTORS, findings, unwrapped

TABLE = json.loads((VECTORS / "told_mistakes.json").read_text("utf-8"))


@pytest.mark.parametrize("row", TABLE["rows"], ids=lambda row: row["title"])
def test_a_mistake_that_was_told_is_told_still(row: dict[str, Any], shell: Shell) -> None:
    for cell in (TOOLS, TABLE["tools"], *row.get("setup", ())):
        shell.good(cell)
    shown = shell.run(row["cell"])
    assert findings(shown.out + shown.err) == unwrapped(row["says"])
