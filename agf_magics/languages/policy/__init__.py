"""The policy language, Agent Format: policies of local agents, with path expressions and
matchers."""

from ..language import Language
from .document import schema
from .load import load, parse
from .path import parse_path

SCHEMA = schema()
"""The JSON Schema of a whole document."""

CELL = {
    "$defs": SCHEMA["$defs"],
    "anyOf": [
        {key: value for key, value in SCHEMA.items() if key != "$defs"},
        {"$ref": "#/$defs/ExecutionPolicy"},
    ],
}
"""A cell may contain a document, or a policy alone (decision B1)."""

LANGUAGE = Language("policy", load, {"path": parse}, schema=CELL)

__all__ = ["CELL", "LANGUAGE", "SCHEMA", "load", "parse", "parse_path"]
