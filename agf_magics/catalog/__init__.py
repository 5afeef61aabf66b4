"""The things of a kernel that flows can name: tools, agents, models, flows, schemas."""

from .agents import ANYBODY, USER, Agent, ModelAgent, check_reply, parse_json_reply
from .builtin import install
from .decorators import agent, model_agent, policy, tool, transform
from .messages import Delta, Offered, Part, Reply, Request
from .models import Model, ModelFault, model_of, timeout_fault
from .registry import Context, Policy, Registry, Shelf, Transform, default
from .throttle import Retry, Throttle, asked_pause
from .tool_context import ToolContext
from .tools import MASK, Tool, Where, make_tool

__all__ = [
    "ANYBODY",
    "MASK",
    "USER",
    "Agent",
    "Context",
    "Delta",
    "Model",
    "ModelAgent",
    "ModelFault",
    "Offered",
    "Part",
    "Policy",
    "Registry",
    "Reply",
    "Request",
    "Retry",
    "Shelf",
    "Throttle",
    "Tool",
    "ToolContext",
    "Transform",
    "Where",
    "agent",
    "asked_pause",
    "check_reply",
    "default",
    "install",
    "make_tool",
    "model_agent",
    "model_of",
    "parse_json_reply",
    "policy",
    "timeout_fault",
    "tool",
    "transform",
]
