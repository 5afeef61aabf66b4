"""Values as JSON for a page that writes all of it as text: the same bounds as in `values`.

The exceptions are pictures, as PNG, and data frames, as the HTML of their library: the page shows
that only in a frame without scripts and without connections.
"""

from __future__ import annotations

import base64
from typing import Any

from ..flow.values import Value
from . import values
from .plain import plain
from .values import MOST_PICTURE, Foreign, Grid, Group, Mask, Picture, Shown, Words

MOST_FRAME = 100_000
"""Characters of the HTML of a data frame."""


def value_json(value: Value, mask: Mask = lambda value: value) -> dict[str, Any]:
    """``value`` as JSON, in bounded time. ``mask`` hides the secrets in the fields of objects.

    >>> value_json([True])
    {'kind': 'group', 'title': '1 item', 'parts': [[None, {'kind': 'text', 'text': 'true'}]], 'more': 0}
    """
    return _json(values.shown(value, mask))


def _json(what: Shown) -> dict[str, Any]:
    match what:
        case Words(text, is_block):
            return {"kind": "text", "text": text, **({"block": True} if is_block else {})}
        case Group(title, parts, more):
            return {
                "kind": "group",
                "title": title,
                "parts": [[key, _json(part)] for key, part in parts],
                "more": more,
            }
        case Grid(title, columns, rows, more):
            return {"kind": "grid", "title": title, "columns": columns, "rows": rows, "more": more}
        case Foreign(title, page, text):
            return {"kind": "frame", "title": title, "html": page[:MOST_FRAME], "text": text}
        case Picture(title, draw):
            try:
                return _png(title, draw())
            except Exception:  # a figure draws what its artists want
                return {"kind": "text", "text": f"<{title}>"}


def _png(title: str, data: bytes) -> dict[str, Any]:
    if not 0 < len(data) <= MOST_PICTURE:
        return {"kind": "text", "text": plain(f"<{title}: {len(data):,} bytes>")}
    return {"kind": "png", "title": title, "data": base64.b64encode(data).decode()}
