"""Reads the values of a plan's document: texts that begin like a reference are references, all
others are text.

The kinds of value that a key of a plan may take: one row each with its phrase, example, JSON
Schema and reader.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar, Final, Literal, NamedTuple

from ...flow.patterns import SYNTAX, fault_span, pattern_faults
from ...flow.values import Value
from ...text.diagnostics import DefinitionError, Diagnostics, Source, Span, join_hints, suggest
from ...text.nodes import Fields, Items, Node, Scalar, plain, read_scalars, shown
from .. import documents
from ..documents import (
    ANYTHING,
    S_NAME,
    S_NAMES,
    S_TEXT,
    Key,
    Kind,
    Takes,
    choice,
    kind,
    mapping_of,
    read_node,
    reference,
)
from .messages import METHOD_SLIPS, METHODS, plain_message
from .reference import DAGGER, KIND, canonical, parse

KINDS: Final = frozenset({"state", "input", "data", "output", "error"})
"""The kinds that ``$`` may precede in addition to those of the document's own messages."""

_LONGEST = 200
"""The most characters of a text that may be a whole reference without its sign."""

_PATH = re.compile(r"(?<![\w.'\"†$-])([A-Za-z_][A-Za-z0-9_-]*)\.([^\s.|&()\[\]'\"†{}]+)")
_BEGINS = re.compile(r"[\s(]*([†$])([†$]?)([A-Za-z_][A-Za-z0-9_-]*)?")
_NAMES = rf"({KIND.pattern})\.([^\s.|&()\[\]'\"†{{}}]++)([^\s|&()'\"†{{}}]*+)"
_PART = re.compile(rf"(?:\{{\s*+[†$]?+|[†$]){_NAMES}(?>(?:\s*+\}}{{1,2}})?)")
_COMPUTES = re.compile(rf"(?<!\S){_NAMES}\s++(?:[-+*/%<>]|[=!<>]=)\s")
_UNKNOWN = re.compile(rf"\s*+\$({KIND.pattern})((?>(?:\.[^\s.|&()\[\]]++)*))\s*+(?=\Z|\[|\|\||&&)")
"""A whole reference, or the first one of a fallback."""
_FOREIGN = re.compile(r"\s*\$?\{\{[^{}]*\}\}\s*|\s*\$\{[^{}]*\}\s*")
"""A variable in the notation of GitHub Actions, of Jinja or of a shell."""
_PUNCTUATION = ".,;:!?"


class Suspect(NamedTuple):
    """A text that may be meant as a reference."""

    reference: str
    """As it should be written."""
    kind: str
    first: str
    """The first part of its path."""
    form: Literal["whole", "part", "computed", "kind"]
    """Whether the text is nothing else, contains other text, is an arithmetic expression, or begins
    with a sign and a kind that does not exist."""
    marked: bool
    """Whether it has braces or a sign, or is in the output: ``input.word`` may be the name of a
    file, and ``$HOME`` a text."""
    text: str
    span: Span


class Reader(documents.Reader):
    """The state of one loading: its problems, and what the document declares."""

    layer = "plan"
    slips: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **dict.fromkeys(("steps", "nodes", "tasks", "plan"), ("calls",)),
        **dict.fromkeys(
            ("_outputs", "_out", "_result", "_save", "_store", "_path", "_to"), ("_outputPath",)
        ),
    }
    advice: ClassVar[Mapping[str, str]] = {
        "id": "a call is known by its result: _outputPath: †state.x, which others read as †state.x",
        "order": "a call waits for the values that it reads: pass a result as an argument, "
        "†state.x",
        "condition": "a plan has no conditions and loops; a pipeline or a graph has: name it in "
        "_tool",
        "loop": "a plan has no conditions and loops; a pipeline or a graph has: name it in _tool",
        "retries": "a tool has it where it is registered: @tool(retry=agf.Retry(NUMBER))",
        "timeout": "a tool has it where it is registered: @tool(timeout=NUMBER)",
        "latent": "write --latent TOOL in the line of the cell, or declare it in tools:",
        "args": "the arguments are keys of the call itself: {_tool: measure, word: pear}",
        "confirm": "confirm: [TOOL] stands beside calls:",
        "environment": "a value comes from the input: --set NAME=$name, read as †input.NAME",
    }

    def __init__(self, problems: Diagnostics, sign: str, latent: Collection[str] = ()) -> None:
        super().__init__(problems)
        self.sign = sign
        """The sign of references in hints: the one that the document uses."""
        self.latent = frozenset(latent)
        """Tools that are declared latent outside of the document."""
        self.kinds: Collection[str] = KINDS
        self.tools: dict[str, Mapping[str, Value]] = {}
        self.suspects: list[Suspect] = []

    def missing(self, kind: Kind, key: Key, span: Span | None) -> None:
        hint = key.example.replace(DAGGER, self.sign)
        self.error("plan.missing-key", f"{kind.name} needs {key.name!r}", span, hint)

    def refuse_tag(self, node: Scalar, key: Key | None = None) -> None:
        hint = f"write the reference alone: {self.sign}state.x"
        self.error("plan.expr-tag", "a plan has no !expr", node.span, hint)

    def template(self, node: Node) -> Any:
        """A JSON value that may contain expressions."""
        return read_scalars(node, self.expression)

    def expression(self, node: Scalar) -> Any:
        """An expression, or any other scalar as its value."""
        if node.is_expr:
            self.refuse_tag(node)
            return None
        if type(node.value) is not str:
            return node.value
        begins = self.begins(node.text)
        if begins == "literal":
            double = DAGGER * 2 if DAGGER * 2 in node.text else "$$"
            return node.text.replace(double, double[0], 1)
        if begins == "text":
            self.suspects += _suspects(node, self.kinds, self.sign)
            return node.text
        try:
            return parse(node)
        except DefinitionError as error:
            self.problems.extend(
                replace(found, hint=_hint(found.hint, node.text)) for found in error.diagnostics
            )
            return None

    def begins(self, text: str) -> str:
        """Whether a text is a ``reference``, a ``literal`` that escapes one, or any other
        ``text``."""
        found = _BEGINS.match(text)
        if not found:
            return "text"
        sign, again, kind = found.groups()
        if sign == DAGGER:
            return "literal" if again == DAGGER else "reference"
        if kind not in self.kinds:
            return "text"
        return "literal" if again == "$" else "reference" if not again else "text"

    def authored(self, node: Node) -> Value:
        """A value as its author wrote it, with † for $."""
        return read_scalars(node, self._authored)

    def _authored(self, node: Scalar) -> Value:
        if type(node.value) is str and "$" in node.text and self.begins(node.text) == "reference":
            with suppress(DefinitionError):  # `template` reports it
                return canonical(node)
        return node.value


def _suspects(node: Scalar, kinds: Collection[str], sign: str) -> Iterator[Suspect]:
    """What in a text may be meant as a reference (decision P21)."""
    text = node.text
    if unknown := _UNKNOWN.match(text):
        kind, path = unknown.groups()
        span = node.locate(unknown.start(1) - 1, unknown.end(2))
        yield Suspect(f"{kind}{path}", kind, path, "kind", bool(path), text, span)
        return
    inner = text.strip()
    braces = inner.startswith(("{", "${")) and inner.endswith("}")
    inner = inner.strip("${} \t\n").lstrip(DAGGER) if braces else text
    found = _PATH.search(inner) if 2 < len(inner) <= _LONGEST else None
    if found is not None and found[1] in kinds and not inner[: found.start()].strip("( "):
        reference = _PATH.sub(rf"{re.escape(sign)}\g<0>".replace("\\$", "$"), inner)
        with suppress(DefinitionError):
            parse(Source("", reference).span())
            yield Suspect(reference, found[1], found[2], "whole", braces, text, node.span)
            return
    if found is not None and found[1] not in kinds and _FOREIGN.fullmatch(text):
        yield Suspect(inner, found[1], found[2], "kind", True, text, node.locate(0, len(text)))
        return
    computed = _COMPUTES.match(text)
    for part in (computed,) if computed else _PART.finditer(text):
        if part[1] in kinds:
            path, first = (part[2] + part[3]).rstrip(_PUNCTUATION), part[2].rstrip(_PUNCTUATION)
            span = node.locate(part.start(), part.end(3) if computed else part.end())
            form: Literal["part", "computed"] = "computed" if computed else "part"
            yield Suspect(f"{sign}{part[1]}.{path}", part[1], first, form, not computed, text, span)


def _hint(hint: str | None, text: str) -> str | None:
    """A hint, and for a sentence how to write text that begins with a sign."""
    if not re.search(r"\s", text.strip()) or re.search(r"[|&]|^\s*[†$]\S+\s+[-+*/%<>=!]", text):
        return hint
    start = text.strip()[:20]
    return join_hints(hint, f"double the sign of a text that begins with one: {start[:1]}{start}…")


_Message = Mapping[str, Value]

INSTANCE = kind(
    "an instance",
    "The first values of an instance.",
    *(Key(name, ANYTHING) for name in ("input", "state", "data")),
)

_CIRCLED = [*range(0x2460, 0x2474), *range(0x3251, 0x3260), *range(0x32B1, 0x32C0)]


def instance_names(count: int) -> list[str]:
    """Names for ``count`` instances without names: ①, ② … ㊿, then i51, because a bare number is an
    index.

    >>> instance_names(52)[::17]
    ['①', '⑱', '㉟', 'i52']
    """
    return [chr(_CIRCLED[i]) if i < len(_CIRCLED) else f"i{i + 1}" for i in range(count)]


def _messages(reader: Reader, node: Node, key: Key) -> list[_Message]:
    found: list[_Message] = []
    for item in reader.elements(node, key):
        if isinstance(item, Fields):
            found.append(plain(item))
        else:
            reader.error(
                "plan.wrong-type", f"a message must be a mapping, got {shown(item)}", item.span
            )
    return found


def _instances(reader: Reader, node: Node, key: Key) -> list[_Message]:
    if isinstance(node, Items):
        named = list(zip(instance_names(len(node.items)), node.items, strict=True))
    elif isinstance(node, Fields):
        named = list(node.fields.items())
    else:
        reader.wrong_type(node, key)
        return []
    return [
        message for name, content in named for message in _instance_messages(reader, name, content)
    ]


def _instance_messages(reader: Reader, name: str, content: Node) -> Iterator[_Message]:
    if not name.strip():
        reader.error(
            "plan.instance",
            "the name of an instance cannot be blank",
            content.span,
            "①, ② or any text",
        )
    if not isinstance(content, Fields):
        message = f"an instance must be a mapping, got {shown(content)}"
        reader.error("plan.wrong-type", message, content.span, "for example {state: {text: Hello}}")
        return
    for own, value in reader.fields(INSTANCE, content, content.span).items():
        yield plain_message(own, value, name)


def _tools(reader: Reader, node: Node, key: Key) -> dict[str, Mapping[str, Value]]:
    tools: dict[str, Mapping[str, Value]] = {}
    for name, schema in reader.entries(reader.mapping(node, key)):
        if schema.value is None:
            tools[name.text] = {}
        elif isinstance(schema, Fields):
            tools[name.text] = plain(schema)
            whole = schema
            if "properties" not in schema.fields:  # it is its properties alone
                whole = Fields({"properties": schema}, {"properties": name}, schema.whole)
            for fault in pattern_faults(plain(whole)):
                tools[name.text] = {}  # a schema that cannot be used refuses no path
                message = f"the pattern cannot be used: {fault.error}"
                reader.error("plan.bad-pattern", message, fault_span(whole, fault), SYNTAX)
        else:
            message = f"the schema of a tool must be a mapping, got {shown(schema)}"
            hint = f"{name.text}: {{}} declares it without a schema"
            reader.error("plan.wrong-type", message, schema.span, hint)
    return tools


def _confirm(reader: Reader, node: Node, key: Key) -> bool | dict[str, Span] | None:
    """Whether a person approves every call, or the tools whose calls a person approves."""
    if type(node.value) is bool:
        return node.value
    if isinstance(node, Items) and all(type(one.value) is str for one in node.items):
        return {one.text: one.span for one in node.items}
    reader.wrong_type(node, key)
    return None


def _activity(reader: Reader, node: Node, key: Key) -> str | None:
    if node.value == "":
        return ""
    name = reader.name(node, key)
    return name.text if name else None


def _method(reader: Reader, node: Node, key: Key) -> str | None:
    if not isinstance(node, Scalar):
        reader.wrong_type(node, key)
    elif node.text in METHODS:
        return node.text
    else:
        meant = METHOD_SLIPS.get(node.text)
        hint = f"did you mean {meant}?" if meant else suggest(node.text, METHODS, "methods")
        reader.error("plan.unknown-method", f"unknown method {node.text!r}", node.span, hint)
    return None


def _instance(reader: Reader, node: Node, key: Key) -> tuple[str | None, bool]:
    """The instance, and whether the call is made once for all instances."""
    if node.value is None:
        return None, True
    if node.text.strip() not in ("", "*"):
        return node.text, False
    reader.wrong_type(node, key, "use any text; null makes the call once, for all instances")
    return None, False


def _scopes(reader: Reader, node: Node, key: Key) -> tuple[str, ...]:
    kinds = []
    for item in reader.elements(node, key):
        found = KIND.match(item.text.lstrip("†$"))
        if found is None:
            message = f"a scope must be a kind of messages, got {shown(item)}"
            reader.error("plan.bad-call", message, item.span, "_scopes: [state, input]")
        else:
            kinds.append(found[0])
    return tuple(kinds)


CALLS = Takes(
    "a list of calls",
    "[{_tool: fetch, _outputPath: †state.page}]",
    {"type": "array", "items": reference("call")},
    Reader.items,
)
MESSAGES = Takes(
    "a list of messages",
    "[{type: data, data: {n: 1}}]",
    {"type": "array", "items": {"type": "object"}},
    _messages,
)
INSTANCES = Takes(
    "a list or a mapping of instances, each with input, state and data",
    "{①: {state: {text: Hello}}}",
    {
        "type": ["object", "array"],
        "additionalProperties": reference("instance"),
        "items": reference("instance"),
    },
    _instances,
)
TOOLS = Takes(
    "a mapping of tool names to schemas",
    "{think: {}}",
    mapping_of({"type": ["object", "null"]}),
    _tools,
)
VALUE = Takes("any value, with references", "†state.page", {}, read_node, null=True)
MODE = choice("eager or lazy", "eager", "lazy")
CONFIRM = Takes(
    "true, false or a list of tools", "[send]", {"anyOf": [{"type": "boolean"}, S_NAMES]}, _confirm
)

PATH = Takes(
    "an output path",
    "†state.result",
    {**S_TEXT, "pattern": r"^\s*[(\s]*[†$]"},
    read_node,
    null=True,
)
METHOD = Takes("a method", "set", {"enum": list(METHODS)}, _method)
INSTANCE_NAME = Takes(
    "the name of an instance, or null",
    "①",
    {"anyOf": [S_NAME, {"type": "null"}]},
    _instance,
    null=True,
)
SCOPES = Takes("a list of kinds", "[state]", S_NAMES, _scopes)
ACTIVITY = Takes("a name, or an empty text", "fetch", S_TEXT, _activity)
REASON = Takes("a text", "the page is needed", S_TEXT, read_node, null=True)
