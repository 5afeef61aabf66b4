"""Reads the text of a policy in any of its three forms, and checks it against the schema.

``agf.schema.json`` is the table for checks, hints and the reference. Each violation becomes a
problem at its node. An unknown field is never an error (AGF-D2): it is ignored with a warning.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from itertools import chain
from typing import Any, NamedTuple

from ...schemas.json_schema import Violation, judge, schema_violations
from ...schemas.keywords import unnamed
from ...schemas.patterns import unusable_patterns
from ...schemas.unknown_keywords import unknown_keywords
from ...schemas.violations import (
    describe,
    kinds,
    leaves,
    missing,
    place,
    resolve_reference,
    wanted_types,
)
from ...text.diagnostics import Diagnostic, Diagnostics
from ...text.source import Source, Span
from ...text.suggestions import misspelled_names, suggest
from ...text.yaml.nodes import Fields, Node, Scalar, every_node, expr_tags, node_at, plain, shown
from ...text.yaml.reader import Bounds
from ..documents import DocumentProblem, one_document
from .hints import (
    COMPARISON,
    CONDITIONS,
    EQUALS,
    FORMS,
    OLD_NAMES,
    OPERATOR_HINTS,
    OUTPUT_FROM,
    SLIPS,
    condition_hint,
    hint_for,
    missing_hint,
    schema_hint,
)

WHOLE = "the document"
"""The outermost mapping in messages."""
MAJOR = "1"
"""The supported major version in ``schema_version`` (AMB-34)."""
_POLICY = "execution_policy"
_WHOLE = ("schema_version", "metadata")
"""The keys that only a whole document has; with one of them the document must be complete."""


@cache
def schema() -> Mapping[str, Any]:
    """The JSON Schema of a whole document."""
    text = files(__package__).joinpath("agf.schema.json").read_text("utf-8")
    loaded: Mapping[str, Any] = json.loads(text)
    return loaded


_BEGIN = "begin with schema_version:, with execution_policy:, or with id: and config:"
_NO_POLICY = DocumentProblem("policy.no-policy", "there is no policy here", _BEGIN)
_TWO_DOCUMENTS = DocumentProblem(
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
    shape = _shape(root, _check(any(name in root.fields for name in _WHOLE)))
    problems.extend((*shape.errors, *_tagged_nodes(root)))
    # A mistake is reported once: a misspelt field is both an unknown field and a missing field.
    problems.extend(_once(shape, problems))
    _check_version(root, problems)
    problems.extend(_once(_interface(root), problems))
    return root


def _shape(root: Fields, check: Callable[[Any], list[Violation]]) -> Diagnostics:
    """The problems that ``check`` finds. A misspelt key is read as the required one that it means,
    so that it hides nothing (decision D287); so are the fields of a ``config`` that stand beside
    it."""
    shape = Diagnostics()
    understood = set[tuple[str | int, ...]]()
    while True:
        violations = check(plain(root))
        lacks = [
            lack for each in violations for leaf in leaves(each) for lack in _lacks(root, leaf)
        ]
        slips = [lack for lack in lacks if lack.meant is not None]
        if not slips:
            break
        changed = set[int]()
        for lack in slips:
            # Another slip of a mapping is seen in the next round, and an alias of YAML is the same
            # mapping in two places.
            if lack.meant is not None and id(lack.node) not in changed:
                changed.add(id(lack.node))
                shape.add(lack.problem)
                lack.node.replace_by(lack.meant)
            understood.add((*lack.path, lack.name))
    for violation in violations:
        shape.extend(_describe(root, violation, understood))
    return shape


def is_bare(root: Fields) -> bool:
    """Whether the text is a policy alone, ``{id, config}``, which cannot have an action space."""
    return root.span == root.fields[_POLICY].span


@cache
def _check(whole: bool) -> Any:
    """The validator of a document; without metadata only the policy is required (decision B1)."""
    closed = _close(schema())
    return judge(closed if whole else {**closed, "required": [_POLICY]})


def _close(rule: Any) -> Any:
    """``rule``, a part of the schema, so that it finds unknown fields, too."""
    if isinstance(rule, list):
        return [_close(part) for part in rule]
    if not isinstance(rule, Mapping):
        return rule
    closed = {name: _close(part) for name, part in rule.items()}
    # The JSON Schema in an interface may have any field, and the rules of `allOf` describe a part.
    is_mapping = {"description", "properties"} <= rule.keys()
    return {**closed, "additionalProperties": False} if is_mapping else closed


def _whole(node: Node, problems: Diagnostics) -> Fields | None:
    """The whole document of a text; None, after an error, if it is no policy."""
    if not isinstance(node, Fields):
        message = f"a document must be a mapping, got {shown(node)}"
        problems.error("policy.document-shape", message, node.span, _BEGIN)
        return None
    properties = schema()["properties"]
    if _POLICY in node.fields or any(name in node.fields for name in _WHOLE):
        return node
    if "id" in node.fields:
        key = node.keys["id"]._replace(value=_POLICY, text=_POLICY)
        return Fields({_POLICY: node}, {_POLICY: key}, node.span)
    # A misspelt key hides nothing (decision D287).
    meant = {key: name for key in node.keys for name in misspelled_names([key], ("id", _POLICY))}
    first = next(iter(meant or node.keys), "")
    near = suggest(first, (*properties, "id", "config"))
    hint = near or "write execution_policy:, or id: and config: for a policy alone"
    problems.error(
        "policy.document-kind",
        "this is neither a document nor a policy",
        node.keys[first].span if first in node.keys else node.span,
        hint,
    )
    return _whole(node.renamed(first, meant[first]), problems) if meant else None


def _once(findings: Iterable[Diagnostic], before: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    """The problems at places without an earlier problem: a mistake is reported once."""
    reported = {finding.span for finding in before}
    return (finding for finding in findings if finding.span not in reported)


def _tagged_nodes(root: Fields) -> Iterator[Diagnostic]:
    hint = "use a path in an input_mapping or in a condition"
    return (
        Diagnostic("policy.schema", "a policy has no !expr", node.span, hint)
        for node in expr_tags(root)
    )


def _describe(
    root: Fields, violation: Violation, understood: Container[tuple[str | int, ...]]
) -> Iterator[Diagnostic]:
    """The problems of a violation of the schema of documents. ``understood``: the places of
    misspelt keys, whose values may be meant for something else."""
    node, key = node_at(root, violation.path)
    is_selection = violation.path[-1:] == ("output_from",)
    if is_selection and isinstance(node, Fields) and (problem := _selection(node)):
        yield Diagnostic("policy.schema", problem, key or node.span, OUTPUT_FROM)
        return
    for leaf in leaves(violation):
        if leaf.path not in understood or leaf.keyword in ("required", "additionalProperties"):
            yield from _leaf(root, leaf)


def _leaf(root: Fields, violation: Violation) -> Iterator[Diagnostic]:
    """The problems of a violation that has no others in it."""
    node, _ = node_at(root, violation.path)
    if isinstance(node, Fields) and violation.keyword == "required":
        yield from (lack.problem for lack in _lacks(root, violation))
    elif isinstance(node, Fields) and violation.keyword == "additionalProperties":
        names = unnamed(violation.found, violation.rule)
        required = violation.rule.get("required", ())
        explained = (name not in node.fields and missing_hint(name, names) for name in required)
        # The hint of a missing field may say how to write the others.
        for name in () if any(explained) else names:
            yield _unknown(root, node, violation, name)
    else:
        last = violation.path[-1] if violation.path else WHOLE
        subject = repr(last) if isinstance(last, str) else place(violation.path)
        problem = describe(violation)
        if violation.keyword in ("type", "anyOf", "oneOf") and (types := wanted_types(violation)):
            allowed = "a path" if "input_mapping" in violation.path[:-1] else kinds(types)
            problem = f"must be {allowed.replace('an object', 'a mapping')}, got {shown(node)}"
        elif violation.keyword == "pattern":
            problem = f"must have {violation.rule['$comment']}, got {shown(node)}"
        span = _span_at(root, violation)
        hint = hint_for(violation, node)
        yield Diagnostic("policy.schema", f"{subject} {problem}", span, hint)


class _Lack(NamedTuple):
    """A required field that a mapping lacks."""

    path: tuple[str | int, ...]
    """The place of the mapping."""
    node: Fields
    name: str
    problem: Diagnostic
    meant: Fields | None
    """The mapping with the field, if it is clear what its author means."""


def _lacks(root: Fields, violation: Violation) -> Iterator[_Lack]:
    """The fields that a mapping lacks, if the violation is about them."""
    node, key = node_at(root, violation.path)
    if isinstance(node, Fields) and violation.keyword == "required":
        for name in missing(violation):
            yield _lack(violation, name, node, key)


def _lack(violation: Violation, name: str, node: Fields, key: Span | None) -> _Lack:
    """The lack of the field ``name`` in ``node``, the value of ``key``."""
    owner = place(violation.path) or WHOLE
    properties = violation.rule.get("properties", {})
    unknown = [other for other in node.fields if other not in properties]
    slip = next(
        (other for other in unknown if other in SLIPS.get(name, ()) or suggest(other, [name])), ""
    )
    rule = properties.get(name, {})
    about = rule.get("description") or resolve_reference(schema(), rule).get("description")
    value = node.text_at(slip)
    if name in CONDITIONS and COMPARISON.fullmatch(value):
        hint = condition_hint((*violation.path, name), value)
    elif slip:
        hint = f"did you mean {name}?"
    else:
        hint = missing_hint(name, unknown) or FORMS.get(name) or f"{name}: {about}"
    span = node.keys[slip].span if slip else key or (node.span if owner != WHOLE else node.head)
    problem = Diagnostic("policy.schema", f"{owner} has no {name!r}", span, hint)
    meant = None
    if slip:
        meant = node.renamed(slip, name)
    elif name == "config" and unknown:
        meant = node.gathered(unknown, name)
    return _Lack(violation.path, node, name, problem, meant)


def _selection(node: Fields) -> str | None:
    """The message if an ``output_from`` does not select in exactly one way (AGF-41)."""
    ways = [name for name in ("agent", "strategy", "custom_transform") if name in node.fields]
    if len(ways) == 1:
        return None
    reason = f"has {' and '.join(ways)}" if ways else "has none of them"
    return (
        f"output_from must have exactly one of agent, strategy and custom_transform; this one "
        f"{reason}"
    )


def _unknown_matcher(node: Fields, violation: Violation, name: str) -> Diagnostic:
    value = node.fields[name]
    hint = OPERATOR_HINTS.get(name) or suggest(name, violation.rule["properties"], "matchers")
    if name in EQUALS and isinstance(value, Scalar):
        hint = f"write the value without a matcher: {violation.path[-1]}: {value.span.text}"
    return Diagnostic("policy.schema", f"unknown matcher {name!r}", node.keys[name].span, hint)


def _unknown(root: Fields, node: Fields, violation: Violation, name: str) -> Diagnostic:
    """The problem of an unknown field, which is ignored, or of an unknown matcher."""
    value = node.fields[name]
    fields = violation.rule["properties"]
    if "args_match" in violation.path[-2:-1]:
        return _unknown_matcher(node, violation, name)
    slip = [right for right in fields.keys() - node.fields if name in SLIPS.get(right, ())]
    id = root.inner(_POLICY).text_at("id") if violation.path[-1:] == ("config",) else None
    hint = OLD_NAMES.get((name, id)) or (
        f"did you mean {slip[0]}?" if slip else suggest(name, fields, "its fields", node.fields)
    )
    if not value.text and value.value is None:
        hint = f'quote a text with a comma: "…, {name}"'
    message = f"{place(violation.path) or WHOLE} has no field {name!r}: it is ignored"
    return Diagnostic("policy.unknown-field", message, node.keys[name].span, hint, "warning")


def _check_version(root: Fields, problems: Diagnostics) -> None:
    version = root.scalar("schema_version")
    match = version and re.fullmatch(r"0*+([0-9]*)\.[0-9]+\.[0-9]+", version.text)
    if version and match and match[1] != MAJOR:
        message = f"version {version.text} of the format is not supported"
        hint = f'write "{MAJOR}.0.0": the format has version {MAJOR}.x'
        problems.error("policy.schema-version", message, version.span, hint)


def _interface(root: Fields) -> Iterator[Diagnostic]:
    """The problems of the JSON Schemas of the interface."""
    for node in map(root.inner("interface").inner, ("input", "output")):
        for violation in chain(*map(leaves, schema_violations(plain(node)))):
            message = f"invalid JSON Schema: {place(violation.path)} {describe(violation)}"
            hint = schema_hint(violation)
            yield Diagnostic("policy.interface", message, _span_at(node, violation), hint)
        for inner in every_node(node):
            yield from _remote(inner)
        yield from unusable_patterns("policy.interface", node, plain(node))
        yield from _unknown_keywords(node)


def _span_at(root: Node, violation: Violation) -> Span:
    """The place of a value, or of its key if the value has no text."""
    node, key = node_at(root, violation.path)
    return node.span if node.span.text or not key else key


def _unknown_keywords(node: Node) -> Iterator[Diagnostic]:
    """Problems that JSON Schema ignores: a schema that lists its fields at the top, and misspelled
    keywords."""
    for path, word, hint in unknown_keywords(plain(node)):
        mapping, _ = node_at(node, path)
        assert isinstance(mapping, Fields), "it has a key"
        message = f"{word!r} is not a keyword of JSON Schema"
        if hint is None:
            message = f"{message}, so this schema accepts everything"
            hint = f"list fields under properties: {{properties: {{{word}: {{type: string}}}}}}"
        yield Diagnostic("policy.unknown-field", message, mapping.keys[word].span, hint, "warning")


def _remote(node: Node) -> Iterator[Diagnostic]:
    """An error of a reference to another document, which JSON Schema itself does not report."""
    refers = node.scalar("$ref") if isinstance(node, Fields) else None
    if refers and not refers.text.startswith("#"):
        message = f"cannot load {refers.text!r}: a schema may only refer to its own document"
        hint = "write the schema here, or under $defs: $ref: '#/$defs/NAME'"
        yield Diagnostic("policy.interface", message, refers.span, hint)
