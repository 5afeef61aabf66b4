"""A shell of IPython in this process. There can be only one at a time, so the one before it is put back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from IPython.core.interactiveshell import InteractiveShell


@contextmanager
def only_shell(make: Callable[[], InteractiveShell]) -> Iterator[InteractiveShell]:
    """``make()`` is the shell of this process in the block. Without one, `display` shows nothing."""
    before = InteractiveShell.instance() if InteractiveShell.initialized() else None
    if before is not None:
        type(before).clear_instance()
    shell = make()
    try:
        yield shell
    finally:
        # By its own class: each class knows its shell apart, and would return this one again.
        type(shell).clear_instance()
        if before is not None:
            for kind in type(before)._walk_mro():
                kind._instance = before  # type: ignore[assignment]
