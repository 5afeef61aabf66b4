"""Lets the classes of numpy in an annotation accept Python's numbers and texts.

A flow converts scalars of numpy to Python's (decision A1), so ``np.float64`` means a number.
"""

from __future__ import annotations

from typing import Any

from pydantic_core import core_schema

from ...compat.imports import module_if_loaded


def numpy_schema(node: Any) -> Any:
    """The core schema for a class of numpy whose values become Python's; None for any other
    class."""
    name = _python_type(node.get("cls")) if node.get("type") == "is-instance" else None
    if name is None:
        return None
    makes: dict[str, Any] = {
        "boolean": core_schema.bool_schema,
        "integer": core_schema.int_schema,
        "number": core_schema.float_schema,
        "string": core_schema.str_schema,
    }
    plain = makes[name](strict=True)
    if node["cls"].__name__ != "number":
        return plain
    return core_schema.union_schema([core_schema.int_schema(strict=True), plain])


def numpy_json_type(kind: type) -> dict[str, Any] | None:
    """The JSON Schema for a class of numpy whose values become Python's; None for any other
    class."""
    name = _python_type(kind)
    return {"type": name} if name is not None else None


def _python_type(kind: Any) -> str | None:
    numpy = module_if_loaded("numpy")
    if numpy is None or not isinstance(kind, type) or not issubclass(kind, numpy.generic):
        return None
    kinds = {
        "boolean": numpy.bool_,
        "integer": numpy.integer,
        "number": (numpy.floating, numpy.number),
        "string": numpy.str_,
    }
    if issubclass(kind, numpy.timedelta64 | numpy.complexfloating):
        return None  # in numpy, a duration is a signed integer
    return next((name for name, of in kinds.items() if issubclass(kind, of)), None)
