"""Mistakes of newcomers get a message with the right name, the right text under the caret, and a cure.

Somebody who had only the docs made these mistakes and judged each message. This is the table of wrong flows;
test_quiet.py has the table of correct flows, which get no warning.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.notebook.conftest import Shell
from tests.notebook.test_mistakes import TOOLS, VECTORS, findings, unwrapped

TABLE = json.loads((VECTORS / "told_mistakes.json").read_text("utf-8"))


@pytest.mark.parametrize("row", TABLE["rows"], ids=lambda row: row["title"])
def test_a_mistake_is_reported_with_its_cure(row: dict[str, Any], shell: Shell) -> None:
    for cell in (TOOLS, TABLE["tools"], *row.get("setup", ())):
        shell.good(cell)
    result = shell.run(row["cell"])
    assert findings(result.out + result.err) == unwrapped(row["says"])
