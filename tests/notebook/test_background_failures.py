"""The failure of a background run without a page is told in the cell of the start."""

from __future__ import annotations

from typing import Any

import pytest

from tests.mcp.servers import until
from tests.notebook.conftest import Kernel
from tests.notebook.test_explorer import journaled, open_gate, started

pytestmark = pytest.mark.kernel

__all__ = ["journaled"]

NIGHTLY = "%%pipeline\npipeline: nightly\nsteps:\n- tool: {name: gate, args: {name: gate}}\n- tool: {name: WORK}\n"
START = "import agf_magics as agf\nhandle = agf.start('nightly', quiet=True)"
WAITED = f"{START}\nfrom pathlib import Path\nPath('gate').write_text('open')\n_ = handle.wait()"


@pytest.mark.parametrize(
    ("work", "cell", "later_cell", "is_told"),
    [
        ("fail", START, "", True),
        ("fail", START, "_ = handle.wait()", True),
        ("pears", START, "_ = handle.wait()", False),
        ("fail", WAITED, "pass", False),
    ],
)
def test_only_a_failure_after_the_cell_of_the_start_is_told(
    journaled: Kernel, work: str, cell: str, later_cell: str, is_told: bool
) -> None:
    journaled.good("@tool\ndef pears() -> int:\n    return 1")
    journaled.good(NIGHTLY.replace("WORK", work))
    begun = journaled.good(cell)
    if cell == START:
        open_gate(journaled)
    ended = journaled.good(later_cell).messages if later_cell else []
    later = [*begun.messages, *ended, *journaled.strays]
    journaled.strays.clear()

    def shown() -> list[Any]:
        later.extend(journaled.drain())
        told = [message for message in later if message["msg_type"] == "display_data"]
        return [message for message in told if "agf-run" in message["content"]["data"].get("text/html", "")]

    def opened() -> list[Any]:
        return [start for _, _, start in started(later) if start["tree"]["name"] == "nightly"]

    if is_told:  # the page comes a moment after the end of the run
        assert until(lambda: shown() and opened())
    pages = shown()
    assert len(pages) == is_told
    for page in pages:
        assert "no pears" in page["content"]["data"]["text/html"]
        assert page["parent_header"]["msg_id"] == begun.id
        (start,) = opened()
        assert (start["notices"], start["update"]["status"]) == ("news", "error")
