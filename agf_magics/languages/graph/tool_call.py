"""``tool_call``: a tool whose name and arguments may come from the state; a failure is part of its result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ...flow.frame import Expr
from ...flow.steps import Invoke, Name
from ...flow.values import Value
from ...text.source import Span
from .calls import Named, Whole
from .lookup import written
from .nodes import Built, Given, Here, Written, at
from .reading import Constant, Reader, Templated
from .state import Failed, State
from .tools import Tools


def build_tool_call(reader: Reader, given: Given, here: Here) -> Built | None:
    called = read_call(reader, given, here.span, here.tools)
    if called is None:
        return None
    key: Name | None = given.get("state_key")
    name = key.text if key else "result"
    common = {
        **at(here),
        "label": called.label,
        "timeout": given.get("timeout"),
        "rescue": None if given.get("on_error") == "fail" else Failed,
    }
    keys = (Written(name, key.span if key else None),)
    if here.inside:
        return Built(invoke(called, common), called.envelope, keys, collects=True)
    return Built(invoke(called, common), lambda state, value: {name: called.envelope(state, value)}, keys)


class Called(NamedTuple):
    """A tool_call: which tool, with what."""

    name: Expr
    args: Named | Whole
    tools: Tools

    def tool(self, state: State) -> Value:
        return self.name.evaluate({"state": state})

    def envelope(self, state: State, value: Value) -> Mapping[str, Value]:
        """What a tool_call gives, whether its tool succeeded or not."""
        tool = self.tool(state)
        task = state.get("task")
        made = {"task_id": task.get("id") if isinstance(task, dict) else None, "tool": tool}
        if not isinstance(value, Failed):
            return {**made, "success": True, "result": value, "error": None}
        unknown = value.error.code == "step.not-among"
        said = f"Unknown tool: {written(tool)}" if unknown else value.said
        return {**made, "success": False, "result": None, "error": said}

    @property
    def label(self) -> str:
        return self.name.text if isinstance(self.name, Templated) else str(self.name.evaluate({}))

    @property
    def chosen(self) -> bool:
        """Whether the tool is picked from the graph's own while it runs."""
        return isinstance(self.name, Templated) or self.name.evaluate({}) in self.tools.commands


def read_call(reader: Reader, given: Mapping[str, Any], span: Span, tools: Tools) -> Called | None:
    name: Expr | None = given.get("tool") or given.get("tool_name")
    if name is None:
        reader.wrong("missing-key", "tool_call needs 'tool'", span, 'tool: "{state.tool}"')
        return None
    args = given.get("args") or ()
    called = Called(_plain(name), Named(args) if isinstance(args, tuple) else Whole(args), tools)
    if isinstance(called.name, Constant) and called.name.value in tools.commands:
        hint = "write type: tool to run a command"
        message = f"tool_call cannot call the command {called.name.value!r}: its result will say 'Unknown tool'"
        reader.warn("tool-call-command", message, name.span, hint)
    return called


def _plain(name: Expr) -> Expr:
    """A name without placeholders as what it is."""
    if isinstance(name, Templated) and not name.reads():
        return Constant(name.span, name.text)
    return name


def invoke(called: Called, common: Mapping[str, Any]) -> Invoke:
    """The call itself."""
    if not called.chosen:
        name = Name(called.name.evaluate({}), called.name.span)
        return Invoke(**common, kind="tool", name=name, args=called.args, file=called.tools.files.get(name.text))
    return Invoke(
        **common,
        kind="tool",
        name=Name(called.label, called.name.span),
        args=called.args,
        among=called.tools.functions if called.tools.declared else None,
        pick=called.name,
        files=called.tools.files,
    )
