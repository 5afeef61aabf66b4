"""The table of the kinds of nodes with their builders, and hints for kinds of other tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from ...flow.protocols import Name
from ...text.suggestions import misspelled_names, suggest
from ...text.yaml.nodes import Fields, Node, shown
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
    kind = _kind(reader, node, site)
    if kind is None:
        return None
    spec = NODES[kind]
    before = reader.lost
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
    """The kind of a node, also if its key is misspelt; None after an error."""
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
            return None
    return kind.text


def _misspelt_type(node: Fields) -> Node | None:
    known = {name for kind in NODES.values() for name in kind.keys}
    slips = (
        name for name in node.fields if name not in known and misspelled_names([name], ["type"])
    )
    return next(map(node.fields.__getitem__, slips), None)


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
