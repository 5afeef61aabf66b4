"""Agent Format: policies over local agents, with path expressions and matchers."""

from .delivery import batch_inputs, resolve_path
from .document import schema
from .load import load, parse
from .path import parse_path

SCHEMA = schema()
"""The JSON Schema of a whole document."""

__all__ = ["SCHEMA", "batch_inputs", "load", "parse", "parse_path", "resolve_path"]
