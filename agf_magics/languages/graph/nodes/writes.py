"""Writes the result of a node into the state: to one key, or key by key."""

from __future__ import annotations

from collections.abc import Mapping

from ....text.length import TEXT
from ....values.value import Value, equal
from ..state import State, SubgraphState, Write
from .declared_tools import ShellTool


def write_key(key: str) -> Write:
    """The value to one key."""
    return lambda state, value: {key: value}


def write_object(key: str) -> Write:
    """An object key by key, any other value to one key."""

    def write(state: State, value: Value) -> Mapping[str, Value]:
        if type(value) is not dict or not TEXT.issuperset(map(type, value)):
            return {key: value}
        if "current_step" not in value:
            return value
        return {name: inner for name, inner in value.items() if name != "current_step"}

    return write


def write_output(write: Write, command: ShellTool) -> Write:
    """The output of a command; nothing with ``parse: none``."""

    def write_parsed(state: State, value: Value) -> Mapping[str, Value]:
        output = command.read_output(value)
        return {} if command.parse == "none" else write(state, output)

    return write_parsed


def write_as_subgraph(state: State, value: Value) -> Mapping[str, SubgraphState]:
    """The keys that another flow changed."""
    return {name: SubgraphState(inner) for name, inner in write_changed(state, value).items()}


def write_changed(state: State, value: Value) -> Mapping[str, Value]:
    """The keys of another flow's output that the state lacks or has with another value."""
    fields = value if isinstance(value, dict) else {"output": value}
    return {
        name: inner
        for name, inner in fields.items()
        if name not in state or not equal(state[name], inner)
    }
