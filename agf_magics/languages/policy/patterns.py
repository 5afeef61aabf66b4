"""The ``pattern`` of a matcher: a regular expression, searched for anywhere in a text (AMB-19, decision D5)."""

from __future__ import annotations

from collections.abc import Callable

from ...flow.patterns import SYNTAX, BadPattern, searcher
from ...flow.values import Value
from ...text.diagnostics import Diagnostics
from ...text.nodes import Scalar


def pattern_test(node: Scalar, problems: Diagnostics) -> Callable[[Value], bool]:
    """A function that says whether the pattern is found in a value; what is wrong with it goes to ``problems``."""
    try:
        found = searcher(node.text)
    except BadPattern as error:
        span = node.locate(error.start, error.end) if error.start < error.end else node.span
        problems.error("policy.bad-pattern", f"the pattern cannot be used: {error}", span, SYNTAX)
        return lambda value: False
    return lambda value: type(value) is str and found(value)
