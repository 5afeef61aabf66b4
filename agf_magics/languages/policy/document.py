"""Reads the text of a policy, in any of its three forms, and checks it against the schema of
documents.

``agf.schema.json`` is the table for checks, hints and the reference. Each violation becomes a
finding at its node. An unknown field is never an error (AGF-D2): it is ignored with a warning.

Hints for documents of a wrong shape: common mistakes of authors of Agent Format."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import chain
from typing import Any

from ...flow.json_schema import (
    TYPE_NAMES,
    Violation,
    describe,
    judge,
    kinds,
    leaves,
    missing,
    place,
    referred,
    schema_violations,
    unnamed,
    wanted_types,
)
from ...flow.patterns import unusable_patterns
from ...text.diagnostics import Diagnostic, Diagnostics, Source, Span, suggest
from ...text.nodes import Fields, Node, Scalar, every_node, expr_tags, node_at, plain, shown
from ...text.yamlnodes import Bounds
from ..documents import Finding, one_document, reshaped
from .path import CONSTANT

WHOLE = "the document"
MAJOR = "1"
"""The supported major version in ``schema_version`` (AMB-34)."""
_POLICY, _WHOLE = "execution_policy", ("schema_version", "metadata")


@cache
def schema() -> Mapping[str, Any]:
    """The JSON Schema of a whole document."""
    text = files(__package__).joinpath("agf.schema.json").read_text("utf-8")
    loaded: Mapping[str, Any] = json.loads(text)
    return loaded


_BEGIN = "begin with schema_version:, with execution_policy:, or with id: and config:"
_NO_POLICY = Finding("policy.no-policy", "there is no policy here", _BEGIN)
_TWO_DOCUMENTS = Finding(
    "policy.two-documents",
    "one document per cell",
    "define the other document in its own cell or file",
)


def document(source: Source, problems: Diagnostics, bounds: Bounds) -> Fields | None:
    """The mapping of a whole document; a bare policy becomes a document with nothing else. None if
    there is none.

    Errors are added to ``problems``.
    """
    node = one_document(source, problems, bounds, _NO_POLICY, _TWO_DOCUMENTS)
    root = None if node is None else _whole(node, problems)
    if root is None:
        return None
    shape = Diagnostics()
    for violation in _check(any(name in root.fields for name in _WHOLE))(plain(root)):
        shape.extend(_described(root, violation))
    problems.extend((*shape.errors, *_tagged(root)))
    # A mistake is reported once: a misspelt field is an unknown one where another is missing.
    problems.extend(_once(shape, problems))
    _check_version(root, problems)
    problems.extend(_once(_interface(root), problems))
    return root


def is_bare(root: Fields) -> bool:
    """Whether the text is a policy alone, ``{id, config}``, which cannot have an action space."""
    return root.span == root.fields[_POLICY].span


@cache
def _check(whole: bool) -> Any:
    """The validator of a document; without metadata only the policy is required (decision B1)."""
    closed = _closed(schema())
    return judge(closed if whole else {**closed, "required": [_POLICY]})


def _closed(rule: Any) -> Any:
    """A part of the schema that finds unknown fields, too."""
    if isinstance(rule, list):
        return [_closed(part) for part in rule]
    if not isinstance(rule, Mapping):
        return rule
    closed = {name: _closed(part) for name, part in rule.items()}
    # The JSON Schema in an interface may have any field, and the rules of `allOf` describe a part.
    is_mapping = {"description", "properties"} <= rule.keys()
    return {**closed, "additionalProperties": False} if is_mapping else closed


def _whole(node: Node, problems: Diagnostics) -> Fields | None:
    if not isinstance(node, Fields):
        message = f"a document must be a mapping, got {shown(node)}"
        problems.error("policy.document-shape", message, node.span, _BEGIN)
        return None
    known = schema()["properties"]
    if _POLICY in node.fields or any(name in node.fields for name in _WHOLE):
        return node
    if "id" in node.fields:
        key = node.keys["id"]._replace(value=_POLICY, text=_POLICY)
        return Fields({_POLICY: node}, {_POLICY: key}, node.span)
    first = next(iter(node.keys.values()), None)
    near = first and suggest(first.text, (*known, "id", "config"))
    hint = near or "write execution_policy:, or id: and config: for a policy alone"
    problems.error(
        "policy.document-kind",
        "this is neither a document nor a policy",
        first.span if first else node.span,
        hint,
    )
    return None


def _once(findings: Iterable[Diagnostic], before: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    """The findings at places without an earlier finding: a mistake is reported once."""
    reported = {finding.span for finding in before}
    return (finding for finding in findings if finding.span not in reported)


def _tagged(root: Fields) -> Iterator[Diagnostic]:
    hint = "use a path in an input_mapping or in a condition"
    return (
        Diagnostic("policy.schema", "a policy has no !expr", node.span, hint)
        for node in expr_tags(root)
    )


def _described(root: Fields, violation: Violation) -> Iterator[Diagnostic]:
    node, key = node_at(root, violation.path)
    if (
        violation.path[-1:] == ("output_from",)
        and isinstance(node, Fields)
        and (problem := _selection(node))
    ):
        yield Diagnostic(
            "policy.schema",
            problem,
            key or node.span,
            OUTPUT_FROM,
        )
        return
    for leaf in leaves(violation):
        yield from _leaf(root, leaf)


def _leaf(root: Fields, violation: Violation) -> Iterator[Diagnostic]:
    node, key = node_at(root, violation.path)
    if isinstance(node, Fields) and violation.keyword == "required":
        owner = place(violation.path) or WHOLE
        for name in missing(violation):
            yield _missing(owner, name, node, key, violation.rule.get("properties", {}))
    elif isinstance(node, Fields) and violation.keyword == "additionalProperties":
        names, required = (
            unnamed(violation.found, violation.rule),
            violation.rule.get("required", ()),
        )
        explained = (name not in node.fields and missing_hint(name, names) for name in required)
        # The hint of a missing field may say how to write the others.
        for name in () if any(explained) else names:
            yield _unknown(root, node, violation, name)
    else:
        last = violation.path[-1] if violation.path else WHOLE
        what = repr(last) if isinstance(last, str) else place(violation.path)
        problem = describe(violation)
        if violation.keyword in ("type", "anyOf", "oneOf") and (types := wanted_types(violation)):
            allowed = "a path" if "input_mapping" in violation.path[:-1] else kinds(types)
            problem = f"must be {allowed.replace('an object', 'a mapping')}, got {shown(node)}"
        elif violation.keyword == "pattern":
            problem = f"must have {violation.rule['$comment']}, got {shown(node)}"
        span, hint = _span_at(root, violation), hint_for(violation, node)
        yield Diagnostic("policy.schema", f"{what} {problem}", span, hint)


def _missing(
    owner: str, name: str, node: Fields, key: Span | None, known: Mapping[str, Any]
) -> Diagnostic:
    unknown = [other for other in node.fields if other not in known]
    slip = next(
        (other for other in unknown if other in SLIPS.get(name, ()) or suggest(other, [name])), ""
    )
    rule = known.get(name, {})
    about = rule.get("description") or referred(schema(), rule).get("description")
    value = node.text_at(slip)
    hint = (
        _condition_hint(name, value)
        if name in _CONDITIONS and _COMPARISON.fullmatch(value)
        else f"did you mean {name}?"
        if slip
        else missing_hint(name, unknown) or FORMS.get(name) or f"{name}: {about}"
    )
    span = node.keys[slip].span if slip else key or (node.span if owner != WHOLE else node.head)
    return Diagnostic("policy.schema", f"{owner} has no {name!r}", span, hint)


def _selection(node: Fields) -> str | None:
    """The message if an ``output_from`` does not select in exactly one way (AGF-41)."""
    ways = [name for name in ("agent", "strategy", "custom_transform") if name in node.fields]
    if len(ways) == 1:
        return None
    found = f"has {' and '.join(ways)}" if ways else "has none of them"
    return (
        f"output_from must have exactly one of agent, strategy and custom_transform; this one "
        f"{found}"
    )


def _unknown_matcher(node: Fields, violation: Violation, name: str) -> Diagnostic:
    value = node.fields[name]
    hint = OPERATOR_HINTS.get(name) or suggest(name, violation.rule["properties"], "matchers")
    if name in EQUALS and isinstance(value, Scalar):
        hint = f"write the value without a matcher: {violation.path[-1]}: {value.span.text}"
    return Diagnostic("policy.schema", f"unknown matcher {name!r}", node.keys[name].span, hint)


def _unknown(root: Fields, node: Fields, violation: Violation, name: str) -> Diagnostic:
    """The finding of an unknown field, which is ignored, or of an unknown matcher."""
    value, fields = node.fields[name], violation.rule["properties"]
    if "args_match" in violation.path[-2:-1]:
        return _unknown_matcher(node, violation, name)
    slip = [right for right in fields.keys() - node.fields if name in SLIPS.get(right, ())]
    id = root.inner(_POLICY).text_at("id") if violation.path[-1:] == ("config",) else None
    hint = OLD_NAMES.get((name, id)) or (
        f"did you mean {slip[0]}?" if slip else suggest(name, fields, "its fields")
    )
    if not value.text and value.value is None:
        hint = f'quote a text with a comma: "…, {name}"'
    message = f"{place(violation.path) or WHOLE} has no field {name!r}: it is ignored"
    return Diagnostic("policy.unknown-field", message, node.keys[name].span, hint, "warning")


def _check_version(root: Fields, problems: Diagnostics) -> None:
    version = root.scalar("schema_version")
    found = version and re.fullmatch(r"0*+([0-9]*)\.[0-9]+\.[0-9]+", version.text)
    if version and found and found[1] != MAJOR:
        message = f"version {version.text} of the format is not supported"
        hint = f'use version {MAJOR}.x: "{MAJOR}.0.0"'
        problems.error("policy.schema-version", message, version.span, hint)


def _interface(root: Fields) -> Iterator[Diagnostic]:
    """The findings of the JSON Schemas of the interface."""
    for node in map(root.inner("interface").inner, ("input", "output")):
        for violation in chain(*map(leaves, schema_violations(plain(node)))):
            message = f"invalid JSON Schema: {place(violation.path)} {describe(violation)}"
            hint = schema_hint(violation)
            yield Diagnostic("policy.interface", message, _span_at(node, violation), hint)
        for inner in every_node(node):
            yield from _remote(inner)
        yield from unusable_patterns("policy.interface", node, plain(node))
        yield from _without_keywords(node)


def _span_at(root: Node, violation: Violation) -> Span:
    """The place of a value; of one without a text that of its key."""
    node, key = node_at(root, violation.path)
    return node.span if node.span.text or not key else key


def _without_keywords(node: Fields) -> Iterator[Diagnostic]:
    """A schema that lists its fields at the top: JSON Schema ignores them and accepts
    everything."""
    if node.fields and KEYWORDS.isdisjoint(node.fields):
        first = next(iter(node.keys.values()))
        message = (
            f"{first.text!r} is not a keyword of JSON Schema, so this schema accepts everything"
        )
        hint = f"list fields under properties: {{properties: {{{first.text}: {{type: string}}}}}}"
        yield Diagnostic("policy.unknown-field", message, first.span, hint, "warning")


def _remote(node: Node) -> Iterator[Diagnostic]:
    """An error of a reference to another document, which JSON Schema itself does not report."""
    refers = node.scalar("$ref") if isinstance(node, Fields) else None
    if refers and not refers.text.startswith("#"):
        message = f"cannot load {refers.text!r}: a schema may only refer to its own document"
        hint = "write the schema here, or under $defs: $ref: '#/$defs/NAME'"
        yield Diagnostic("policy.interface", message, refers.span, hint)


EQUALS = frozenset({"eq", "equals", "is", "==", "="})
OPERATOR_HINTS: Mapping[str, str] = {
    "regex": "use pattern",
    "matches": "use pattern",
    "contains": "use pattern, which searches a text",
    "neq": "use ne",
    "not": "use ne or not_in",
    "exists": "remove it: a path that does not exist is an error",
    "between": "write both bounds: {gte: 1, lte: 2}",
    "any": "use in",
    ">=": "use gte",
    "<=": "use lte",
    ">": "use gt",
    "<": "use lt",
    "!=": "use ne",
}

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
"""By field and the policy whose config has it."""


KEYWORDS = frozenset(
    {
        "$ref",
        "$defs",
        "$id",
        "$schema",
        "$anchor",
        "$comment",
        "$dynamicRef",
        "$dynamicAnchor",
        "type",
        "enum",
        "const",
        "properties",
        "required",
        "items",
        "prefixItems",
        "contains",
        "additionalProperties",
        "patternProperties",
        "propertyNames",
        "unevaluatedProperties",
        "unevaluatedItems",
        "anyOf",
        "oneOf",
        "allOf",
        "not",
        "if",
        "then",
        "else",
        "dependentSchemas",
        "dependentRequired",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "pattern",
        "format",
        "minItems",
        "maxItems",
        "uniqueItems",
        "minContains",
        "maxContains",
        "minProperties",
        "maxProperties",
        "title",
        "description",
        "default",
        "examples",
        "deprecated",
        "readOnly",
        "writeOnly",
        "contentEncoding",
        "contentMediaType",
        "contentSchema",
        "definitions",
    }
)
"""The keywords of JSON Schema: a schema without any of them accepts everything."""

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
"""Names of types in other languages, and in JSON Schema."""

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
"""Fields that are written instead of another."""


OUTPUT_FROM = "output_from: last, first or an alias, or merge for the outputs of all by alias"

FORMS: Mapping[str, str] = {
    "source": "the file of the agent; of a registered agent write source_type: kernel, source: "
    "ITS_NAME",
    "schema_version": 'write schema_version: "1.0.0"',
    "model": "write model: gpt-4o",
    "instructions": "write instructions: Answer in one sentence.",
    "when": "write when: {args_match: {parent.input.FIELD: VALUE}}",
}
"""What to write for a missing field, where its description does not show it."""


_EXAMPLES: Mapping[str | int, str] = {
    "schema_version": 'schema_version: "1.0.0"',
    "input_mapping": "input_mapping: {FIELD: parent.input.NAME}",
    "output_from": OUTPUT_FROM,
}
"""By the last name of its path: what a value of a wrong form should be."""

_ENTRIES: Mapping[str | int, str] = {
    **dict.fromkeys(("steps", "agents"), "agent: {}"),
    "local_tools": "alias: {}",
    "local_agents": "{{alias: {0}, source: {0}, source_type: kernel}}",
}
"""By the name of its list: the entry that a text means."""


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
        return reshaped(str(path[-1]), node, "object") or _EXAMPLES[path[-1]]
    if violation.keyword == "pattern" and isinstance(node, Scalar):
        return _spelt(node.text, path[-1] == "alias")
    if path[:1] == ("interface",) and path[-1:] in (("input",), ("output",)):
        return "it is a JSON Schema: {type: object}"
    if "input_mapping" in path[:-1]:
        return f"a value is a path, {CONSTANT.removeprefix('a path is ')}"
    if path[-2:-1] == ("args_match",):
        return "for one of several values: {in: [...]}; a matcher cannot test null"
    if _CONDITIONS.intersection(path[-1:]) and isinstance(violation.found, str):
        return _condition_hint(str(path[-1]), violation.found)
    if path[-1:] in (("steps",), ("agents",), ("routes",)) and isinstance(node, Fields):
        return f"begin each entry with a dash: - {next(iter(node.fields), 'agent')}: …"
    if path[-2:-1] and path[-2] in _ENTRIES and isinstance(violation.found, str):
        return f"write - {_ENTRIES[path[-2]].format(violation.found)}"
    return _of_scalar(violation, node) if isinstance(node, Scalar) else None


def missing_hint(name: str, unknown: Sequence[str]) -> str | None:
    """The hint for a missing field next to unknown ones."""
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


_CONDITIONS = frozenset({"exit_condition", "when", "condition"})
_COMPARISON = re.compile(r"\s*([\w.]+)\s*(==|=|!=|<>|>=|<=|>|<)\s*(.+?)\s*", re.ASCII)
_MATCHERS = {"!=": "ne", "<>": "ne", ">=": "gte", "<=": "lte", ">": "gt", "<": "lt"}


def _condition_hint(key: str, text: str) -> str:
    """The condition that an expression means."""
    found = _COMPARISON.fullmatch(text)
    path, sign, value = found.groups() if found else ("PATH", ">=", "VALUE")
    matcher = f"{{{_MATCHERS[sign]}: {value}}}" if sign in _MATCHERS else value
    return f"write {key}: {{args_match: {{{path}: {matcher}}}}}"


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


def _spelt(text: str, alias: bool) -> str | None:
    """The valid name nearest to a text."""
    near = (
        re.sub("[^a-zA-Z0-9_]+", "_", text) if alias else re.sub("[^a-z0-9_-]+", "-", text.lower())
    )
    near = near.strip("-_").lstrip("0123456789" if alias else "")
    return f"did you mean {near}?" if near else None


def _of_scalar(violation: Violation, node: Scalar) -> str | None:
    if violation.keyword != "type" or node.value is None or node.is_expr:
        return None
    wanted = violation.wanted if isinstance(violation.wanted, str) else ""
    if wanted == "string":
        return f'quote it: "{node.text}"'
    if wanted in ("integer", "number", "boolean") and isinstance(node.value, str):
        return "write a number in digits, and true or false, without quotes"
    return None
