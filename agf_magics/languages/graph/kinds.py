"""The kinds of node: the table of their builders."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...text.diagnostics import suggest
from ...text.yamlnodes import Fields, Node, Scalar, shown
from .maps import build_map
from .nodes import (
    Built,
    Given,
    Here,
    build_interrupt,
    build_passthrough,
    build_python,
    build_subgraph,
    build_tool,
)
from .reading import Reader
from .sessions import build_router, build_session, build_written_question
from .tool_call import build_tool_call
from .words import NODES, NOT_IN_A_MAP


def build(reader: Reader, node: Node, here: Here) -> Built | None:
    """The node, or None after an error."""
    if not isinstance(node, Fields):
        hint = f"{here.name}: {{type: passthrough, output: {{...}}}}"
        reader.error(
            "graph.node-shape", f"a node must be a mapping, got {shown(node)}", node.span, hint
        )
        return None
    kind = node.fields.get("type")
    name = kind.text if isinstance(kind, Scalar) else "llm"
    allowed = [each for each in NODES if not here.inside or each not in NOT_IN_A_MAP]
    if name not in allowed or (kind is not None and not isinstance(kind, Scalar)):
        place = kind.span if kind is not None else here.span
        where = "in a map" if name in NODES else ""
        message = f"node type {name!r} is not supported {where}".rstrip()
        near = ALIASES.get(name) or suggest(name, allowed, "node types")
        reader.error("graph.node-type", message, place, near)
        return None
    before = reader.error_count
    if kind is None and "prompt" not in node.fields:
        for key in node.keys.keys() - NODES[name].keys.keys():
            others = [each for each in allowed if key in NODES[each].keys]
            if others:
                message = f"a node without type is an {name}, which has no {key!r}"
                reader.error(
                    "graph.missing-key",
                    message,
                    node.keys[key].span,
                    f"add type: {' or '.join(others)}",
                )
                return None
    given = reader.fields(NODES[name], node, here.span)
    built = (
        BUILD[name](reader, given, here._replace(kind=name))
        if reader.error_count == before
        else None
    )
    return built if reader.error_count == before else None


ALIASES: Mapping[str, str] = {
    "function": "write type: python to call a function",
    "shell": "write type: tool, and the command under tools:",
    "prompt": "write type: llm to ask an agent",
    "human": "write type: interrupt to ask a person",
    "set": "write type: passthrough, with output: {key: value}",
    "condition": "write condition: in an edge; a router asks an agent",
}
"""Names that other tools use for a kind of node."""

BUILD: dict[str, Callable[[Reader, Given, Here], Built | None]] = {
    "passthrough": build_passthrough,
    "map": lambda reader, given, here: build_map(reader, given, here, build),
    "tool": build_tool,
    "tool_call": build_tool_call,
    "python": build_python,
    "llm": build_session,
    "agent": build_session,
    "router": build_router,
    "subgraph": build_subgraph,
    "interrupt": lambda reader, given, here: build_interrupt(
        reader, given, here, build_written_question
    ),
}
