"""Builds the node ``tool_call``, whose tool may come from the state; a failure is part of the
result.
"""

from __future__ import annotations

from collections.abc import Mapping

from ....flow.expressions import Constant, NamedArguments
from ....flow.protocols import Expr, Name
from ....flow.step_options import Lookup, Pick
from ....flow.steps import Invoke
from ....text.yaml.nodes import Scalar
from ....values.value import Value
from ...documents import name_at
from ..expressions.reading import Reader
from ..expressions.values import Expression
from ..expressions.written_text import format_value
from ..state import State
from .builder_contract import BuiltNode, FieldValues, NodeSite, WrittenKey
from .call_arguments import complete, whole
from .on_error import Failed
from .step_fields import common


def build_tool_call(reader: Reader, fields: FieldValues, site: NodeSite) -> BuiltNode:
    """The call of a tool whose name may be known only when it runs."""
    written: Scalar | None = fields.get("tool") or fields.get("tool_name")
    tools = site.tools
    if written is None:
        hint = 'tool: "{state.tool}"'
        reader.refuse("graph.missing-key", "tool_call needs 'tool'", site.span, hint)
    name: Expr = reader.template(written)
    if not name.reads():  # without a placeholder it is the name itself
        name = Constant(name.span, name.evaluate({"state": {}}))
    # None: only the run knows the name, so every tool of the graph counts as used.
    fixed = name.value if isinstance(name, Constant) else None
    tools.used.update(tools.spans if fixed is None else (fixed,))
    if fixed in tools.commands:
        message = f"tool_call cannot call the command {fixed!r}: its result will say 'Unknown tool'"
        hint = "write type: tool to run a command"
        reader.warn("graph.tool-call-command", message, name.span, hint)
    args = fields.get("args") or ()
    key = name_at(fields, "state_key", Name("result"))
    result = key.text
    # The name of a command is chosen, too: it is not among the functions, which the result says.
    is_chosen = fixed is None or fixed in tools.commands
    label = name.text if isinstance(name, Expression) else str(fixed)
    step = Invoke(
        **common(site, fields, label),
        kind="tool",
        name=Name(label, name.span),
        args=NamedArguments(complete(args)) if isinstance(args, tuple) else whole(args),
        rescue=None if fields.get("on_error") == "fail" else Failed,
        pick=Pick(name, tools.functions if tools.declared else None) if is_chosen else None,
        lookup=Lookup(files=tools.files) if is_chosen else Lookup(tools.files.get(label)),
    )

    def envelope(state: State, value: Value) -> Mapping[str, Value]:
        return _envelope(name.evaluate({"state": state}), state.get("task"), value)

    keys = (WrittenKey(result, key.span, option="state_key"),)
    if site.inside:
        return BuiltNode(step, envelope, keys, collects=True)
    return BuiltNode(step, lambda state, value: {result: envelope(state, value)}, keys)


def _envelope(tool: Value, task: Value, value: Value) -> Mapping[str, Value]:
    """The result of a tool_call, whether its tool succeeded or not."""
    envelope = {"task_id": task.get("id") if isinstance(task, dict) else None, "tool": tool}
    if not isinstance(value, Failed):
        return {**envelope, "success": True, "result": value, "error": None}
    unknown = value.error.code == "step.not-among"
    message = f"Unknown tool: {format_value(tool)}" if unknown else value.error.text
    return {**envelope, "success": False, "result": None, "error": message}
