"""Markdown: tables, and words as code."""

from __future__ import annotations

import re
from collections.abc import Iterable


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code(text: str) -> str:
    """Braces and the language's own words as code."""
    return re.sub(r"(\{[^}]*\}|!expr|\bctx\b|\bpipe\b|\bacc\b)", r"`\1`", text)
