"""Late imports of this package look for installed packages only, not into the notebook's folder.

A kernel has the notebook's folder before the installed packages on ``sys.path``. That folder may
hold a stranger's ``jsonschema.py``, and an import that this package makes while a definition runs
must not run that file (decisions D3, D166). So `FolderFinder` asks who imports: it takes the
innermost frame that belongs to no installed package, and sees whether it is the person's code or
ours.
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
    """The imported module ``name``; None if it is not imported, or if another thread is importing
    it. A module that is only half imported lacks names, and no value of its classes exists yet."""
    module = sys.modules.get(name)
    # The `import` statement waits for the same mark. Python has no public name for it.
    return None if getattr(getattr(module, "__spec__", None), "_initializing", False) else module


OURS = __name__.partition(".")[0]
"""The name of this package."""


@contextmanager
def installed_only() -> Iterator[None]:
    """Imports of this thread in the block do not look into the working folder, whichever code makes
    them."""
    outside = _rule.set("installed")
    try:
        yield
    finally:
        _rule.reset(outside)


@contextmanager
def for_the_person() -> Iterator[None]:
    """Imports of this thread in the block find what the person's own imports find. Use it where the
    person names a module, or where a value of the person's class is read."""
    outside = _rule.set("all")
    try:
        yield
    finally:
        _rule.reset(outside)


_rule: ContextVar[str] = ContextVar("rule", default="")
"""The rule for imports that the innermost block sets; empty outside of every block."""


class FolderFinder(PathFinder):
    """The finder of modules on ``sys.path``. It replaces Python's own."""

    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        # Python finds a module of a package in that package and does not use sys.path.
        if path is None and _is_ours():
            path = installed_path()
        return PathFinder.find_spec(fullname, path, target)


def installed_path() -> list[str]:
    """``sys.path`` without the current working folder and the one in which the process started."""
    start_folders = {_START}
    with suppress(OSError):  # the working folder has been removed
        start_folders.add(os.path.realpath(os.getcwd()))
    return [part for part in sys.path if part and os.path.realpath(part) not in start_folders]


def watch_imports() -> None:
    """Put `FolderFinder` into the place of Python's finder. It is not inserted before it: another
    thread that goes through the list of finders must not miss one."""
    for number, finder in enumerate(sys.meta_path):
        if finder is PathFinder:
            sys.meta_path[number] = FolderFinder


def _is_ours() -> bool:
    """Whether this package makes the current import."""
    if rule := _rule.get():
        return rule == "installed"
    frame: FrameType | None = sys._getframe(2)  # the caller of `find_spec`
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
    """Whether code whose globals are ``names`` belongs to Python or to an installed package."""
    if isinstance(name, str) and name.partition(".")[0] in sys.stdlib_module_names:
        return True  # a frozen module has no file
    file = names.get("__file__")
    return isinstance(file, str) and (
        file.startswith(_LIBRARY) or any(map(file.__contains__, _PACKAGES))
    )


_LIBRARY = os.path.join(sysconfig.get_path("stdlib"), "")
_PACKAGES = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))
_START = ""
with suppress(OSError):
    _START = os.path.realpath(os.getcwd())
"""The working folder in which the process started; empty: it had been removed."""

watch_imports()
