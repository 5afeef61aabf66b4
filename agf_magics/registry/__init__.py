"""What this kernel offers to flows: tools, agents, flows, schemas."""

from .agents import Agent, agent, reply
from .registry import Registry, Shelf, default
from .tools import Tool, shown_arguments, tool

__all__ = ["Agent", "Registry", "Shelf", "Tool", "agent", "default", "reply", "shown_arguments", "tool"]
