"""Rewrites pydantic's errors about arguments as plain phrases, without the values of secrets."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ...schemas.schema import shown_value
from ...schemas.violations import place as path_text
from ...values.value import Value, type_name

EXPECTED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "frozen_set_type": "a list",
    "iterable_type": "a list",
    "sequence_type": "a list",
    "dict_type": "an object",
    "mapping_type": "an object",
    "none_required": "null",
    "callable_type": "a function",
    "model_type": "an object or a {class_name}",
    "dataclass_type": "an object or a {class_name}",
    "model_attributes_type": "an object",
    "is_instance_of": "a {class}",
    "literal_error": "{expected}",
    "enum": "{expected}",
}
"""The words after "expects", by pydantic's type of the error, whose ``ctx`` has the
fields in braces."""

TYPES = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "null": "null",
    "array": "list",
    "object": "object",
}
"""The words for the types of JSON Schema in a list of parameters."""


def faults(
    errors: Sequence[Mapping[str, Any]], arguments: Mapping[str, Value], secret: Collection[str]
) -> list[str]:
    """Each error as a phrase after the name of a tool: ``needs 'name'``, ``has no argument
    'nmae'``."""
    phrases: list[str] = []
    expected: dict[str, list[str]] = {}
    got: dict[str, str] = {}
    for error in _deepest(errors, arguments):
        loc = error["loc"]
        kind = error["type"]
        hidden = loc[0] in secret
        place = _follow(arguments, loc[:1] if hidden else loc)  # without the keys in a secret
        path = path_text(place)
        if kind == "extra_forbidden":
            phrases.append(f"has no argument {path!r}" if len(loc) == 1 else f"knows no {path!r}")
        elif kind == "missing":
            phrases.append(f"needs {path_text((*place, loc[-1]))!r}")
        elif kind in EXPECTED:
            word = EXPECTED[kind].format(**error.get("ctx") or {})
            expected.setdefault(path, []).append(word)
            got.setdefault(path, _got(error["input"], hidden, word))
        elif hidden:
            phrases.append(f"refuses {path!r}")
        else:
            phrases.append(_otherwise(path, error))
    for path, words in expected.items():
        phrases.append(f"expects {' or '.join(dict.fromkeys(words))} for {path!r}, got {got[path]}")
    return list(dict.fromkeys(phrases))


def takes(schema: Mapping[str, Any]) -> str:
    """The arguments of a JSON Schema in one line: ``name (text), limit (number, optional)``."""
    required = schema.get("required", ())
    parameters = [
        f"{name} ({_word(field, schema)}{'' if name in required else ', optional'})"
        for name, field in schema.get("properties", {}).items()
    ]
    if schema.get("additionalProperties"):
        parameters.append("any other" if parameters else "anything")
    return ", ".join(parameters) or "no arguments"


def _deepest(
    errors: Sequence[Mapping[str, Any]], arguments: Mapping[str, Value]
) -> list[Mapping[str, Any]]:
    """The errors of the member of each union that matched furthest, without those of other
    members."""
    places = [_follow(arguments, error["loc"]) for error in errors]
    tagged = {p for p, error in zip(places, errors, strict=True) if p != error["loc"]}
    outer = {place[:size] for place in tagged for size in range(len(place))}
    less = tagged & outer
    return [error for place, error in zip(places, errors, strict=True) if place not in less]


def _follow(arguments: Value, loc: tuple[Any, ...]) -> tuple[str | int, ...]:
    """The path of ``loc`` in the value. pydantic adds the names of a union's members, which are
    neither keys nor indices of the value."""
    path: list[str | int] = []
    value: Any = arguments
    for bit in loc:
        if isinstance(value, dict | list | tuple):
            with contextlib.suppress(KeyError, IndexError, TypeError):
                value = value[bit]
                path.append(bit)
    return tuple(path)


def _otherwise(path: str, error: Mapping[str, Any]) -> str:
    """The phrase for an error that has no words of its own in `EXPECTED`."""
    message = str(error["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    if message.startswith("Input should be "):
        expected = message.removeprefix("Input should be ")
        got = _got(error["input"], hidden=False, expected="")
        return f"expects {path!r} to be {expected}, got {got}"
    return f"refuses {path!r}: {message[:1].lower()}{message[1:]}"


def _got(value: Value, hidden: bool, expected: str) -> str:
    """The words for a value that is not as ``expected``."""
    kind = type(value)
    if isinstance(value, enum.Enum) and repr(value.value) in expected.split(" or "):
        return f"a {kind.__name__} of another definition (from an earlier cell?)"
    if kind.__name__ in expected.split() and kind not in (str, int, float, bool):
        return f"a {kind.__name__} of another definition (from an earlier cell?)"
    return type_name(value) if hidden else shown_value(value)


def _word(field: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """The type of a field of ``schema`` in a word or two."""
    if "$ref" in field:
        name = str(field["$ref"]).rpartition("/")[2]
        inner = schema.get("$defs", {}).get(name, {})
        return _word(inner, schema) if "enum" in inner else name
    if "enum" in field:
        return " or ".join(repr(v) for v in field["enum"])
    if "const" in field:
        return repr(field["const"])
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(_word(member, schema) for member in field["anyOf"]))
    if "type" in field:
        return TYPES.get(str(field["type"]), str(field["type"]))
    return str(field.get("title", "anything"))
