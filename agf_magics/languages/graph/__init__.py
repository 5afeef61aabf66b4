"""Graphs: nodes over one state, along edges with conditions, with value and condition
expressions."""

from ..documents import Language
from .edges import evaluate_condition
from .edges import parse_condition_text as parse_condition
from .load import load
from .value_grammar import (
    parse_value,
    resolve_node_variables,
    resolve_state_expression,
    resolve_template,
)
from .words import document_schema

SCHEMA = document_schema()
"""The JSON Schema of a graph."""

LANGUAGE = Language(
    "graph", load, {"value": parse_value, "condition": parse_condition}, schema=SCHEMA
)

__all__ = [
    "LANGUAGE",
    "SCHEMA",
    "evaluate_condition",
    "load",
    "parse_condition",
    "parse_value",
    "resolve_node_variables",
    "resolve_state_expression",
    "resolve_template",
]
