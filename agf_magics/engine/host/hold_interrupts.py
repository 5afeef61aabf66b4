"""Interrupts are held while a run is started and shown, so that an interrupt in between loses
neither.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator

from .held_interrupt import DeferredInterrupt
from .signals import on_main_thread, sigint_handler
from .waiting_thread import OnSigint, waiters


def hold_for(cancel: Callable[[str], None]) -> None:
    """An interrupt before this thread waits for the run that starts now calls ``cancel``."""
    # Inside a run its own handler is in effect, and cancels this run with the outer one.
    if waiters.held is not None and not waiters.stack:
        waiters.held.hold(cancel)


@contextlib.contextmanager
def hold_interrupts() -> Iterator[DeferredInterrupt]:
    """For a block that starts a run and waits for it: an interrupt in between cancels the run
    instead of raising.

    Raises KeyboardInterrupt at the end of the block for an interrupt after the end of the run.
    """
    deferred = DeferredInterrupt(sigint_handler())
    if (
        not on_main_thread()
        or not callable(deferred.before)
        or isinstance(deferred.before, OnSigint | DeferredInterrupt)
    ):
        yield deferred  # no interrupt arrives here, or an outer handler handles it
        return
    # Set in the `try`: an interrupt between these lines leaves neither of them behind.
    around = waiters.held
    try:
        waiters.held = deferred
        signal.signal(signal.SIGINT, deferred)
        yield deferred
    finally:
        waiters.held = around
        if sigint_handler() is deferred:
            signal.signal(signal.SIGINT, deferred.before)
    if deferred.missed:
        raise KeyboardInterrupt
