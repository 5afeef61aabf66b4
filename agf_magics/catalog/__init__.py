"""What this kernel offers to flows: tools, agents, models, flows, schemas."""

from .agents import USER, Agent, agent, read_json, reply
from .builtin import install
from .callables import Where
from .contexts import Context
from .model_agents import ANYBODY, ModelAgent, model_agent
from .model_faults import ModelFault, timed_out
from .models import Model, Offered, Request, model_of
from .policies import Policy, policy
from .registry import Registry, Shelf, default
from .tools import MASK, Tool, tool
from .transforms import Transform, transform

__all__ = [
    "ANYBODY",
    "MASK",
    "USER",
    "Agent",
    "Context",
    "Model",
    "ModelAgent",
    "ModelFault",
    "Offered",
    "Policy",
    "Registry",
    "Request",
    "Shelf",
    "Tool",
    "Transform",
    "Where",
    "agent",
    "default",
    "install",
    "model_agent",
    "model_of",
    "policy",
    "read_json",
    "reply",
    "timed_out",
    "tool",
    "transform",
]
