"""The keys of a mapping in an annotation: ``dict[int, str]`` accepts the texts of whole numbers.

The keys of a mapping in a flow are texts: no definition and no model can write another key.
"""

from __future__ import annotations

from typing import Any

from pydantic_core import PydanticCustomError, core_schema


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
