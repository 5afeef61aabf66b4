"""Imports that are made late, when a definition already runs, look for installed packages only.

A kernel has the notebook's folder before the installed packages on ``sys.path``. That folder may hold
a stranger's ``jsonschema.py``, and the person has not asked for it: a late import of this package must
not run it (decision D3).
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


@contextmanager
def uncollected() -> Iterator[None]:
    """The block is not interrupted by collections of garbage: what it imports stays, and each of
    them goes through all objects of the shell."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@contextmanager
def installed_only() -> Iterator[None]:
    """Imports of this thread inside of the block do not look into the working folder. What another
    thread imports meanwhile is found as ever, so ``sys.path`` itself is not changed."""
    if sys.meta_path[0] is not _FINDER:
        # Never removed: another thread that is going through the list would miss the finder after
        # it, and not find a module that is there. To meet one twice is harmless.
        sys.meta_path.insert(0, _FINDER)
    outside = _inside.set(True)
    try:
        yield
    finally:
        _inside.reset(outside)


_inside: ContextVar[bool] = ContextVar("inside", default=False)
"""Whether this thread is in such a block."""


class _InstalledOnly:
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        # A module of a package is found in the package, and not through sys.path.
        if path is not None or not _inside.get():
            return None
        try:
            here = os.path.realpath(os.getcwd())
        except OSError:  # the working folder exists no more
            here = ""
        elsewhere = [part for part in sys.path if part and os.path.realpath(part) != here]
        for finder in sys.meta_path:
            searched = elsewhere if finder is PathFinder else None
            spec = None if finder is self else finder.find_spec(name, searched, target)
            if spec is not None:
                return spec
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)


_FINDER = _InstalledOnly()
