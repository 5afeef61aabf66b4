"""The fields of an Agent Format document, as tables of the reference: from the schema that validates it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from agf_magics.languages.policy import SCHEMA
from agf_magics.schemas.schema import TYPE_NAMES

from .markdown import table


def policy(name: str) -> str:
    """The fields of a part of an Agent Format document, from the schema that validates it."""
    rule = _rule(name)
    required = rule.get("required", ())
    rows = [
        (f"`{key}`", "yes" if key in required else "no", _takes(field), _meaning(field))
        for key, field in rule["properties"].items()
    ]
    return table(("field", "required", "type", "meaning"), rows)


def _rule(name: str) -> Mapping[str, Any]:
    rules: Mapping[str, Any] = SCHEMA["$defs"]
    return SCHEMA if name == "document" else rules[name]


def _takes(field: Mapping[str, Any]) -> str:
    """The type of a field in one cell: ``a whole number, at least 1; default `10```."""
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        takes = FORMS.get(name) or f"*{name}*, below"
    elif "enum" in field:
        takes = "one of " + ", ".join(f"`{value}`" for value in field["enum"])
    elif field["type"] == "array":
        takes = f"a list: each {_takes(field['items'])}"
    elif "additionalProperties" in field:
        takes = "a mapping of texts"
    else:
        takes = TYPE_NAMES[field["type"]].replace("an object", "a mapping")
    bounds = [f"at {word} {field[key]}" for key, word in (("minimum", "least"), ("maximum", "most")) if key in field]
    bounds += ["not empty"] if field.get("minItems") or field.get("minLength") else []
    takes += f" of {field['$comment']}" if "$comment" in field else ""
    default = f"; default `{json.dumps(field['default']).strip(chr(34))}`" if "default" in field else ""
    return ", ".join([takes, *bounds]) + default


FORMS: Mapping[str, str] = {
    "Alias": "a name: letters a to z, digits and `_`, no digit first",
    "SchemaRef": "a JSON Schema",
    "InputMapping": "a mapping of names to [paths](paths.md)",
    "Condition": "a [condition](paths.md)",
    "Literal": "a text, a number, true or false",
    "OutputFrom": "an alias, `last`, `merge`, `first`, or a *Selection*, below",
    "Approval": "true, false, or an *ApprovalConfig*, below",
    "McpToolRef": "a name, or an *McpTool*, below",
    "SkillRef": "a name, or a *Skill*, below",
}
"""The types without a table of their own."""


def _meaning(field: Mapping[str, Any]) -> str:
    target = _rule(field["$ref"].rpartition("/")[2]) if "$ref" in field else {}
    text: str = field.get("description") or target["description"]
    return re.sub(r"(\{\{[^}]*\}\}|\.\[\]|agf\.\*|x-VENDOR\.NAME)", r"`\1`", text)
