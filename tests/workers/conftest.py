"""Processes that `multiprocessing` starts need a complete ``__main__``."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture(scope="module", autouse=True)
def complete_main() -> None:
    """A shell that another test made may have replaced ``__main__`` by a module without ``__spec__``."""
    vars(sys.modules["__main__"]).setdefault("__spec__", None)
