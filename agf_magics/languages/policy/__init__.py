"""Agent Format: policies over local agents, with path expressions and matchers."""

from .delivery import batch_inputs, resolve_path
from .document import schema
from .load import load, parse
from .path import parse_path

SCHEMA = schema()
"""The JSON Schema of a whole document."""

CELL = {
    "$defs": SCHEMA["$defs"],
    "anyOf": [{key: value for key, value in SCHEMA.items() if key != "$defs"}, {"$ref": "#/$defs/ExecutionPolicy"}],
}
"""What a cell may hold: a document, or a policy alone (decision B1)."""

__all__ = ["CELL", "SCHEMA", "batch_inputs", "load", "parse", "parse_path", "resolve_path"]
