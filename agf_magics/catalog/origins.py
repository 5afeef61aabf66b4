"""Whether a module is the notebook's own, or of an installed package, which has a version."""

from __future__ import annotations

import functools
import sys
import sysconfig
import types
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_INSTALLED = tuple(
    Path(path).resolve()
    for path in {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)


def is_ours(module: str) -> bool:
    """Whether a module is the notebook's own: its cells, a file that is not installed, or made by code."""
    if module == "__main__":
        return True
    if module in sys.builtin_module_names or module == "builtins":
        return False
    if module not in sys.modules:
        return _is_ours(_file(module))
    loaded = sys.modules[module]
    file, spec = getattr(loaded, "__file__", None), getattr(loaded, "__spec__", None)
    if file is None and spec is not None:
        if spec.origin in ("built-in", "frozen"):
            return False
        file = next(iter(spec.submodule_search_locations or ()), None)  # a package without a file of its own
    return _is_ours(file)


@functools.lru_cache(maxsize=4096)
def _is_ours(file: str | None) -> bool:
    if file is None:
        return True
    path = Path(file).resolve()
    return not any(path.is_relative_to(place) for place in _INSTALLED)


@functools.lru_cache(maxsize=4096)
def _file(module: str) -> str | None:
    """The file of a module's package that is not loaded."""
    try:
        found = find_spec(module.partition(".")[0])
    except (ImportError, ValueError):  # not a package, or without a spec
        return None
    return found.origin if found is not None and found.has_location else None


@functools.lru_cache(maxsize=4096)
def version_of(module: str) -> str:
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names or top == "builtins":
        return sys.version
    import importlib.metadata  # here, because it is slow and rarely needed

    for name in importlib.metadata.packages_distributions().get(top, [top]):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return str(getattr(sys.modules.get(top), "__version__", ""))


def is_found(kind: type) -> bool:
    """Whether a class is the one that its module has under its name."""
    found: Any = sys.modules.get(kind.__module__)
    for name in kind.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is kind


def is_put_there(found: Any) -> bool:
    """Whether a function or a class of the notebook was set in an installed module."""
    if isinstance(found, types.FunctionType):
        return is_ours(str(found.__globals__.get("__name__")))
    return isinstance(found, type) and is_ours(found.__module__)


def has_plain_state(kind: type) -> bool:
    """Whether Python's default reduction has all state of its instances: a class with its own reduction, or with state
    in C, may omit some."""
    if kind.__reduce_ex__ is not object.__reduce_ex__ or kind.__reduce__ is not object.__reduce__:  # type: ignore[comparison-overlap]
        return False
    getting = getattr(kind, "__getstate__", None)
    return getting is getattr(object, "__getstate__", None) or getting.__module__ in _WHOLE_STATES


_WHOLE_STATES = frozenset({"dataclasses", "pydantic.main"})
"""Modules whose ``__getstate__`` has all state."""
