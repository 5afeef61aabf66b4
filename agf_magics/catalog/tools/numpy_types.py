"""Classes of numpy in an annotation: they accept the value of Python that a flow makes of such a
scalar.

A value of a flow is never a scalar of numpy (decision A1″), so ``np.float64`` is a number.
"""

from __future__ import annotations

from typing import Any

from pydantic_core import core_schema

from ...compat.imports import module_if_loaded


def numpy_schema(node: Any) -> Any:
    """The core schema of a class of numpy whose values become Python's; None for any other."""
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
    """The JSON Schema of a class of numpy whose values become Python's; None for any other."""
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
        return None  # a duration is a signed integer of numpy
    return next((name for name, of in kinds.items() if issubclass(kind, of)), None)
