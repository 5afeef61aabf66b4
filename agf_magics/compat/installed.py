"""Tells which packages of an optional extra are missing, before any of them is used.

A failed import in the middle of a call tells less: parts of a removed package may still be loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.util import find_spec

from .imports import installed_only


def missing(packages: Iterable[str]) -> list[str]:
    """The names among ``packages`` that are not installed, in their order. For a name with dots,
    the package around it is imported, and nothing else."""
    with installed_only():
        return [name for name in packages if not _is_installed(name)]


def _is_installed(name: str) -> bool:
    if name in sys.modules:
        return sys.modules[name] is not None  # a loaded module may have no spec
    try:
        return find_spec(name) is not None
    except ImportError:  # the package around it is not installed
        return False
