"""Plans: calls that feed each other through a log of messages."""

from ..documents import Language
from .calls import Reading, as_log, resolve
from .document import SCHEMA
from .load import load
from .log import Log
from .messages import Message, branch, read_content
from .reference import Reference

LANGUAGE = Language("plan", load, {"reference": Reading}, schema=SCHEMA, latent=load)

__all__ = [
    "LANGUAGE",
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
