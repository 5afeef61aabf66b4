"""Plans: calls that feed each other through a log of messages."""

from .calls import Reading, as_log, resolve
from .document import SCHEMA
from .load import load
from .log import Log
from .messages import Message, branch, read_content
from .reference import Reference

__all__ = [
    "SCHEMA",
    "Log",
    "Message",
    "Reading",
    "Reference",
    "as_log",
    "branch",
    "load",
    "read_content",
    "resolve",
]
