"""Makes a shell of IPython in this process. Only one can exist at a time, so the previous shell is put back at the
end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from IPython.core.interactiveshell import InteractiveShell


@contextmanager
def only_shell(make: Callable[[], InteractiveShell]) -> Iterator[InteractiveShell]:
    """Make ``make()`` the shell of this process within the block. Without a shell, `display` shows nothing."""
    before = InteractiveShell.instance() if InteractiveShell.initialized() else None
    if before is not None:
        type(before).clear_instance()
    shell = make()
    try:
        yield shell
    finally:
        # Clear the instance of each class, because otherwise the class would return this shell again.
        type(shell).clear_instance()
        if before is not None:
            for kind in type(before)._walk_mro():
                kind._instance = before  # type: ignore[assignment]
