"""The errors of an evaluation about an operand: an unreadable path, a value of a wrong type.

These errors tell what to write instead, for which they need the tables of the language. The module
`failures` has the errors that need none.
"""

from __future__ import annotations

from typing import Any

from ....text.length import ATOMS
from ....text.suggestions import join_hints, suggest
from ....values.value import Value, type_name
from .failures import Failure
from .hints import ELSEWHERE, USE_A_TOOL, method_hint
from .nodes import STORES, Path
from .written import spelling


def two_needed(op: str, needs: str, left: Value, right: Value, offset: int) -> Failure:
    """The error for operands of which at least one has a wrong type."""
    message = f"{op!r} needs {needs}, not {type_name(left)} and {type_name(right)}"
    return Failure("r1.type", message, offset, len(op), _about(op, {type(left), type(right)}))


def _about(op: str, kinds: set[type]) -> str | None:
    """The hint for operands of the classes ``kinds``."""
    if kinds in ({str, int}, {str, float}):
        return ELSEWHERE["str" if op == "+" else "number"]
    return next((hint for kind, hint in _OPERANDS.items() if kind in kinds), None)


_OPERANDS = {
    type(None): "get(base, 'a.b', default) gives a default for a missing field; x or default "
    "replaces null",
    bool: "true and false are not numbers; write: condition and 1 or 0",
    list: "for each element write: map(list, x -> x * 2); their sum is sum(list), their number "
    "count(list), and [x] + list has one element more",
    dict: "name a field of the object: a.b",
    str: f"texts can only be joined with + and compared; {USE_A_TOOL}",
}
"""The hints for operands of a wrong type."""


def unreadable(path: Path, env: dict[Any, Value]) -> Failure:
    """The error for a path that cannot be read: at its first name that is not there."""
    value = env
    index = 0
    while type(value) is dict and path.read[index] in value:
        value = value[path.read[index]]
        index = index + 1
    # `read` may begin with the store, which the author did not write.
    part = max(0, index - (len(path.read) - len(path.parts)))
    if type(value) is dict:
        code, message, hint = _missing(path.parts, part, value, env)
    else:
        code, message, hint = _not_an_object(path.parts, part, value)
    if part == 0 and path.hidden_hint:
        hint = path.hidden_hint
    failure = Failure(code, message, path.offset, path.end - path.offset, hint, part)
    # The store, or the first name in it, is not there: a wrong text, not a wrong element (P24).
    failure.is_unknown_name = index < 2 and path.read[: len(STORES)] == STORES
    return failure


def _missing(
    parts: tuple[str, ...], part: int, value: dict[Any, Value], env: dict[Any, Value]
) -> tuple[str, str, str | None]:
    name = parts[part]
    keys = [key for key in value if isinstance(key, str) and key]
    if part == 0:
        keys = list(dict.fromkeys([*keys, *(key for key in env if isinstance(key, str))]))
        hint = spelling(name) or suggest(name, keys, "names")
        return "r1.missing-path", f"there is no {name!r} here", hint
    base = ".".join(parts[:part])
    rest = ".".join(parts[part:])
    near = suggest(name, keys, "its fields")
    default = f"get({base}, {rest!r}, default) gives a default for a missing field"
    return "r1.missing-path", f"{base!r} has no {name!r}", join_hints(near, default)


def _not_an_object(parts: tuple[str, ...], part: int, value: Value) -> tuple[str, str, str]:
    base = ".".join(parts[:part]) or parts[0]
    rest = ".".join(parts[part:])
    name = parts[part]
    if type(value) is list:
        map_hint = f"a list has no fields; map({base}, x -> x.{name}) reads it of every element"
        hint = method_hint(base, name) or map_hint
    elif type(value) in ATOMS:
        hint = f"get({base}, {rest!r}, default) gives a default for a missing field"
    else:
        hint = "expressions pass an opaque value on but do not look inside; a tool can"
    message = f"{base!r} is {type_name(value)}, not an object: it has no {name!r}"
    return "r1.not-an-object", message, hint
