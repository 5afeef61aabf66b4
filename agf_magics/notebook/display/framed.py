"""The static page of a run in its element, over which an explorer draws."""

from __future__ import annotations

from ...pictures.plain import html
from ..output.output import Bundle

PRINTED = (
    "<style>@media print{.agf-run details::details-content"
    "{content-visibility:visible!important;block-size:auto!important}"
    ".agf-run summary{list-style:none}.agf-run summary::-webkit-details-marker{display:none}"
    '.agf-run [style*="overflow:auto"]{max-height:none!important;overflow:visible!important}'
    ".agf-run table{min-width:0!important;max-width:100%!important}"
    ".agf-run :is(td,th){min-width:3.4em!important;white-space:normal!important;"
    "overflow-wrap:anywhere!important;word-break:normal!important}"
    ".agf-run table:has(th:nth-child(9)){font-size:10px!important}"
    ".agf-run table:has(th:nth-child(9)) :is(td,th){padding-left:0!important;padding-right:4px!important}"
    ".agf-run table:has(th:nth-child(13)) :is(td,th){min-width:0!important}"
    ".agf-run table:has(th:nth-child(16)){font-size:7px!important}}</style>"
)
"""On paper nothing is folded, nothing has the triangle of a fold, and nothing scrolls. A table is as wide
as the paper: its text is smaller if it has many columns, and goes on in the next line. Short words such
as a status are whole, as long as there is room."""


def framed(page: Bundle, mark: str, run_id: str = "", is_live: bool = False) -> Bundle:
    """The static page in an element of the class ``mark``, over which an explorer draws. ``run_id``: the
    run that a later kernel can open from the saved page. ``is_live``: whether the page is of a run that
    had not ended: a later kernel opens it without a click, as it knows what became of the run."""
    run = f' data-run="{html(run_id)}"' if run_id else ""
    run += ' data-live="true"' if is_live else ""
    shown = f'<div class="agf-run {mark}"{run}>{page["text/html"]}{PRINTED}</div>'
    return {**page, "text/html": shown}
