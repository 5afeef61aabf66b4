"""Tells whether a module belongs to the notebook or to an installed package, which has a version.

An installer puts packages into folders of `sys.path` (the user's site, the base interpreter's,
folders of PYTHONPATH or a ``.pth``). Such a folder is called ``site-packages`` or
``dist-packages``, or has the list of the package's files, ``NAME-VERSION.dist-info/RECORD``. A
project that is installed in place has no such list next to its files, so it belongs to the
notebook.
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
"""The folders of the standard library and of the packages of this Python."""

_SITES = frozenset({"site-packages", "dist-packages"})
"""The names of the folders into which an installer puts packages."""

_NEVER_OURS = frozenset({"builtins", __name__.partition(".")[0]})
"""Packages that never belong to the notebook: Python's builtins, and this package even if it is
installed from a checkout, because a tool may name `ToolContext`."""

_FIRST_NAME = re.compile(rb"([^/,.\r]+)(?:([/.])|\r?$)")
"""The first name of the path on a line of RECORD, and the sign after it."""


def is_ours(module: str) -> bool:
    """Whether ``module`` belongs to the notebook: its cells, a file that is not installed, or a
    module that code made."""
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
        )  # a namespace package has no file
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
    # Packages of an operating system have no RECORD. Elsewhere a top_level.txt may belong to a
    # project.
    names = ("RECORD",) if _SITES.isdisjoint(folder.parts) else ("RECORD", "top_level.txt")
    packages: dict[str, list[str]] = {}
    with suppress(OSError):  # the folder does not exist
        for info in sorted(os.listdir(folder)):
            if not info.endswith("-info"):
                continue
            tops = set[bytes]()
            for name in names:
                place = os.path.join(folder, info, name)
                # Read only the first file that exists: the other one has no more names, and opening
                # a file takes longer than reading it.
                with suppress(OSError), open(place, "rb", buffering=0) as listed:
                    tops.update(_first_names(listed.read()))
                    break
            package = os.path.splitext(info)[0]
            for top in tops:
                packages.setdefault(top.decode(errors="replace"), []).append(package)
    return packages


def _first_names(listed: bytes) -> Iterator[bytes]:
    # The list is nearly sorted, so all lines of a folder can be skipped at once. A match for each
    # line takes twice as long.
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
    """The file of the package of a module that is not loaded."""
    try:
        with for_the_person():
            spec = find_spec(module.partition(".")[0])
    except (ImportError, ValueError):  # it is no package, or has no spec
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
    """The names and versions of the packages that have files of ``module``."""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names or top == "builtins":
        return sys.version
    packages = [
        name for folder in sys.path for name in _packages(Path(folder).resolve()).get(top, ())
    ]
    return " ".join(packages) or str(getattr(sys.modules.get(top), "__version__", ""))


def is_found(kind: type) -> bool:
    """Whether the module of a class has this class under its name."""
    value: Any = sys.modules.get(kind.__module__)
    for name in kind.__qualname__.split("."):
        value = getattr(value, name, None)
    return value is kind


def find_installed(thing: Any) -> str | None:
    """The name of ``thing`` in an installed module, with the version: a function in C or inside a
    decorator, a ufunc, a method of an object that the module hides (`random.randint`). None: no
    installed module has it."""
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
    """The modules that may have created ``thing``."""
    function = getattr(thing, "func", thing)  # the function of a partial
    owner = getattr(thing, "__self__", None)
    makers = (
        getattr(function, "__module__", None),
        getattr(function, "__globals__", {}).get("__name__"),
        type(owner).__module__,
    )
    yield from (module for module in dict.fromkeys(makers) if isinstance(module, str))


def is_put_there(value: Any) -> bool:
    """Whether ``value``, a function or a class of the notebook, was put into an installed
    module."""
    if isinstance(value, types.FunctionType):
        return is_ours(str(value.__globals__.get("__name__")))
    return isinstance(value, type) and is_ours(value.__module__)


def has_plain_state(kind: type) -> bool:
    """Whether Python's default reduction has the whole state of the instances of ``kind``. A class
    with its own reduction, or with state in C, may omit a part."""
    if kind.__reduce_ex__ is not object.__reduce_ex__ or kind.__reduce__ is not object.__reduce__:  # type: ignore[comparison-overlap]
        return False
    getting = getattr(kind, "__getstate__", None)
    return getting is getattr(object, "__getstate__", None) or getting.__module__ in _WHOLE_STATES


_WHOLE_STATES = frozenset({"dataclasses", "pydantic.main"})
"""Modules whose ``__getstate__`` returns the whole state."""
