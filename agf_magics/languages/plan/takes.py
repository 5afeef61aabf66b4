"""The kinds of values that the keys of a plan may have: phrase, example, JSON Schema, reader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...schemas.patterns import SYNTAX, fault_span, pattern_faults
from ...text.source import Span
from ...text.suggestions import suggest
from ...text.yaml.nodes import Fields, Items, Node, Scalar, plain, shown
from ...values.value import Value
from ..documents import ANYTHING, choice, read_node
from ..key_schemas import S_NAME, S_NAMES, S_TEXT, mapping_of, reference
from ..keys import Key, Takes, mapping_spec
from .log.messages import METHOD_SLIPS, METHODS, plain_message
from .log.reference import KIND
from .reader import Reader

_Message = Mapping[str, Value]

INSTANCE = mapping_spec(
    "an instance",
    "The first values of an instance.",
    *(Key(name, ANYTHING) for name in ("input", "state", "data")),
)

# The code points of ① to ⑳, ㉑ to ㉟ and ㊱ to ㊿.
_CIRCLED = [*range(0x2460, 0x2474), *range(0x3251, 0x3260), *range(0x32B1, 0x32C0)]


def instance_names(count: int) -> list[str]:
    """Names for ``count`` instances without names: ①, ② … ㊿, then i51, because a bare number is an
    index.

    >>> instance_names(52)[::17]
    ['①', '⑱', '㉟', 'i52']
    """
    return [chr(_CIRCLED[i]) if i < len(_CIRCLED) else f"i{i + 1}" for i in range(count)]


def _messages(reader: Reader, node: Node, key: Key) -> list[_Message]:
    messages: list[_Message] = []
    for item in reader.each_item(node, key):
        if isinstance(item, Fields):
            messages.append(plain(item))
        else:
            reader.error(
                "plan.wrong-type", f"a message must be a mapping, got {shown(item)}", item.span
            )
    return messages


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
    fields = reader.fields(INSTANCE, content, content.span)
    for word, value in fields.items():
        yield plain_message(word, value, name)
    # An instance exists by a message of its own; otherwise no call would be made for it.
    if fields.keys().isdisjoint(("state", "input")):
        yield plain_message("state", {}, name)


def _tools(reader: Reader, node: Node, key: Key) -> dict[str, Mapping[str, Value]]:
    tools: dict[str, Mapping[str, Value]] = {}
    for name, schema in reader.named_entries(reader.mapping(node, key)):
        if schema.value is None:
            tools[name.text] = {}
        elif isinstance(schema, Fields):
            tools[name.text] = plain(schema)
            whole = schema
            if "properties" not in schema.fields:  # only its properties count
                whole = Fields({"properties": schema}, {"properties": name}, schema.whole)
            for fault in pattern_faults(plain(whole)):
                tools[name.text] = {}  # with an unusable schema, every path is allowed
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
    if isinstance(node, Items) and all(type(item.value) is str for item in node.items):
        return {item.text: item.span for item in node.items}
    reader.wrong_type(node, key)
    return None


def _activity(reader: Reader, node: Node, key: Key) -> str | None:
    """The tool that is called in place of ``_tool``; empty: the call is latent."""
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
    for item in reader.each_item(node, key):
        match = KIND.match(item.text.lstrip("†$"))
        if match is None:
            message = f"a scope must be a kind of messages, got {shown(item)}"
            reader.error("plan.bad-call", message, item.span, "_scopes: [state, input]")
        else:
            kinds.append(match[0])
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
