"""Whether a module is the notebook's own, or of an installed package, which has a version.

A package is what an installer has put into a folder of `sys.path` (also the user's site, that of
the base interpreter, a folder of PYTHONPATH or of a ``.pth``): such folders are called
``site-packages`` or ``dist-packages``, or have the list of the package's files,
``NAME-VERSION.dist-info/RECORD``. A project that is installed in place has no such list next to its
files, so it is the notebook's own.
"""

from __future__ import annotations

import functools
import os
import re
import sys
import sysconfig
import types
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...compat.imports import for_the_person

_INSTALLED = tuple(
    Path(path).resolve()
    for path in {
        sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")
    }
)

_SITES = frozenset({"site-packages", "dist-packages"})

_NEVER_OURS = frozenset({"builtins", __name__.partition(".")[0]})
"""This package, too, where it is installed from a checkout: a tool may name `ToolContext`."""

_FIRST_NAME = re.compile(rb"([^/,.\r]+)(?:([/.])|\r?$)")
"""The first name of a path in a line of a list of files, and what follows it."""


def is_ours(module: str) -> bool:
    """Whether a module is the notebook's own: its cells, a file that is not installed, or made by
    code."""
    if module == "__main__":
        return True
    if module in sys.builtin_module_names or module.partition(".")[0] in _NEVER_OURS:
        return False
    if module not in sys.modules:
        return _is_ours(_file(module), module.partition(".")[0])
    loaded = sys.modules[module]
    file = getattr(loaded, "__file__", None)
    spec = getattr(loaded, "__spec__", None)
    if file is None and spec is not None:
        if spec.origin in ("built-in", "frozen"):
            return False
        file = next(
            iter(spec.submodule_search_locations or ()), None
        )  # a package without a file of its own
    return _is_ours(file, module.partition(".")[0])


@functools.lru_cache(maxsize=4096)
def _is_ours(file: str | None, top: str) -> bool:
    if file is None:
        return True
    path = Path(file).resolve()
    if not _SITES.isdisjoint(path.parts) or any(path.is_relative_to(place) for place in _INSTALLED):
        return False
    folders = {Path(folder).resolve() for folder in sys.path}
    return not any(path.is_relative_to(folder) and top in _packages(folder) for folder in folders)


@functools.cache
def _packages(folder: Path) -> dict[str, list[str]]:
    """The packages in a folder as ``NAME-VERSION``, by the first names of their files. One pass
    over the bytes of their lists: 10 ms for 220 packages, for which
    `importlib.metadata.packages_distributions` takes 340, and `pathlib` alone 30."""
    # The packages of an operating system have no RECORD; elsewhere, top_level.txt may be that of a
    # project.
    names = ("RECORD",) if _SITES.isdisjoint(folder.parts) else ("RECORD", "top_level.txt")
    packages: dict[str, list[str]] = {}
    with suppress(OSError):  # no folder
        for info in sorted(os.listdir(folder)):
            if not info.endswith("-info"):
                continue
            tops = set[bytes]()
            for name in names:
                place = os.path.join(folder, info, name)
                # The first that is there: beside a list of all files the other one has nothing
                # more, and to open a file takes longer than to read it.
                with suppress(OSError), open(place, "rb", buffering=0) as listed:
                    tops.update(_first_names(listed.read()))
                    break
            package = os.path.splitext(info)[0]
            for top in tops:
                packages.setdefault(top.decode(errors="replace"), []).append(package)
    return packages


def _first_names(listed: bytes) -> Iterator[bytes]:
    # Sorted, which such a list nearly is: so all lines of a folder are passed over at once. A match
    # for each line takes twice as long.
    lines = sorted(listed.split(b"\n"))
    place = 0
    while place < len(lines):
        match = _FIRST_NAME.match(lines[place])
        place += 1
        if match is None:
            continue
        name, following = match.groups()
        yield name
        if following:  # "0" comes after "." and "/"
            place = bisect_left(lines, name + b"0", place)


@functools.lru_cache(maxsize=4096)
def _file(module: str) -> str | None:
    """The file of a module's package that is not loaded."""
    try:
        with for_the_person():
            spec = find_spec(module.partition(".")[0])
    except (ImportError, ValueError):  # not a package, or without a spec
        return None
    if spec is None:
        return None
    return (
        spec.origin
        if spec.has_location
        else next(iter(spec.submodule_search_locations or ()), None)
    )


@functools.lru_cache(maxsize=4096)
def version_of(module: str) -> str:
    """The packages that have files of the module, with their versions."""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names or top == "builtins":
        return sys.version
    packages = [
        name for folder in sys.path for name in _packages(Path(folder).resolve()).get(top, ())
    ]
    return " ".join(packages) or str(getattr(sys.modules.get(top), "__version__", ""))


def is_found(kind: type) -> bool:
    """Whether a class is the one that its module has under its name."""
    value: Any = sys.modules.get(kind.__module__)
    for name in kind.__qualname__.split("."):
        value = getattr(value, name, None)
    return value is kind


def find_installed(thing: Any) -> str | None:
    """The name and the version of what an installed module has: a function in C or inside a
    decorator, a ufunc, a method of an object that the module hides (`random.randint`). None: no
    module has it."""
    for module in _makers(thing):
        loaded = sys.modules.get(module)
        if loaded is None or is_ours(module):
            continue
        for name, value in vars(loaded).items():
            is_bound = type(value) is type(thing) and getattr(thing, "__self__", None) is not None
            if value is thing or (is_bound and value == thing):
                return f"{module}.{name} {version_of(module)}"
    return None


def _makers(thing: Any) -> Iterator[str]:
    """The modules that may have made an object."""
    function = getattr(thing, "func", thing)  # of a partial
    owner = getattr(thing, "__self__", None)
    makers = (
        getattr(function, "__module__", None),
        getattr(function, "__globals__", {}).get("__name__"),
        type(owner).__module__,
    )
    yield from (module for module in dict.fromkeys(makers) if isinstance(module, str))


def is_put_there(value: Any) -> bool:
    """Whether a function or a class of the notebook was set in an installed module."""
    if isinstance(value, types.FunctionType):
        return is_ours(str(value.__globals__.get("__name__")))
    return isinstance(value, type) and is_ours(value.__module__)


def has_plain_state(kind: type) -> bool:
    """Whether Python's default reduction has all state of its instances: a class with its own
    reduction, or with state in C, may omit some."""
    if kind.__reduce_ex__ is not object.__reduce_ex__ or kind.__reduce__ is not object.__reduce__:  # type: ignore[comparison-overlap]
        return False
    getting = getattr(kind, "__getstate__", None)
    return getting is getattr(object, "__getstate__", None) or getting.__module__ in _WHOLE_STATES


_WHOLE_STATES = frozenset({"dataclasses", "pydantic.main"})
"""Modules whose ``__getstate__`` has all state."""
