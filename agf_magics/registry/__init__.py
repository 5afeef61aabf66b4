"""What this kernel offers to flows: tools, agents, flows, schemas."""

from .agents import USER, Agent, agent, reply
from .builtin import install
from .policies import Policy, policy
from .registry import Registry, Shelf, default
from .tools import Tool, shown_arguments, shown_text, tool
from .transforms import Transform, transform

__all__ = [
    "USER",
    "Agent",
    "Policy",
    "Registry",
    "Shelf",
    "Tool",
    "Transform",
    "agent",
    "default",
    "install",
    "policy",
    "reply",
    "shown_arguments",
    "shown_text",
    "tool",
    "transform",
]
