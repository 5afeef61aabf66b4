"""Pauses the garbage collector during large imports, which leave no garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def pause_collection() -> Iterator[None]:
    """Run the block without garbage collection. The modules that it imports stay in memory, and each
    collection would look at all objects of the shell."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
