"""What a node's value is to the state: under one key, key by key, noted as a failure, as another graph left it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ...flow.values import Value, equal
from ...text.diagnostics import Diagnostic, StepError
from ...text.source import Span
from .state import Failed, State, SubgraphState, Write


def keeps(key: str) -> Write:
    """The value under one key."""
    return lambda state, value: {key: value}


def merges(key: str) -> Write:
    """An object key by key, anything else under one key."""

    def write(state: State, value: Value) -> Mapping[str, Value]:
        if type(value) is not dict or not all(type(name) is str for name in value):
            return {key: value}
        if "current_step" not in value:
            return value
        return {name: inner for name, inner in value.items() if name != "current_step"}

    return write


def tolerant(name: str, key: str | None, write: Write) -> Write:
    """``on_error: skip``: a failure is noted in ``errors``, and the node's key is null."""

    def tolerated(state: State, value: Value) -> Mapping[str, Value]:
        if not isinstance(value, Failed):
            return write(state, value)
        note = {"node": name, "error_type": value.kind, "message": value.said, "tolerated": True}
        return {**({} if key is None else {key: None}), "errors": [note]}

    return tolerated


def printed(write: Write, parse: str, span: Span) -> Write:
    def write_printed(state: State, value: Value) -> Mapping[str, Value]:
        text = value["stdout"] if isinstance(value, dict) else value
        if parse == "none":
            return {}
        if parse == "json":
            try:
                text = json.loads(text)
            except (ValueError, RecursionError) as error:
                message = f"what the command wrote is not JSON: {error}"
                raise StepError(Diagnostic("graph.command-json", message, span)) from error
        return write(state, text)

    return write_printed


def comes_back(state: State, value: Value) -> Mapping[str, SubgraphState]:
    """What another flow changed."""
    found = value if isinstance(value, dict) else {"output": value}
    return {
        name: SubgraphState(inner)
        for name, inner in found.items()
        if name not in state or not equal(state[name], inner)
    }


def came_back(state: State, value: Value) -> Mapping[str, Value]:
    """The same as values, for a map that collects them."""
    return {name: became.value for name, became in comes_back(state, value).items()}
