"""No garbage is collected while much is imported: nothing of it is garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def pause_collection() -> Iterator[None]:
    """The block is not interrupted by collections of garbage: what it imports stays, and each of
    them goes through all objects of the shell."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
