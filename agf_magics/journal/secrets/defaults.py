"""Finds the secrets that the function of a tool gets: arguments of a call, and defaults."""

from __future__ import annotations

from collections.abc import Mapping

from ...catalog import Tool
from ...values.value import Value, is_json
from .forms import parts_of


def secrets_of(tool: Tool, arguments: Mapping[str, Value]) -> list[Value]:
    """The values of the secret parameters of ``tool`` in a call with ``arguments``; None for one that
    has none."""
    parameters = tool.arguments.parameters
    return [
        arguments[name]
        if name in arguments
        else _searchable(getattr(parameters.get(name), "default", None))
        for name in tool.secret
    ]


def _searchable(default: object) -> Value:
    # A default that cannot be searched for, such as "-" or a client, is no secret that the call received:
    # the run would show no value at all.
    return default if is_json(default) and parts_of(default).has_searchable else None
