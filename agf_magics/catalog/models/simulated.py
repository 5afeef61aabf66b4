"""What decides the replies of a simulated model: its functions and its settings.

pydantic-ai is not imported here: whoever made such a model has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple


class Simulated(NamedTuple):
    """What decides the replies of a `FunctionModel` or a `TestModel` of pydantic-ai."""

    functions: tuple[Callable[..., Any], ...]
    """The user's functions that reply."""
    settings: list[Any]


def simulated(model: Any) -> Simulated | None:
    """What decides the replies of ``model``; None: it is no simulated model, or one of a class of
    the user, which may do more."""
    functions: tuple[Callable[..., Any] | None, ...] = ()
    settings = [model.model_name, model.system, model.settings, model.profile]
    if _is_exactly(model, "pydantic_ai.models.function", "FunctionModel"):
        functions = model.function, model.stream_function
        settings += [function is not None for function in functions]
    elif _is_exactly(model, "pydantic_ai.models.test", "TestModel"):
        settings += [model.call_tools, model.seed]
        settings += [model.custom_output_text, model.custom_output_args]
    else:
        return None
    return Simulated(tuple(filter(None, functions)), settings)


def _is_exactly(model: Any, module: str, name: str) -> bool:
    return type(model) is getattr(sys.modules.get(module), name, None)
