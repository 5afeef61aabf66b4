"""``%explain CODE``: the page of an error, without a connection (decision D9)."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from IPython.core.magic import line_magic, magics_class

from ...commands import magics
from ...commands.line import ParsedLine
from ...editor.error_pages import entries
from ...text.diagnostics import AgfError, DefinitionError, Diagnostic
from ...text.suggestions import nearest
from ..output.output import show_markdown
from .base import NotebookMagics, takes


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
            show_markdown(text)


def nearest_hint(name: str, names: Iterable[str], otherwise: str) -> str:
    """The hint for an unknown code or lesson: a name that is near, else ``otherwise``. A near name must
    be at least 0.6 alike."""
    near = nearest(name, list(names), 0.6)
    return f"did you mean {near}?" if near else otherwise


def _last_codes() -> list[str]:
    """The codes of the last error with which a cell ended."""
    last = getattr(sys, "last_value", None)
    if not isinstance(last, AgfError):
        message = "CODE is missing: the last cell with an error did not end with one of agf-magics"
        raise DefinitionError(Diagnostic("magic.missing", message, hint="%explain CODE"))
    return list(dict.fromkeys(problem.code for problem in last.diagnostics))
