"""`Transform`, a function of one value that a flow calls by name.

A policy computes its value from the outputs of its agents with a transform (``custom_transform`` of
AGF). The value that a transform gets is a mapping of aliases to outputs, in the order of the
definition.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .tools.callables import Where, check_limits, description_of, is_async, signature_of


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Transform:
    """A transform and its options. A call is ``function(value)``."""

    name: str
    function: Callable[[Any], Any]
    description: str = ""
    where: Where | None = None
    """The place of its calls; None: decided from the flow."""
    timeout: float | None = None
    """The longest time of a call, in seconds; None: only the step and the run limit it."""
    is_async: bool = False


def make_transform(
    function: Callable[..., Any], name: str, where: Where | None, timeout: float | None
) -> Transform:
    check_limits(where, timeout)
    signature = signature_of(function)
    try:
        if signature is not None:
            signature.bind(None)
    except TypeError:
        raise ValueError(
            f"transform {name!r} must take one value, the outputs by alias: def {name}(outputs), "
            f"not {signature}"
        ) from None
    return Transform(
        name=name,
        function=function,
        description=description_of(function),
        where=where,
        timeout=timeout,
        is_async=is_async(function),
    )
