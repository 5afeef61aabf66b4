"""Describes a flow as a tool of an MCP server: name, description, schemas of input and output."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ...flow.flow import Flow
from ...text.diagnostics import DefinitionError, Diagnostic
from ...values.value import Value

NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""The pattern of tool names that MCP allows."""

INPUT = "input"
"""The field for an input that is no object, because MCP needs objects."""
RESULT = "result"
"""The field for an output that is no object."""

Schema = dict[str, Any]


class FlowTool(NamedTuple):
    """The description of a flow for a client."""

    name: str
    description: str
    accepts: Schema
    """The schema of the arguments, which is an object."""
    gives: Schema | None
    """The schema of the result as an object; None: it cannot be wrapped into an object."""
    has_whole_input: bool
    """Whether the argument `INPUT` has the input, because the input is no object."""
    has_whole_result: bool
    """Whether the field `RESULT` has the output, because it is not declared as an object."""

    def input_of(self, arguments: Mapping[str, Value]) -> Value:
        """The input of a run with these arguments."""
        return arguments.get(INPUT) if self.has_whole_input else dict(arguments)

    def structured(self, output: Value) -> dict[str, Value]:
        """The output, which is JSON, as an object."""
        return {RESULT: output} if self.has_whole_result or type(output) is not dict else output


def flow_tool(flow: Flow) -> FlowTool:
    """The tool that runs ``flow``. For an undeclared output, the schema tells only the field,
    because an inferred schema may be too narrow."""
    declared = flow.declared
    accepts, is_whole = _as_object(declared.accepts, INPUT)
    gives, is_wrapped = _as_object({} if declared.gives is None else declared.gives, RESULT)
    about = declared.description or f"Run the {flow.language} {flow.name!r} and return its output."
    return FlowTool(
        flow.name,
        about,
        accepts if accepts is not None else _read_names(flow),
        gives,
        is_whole,
        is_wrapped,
    )


def flow_tools(flows: Iterable[Flow], reserved: Iterable[str]) -> dict[str, FlowTool]:
    """The tools of ``flows``, by name. Raises DefinitionError ``mcp.serve-name`` for names that MCP
    does not allow, or that other tools of the server have."""
    reserved = frozenset(reserved)
    wrong = list[Diagnostic]()
    flows = list(flows)
    counts = Counter(flow.name for flow in flows)
    tools = {flow.name: flow_tool(flow) for flow in flows}
    for name in tools:
        why = ""
        if counts[name] > 1:
            why = "another flow that is served has this name"
        elif name in reserved:
            why = "the server has a tool of its own with this name"
        elif not NAME.fullmatch(name):
            why = "the name of a tool has 1 to 64 letters a to z, digits, and _ . -"
        if why:
            message = f"the flow {name!r} cannot be served under its name"
            wrong.append(Diagnostic("mcp.serve-name", message, hint=f"rename it: {why}"))
    if wrong:
        raise DefinitionError(*wrong)
    return tools


def _read_names(flow: Flow) -> Schema:
    """The schema of the names that a flow without a declared input reads. Names that it always
    reads are required."""
    names = dict[str, bool]()
    for ref in flow.inputs:
        name = str(ref.path[-1])
        names[name] = names.get(name, False) or ref.certain
    required = [name for name, is_certain in names.items() if is_certain]
    schema: Schema = {"type": "object", "properties": {name: {} for name in names}}
    return {**schema, "required": required} if required else schema


def _as_object(schema: Mapping[str, Any] | None, name: str) -> tuple[Schema | None, bool]:
    """A schema as the schema of an object, and whether the value is wrapped in a field ``name`` of
    that object."""
    if schema is None:
        return None, False
    if schema.get("type") == "object":
        return dict(schema), False
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    if _refers_to_its_root(inner):  # the reference would point at the outer object
        return None, True
    around: Schema = {"type": "object", "properties": {name: inner}, "required": [name]}
    if "$defs" in schema:
        around["$defs"] = schema["$defs"]
    return around, True


def _refers_to_its_root(schema: Schema) -> bool:
    return re.search(r'"\$ref": "#(?!/\$defs/)', json.dumps(schema)) is not None
