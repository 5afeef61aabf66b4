"""Markdown: tables, and words as code."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code(text: str) -> str:
    """Braces and the language's own words as code."""
    return re.sub(r"(\{[^}]*\}|!expr|\bctx\b|\bpipe\b|\bacc\b)", r"`\1`", text)


FORMS = frozenset({"a signature", "its form"})
"""What nobody would paste: the top of such a page says it."""


def site(text: str) -> str:
    """A page as the site gets it: what its comments say to a reader and to the search is there.

    ``<!-- not run: WHY -->`` and ``<!-- file: NAME -->`` are a line above their block, and
    ``<!-- search: cache, memoize -->`` entries of the index.
    """

    def reason(comment: re.Match[str]) -> str:
        return comment[0] if comment[1] in FORMS else f'<p class="not-run">Not run: {html.escape(comment[1])}</p>\n'

    text = re.sub(r"^<!-- file: (.+) -->\n+", r'<p class="file"><code>\1</code></p>\n\n', text, flags=re.MULTILINE)
    text = re.sub(r"^<!-- not run: (.+) -->$", reason, text, flags=re.MULTILINE)
    return re.sub(r"<!-- search: (.+) -->", lambda words: f"```{{index}} ! {words[1].replace(', ', ', ! ')}\n```", text)
