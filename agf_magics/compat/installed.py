"""Whether the packages of an extra are installed, asked before anything of theirs is used.

An import in the middle of a call tells less: of a package that has been used before, a part may still
be there when the package itself is not.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.util import find_spec

from .imports import installed_only


def missing(packages: Iterable[str]) -> list[str]:
    """The names among ``packages`` that are not installed, in their order. Nothing is imported but the
    package around a name with dots."""
    with installed_only():
        return [name for name in packages if not _is_installed(name)]


def _is_installed(name: str) -> bool:
    if name in sys.modules:
        return sys.modules[name] is not None  # also of a module that has no spec
    try:
        return find_spec(name) is not None
    except ImportError:  # the package around it is not installed
        return False
