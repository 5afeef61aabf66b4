"""``%explain CODE``: the page of an error, without a connection (decision D9).

The wheel contains the pages of ``docs/reference/errors``; a checkout has them only there.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from IPython.core.magic import line_magic, magics_class

from ...commands import magics
from ...commands.line import ParsedLine
from ...text.diagnostics import AgfError, DefinitionError, Diagnostic
from ...text.suggestions import nearest
from ..output.output import show
from .base import NotebookMagics, takes

FOLDERS = (
    Path(__file__).parents[1] / "errors",
    Path(__file__).parents[3] / "docs" / "reference" / "errors",
)

_ENTRY = re.compile(
    r"^## (?P<code>[a-z0-9]+\.[a-z0-9-]+)\n(?P<text>.*?)(?=^\([a-z0-9.-]+\)=$|^## |\Z)", re.M | re.S
)
_LINK = re.compile(r"(`[^`\n]*+`)|\[([^\[\]\n]++)\]\([^()\s]++\)")


@cache
def entries() -> Mapping[str, str]:
    """The Markdown of each entry of the error reference, by its code; without links, which lead to
    other pages."""
    folder = next(folder for folder in FOLDERS if folder.is_dir())
    return {
        found[
            "code"
        ]: f"### {found['code']}\n{_LINK.sub(lambda link: link[1] or link[2], found['text']).rstrip()}\n"
        for path in sorted(folder.glob("*.md"))
        for found in _ENTRY.finditer(path.read_text(encoding="utf-8"))
    }


@magics_class
class ExplainMagics(NotebookMagics):
    """``%explain``."""

    @line_magic
    @takes(magics.EXPLAIN)
    def explain(self, line: ParsedLine) -> None:
        word = line.word("CODE")
        for code in [word.text.strip("[]")] if word is not None else _last_codes():
            text = entries().get(code)
            if text is None:
                hint = nearest_hint(
                    code, entries(), "the code of an error is in brackets after its message"
                )
                span = word.span if word is not None else None
                raise DefinitionError(
                    Diagnostic("magic.unknown-code", f"no error has the code {code!r}", span, hint)
                )
            show({"text/markdown": text, "text/plain": text})


def nearest_hint(name: str, names: Iterable[str], otherwise: str) -> str:
    """The hint for an unknown code or lesson: it is less like a word of a message than a typo."""
    near = nearest(name, list(names), 0.6)
    return f"did you mean {near}?" if near else otherwise


def _last_codes() -> list[str]:
    """The codes of the last error that a cell ended with."""
    last = getattr(sys, "last_value", None)
    if not isinstance(last, AgfError):
        message = "CODE is missing: the last cell with an error did not end with one of agf-magics"
        raise DefinitionError(Diagnostic("magic.missing", message, hint="%explain CODE"))
    return list(dict.fromkeys(found.code for found in last.diagnostics))
