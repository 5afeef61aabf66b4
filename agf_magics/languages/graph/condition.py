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
from .lookup import COMPARE, compare, find, reader
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
    alternatives = [
        _all([_comparison(one) for one in alternative]) for alternative in node.alternatives
    ]
    if len(alternatives) == 1:
        return alternatives[0]
    if len(alternatives) == 2:
        first, second = alternatives
        return lambda state: first(state) or second(state)
    return lambda state: any(test(state) for test in alternatives)


def _all(tests: list[Test]) -> Test:
    if len(tests) == 1:
        return tests[0]
    if len(tests) == 2:
        first, second = tests
        return lambda state: first(state) and second(state)
    return lambda state: all(test(state) for test in tests)


def _comparison(node: Comparison) -> Test:
    sign, names = node.operator, node.left.names
    if isinstance(node.right, Bare):
        return _against_state(sign, names, node.right.text)
    value, read = node.right.value, reader(names)
    if type(value) in (int, float):
        return _against_plain(sign, names, value, (float, int))
    if type(value) is str and sign in ("==", "!="):
        return _against_plain(sign, names, value, (str,))
    return lambda state: compare(sign, read(state), value)


def _against_plain(sign: str, names: tuple[str, ...], value: Any, kinds: tuple[type, ...]) -> Test:
    """Most conditions are of this kind: a plain value is compared at once, and a key of the state
    is read in place."""
    apply, name, read = COMPARE[sign], names[0], reader(names)

    def compare_key(state: Any) -> bool:
        left = state.get(name)
        return apply(left, value) if type(left) in kinds else compare(sign, left, value)

    def compare_path(state: Any) -> bool:
        left = read(state)
        return apply(left, value) if type(left) in kinds else compare(sign, left, value)

    return compare_key if len(names) == 1 else compare_path


def _against_state(sign: str, names: tuple[str, ...], text: str) -> Test:
    path, left = tuple(text.split(".")), reader(names)

    def against_state(state: Any) -> bool:
        right = find(state, path)  # Y11: a key that exists counts even when it is None
        return compare(sign, left(state), text if right is MISSING else right)

    return against_state
