"""``tool_call``: a tool whose name and arguments may come from the state; a failure is part of its
result."""

from __future__ import annotations

from collections.abc import Mapping

from ...flow.frame import Expr
from ...flow.steps import Invoke, Name
from ...flow.values import Value
from .calls import Named, Whole, complete
from .lookup import format_value
from .nodes import Built, Given, Here, Written, common
from .reading import Constant, Reader
from .state import Failed, State
from .value import Expression


def build_tool_call(reader: Reader, given: Given, here: Here) -> Built | None:
    name, tools = _tool_name(given), here.tools
    if name is None:
        reader.error(
            "graph.missing-key", "tool_call needs 'tool'", here.span, 'tool: "{state.tool}"'
        )
        return None
    fixed = name.value if isinstance(name, Constant) else None
    tools.used.update(tools.spans if fixed is None else (fixed,))
    if fixed in tools.commands:
        message, hint = (
            f"tool_call cannot call the command {fixed!r}",
            "write type: tool to run a command",
        )
        reader.warn(
            "graph.tool-call-command",
            f"{message}: its result will say 'Unknown tool'",
            name.span,
            hint,
        )
    args = given.get("args") or ()
    key: Name | None = given.get("state_key")
    result = key.text if key else "result"
    chosen = fixed is None or fixed in tools.commands
    label = name.text if isinstance(name, Expression) else str(fixed)
    step = Invoke(
        **common(here, given, label),
        kind="tool",
        name=Name(label, name.span),
        args=Named(complete(args)) if isinstance(args, tuple) else Whole(args),
        rescue=None if given.get("on_error") == "fail" else Failed,
        **(
            {
                "among": tools.functions if tools.declared else None,
                "pick": name,
                "files": tools.files,
            }
            if chosen
            else {"file": tools.files.get(label)}
        ),
    )

    def envelope(state: State, value: Value) -> Mapping[str, Value]:
        return _envelope(name.evaluate({"state": state}), state.get("task"), value)

    keys = (Written(result, key.span if key else None),)
    if here.inside:
        return Built(step, envelope, keys, collects=True)
    return Built(step, lambda state, value: {result: envelope(state, value)}, keys)


def _envelope(tool: Value, task: Value, value: Value) -> Mapping[str, Value]:
    """The result of a tool_call, whether its tool succeeded or not."""
    made = {"task_id": task.get("id") if isinstance(task, dict) else None, "tool": tool}
    if not isinstance(value, Failed):
        return {**made, "success": True, "result": value, "error": None}
    unknown = value.error.code == "step.not-among"
    message = f"Unknown tool: {format_value(tool)}" if unknown else value.message
    return {**made, "success": False, "result": None, "error": message}


def _tool_name(given: Given) -> Expr | None:
    """The tool, as a Constant if its name has no placeholder."""
    name: Expr | None = given.get("tool") or given.get("tool_name")
    if name is None or isinstance(name, Constant) or name.reads():
        return name
    return Constant(name.span, name.evaluate({"state": {}}))
