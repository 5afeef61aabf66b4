"""Plans: calls that feed each other through a log of messages."""

from .load import load
from .log import Log
from .messages import Message, branch
from .reading import Reading, resolve
from .words import BEGINS, SCHEMA

__all__ = ["BEGINS", "SCHEMA", "Log", "Message", "Reading", "branch", "load", "resolve"]
