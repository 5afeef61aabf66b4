"""What this kernel offers to flows: tools, agents, flows, schemas."""

from .agents import USER, Agent, agent, reply
from .builtin import install
from .registry import Registry, Shelf, default
from .tools import Tool, shown_arguments, shown_text, tool

__all__ = [
    "USER",
    "Agent",
    "Registry",
    "Shelf",
    "Tool",
    "agent",
    "default",
    "install",
    "reply",
    "shown_arguments",
    "shown_text",
    "tool",
]
