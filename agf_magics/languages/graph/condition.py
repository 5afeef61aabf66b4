"""Conditions: ``score < 0.8 and status == 'done'``, parsed once and compiled to closures over the
state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from ...flow.values import Value
from ...text.source import Text
from ..scan import MISSING, Refusal, parse_at
from .condition_grammar import Comparison, Condition, parse_condition
from .lookup import compare, find, reader
from .tokens import Bare
from .value import Evaluated, refused

Test = Callable[[Any], bool]
"""Given the state."""


def evaluate_condition(expr: str, state: Mapping[str, Value]) -> bool:
    """Whether a condition is true. Raises ValueError for an invalid condition.

    >>> evaluate_condition("score < 0.8 and status == 'open'", {"score": 0.5, "status": "open"})
    True
    """
    return _cached(expr)(state)


def parse_condition_text(text: Text) -> Evaluated:
    """The condition of a text that is used alone: its frame is the state."""
    return condition(text, parse_at(text, parse_condition))


@lru_cache(maxsize=512)
def _cached(expr: str) -> Test:
    try:
        return compile_condition(parse_condition(expr))
    except Refusal as refusal:
        raise refused(refusal, expr) from None


def condition(text: Text, node: Condition, root: tuple[str, ...] = ()) -> Evaluated:
    """A condition as the engine evaluates it. ``root``: where in a frame the state is."""
    # Only the left sides certainly name keys: a name on the right may be text.
    return Evaluated(
        text, compile_condition(node), tuple(one.left for one in node.comparisons()), root
    )


def compile_condition(node: Condition) -> Test:
    """A condition as a closure over the state."""
    alternatives = [list(map(_comparison, comparisons)) for comparisons in node.alternatives]
    return lambda state: any(all(test(state) for test in tests) for tests in alternatives)


def _comparison(node: Comparison) -> Test:
    sign, left = node.operator, reader(node.left.names)
    if not isinstance(node.right, Bare):
        value = node.right.value
        return lambda state: compare(sign, left(state), value)
    text = node.right.text
    path = tuple(text.split("."))

    def against_state(state: Any) -> bool:
        right = find(state, path)  # Y11: a key that exists counts even when it is None
        return compare(sign, left(state), text if right is MISSING else right)

    return against_state
