"""The plan language: calls that feed each other through a log of messages."""

from ..language import Language
from .load import load
from .log.log import Log
from .log.messages import read_content
from .log.reading import Reading, as_log, resolve
from .log.reference import Reference
from .log.returned import Message, branch
from .words import SCHEMA

# `load` also takes the names of latent tools.
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
