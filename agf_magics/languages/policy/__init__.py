"""Agent Format: policies over local agents, with path expressions and matchers."""

from .delivery import batch_inputs, resolve_path
from .path import parse_path

__all__ = ["batch_inputs", "parse_path", "resolve_path"]
