"""The ``pattern`` of a matcher: a regular expression of Python, looked for anywhere in a text (AMB-19).

Nothing can stop one that runs: it holds the interpreter. So what is known to run away, a repeat of a repeat without an
end, is warned about when it is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ...flow.values import Value
from ...text.diagnostics import Diagnostics
from ...text.nodes import Scalar

_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[*+?][+?]?|.", re.DOTALL)
_ENDLESS = re.compile(r"(?:[*+]|\{[0-9]*,\})(?!\+)")


def pattern_test(node: Scalar, problems: Diagnostics) -> Callable[[Value], bool]:
    """Whether the pattern is found in a value; what is wrong with it is told in ``problems``."""
    try:
        search = re.compile(node.text).search
    except (re.error, OverflowError, RecursionError) as error:
        at = getattr(error, "pos", None) or 0
        what = getattr(error, "msg", None) or "it is too large"
        hint = "a pattern is a regular expression of Python, found anywhere in the text; ^ and $ bind it"
        span = node.locate(at, len(node.text)) if at < len(node.text) else node.span
        problems.error("policy.bad-pattern", f"this is no pattern: {what}", span, hint)
        return lambda value: False
    if (found := runs_away(node.text)) is not None:
        hint = "write it without a repeat in a repeat: [a-z ]+ for ([a-z]+ ?)+"
        message = "on some texts this takes longer than anybody waits, and nothing can stop it"
        problems.warn("policy.slow-pattern", message, node.locate(*found), hint)
    return lambda value: type(value) is str and search(value) is not None


def runs_away(pattern: str) -> tuple[int, int] | None:
    """Where a group is repeated without an end that itself repeats something without an end.

    >>> runs_away("^(a+)+$"), runs_away("(ab)+c*"), runs_away("([a-z]+[.]){1,3}")
    ((1, 6), None, None)
    """
    opened = [(0, False)]
    for token in _TOKEN.finditer(pattern):
        endless = _ENDLESS.match(pattern, token.end())
        if token[0] == "(":
            opened.append((token.start(), False))
        elif token[0] == ")" and len(opened) > 1:
            start, within = opened.pop()
            if within and endless:
                return start, endless.end()
            if within or endless:
                opened[-1] = (opened[-1][0], True)
        elif endless:
            opened[-1] = (opened[-1][0], True)
    return None
