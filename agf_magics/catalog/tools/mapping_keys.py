"""Reads the keys of a mapping as its annotation says, as ``dict[int, str]``: no two texts may be one key.

The keys of mappings in a flow are always texts, because definitions and models can write no others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pydantic_core import PydanticCustomError, core_schema


def keys_schema(node: Any) -> Any:
    """The core schema for the keys of a mapping. A text is converted to a number if the annotation
    requires one."""
    is_enum = node.get("type") == "enum"
    kind = node.get("sub_type") if is_enum else node.get("type")
    if kind not in ("int", "float"):
        return node

    def number(key: Any) -> Any:
        if type(key) is not str:
            return key
        try:
            read = int(key) if kind == "int" else float(key)
        except ValueError:
            read = None
        # Only the usual text of a number is accepted: "01" beside "1" would be the same key.
        if is_enum and read is None:
            return key  # the class may have a name for it (``_missing_``)
        if read is None or not math.isfinite(read) or str(read) not in (key, f"{key}.0"):
            wanted = "a whole number" if kind == "int" else "a number"
            raise PydanticCustomError("key", "a key is {wanted}", {"wanted": wanted})
        return read

    return core_schema.no_info_before_validator_function(number, node)


def each_key_kept(node: Any) -> Any:
    """The core schema of a mapping that refuses two texts of one key, such as "1" and "1.0", or a date
    with and without a time: only one of the values would be left."""

    def check(value: Any, read: Callable[[Any], Any]) -> Any:
        mapping = read(value)
        if len(mapping) < len(value):
            raise PydanticCustomError("key", "two keys mean the same")
        return mapping

    return core_schema.no_info_wrap_validator_function(check, node)
