"""Serves the page of a run inside a client (MCP Apps), which asks the server until the run has
ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...lifecycle.past.past_run import PastRun
from ...lifecycle.runs.run import Run
from ...pictures.pages.run_page import MOST_SAVED

URI = "ui://agf-magics/run.html"
TITLE = "A run"

RUN_ID = "agf-magics/run_id"
"""The key of the id in what the result of a flow's tool says beside its value."""

PAGE_TOOL = "run_page"
"""The tool that the page calls, and no model."""

META: dict[str, Any] = {"ui": {"resourceUri": URI}}
"""The metadata of a tool whose result the page shows."""

PAGE_META: dict[str, Any] = {"ui": {"resourceUri": URI, "visibility": ["app"]}}
"""The metadata of `PAGE_TOOL`."""


def document() -> str:
    """The HTML of the app. It loads nothing: a client gives it no connection."""
    return (Path(__file__).parent / "run_app.html").read_text(encoding="utf-8")


def page(run: Run | PastRun) -> dict[str, Any]:
    """The page of a run as it is now, as HTML and as text, and whether it stays so."""
    bundle = run._repr_mimebundle_()
    is_over = run.status not in ("pending", "running")
    shown = bundle["text/html"]
    if len(shown) > MOST_SAVED:
        shown = "<p>The page of this run is too large to be shown here.</p>"
    return {"html": shown, "text": bundle["text/plain"], "is_over": is_over}
