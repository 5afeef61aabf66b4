"""Builds the tool that a definition derives from a registered tool."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

from ...flow.step_options import DerivedTool
from ...values.value import Value
from .arguments import Arguments
from .callables import description_of
from .context import ToolContext
from .tool import Tool


def derive(spec: DerivedTool, base: Tool) -> Tool:
    """The tool that ``spec`` derives from the registered tool ``base``."""

    def arguments(call_arguments: dict[str, Any]) -> dict[str, Any]:
        context = dict.fromkeys(base.context, call_arguments.pop(_CONTEXT, None))
        return {**base.check(dict(spec.arguments(call_arguments))), **context}

    def call(**call_arguments: Value) -> Value:
        return spec.result(base.function(**arguments(call_arguments)))

    async def call_async(**call_arguments: Value) -> Value:
        return spec.result(await base.function(**arguments(call_arguments)))

    function: Any = call_async if base.is_async else call
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(name, keyword) for name in spec.parameters]
    if base.context:
        parameters.append(inspect.Parameter(_CONTEXT, keyword, annotation=ToolContext))
    function.__signature__ = inspect.Signature(parameters)
    function.__name__ = spec.name
    function.__doc__ = spec.description
    # What a base hides may be in each argument that is derived into it.
    secret = spec.parameters if base.secret else ()
    # The base decides about its calls in each respect: where they run, what they need, who approves
    # them. Only its digest does not say what the derived tool does.
    return replace(
        base,
        name=spec.name,
        function=function,
        arguments=Arguments(function, f"tool {spec.name!r}", secret=secret),
        description=description_of(function),
        digest=None,
    )


_CONTEXT = "_tool_context"
"""The parameter of a derived tool that gets the `ToolContext`, if its base has such parameters."""
