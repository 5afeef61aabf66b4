"""The things of a kernel that flows can name: tools, agents, models, flows, schemas."""

from .agents import USER, Agent, check_reply, parse_json_reply
from .builtin.install import install
from .contexts import Context
from .decorators import agent, model_agent, policy, tool, transform
from .model_agents import ANYBODY, ModelAgent
from .models.errors import timeout_fault
from .models.messages import Delta, Offered, Part, Reply, Request, Tokens
from .models.model import Model, model_of
from .models.model_fault import ModelFault
from .policies import Policy
from .registry import Registry, default
from .shelf import Shelf
from .tools.callables import Where
from .tools.context import ToolContext
from .tools.throttle import Retry, Throttle, asked_pause
from .tools.tool import MASK, Tool, make_tool
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
    "Retry",
    "Shelf",
    "Throttle",
    "Tokens",
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
