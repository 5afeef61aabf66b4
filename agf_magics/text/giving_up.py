"""The logger ``agf_magics``: what the package gives up on, and goes on without.

Nothing of it is printed unless a person asks for it: a view that does not work must not print into
a cell, and a run does not end because a cluster could not be closed. A failure of a call, a step or
a run is never here alone: it is an error with a code.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

# Without a handler, Python prints warnings to stderr.
logging.getLogger("agf_magics").addHandler(logging.NullHandler())


@contextmanager
def giving_up(room: str, what: str, level: int = logging.WARNING) -> Iterator[None]:
    """Go on after an exception of the block. The log has ``what`` was not done, and the traceback.

    ``room``: the ``__name__`` of the module. ``level``: `logging.DEBUG` where it comes again and
    again, or where a person misses nothing."""
    try:
        yield
    except Exception as error:
        note_given_up(room, what, error, level)


def note_given_up(room: str, what: str, error: BaseException, level: int = logging.WARNING) -> None:
    """Log that ``what`` was not done because of ``error``; see `giving_up`."""
    logging.getLogger(room).log(level, "%s", what, exc_info=error)
