"""Imports that the package makes late, when a definition already runs, look for installed packages
only.

A kernel has the notebook's folder before the installed packages on ``sys.path``. That folder may hold
a stranger's ``jsonschema.py``, and the person has not asked for it: an import of this package must not
run it (decisions D3, D166). So what finds modules on ``sys.path`` asks who imports: of the frames of
the import, installed packages apart, the innermost one is the person's or ours.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from importlib.machinery import ModuleSpec, PathFinder
from types import FrameType, ModuleType
from typing import Any


def module_if_loaded(name: str) -> Any:
    """The module of this name if it was imported; None also while another thread imports it, when it
    lacks some of its names: no value of its classes exists then."""
    module = sys.modules.get(name)
    # The mark that `import` itself waits for; Python has no public name for it.
    return None if getattr(getattr(module, "__spec__", None), "_initializing", False) else module


OURS = __name__.partition(".")[0]


@contextmanager
def installed_only() -> Iterator[None]:
    """Imports of this thread inside of the block do not look into the working folder, whoever makes
    them."""
    outside = _rule.set("installed")
    try:
        yield
    finally:
        _rule.reset(outside)


@contextmanager
def for_the_person() -> Iterator[None]:
    """Imports of this thread inside of the block find what the person's own imports find: they name a
    module, or read a value of a class of theirs."""
    outside = _rule.set("all")
    try:
        yield
    finally:
        _rule.reset(outside)


_rule: ContextVar[str] = ContextVar("rule", default="")
"""What a block says about its imports; empty: there is none."""


class FolderFinder(PathFinder):
    """What finds modules on ``sys.path``, in the place of Python's own."""

    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        # A module of a package is found in the package, and not through sys.path.
        if path is None and _is_ours():
            path = installed_path()
        return PathFinder.find_spec(fullname, path, target)


def installed_path() -> list[str]:
    """``sys.path`` without the working folder, that of now and that of the start."""
    here = {_START}
    with suppress(OSError):  # the working folder exists no more
        here.add(os.path.realpath(os.getcwd()))
    return [part for part in sys.path if part and os.path.realpath(part) not in here]


def watch_imports() -> None:
    """Let `FolderFinder` find modules. In its place, not before it: another thread that goes through
    the list misses no finder."""
    for number, finder in enumerate(sys.meta_path):
        if finder is PathFinder:
            sys.meta_path[number] = FolderFinder


def _is_ours() -> bool:
    """Whether this package makes the import that is going on."""
    if rule := _rule.get():
        return rule == "installed"
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        names = frame.f_globals
        name = names.get("__name__")
        if isinstance(name, str) and name.partition(".")[0] == OURS:
            if name != __name__:
                return True
        elif not _is_installed(name, names):
            return False
        frame = frame.f_back
    return False


def _is_installed(name: object, names: dict[str, object]) -> bool:
    """Whether the code with these globals is that of Python or of an installed package."""
    if isinstance(name, str) and name.partition(".")[0] in sys.stdlib_module_names:
        return True  # also what is frozen and has no file
    file = names.get("__file__")
    return isinstance(file, str) and (
        file.startswith(_LIBRARY) or any(map(file.__contains__, _PACKAGES))
    )


_LIBRARY = os.path.join(sysconfig.get_path("stdlib"), "")
_PACKAGES = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))
_START = ""
with suppress(OSError):
    _START = os.path.realpath(os.getcwd())

watch_imports()
