"""The graph language: nodes that share a state, connected by edges with conditions."""

from ..language import Language
from .expressions.condition import evaluate_condition
from .expressions.condition import parse_condition_text as parse_condition
from .expressions.resolve import resolve_node_variables, resolve_state_expression, resolve_template
from .expressions.values import parse_value
from .json_schema import document_schema
from .load import load

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
