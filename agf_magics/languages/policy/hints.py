"""Hints for common mistakes in the structure of Agent Format documents."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ...schemas.json_schema import Violation
from ...schemas.schema import TYPE_NAMES
from ...text.suggestions import suggest
from ...text.yaml.nodes import Fields, Node, Scalar
from ..foreign_keys import reshape_hint
from .operators import COMPARED, OPERATORS, SIGN
from .path import CONSTANT

EQUALS = frozenset({"eq", "equals", "is", "==", "="})
"""The words that authors write for a matcher of equality: a condition has the value itself."""

OPERATOR_HINTS: Mapping[str, str] = {
    **{
        name: f"use {row.name}"
        for row in OPERATORS.values()
        for name in (*row.foreign, *row.written)
    },
    "contains": "use pattern, which searches a text",
    "not": "use ne or not_in",
    "exists": "remove it: a path that does not exist is an error",
    "between": "write both bounds: {gte: 1, lte: 2}",
}
"""The hints for words and signs of other languages in the place of a matcher."""

OLD_NAMES: Mapping[tuple[str, str | None], str] = {
    (
        "allow_tools",
        None,
    ): "write allowed_tools, its name since version 1.0; without it all tools are allowed",
    (
        "allow_skills",
        None,
    ): "write allowed_skills, its name since version 1.0; without it all skills are allowed",
    ("output_from", "agf.batch"): "the output of agf.batch is always the list of its results",
    (
        "output_from",
        "agf.conditional",
    ): "the output of agf.conditional is that of the agent that ran",
    **dict.fromkeys(
        (("items", "agf.batch"), ("over", "agf.batch"), ("list", "agf.batch")),
        "a path in input_mapping has the list: {FIELD: parent.input.LIST.[]}",
    ),
    ("name", None): "a step has the alias of its agent alone; the name of a whole document is in "
    "metadata",
    ("alias", None): "an alias is declared in a whole document: action_space: {local_agents: "
    "[{alias: NAME, source: AGENT, source_type: kernel}]}",
    ("tools", "agf.react"): "they are listed in a whole document: action_space: {local_tools: "
    "[{alias: NAME}]}",
}
"""The hints for fields that no policy has, by the field and the policy whose config has it; None: it
stands outside of a config."""


TYPES: Mapping[str, str] = {
    "text": "string",
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
    "map": "object",
}
"""The names of types in JSON Schema, by their names in other languages."""

SLIPS: Mapping[str, tuple[str, ...]] = {
    "agents": ("steps", "branches"),
    "steps": ("agents",),
    "agent": ("alias", "name"),
    "when": ("condition", "if"),
    "routes": ("cases",),
    "input_mapping": ("input", "inputs", "mapping", "args", "arguments"),
    "exit_condition": ("until", "while", "stop", "exit", "condition"),
    "max_iterations": ("max_rounds", "max_loops", "times", "iterations", "rounds"),
    "max_batch_count": ("max_parallel", "batch_size", "limit"),
    "default_agent": ("default", "else", "otherwise"),
    "instructions": ("prompt", "system", "system_prompt", "instruction"),
    "output_from": ("output", "result"),
}
"""The wrong names that authors write, by the field that they mean."""


OUTPUT_FROM = "write output_from: merge to get all by alias; else last, first or an alias"
"""The hint for a wrong ``output_from``."""

FORMS: Mapping[str, str] = {
    "source": "the file of the agent; of a registered agent write source_type: kernel, source: "
    "ITS_NAME",
    "schema_version": 'write schema_version: "1.0.0"',
    "model": "write model: gpt-4o",
    "instructions": "write instructions: Answer in one sentence.",
    "when": "write when: {args_match: {parent.input.FIELD: VALUE}}",
}
"""The hints for missing fields whose descriptions do not show what to write."""


_EXAMPLES: Mapping[str | int, str] = {
    "schema_version": 'schema_version: "1.0.0"',
    "input_mapping": "input_mapping: {FIELD: parent.input.NAME}",
    "output_from": OUTPUT_FROM,
}
"""The right forms of values, by the last name of the path."""

_ENTRIES: Mapping[str | int, str] = {
    **dict.fromkeys(("steps", "agents"), "agent: {}"),
    "local_tools": "alias: {}",
    "local_agents": "{{alias: {0}, source: {0}, source_type: kernel}}",
}
"""The entry that a text means, by the name of the list."""


def hint_for(violation: Violation, node: Node) -> str | None:
    """The hint for a value of a wrong form."""
    path = violation.path
    if violation.keyword == "enum" and isinstance(violation.found, str):
        meant = TYPES.get(violation.found) if path[-1:] == ("type",) else None
        return (
            f"did you mean {meant}?"
            if meant
            else suggest(violation.found, list(map(str, violation.wanted)))
        )
    if path[-1:] in (("in",), ("not_in",)) and isinstance(node, Scalar):
        return f"{path[-1]}: [{node.text}]"
    if path and path[-1] in _EXAMPLES:
        return reshape_hint(str(path[-1]), node, "object") or _EXAMPLES[path[-1]]
    if violation.keyword == "pattern" and isinstance(node, Scalar):
        return _nearest_name(node.text, path[-1] == "alias")
    if path[:1] == ("interface",) and path[-1:] in (("input",), ("output",)):
        return "it is a JSON Schema: {type: object}"
    if "input_mapping" in path[:-1]:
        return f"a value is a path, {CONSTANT.removeprefix('a path is ')}"
    if path[-2:-1] == ("args_match",):
        return "for one of several values: {in: [...]}; a matcher cannot test null"
    if CONDITIONS.intersection(path[-1:]) and isinstance(violation.found, str):
        return condition_hint(path, violation.found)
    if path[-1:] in (("steps",), ("agents",), ("routes",)) and isinstance(node, Fields):
        return f"begin each entry with a dash: - {next(iter(node.fields), 'agent')}: …"
    if path[-1:] in (("steps",), ("agents",)) and isinstance(violation.found, str):
        return f"write {path[-1]}: [{{{_ENTRIES[path[-1]].format(violation.found)}}}]"
    if path[-2:-1] and path[-2] in _ENTRIES and isinstance(violation.found, str):
        return f"write - {_ENTRIES[path[-2]].format(violation.found)}"
    return _of_scalar(violation, node) if isinstance(node, Scalar) else None


def missing_hint(name: str, unknown: Sequence[str]) -> str | None:
    """The hint for the missing field ``name`` next to the ``unknown`` fields."""
    if name == "config" and unknown:
        return f"write config: and indent {', '.join(unknown)} below it"
    if name in ("when", "agent") and {"else", "default", "otherwise"}.intersection(unknown):
        return "write default_agent: NAME beside routes:"
    if name == "agent" and {"id", "config", "execution_policy"}.intersection(unknown):
        return (
            "a step runs an agent: define the inner policy in a cell of its own, and write - "
            "agent: ITS_NAME"
        )
    return None


CONDITIONS = frozenset({"exit_condition", "when", "condition"})
"""The fields whose value is a condition."""
COMPARISON = re.compile(rf"\s*([\w.]+)\s*({SIGN})\s*(.+?)\s*", re.ASCII)
"""A condition that is written as an expression: its path, its sign and its value."""


_TOOLS = frozenset({"local_tools", "mcp_servers"})
"""The lists of an action space whose conditions have the names of arguments, where other conditions
have paths."""
_ARGUMENT = re.compile(r"(?:tool_args|args|arguments)\.(\w+)|(\w+)", re.ASCII)


def condition_hint(path: Sequence[str | int], text: str) -> str:
    """The hint with the condition that the expression ``text`` at ``path`` means."""
    match = COMPARISON.fullmatch(text)
    left, sign, value = match.groups() if match else ("PATH", ">=", "VALUE")
    if _TOOLS.intersection(path):
        argument = _ARGUMENT.fullmatch(left) if match else None
        left = (argument[1] or argument[2]) if argument else "ARGUMENT"
    matcher = f"{{{COMPARED[sign]}: {value}}}" if sign in COMPARED else value
    return f"write {path[-1]}: {{args_match: {{{left}: {matcher}}}}}"


def schema_hint(violation: Violation) -> str | None:
    """The hint for an invalid JSON Schema in an interface."""
    if violation.path[-1:] == ("required",) and isinstance(violation.found, bool):
        return "write required: [NAME] next to properties"
    if violation.path[-2:-1] in (("properties",), ("$defs",)) or violation.path[-1:] == ("items",):
        kind = TYPES.get(str(violation.found), violation.found)
        return f"{{type: {kind if isinstance(kind, str) and kind in TYPE_NAMES else 'string'}}}"
    if violation.path[-1:] == ("type",) and isinstance(violation.found, str):
        meant = TYPES.get(violation.found)
        return f"did you mean {meant}?" if meant else suggest(violation.found, TYPE_NAMES, "types")
    return None


def _nearest_name(text: str, alias: bool) -> str | None:
    """The valid name that is nearest to ``text``; None: there is none. ``alias``: whether it is an
    alias."""
    near = (
        re.sub("[^a-zA-Z0-9_]+", "_", text) if alias else re.sub("[^a-z0-9_-]+", "-", text.lower())
    )
    near = near.strip("-_").lstrip("0123456789" if alias else "")
    return f"did you mean {near}?" if near else None


def _of_scalar(violation: Violation, node: Scalar) -> str | None:
    """The hint for a scalar of another type; None: the type needs no hint."""
    if violation.keyword != "type" or node.value is None or node.is_expr:
        return None
    wanted = violation.wanted if isinstance(violation.wanted, str) else ""
    if wanted == "string":
        return f'quote it: "{node.text}"'
    if wanted in ("integer", "number", "boolean") and isinstance(node.value, str):
        return "write a number in digits, and true or false, without quotes"
    return None
