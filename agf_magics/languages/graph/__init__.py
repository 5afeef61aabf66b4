"""Graphs: nodes over one state, along edges with conditions, with value and condition
expressions."""

from .edges import evaluate_condition
from .edges import parse_condition_text as parse_condition
from .load import load
from .value import parse_value, resolve_node_variables, resolve_state_expression, resolve_template
from .words import document_schema

SCHEMA = document_schema()
"""The JSON Schema of a graph."""

__all__ = [
    "SCHEMA",
    "evaluate_condition",
    "load",
    "parse_condition",
    "parse_value",
    "resolve_node_variables",
    "resolve_state_expression",
    "resolve_template",
]
