"""The public functions `resolve_…`, which evaluate an expression or the variables of a node in a
state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...descend import MISSING
from .evaluated import parse_public
from .lookup import find
from .values import parse_template


def resolve_template(template: Any, state: Mapping[str, Any]) -> Any:
    """The value of a template; anything but a text with ``{state.…}`` is its own value.

    >>> resolve_template("{state.n + 1}", {"n": 4}), resolve_template("n is {state.n}", {"n": 4})
    (5, 'n is 4')

    Raises ValueError for an invalid expression. A missing path is None.
    """
    if not isinstance(template, str) or "{" not in template:
        return template
    return parse_public(parse_template, template).of(state)


def resolve_state_expression(expr: Any, state: Mapping[str, Any]) -> Any:
    """The value at the path in braces; anything else is its own value. Raises KeyError for a
    missing path.

    >>> resolve_state_expression("{state.rows}", {"rows": [1, 2]}), resolve_state_expression("{rows}", {"rows": [3]})
    ([1, 2], [3])
    """
    if not isinstance(expr, str) or not (expr.startswith("{") and expr.endswith("}")):
        return expr
    path = expr[1:-1].strip().removeprefix("state.")
    value = find(state, tuple(path.split(".")))
    if value is MISSING:
        raise KeyError(
            f"the state has no {path!r}; it has {', '.join(map(str, state)) or 'no keys'}"
        )
    return value


def resolve_node_variables(
    templates: Mapping[str, Any] | None, state: Mapping[str, Any]
) -> dict[str, Any]:
    """The value of each template; without templates the whole state except names that begin with
    ``_`` and None.

    >>> resolve_node_variables({"t": "{state.topic}"}, {"topic": "tea"})
    {'t': 'tea'}
    >>> resolve_node_variables(None, {"a": 0, "_b": 1, "c": None})
    {'a': 0}
    """
    if templates:
        return {name: resolve_template(template, state) for name, template in templates.items()}
    return {
        name: value
        for name, value in state.items()
        if not str(name).startswith("_") and value is not None
    }
