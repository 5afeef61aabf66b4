"""Interrupts of a cell that starts a run: before its thread waits for the run, and after the run
has ended.

While the thread waits, `interrupts` handles them. Before and after that, an interrupt would lose a
run that has started or a page that is not shown.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from .interrupts import OnSigint, on_main_thread, sigint_handler, waiters


class Held:
    """The handler of SIGINT before a thread waits for a run, and after that until the end of the
    run is shown.

    Before `hold`, interrupts work as usual. After it they raise nothing, so that a started run is
    not lost: the first one cancels the run. After the run has `ended`, the first one raises
    KeyboardInterrupt when everything is shown, and the second one at once.
    """

    def __init__(self, before: Any) -> None:
        self.before = before
        self.ended = False
        self.missed = False
        """Whether an interrupt came after the end."""
        self._cancel: Callable[[str], None] | None = None

    def hold(self, cancel: Callable[[str], None]) -> None:
        """From now on an interrupt calls ``cancel``."""
        self._cancel = cancel

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._cancel is None:
            self.before(number, frame)
            return
        if self.ended and self.missed:
            raise KeyboardInterrupt
        self.missed = self.ended
        self._cancel("interrupt")


class _Thread(threading.local):
    def __init__(self) -> None:
        self.held: Held | None = None
        """What delays interrupts on this thread."""


thread = _Thread()


def hold_for(cancel: Callable[[str], None]) -> None:
    """An interrupt before this thread waits for the run that starts now calls ``cancel``."""
    if thread.held is not None and not waiters.stack:
        thread.held.hold(cancel)


@contextlib.contextmanager
def held_interrupts() -> Iterator[Held]:
    """For a block that starts a run and waits for it: an interrupt in between cancels the run
    instead of raising.

    Raises KeyboardInterrupt at the end of the block for an interrupt after the end of the run.
    """
    held = Held(sigint_handler())
    if (
        not on_main_thread()
        or not callable(held.before)
        or isinstance(held.before, OnSigint | Held)
    ):
        yield held  # no interrupt arrives here, or an outer handler handles it
        return
    around = thread.held
    try:
        thread.held = held
        signal.signal(signal.SIGINT, held)
        yield held
    finally:
        thread.held = around
        if sigint_handler() is held:
            signal.signal(signal.SIGINT, held.before)
    if held.missed:
        raise KeyboardInterrupt
