"""A policy's text, read and held against the document's own schema, in any of the three forms that it may have.

``agf.schema.json`` is the language's table: what is checked, what hints name, what the reference shows. What jsonschema
finds becomes a finding at the very node, in words. Unknown fields are never an error (AGF-D2): one warning each, and
they are ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from ...flow.json_schema import Violation, judge, schema_violations
from ...flow.patterns import SYNTAX, fault_span, pattern_faults
from ...flow.violations import extra, leaves, missing, place, said
from ...text.diagnostics import Diagnostic, Diagnostics, suggest
from ...text.nodes import Fields, Items, Node, Scalar, plain, shown
from ...text.source import Source, Span
from ...text.yamlnodes import Bounds, documents
from .hints import KEYWORDS, OLD_NAMES, OPERATOR_HINTS, SLIPS, hint_for, schema_hint

WHOLE = "the document"
MAJOR = "1"
"""Of ``schema_version``: what is understood here (AMB-34)."""
_POLICY, _WHOLE = "execution_policy", ("schema_version", "metadata")


@cache
def schema() -> Mapping[str, Any]:
    """The JSON Schema of a whole document."""
    text = files(__package__).joinpath("agf.schema.json").read_text("utf-8")
    loaded: Mapping[str, Any] = json.loads(text)
    return loaded


def document(source: Source, problems: Diagnostics, bounds: Bounds) -> Fields | None:
    """The mapping of a whole document: of a bare policy one that holds nothing else. None where there is none.

    Everything wrong with its shape is told in ``problems``; numbers that stand where a whole one must are whole.
    """
    found = Diagnostics()
    nodes = documents(source, found, bounds)
    problems.extend(found)
    if not nodes:
        if not found.errors:
            hint = "begin with schema_version:, with execution_policy:, or with id: and config:"
            problems.error("policy.no-policy", "there is no policy here", source.span(0, 0), hint)
        return None
    if len(nodes) > 1:
        hint = "define the other one in a cell or file of its own"
        problems.error("policy.two-documents", "one document per cell", _head(nodes[1]), hint)
    root = _whole(nodes[0], problems)
    if root is None:
        return None
    whole = any(name in root.fields for name in _WHOLE)
    problems.extend(_once((*_findings(root, _check(whole)), *_tagged(root)), found))
    problems.extend(_once(_unknown(root, schema(), (), None), problems))
    _check_version(root, problems)
    _check_interface(root, problems)
    return root


def is_bare(root: Fields) -> bool:
    """Whether the text is a policy alone, ``{id, config}``, which has no action space and no place for one."""
    return root.span == root.fields[_POLICY].span


@cache
def _check(whole: bool) -> Any:
    """What judges a document; of one that has the policy alone only that is required (decision B1)."""
    return judge(schema() if whole else {**schema(), "required": [_POLICY]})


def _whole(node: Node, problems: Diagnostics) -> Fields | None:
    if not isinstance(node, Fields):
        hint = "begin with schema_version:, with execution_policy:, or with id: and config:"
        problems.error("policy.document-shape", f"a document is a mapping, not {shown(node)}", node.span, hint)
        return None
    known = schema()["properties"]
    if _POLICY in node.fields or any(name in node.fields for name in _WHOLE):
        return node
    if "id" in node.fields:
        key = node.keys["id"]._replace(value=_POLICY, text=_POLICY)
        return Fields({_POLICY: node}, {_POLICY: key}, node.span)
    first = next(iter(node.keys.values()), None)
    near = first and suggest(first.text, (*known, "id", "config"))
    hint = near or "a document has an execution_policy:, and a policy alone has id: and config:"
    problems.error("policy.document-kind", "neither a document nor a policy", first.span if first else node.span, hint)
    return None


def _once(findings: Iterable[Diagnostic], before: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    """What is found where nothing was told before: a slip is told once."""
    told = {finding.span for finding in before}
    return (finding for finding in findings if finding.span not in told)


def _findings(root: Fields, check: Any) -> Iterator[Diagnostic]:
    for violation in check(plain(root)):
        yield from _told(root, violation)


def _tagged(root: Fields) -> Iterator[Diagnostic]:
    for node in _every(root):
        if isinstance(node, Scalar) and node.is_expr:
            hint = "a value is read by a path: in an input_mapping, or in a condition"
            yield Diagnostic("policy.schema", "a policy has no expressions: !expr means nothing here", node.span, hint)


def _told(root: Fields, violation: Violation) -> Iterator[Diagnostic]:
    node, key = _at(root, violation.path)
    if violation.path[-1:] == ("output_from",) and isinstance(node, Fields) and (wrong := _selection(node)):
        yield Diagnostic("policy.schema", wrong, key or node.span, "output_from: last, merge, first or an alias")
        return
    for leaf in leaves(violation):
        yield from _leaf(root, leaf)


def _leaf(root: Fields, violation: Violation) -> Iterator[Diagnostic]:
    node, key = _at(root, violation.path)
    if isinstance(node, Fields) and violation.keyword == "required":
        owner = place(violation.path) or WHOLE
        for name in missing(violation):
            yield _missing(owner, name, node, key, violation.rule.get("properties", {}))
    elif isinstance(node, Fields) and violation.keyword == "additionalProperties":
        for name in extra(violation):
            hint = OPERATOR_HINTS.get(name) or suggest(name, violation.rule["properties"], "matchers")
            yield Diagnostic("policy.schema", f"{name!r} is no matcher", node.keys[name].span, hint)
    else:
        last = violation.path[-1] if violation.path else WHOLE  # where patterns cannot be matched at all
        what = repr(last) if isinstance(last, str) else place(violation.path)
        wrong = said(violation)
        if violation.keyword in ("type", "anyOf", "oneOf"):
            wrong = f"{wrong.partition(', not ')[0].replace('an object', 'a mapping')}, not {shown(node)}"
        elif violation.keyword == "pattern":
            wrong = f"needs {violation.rule['$comment']}, not {shown(node)}"
        span = node.span if node.span.text or not key else key
        yield Diagnostic("policy.schema", f"{what} {wrong}", span, hint_for(violation, node))


def _missing(owner: str, name: str, node: Fields, key: Span | None, known: Mapping[str, Any]) -> Diagnostic:
    unknown = [other for other in node.fields if other not in known]
    slip = next((other for other in unknown if other in SLIPS.get(name, ()) or suggest(other, [name])), None)
    rule = _resolved(known.get(name, {}))
    about = known.get(name, {}).get("description") or rule.get("description")
    hint = f"did you mean {name}?" if slip else f"{name}: {about}" if about else None
    span = node.keys[slip].span if slip else key or (node.span if owner != WHOLE else _head(node))
    return Diagnostic("policy.schema", f"{owner} has no {name!r}", span, hint)


def _selection(node: Fields) -> str | None:
    """What is wrong with how many ways of selection an ``output_from`` has (AGF-41)."""
    ways = [name for name in ("agent", "strategy", "custom_transform") if name in node.fields]
    if len(ways) == 1:
        return None
    found = f"has {' and '.join(ways)}" if ways else "has none of them"
    return f"output_from has exactly one of agent, strategy and custom_transform; this one {found}"


def _unknown(node: Node, rule: Mapping[str, Any], path: tuple[str | int, ...], id: str | None) -> Iterator[Diagnostic]:
    """A warning for every field that no rule knows; and whole numbers made whole, ``5.0`` is 5."""
    rule = _form(rule, node)
    if isinstance(node, Items) and "items" in rule:
        for index, item in enumerate(node.items):
            yield from _unknown(item, rule["items"], (*path, index), id)
    if not isinstance(node, Fields) or "properties" not in rule or rule is schema()["$defs"]["SchemaRef"]:
        return
    known: Mapping[str, Any] = rule["properties"]
    if "allOf" in rule:  # an execution_policy: its id says what its config has
        named = node.fields.get("id")
        id = named.text if isinstance(named, Scalar) else None
        known = {**known, "config": _config(rule, id)}
    for name, value in node.fields.items():
        if name in known:
            _make_whole(node, name, _form(known[name], value))
            yield from _unknown(value, known[name], (*path, name), id)
        elif rule.get("additionalProperties") is not False:
            where = place(path) or WHOLE
            hint = OLD_NAMES.get((name, id if path[-1:] == ("config",) else None)) or suggest(name, known, "its fields")
            message = f"{where} has no field {name!r}: it is ignored"
            yield Diagnostic("policy.unknown-field", message, node.keys[name].span, hint, "warning")


def _make_whole(node: Fields, name: str, rule: Mapping[str, Any]) -> None:
    value = node.fields[name]
    if rule.get("type") == "integer" and isinstance(value, Scalar) and type(value.value) is float:
        node.fields[name] = value._replace(value=int(value.value)) if value.value.is_integer() else value


def _config(rule: Mapping[str, Any], id: str | None) -> Mapping[str, Any]:
    for case in rule["allOf"]:
        if case["if"]["properties"]["id"]["const"] == id:
            found: Mapping[str, Any] = case["then"]["properties"]["config"]
            return found
    return {}


def _form(rule: Mapping[str, Any], node: Node) -> Mapping[str, Any]:
    """The rule behind references, and of alternatives the one for a mapping, a list or a value."""
    rule = _resolved(rule)
    if "oneOf" in rule and "properties" not in rule:
        wanted = "object" if isinstance(node, Fields) else "array" if isinstance(node, Items) else None
        return next((form for form in map(_resolved, rule["oneOf"]) if form.get("type") == wanted), {})
    return rule


def _resolved(rule: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in rule:
        rule = schema()["$defs"][rule["$ref"].rpartition("/")[2]]
    return rule


def _check_version(root: Fields, problems: Diagnostics) -> None:
    version = root.fields.get("schema_version")
    if isinstance(version, Scalar) and re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+", version.text):
        major = version.text.partition(".")[0]
        if (major.lstrip("0") or "0") != MAJOR:
            message = f"version {version.text} of the format is not understood"
            problems.error("policy.schema-version", message, version.span, f'versions {MAJOR}.x are: "{MAJOR}.0.0"')


def _check_interface(root: Fields, problems: Diagnostics) -> None:
    interface = root.fields.get("interface")
    ways = interface.fields if isinstance(interface, Fields) else {}
    for node in (ways[way] for way in ("input", "output") if way in ways):
        if not isinstance(node, Fields):
            continue
        for violation in (leaf for found in schema_violations(plain(node)) for leaf in leaves(found)):
            at, key = _at(node, violation.path)
            message = f"this is no JSON Schema: {place(violation.path)} {said(violation)}"
            span = at.span if at.span.text or not key else key
            problems.extend(_once([Diagnostic("policy.interface", message, span, schema_hint(violation))], problems))
        for one in _every(node):
            problems.extend(_unusable(one))
        for fault in pattern_faults(plain(node)):
            message = f"the pattern cannot be used: {fault.error}"
            problems.error("policy.interface", message, fault_span(node, fault), SYNTAX)
        problems.extend(_saying_nothing(node))


def _saying_nothing(node: Fields) -> Iterator[Diagnostic]:
    """A schema that lists its fields as if it were one of them: JSON Schema ignores them, and lets everything pass."""
    if node.fields and KEYWORDS.isdisjoint(node.fields):
        first = next(iter(node.keys.values()))
        message = f"{first.text!r} is no word of JSON Schema, so this schema lets everything pass"
        hint = f"name its fields below properties: {{properties: {{{first.text}: {{type: string}}}}}}"
        yield Diagnostic("policy.unknown-field", message, first.span, hint, "warning")


def _unusable(node: Node) -> Iterator[Diagnostic]:
    """What JSON Schema itself lets pass and cannot be used."""
    refers = node.fields.get("$ref") if isinstance(node, Fields) else None
    if isinstance(refers, Scalar) and not refers.text.startswith("#"):
        message = f"{refers.text!r} is elsewhere: a schema is read from its document alone"
        hint = "write it out, or below $defs: $ref: '#/$defs/NAME'"
        yield Diagnostic("policy.interface", message, refers.span, hint)


def _every(node: Node) -> Iterator[Node]:
    """A node and all in it, without recursion."""
    waiting = [node]
    for one in waiting:  # grows
        yield one
        waiting += one.fields.values() if isinstance(one, Fields) else one.items if isinstance(one, Items) else ()


def _at(node: Node, path: Iterable[str | int]) -> tuple[Node, Span | None]:
    """The node at a path, and its key."""
    key: Span | None = None
    for part in path:
        if isinstance(node, Fields) and isinstance(part, str):
            key, node = node.keys[part].span, node.fields[part]
        elif isinstance(node, Items) and isinstance(part, int):
            key, node = None, node.items[part]
    return node, key


def _head(node: Node) -> Span:
    """Where a node begins: its first key."""
    if isinstance(node, Fields) and node.keys:
        return next(iter(node.keys.values())).span
    return node.span
