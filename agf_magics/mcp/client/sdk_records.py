"""Takes what the SDK's loggers say of our sessions: it goes to the server's log, and not to the screen.

Python prints a record that no handler takes, with the traceback of its exception. Such a record
quotes the message that could not be read, which may hold the secrets that the server was given.
Records of a person's own use of the SDK stay as they are.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

NAMES = (
    "client",  # of mcp.client.session
    "mcp.client.auth.oauth2",
    "mcp.client.caching",
    "mcp.client.client",
    "mcp.client.streamable_http",
    "mcp.shared.direct_dispatcher",
    "mcp.shared.dispatcher",
    "mcp.shared.jsonrpc_dispatcher",
    "mcp.shared.tool_name_validation",
)
"""The loggers of the SDK that a session uses. A filter does not see the records of loggers below its own."""

_tell: ContextVar[Callable[[str], None] | None] = ContextVar("tell", default=None)
"""The function that receives the records of the current session; None outside of a session."""


@contextmanager
def told_to(tell: Callable[[str], None]) -> Iterator[None]:
    """In the block, and in the tasks that it starts, ``tell`` receives the texts of warnings and errors
    that the SDK logs; other records are dropped, because they quote whole messages."""
    outside = _tell.set(tell)
    try:
        yield
    finally:
        _tell.reset(outside)


def _is_of_the_person(record: logging.LogRecord) -> bool:
    tell = _tell.get()
    if tell is None:
        return True
    if record.levelno >= logging.WARNING:
        error = record.exc_info[1] if record.exc_info else None
        tell(record.getMessage() + (f": {error}" if error is not None else ""))
    return False


for _name in NAMES:
    logging.getLogger(_name).addFilter(_is_of_the_person)
