"""Plans: calls that feed each other through a log of messages."""

from .load import load
from .log import Log
from .messages import Message, branch, read_content
from .reading import Reading, as_log, resolve
from .reference import Reference
from .words import SCHEMA

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
