"""The table of the kinds of nodes with their builders, and hints for kinds of other tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from ...flow.protocols import Name
from ...text.suggestions import misspelled_names, suggest
from ...text.yaml.nodes import Fields, Node, flow_text, shown
from ..refused import with_refused_arguments
from .expressions.reading import NotBuilt, Reader
from .nodes.builder_contract import BuiltNode, FieldValues, NodeSite
from .nodes.function_nodes import build_python, build_tool
from .nodes.maps import build_map
from .nodes.passthrough import build_passthrough
from .nodes.sessions import build_interrupt, build_router, build_session
from .nodes.subgraph import build_subgraph
from .nodes.tool_call import build_tool_call
from .words import IN_A_MAP, NODES


def build(reader: Reader, node: Node, site: NodeSite) -> BuiltNode | None:
    """The node, built by the builder of its kind; None, after an error, if it cannot be. After other
    errors nothing is known of its arguments."""
    if not isinstance(node, Fields):
        hint = f"{site.name}: {{type: passthrough, output: {{...}}}}"
        reader.error(
            "graph.node-shape", f"a node must be a mapping, got {shown(node)}", node.span, hint
        )
        return None
    before = reader.lost
    kind = _kind(reader, node, site)
    if kind is None:
        return None
    spec = NODES[kind]
    fields = reader.fields(spec, node, site.span)
    count = len(reader.problems)
    is_lost = reader.lost > before
    if is_lost:
        fields = {name: value for name, value in fields.items() if value is not None}
        if any(key.required and name not in fields for name, key in spec.keys.items()):
            return None
    try:
        built = BUILD[kind](reader, fields, site._replace(kind=kind))
    except NotBuilt:
        if is_lost:  # what the builder misses may be what could not be read
            reader.problems.take_back(count)
        return None
    if reader.lost == before:
        return built
    return built._replace(step=with_refused_arguments(built.step))


def _kind(reader: Reader, node: Fields, site: NodeSite) -> str | None:
    """The kind of a node, also if its key is misspelt, or if the kind is the key; None after an
    error. A node without a kind is read as the one that its other keys fit."""
    for word in _AS_KEY if "type" not in node.fields else ():
        if word in node.fields and (_AS_KEY[word] or isinstance(node.fields[word], Fields)):
            _read_kind_as_key(reader, node, word)
            break
    written = node.fields.get("type") or _misspelt_type(node)
    kind = written or Name("llm", site.span)
    allowed = IN_A_MAP if site.inside else NODES
    if kind.text not in allowed:
        where = "in a map" if kind.text in NODES else ""
        message = f"node type {kind.text!r} is not supported {where}".rstrip()
        near = ALIASES.get(kind.text) or suggest(kind.text, allowed, "node types")
        reader.error("graph.node-type", message, kind.span, near)
        return None
    is_bare = written is None and "prompt" not in node.fields
    for key, place in node.keys.items() if is_bare else ():
        fitting = [name for name in allowed if node.fields.keys() <= NODES[name].keys.keys()]
        fitting = fitting or [name for name in allowed if key in NODES[name].keys]
        if fitting and "llm" not in fitting:
            message = f"a node without type is an llm, which has no {key!r}"
            hint = f"add {', or '.join(f'type: {name}' for name in fitting)}"
            reader.error("graph.missing-key", message, place.span, hint)
            if len(fitting) == 1:
                reader.understood()
            return fitting[0]
    return kind.text


def _read_kind_as_key(reader: Reader, node: Fields, word: str) -> None:
    """Report a kind that is written as a key, ``{python: take}`` or ``{python: {tool: take}}``, and
    change the node to what it means, so that it hides nothing (decision D287)."""
    written = node.keys[word]
    value = node.fields[word]
    keys_of_kind = NODES[word].keys
    body = Fields({_AS_KEY[word]: value}, {_AS_KEY[word]: written}, node.whole)
    has_keys = isinstance(value, Fields) and not value.fields.keys().isdisjoint(keys_of_kind)
    if isinstance(value, Fields) and (has_keys or not _AS_KEY[word]):
        body = value
    entries = ", ".join(f"{name}: {flow_text(inner)}" for name, inner in body.fields.items())
    message = f"a node has no key {word!r}: it is a node type"
    reader.error("graph.unknown-key", message, written.span, f"write type: {word}, {entries}")
    reader.understood()
    fields = {name: inner for name, inner in node.fields.items() if name != word}
    keys = {name: key for name, key in node.keys.items() if name != word}
    meant = {"type": written, **body.fields, **fields}
    node.replace_by(Fields(meant, {"type": written, **body.keys, **keys}, node.whole))


def _misspelt_type(node: Fields) -> Node | None:
    known = {name for kind in NODES.values() for name in kind.keys}
    slips = (
        name for name in node.fields if name not in known and misspelled_names([name], ["type"])
    )
    return next(map(node.fields.__getitem__, slips), None)


_AS_KEY: Mapping[str, str] = {
    "python": "tool",
    "tool_call": "tool",
    "llm": "prompt",
    "router": "prompt",
    "subgraph": "graph",
    "interrupt": "message",
    "passthrough": "output",
    "map": "node",
    "tool": "",
    "agent": "",
}
"""The kinds of nodes, each with the key that its value may mean if the kind is the key; empty: only a
mapping of the node's keys may stand there."""

ALIASES: Mapping[str, str] = {
    "function": "write type: python to call a function",
    "shell": "write type: tool, and the command under tools:",
    "prompt": "write type: llm to ask an agent",
    "human": "write type: interrupt to ask a person",
    "set": "write type: passthrough, with output: {key: value}",
    "condition": "write condition: in an edge; a router asks an agent",
}
"""The hints for names that other tools use for a kind of node."""

BUILD: dict[str, Callable[[Reader, FieldValues, NodeSite], BuiltNode]] = {
    "passthrough": build_passthrough,
    "map": partial(build_map, build),
    "tool": build_tool,
    "tool_call": build_tool_call,
    "python": build_python,
    "llm": build_session,
    "agent": build_session,
    "router": build_router,
    "subgraph": build_subgraph,
    "interrupt": build_interrupt,
}
"""The builder of each kind of node: words.py has the keys that the kind may have."""
