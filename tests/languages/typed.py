"""Converts values so that they are compared by their JSON type, too."""

from __future__ import annotations

from typing import Any


def typed(value: Any) -> Any:
    """A form of a value in which 1 is neither true nor 1.0."""
    if isinstance(value, dict):
        return {key: typed(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [typed(inner) for inner in value]
    return type(value), value
