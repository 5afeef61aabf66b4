"""What a YAML parser says is wrong, as its author would be told: a sentence, the very place, what would be right.

The parser's own words describe its state (``did not find expected key``); here each becomes the slip behind it.
"""

from __future__ import annotations

from .diagnostics import Diagnostic
from .source import Source, Span


def explain(source: Source, problem: str, at: int, context: str, since: int) -> Diagnostic:
    """The diagnostic for a parser's ``problem`` at offset ``at``, found in a ``context`` that began at ``since``."""
    start, end, message, hint = at, min(at + 1, len(source.text)), f"this is not valid YAML: {problem}", None
    letter = source.text[at : at + 1]
    if letter == "\t" or "tab" in problem:
        message, hint = "a tab where blanks belong", "indent with blanks"
    elif "cannot start any token" in problem:
        message, hint = f"a text cannot begin with {letter!r}", "quote the text"
    elif "mapping values are not allowed" in problem:
        message, hint = "a second ':' in what is one text", "quote a text that holds ': '"
    elif "quoted scalar" in context and "unexpected" in problem:
        start, end = since, since + 1
        message, hint = "this quote is never closed", f"close it with {source.text[since : since + 1]}"
    return Diagnostic("yaml.syntax", message, Span(source, start, end), hint)
