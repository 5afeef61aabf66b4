"""Finds the page of the error reference for a code, without a connection (decision D9).

The wheel contains the pages of ``docs/reference/errors``; a checkout has them only there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

FOLDERS = (
    Path(__file__).parents[1] / "notebook" / "errors",
    Path(__file__).parents[2] / "docs" / "reference" / "errors",
)

_ENTRY = re.compile(
    r"^## (?P<code>[a-z0-9]+\.[a-z0-9-]+)\n(?P<text>.*?)(?=^\([a-z0-9.-]+\)=$|^## |\Z)", re.M | re.S
)
_LINK = re.compile(r"(?P<code>`[^`\n]*+`)|\[(?P<text>[^\[\]\n]++)\]\([^()\s]++\)")


@cache
def entries() -> Mapping[str, str]:
    """The Markdown of each entry of the error reference, by its code; without links, which lead to
    other pages."""
    folder = next(folder for folder in FOLDERS if folder.is_dir())
    return {
        entry["code"]: f"### {entry['code']}\n{_without_links(entry['text']).rstrip()}\n"
        for path in sorted(folder.glob("*.md"))
        for entry in _ENTRY.finditer(path.read_text(encoding="utf-8"))
    }


def _without_links(text: str) -> str:
    """A text with the words of each link alone; code stays, as it may look like a link."""
    return _LINK.sub(lambda match: match["code"] or match["text"], text)
