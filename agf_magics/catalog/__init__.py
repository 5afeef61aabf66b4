"""The things of a kernel that flows can name: tools, agents, models, flows, schemas."""

from .agents import USER, Agent, check_reply, parse_json_reply
from .builtin import install
from .callables import Where
from .contexts import Context
from .decorators import agent, model_agent, policy, tool, transform
from .messages import Delta, Offered, Part, Reply, Request
from .model_agents import ANYBODY, ModelAgent
from .model_faults import ModelFault, timeout_fault
from .models import Model, model_of
from .policies import Policy
from .registry import Registry, default
from .shelf import Shelf
from .tools import MASK, Tool, make_tool
from .transforms import Transform

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
    "Shelf",
    "Tool",
    "Transform",
    "Where",
    "agent",
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
