"""Transforms: Python functions that make one value of what the agents of a policy gave (AGF's ``custom_transform``).

A transform takes one value, whatever its parameter is called: a mapping of aliases to outputs, in the order in which
the definition has them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, overload

from .callables import F, Where, checked_limits, description_of, is_async, name_of, signature_of
from .registry import Registry, into


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Transform:
    """A function with what is said of it. Called as ``function(value)``."""

    name: str
    function: Callable[[Any], Any]
    description: str = ""
    where: Where | None = None
    """None: decided from the flow."""
    timeout: float | None = None
    """Seconds."""
    is_async: bool = False


@overload
def transform(
    function: F, /, *, name: str | None = ..., registry: Registry | None = ..., timeout: float | None = ...,
    where: Where | None = ...,
) -> F: ...  # fmt: skip
@overload
def transform(
    function: str | None = ..., /, *, name: str | None = ..., registry: Registry | None = ...,
    timeout: float | None = ..., where: Where | None = ...,
) -> Callable[[F], F]: ...  # fmt: skip
def transform(
    function: F | str | None = None,
    /,
    *,
    name: str | None = None,
    registry: Registry | None = None,
    timeout: float | None = None,
    where: Where | None = None,
) -> F | Callable[[F], F]:
    """Register a function as a transform and return it unchanged. A transform that has the same name is replaced.

        @transform("myorg.summarize")
        def summarize(outputs: dict) -> str: ...

    A transform receives one value: the outputs of a policy's agents by alias. ``output_from: {custom_transform:
    myorg.summarize}`` calls it.

    Parameters:

    - ``function``: the function, or the name of the transform. Default None: the call returns a decorator.
    - ``name``: the name of the transform. Default None: the name of the function.
    - ``registry``: the `Registry` to register in. Default None: the registry of this process.
    - ``timeout``: the longest time that one call may take, in seconds. Default None: the limits of the run decide.
    - ``where``: the place where the function runs: ``"loop"``, ``"kernel"`` or ``"worker"``. Default None: decided from
      the flow.
    """
    named = function if isinstance(function, str) else name

    def register(function: F) -> F:
        checked_limits(where, timeout)
        made = Transform(
            name=name_of(function, "transform", named),
            function=function,
            description=description_of(function),
            where=where,
            timeout=timeout,
            is_async=is_async(function),
        )
        _takes_one(function, made.name)
        into(registry).transforms.add(made)
        return function

    return register if function is None or isinstance(function, str) else register(function)


def _takes_one(function: Callable[..., Any], name: str) -> None:
    signature = signature_of(function)
    try:
        if signature is not None:
            signature.bind(None)
    except TypeError:
        raise ValueError(f"transform {name!r} takes one value, the outputs by alias, not {signature}") from None
