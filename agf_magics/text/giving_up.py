"""Logs to ``agf_magics`` what the package could not do and goes on without.

The log is printed only if a person configures it: a view that fails must not print into a cell, and
a run must not end because a cluster could not be closed. A failure of a call, a step or a run is
never only logged: it is an error with a code.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

# Without a handler, Python prints warnings to stderr.
logging.getLogger("agf_magics").addHandler(logging.NullHandler())


@contextmanager
def giving_up(room: str, what: str, level: int = logging.WARNING) -> Iterator[None]:
    """Suppress an exception of the block. The log says that ``what`` was not done, with the
    traceback. ``room``: the ``__name__`` of the module. ``level``: default `logging.WARNING`; use
    `logging.DEBUG` for a failure that repeats, or that costs a person nothing."""
    try:
        yield
    except Exception as error:
        note_given_up(room, what, error, level)


def note_given_up(room: str, what: str, error: BaseException, level: int = logging.WARNING) -> None:
    """Log that ``what`` was not done because of ``error``; see `giving_up`."""
    logging.getLogger(room).log(level, "%s", what, exc_info=error)
