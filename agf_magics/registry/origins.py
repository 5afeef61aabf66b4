"""Whose a module is: the notebook's own, or an installed package's, which is known by its version."""

from __future__ import annotations

import functools
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

_INSTALLED = tuple(
    Path(path).resolve()
    for path in {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)


@functools.lru_cache(maxsize=4096)
def is_ours(module: str) -> bool:
    """Whether a module is the notebook's own: its cells, or a file that is not installed."""
    if module == "__main__":
        return True
    if module in sys.builtin_module_names or module == "builtins":
        return False
    file = _file(module)
    if file is None:
        return module not in sys.modules
    path = Path(file).resolve()
    return not any(path.is_relative_to(place) for place in _INSTALLED)


def _file(module: str) -> str | None:
    """Where a module lies, or the package of one that is not loaded yet."""
    if module in sys.modules:
        return getattr(sys.modules[module], "__file__", None)
    try:
        found = find_spec(module.partition(".")[0])
    except (ImportError, ValueError):  # it is none, or says nothing of itself
        return None
    return found.origin if found is not None and found.has_location else None


@functools.lru_cache(maxsize=4096)
def version_of(module: str) -> str:
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names or top == "builtins":
        return sys.version
    import importlib.metadata  # here: most runs never ask, and it takes as long as a language

    for name in importlib.metadata.packages_distributions().get(top, [top]):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return str(getattr(sys.modules.get(top), "__version__", ""))
