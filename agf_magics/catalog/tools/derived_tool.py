"""The tool that a definition makes from a registered one."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

from ...flow.step_options import DerivedTool
from ...values.value import Value
from .context import ToolContext
from .tool import Tool, make_tool


def derive(spec: DerivedTool, base: Tool) -> Tool:
    """The tool that a definition makes from the registered tool ``base``."""

    def arguments(given: dict[str, Any]) -> dict[str, Any]:
        context = dict.fromkeys(base.context, given.pop(_CONTEXT, None))
        return {**base.check(dict(spec.arguments(given))), **context}

    def call(**given: Value) -> Value:
        return spec.result(base.function(**arguments(given)))

    async def call_async(**given: Value) -> Value:
        return spec.result(await base.function(**arguments(given)))

    function: Any = call_async if base.is_async else call
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(name, keyword) for name in spec.parameters]
    if base.context:
        parameters.append(inspect.Parameter(_CONTEXT, keyword, annotation=ToolContext))
    function.__signature__ = inspect.Signature(parameters)
    function.__name__, function.__doc__ = spec.name, spec.description
    made = make_tool(function, spec.name, base.where, base.timeout, base.reuse, ())
    return replace(made, throttle=base.throttle, asks_first=base.asks_first)


_CONTEXT = "_tool_context"
