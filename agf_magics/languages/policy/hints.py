"""What would be right, where a document's shape is wrong: the slips that are known of Agent Format's authors."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...flow.json_schema import Violation
from ...flow.violations import KINDS
from ...text.diagnostics import suggest
from ...text.nodes import Node, Scalar

OPERATOR_HINTS: Mapping[str, str] = {
    "eq": "write the value itself: PATH: value",
    "equals": "write the value itself: PATH: value",
    "is": "write the value itself: PATH: value",
    "regex": "it is called pattern",
    "matches": "it is called pattern",
    "contains": "there is no such matcher; pattern finds a text within a text",
    "neq": "it is called ne",
    "not": "it is called ne, or not_in",
    "exists": "there is no such matcher: a path that leads nowhere is an error",
    "between": "write both bounds: {gte: 1, lte: 2}",
    "any": "it is called in",
}

OLD_NAMES: Mapping[tuple[str, str | None], str] = {
    ("allow_tools", None): "it is called allowed_tools since version 1.0; here all tools are allowed",
    ("allow_skills", None): "it is called allowed_skills since version 1.0; here all skills are allowed",
    ("output_from", "agf.batch"): "the output of agf.batch is always the list of its results",
    ("output_from", "agf.conditional"): "the output of agf.conditional is that of the agent that ran",
}
"""Fields by name, and by the policy in whose config they stand."""


KEYWORDS = frozenset({
    "$ref", "$defs", "$id", "$schema", "$anchor", "$comment", "$dynamicRef", "$dynamicAnchor", "type", "enum",
    "const", "properties", "required", "items", "prefixItems", "contains", "additionalProperties",
    "patternProperties", "propertyNames", "unevaluatedProperties", "unevaluatedItems", "anyOf", "oneOf", "allOf",
    "not", "if", "then", "else", "dependentSchemas", "dependentRequired", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern", "format", "minItems", "maxItems",
    "uniqueItems", "minContains", "maxContains", "minProperties", "maxProperties", "title", "description", "default",
    "examples", "deprecated", "readOnly", "writeOnly", "contentEncoding", "contentMediaType", "contentSchema",
    "definitions",
})  # fmt: skip
"""The words of JSON Schema: a schema that has none of them says nothing."""

TYPES: Mapping[str, str] = {
    "text": "string", "str": "string", "int": "integer", "float": "number", "bool": "boolean", "list": "array",
    "dict": "object", "map": "object",
}  # fmt: skip
"""What other languages call JSON Schema's types."""

SLIPS: Mapping[str, tuple[str, ...]] = {
    "agents": ("steps", "branches"),
    "steps": ("agents",),
    "agent": ("alias", "name"),
    "when": ("condition", "if"),
    "routes": ("cases",),
}
"""What stands where another field is meant."""


def hint_for(violation: Violation, node: Node) -> str | None:
    """The hint for a value that is not of the form it needs."""
    path = violation.path
    if violation.keyword == "enum" and isinstance(violation.found, str):
        meant = TYPES.get(violation.found) if path[-1:] == ("type",) else None
        return f"did you mean {meant}?" if meant else suggest(violation.found, map(str, violation.wanted))
    if path[-1:] in (("in",), ("not_in",)) and isinstance(node, Scalar):
        return f"{path[-1]}: [{node.text}]"
    if path == ("schema_version",):
        return 'write "1.0.0"'
    if violation.keyword == "pattern" and isinstance(node, Scalar):
        return _spelt(node.text, path[-1] == "alias")
    if path[:1] == ("interface",) and path[-1:] in (("input",), ("output",)):
        kind = violation.found if isinstance(violation.found, str) and violation.found in KINDS else "object"
        return f"it is a JSON Schema: {{type: {kind}}}"
    if "input_mapping" in path[:-1]:
        return "a mapping's values are paths: parent.input.NAME; a constant belongs into the agent"
    if "input_mapping" in path[-1:]:
        return "input_mapping: {FIELD: parent.input.NAME}"
    if path[-2:-1] == ("args_match",):
        return "one of several values: {in: [...]}" if isinstance(violation.found, list) else "null cannot be matched"
    if path[-1:] == ("output_from",):
        return "output_from: last, merge, first or an alias"
    if path[-2:-1] in (("steps",), ("agents",)) and isinstance(violation.found, str):
        return f"write - agent: {violation.found}"
    return _of_scalar(violation, node) if isinstance(node, Scalar) else None


def schema_hint(violation: Violation) -> str | None:
    """The hint for what an interface has that is no JSON Schema."""
    if violation.path[-1:] == ("required",) and isinstance(violation.found, bool):
        return "required stands beside properties: required: [NAME]"
    if violation.path[-2:-1] in (("properties",), ("$defs",)) or violation.path[-1:] == ("items",):
        kind = TYPES.get(str(violation.found), violation.found)
        return f"{{type: {kind if isinstance(kind, str) and kind in KINDS else 'string'}}}"
    if violation.path[-1:] == ("type",) and isinstance(violation.found, str):
        meant = TYPES.get(violation.found)
        return f"did you mean {meant}?" if meant else suggest(violation.found, KINDS, "types")
    return None


def _spelt(text: str, alias: bool) -> str | None:
    """The name nearest to a text that is none."""
    near = re.sub("[^a-zA-Z0-9_]+", "_", text) if alias else re.sub("[^a-z0-9_-]+", "-", text.lower())
    near = near.strip("-_").lstrip("0123456789" if alias else "")
    return f"did you mean {near}?" if near else None


def _of_scalar(violation: Violation, node: Scalar) -> str | None:
    if violation.keyword != "type" or node.value is None:
        return None
    wanted = violation.wanted if isinstance(violation.wanted, str) else ""
    if wanted == "string":
        return f'quote it: "{node.text}"'
    if wanted in ("integer", "number") and isinstance(node.value, str) and _is_number(node.text):
        return "leave the quotes out"
    if wanted == "boolean" and isinstance(node.value, str):
        return "write true or false, without quotes"
    return None


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).lstrip("+-").isdecimal()
