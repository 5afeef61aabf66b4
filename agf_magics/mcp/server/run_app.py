"""The page of a run inside a client (MCP Apps). The page calls the server again and again until the
run has ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...lifecycle.past.past_run import PastRun
from ...lifecycle.runs.run import Run
from ...pictures.pages.run_page import MOST_SAVED

URI = "ui://agf-magics/run.html"
"""The address under which a client reads the page."""
TITLE = "A run"

RUN_ID = "agf-magics/run_id"
"""The key of the run's id in the ``_meta`` of the result of a flow's tool."""

PAGE_TOOL = "run_page"
"""The name of the tool that only the page calls: no model is offered it."""

META: dict[str, Any] = {"ui": {"resourceUri": URI}}
"""The metadata of a tool whose result the page shows."""

PAGE_META: dict[str, Any] = {"ui": {"resourceUri": URI, "visibility": ["app"]}}
"""The metadata of `PAGE_TOOL`."""


def document() -> str:
    """The HTML of the app. It loads nothing, because a client gives the page no connection."""
    return (Path(__file__).parent / "run_app.html").read_text(encoding="utf-8")


def page(run: Run | PastRun) -> dict[str, Any]:
    """The page of a run as HTML and as text, as the run is now, and whether the run has ended."""
    bundle = run._repr_mimebundle_()
    is_over = run.status not in ("pending", "running")
    html = bundle["text/html"]
    if len(html) > MOST_SAVED:
        html = "<p>The page of this run is too large to be shown here.</p>"
    return {"html": html, "text": bundle["text/plain"], "is_over": is_over}
