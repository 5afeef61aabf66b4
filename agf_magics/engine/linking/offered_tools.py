"""Describes a tool, an agent or a flow for a model: name, description and JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...catalog import Agent, ModelAgent, Tool
from ...flow.flow import Flow
from .linked import ModelBinding


def describe_tool(
    binding: ModelBinding, name: str, descriptions: Mapping[str, str]
) -> tuple[str, str, Mapping[str, Any]]:
    """The name, description and JSON Schema of a tool, as a model gets them."""
    callee = binding.tools[name]
    if isinstance(callee, Tool):
        return name, descriptions.get(name) or callee.description, callee.accepts
    if isinstance(callee, Flow):
        description = callee.declared.description
        accepts = callee.declared.accepts
    else:
        description = callee.description
        accepts = _agent_input(callee)
    return name, descriptions.get(name) or description, accepts or {"type": "object"}


PROMPT: Mapping[str, Any] = {
    "type": "string",
    "description": "What the agent is asked, with all that it must know.",
}
"""The JSON Schema of the prompt with which a model calls an agent."""


def _agent_input(agent: Agent | ModelAgent) -> Mapping[str, Any] | None:
    """The JSON Schema of the arguments with which a model calls an agent: its fields, and a prompt
    if it reads one."""
    fields, handed = (agent.accepts, agent.handed) if isinstance(agent, Agent) else (None, ())
    if fields is None and "input" in handed:
        return None
    if fields is not None and "prompt" not in handed:
        return fields
    schema = fields or {"type": "object", "additionalProperties": False}
    properties = schema.get("properties", {})
    required = schema.get("required", ())
    return {
        **schema,
        "properties": {"prompt": PROMPT, **properties},
        "required": ["prompt", *required],
    }
