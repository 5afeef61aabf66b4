"""What an annotation means for a value of a flow, which is not always what a caller in Python has.

A scalar of numpy is the Python value that a flow makes of it (decision A1″), so ``np.float64`` is a
number. The keys of a mapping are texts, so ``dict[int, str]`` takes the texts of whole numbers: no
definition and no model can write another key.
"""

from __future__ import annotations

from typing import Any

from pydantic_core import PydanticCustomError, core_schema

from ...compat.imports import loaded


def settled_schema(node: Any) -> Any:
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


def settled_json_type(kind: type) -> dict[str, Any] | None:
    """The JSON Schema of a class of numpy whose values become Python's; None for any other."""
    name = _python_type(kind)
    return {"type": name} if name is not None else None


def _python_type(kind: Any) -> str | None:
    numpy = loaded("numpy")
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


def keys_schema(node: Any) -> Any:
    """The core schema of the keys of a mapping: a text that is a number is that number where the
    annotation wants one."""
    kind = node.get("type")
    if kind not in ("int", "float"):
        return node

    def number(key: Any) -> Any:
        if type(key) is not str:
            return key
        try:
            read = int(key) if kind == "int" else float(key)
        except ValueError:
            read = None
        # The text of a number is one text: "01" beside "1" would be the same key.
        if read is None or str(read) not in (key, f"{key}.0"):
            wanted = "a whole number" if kind == "int" else "a number"
            raise PydanticCustomError("key", "a key is {wanted}", {"wanted": wanted})
        return read

    return core_schema.no_info_before_validator_function(number, node)
