"""Defers interrupts while a run is started and shown, so that an interrupt loses neither."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator

from .held_interrupt import DeferredInterrupt
from .signals import on_main_thread, sigint_handler
from .waiting_thread import OnSigint, waiters


def hold_for(cancel: Callable[[str], None]) -> None:
    """Let an interrupt call ``cancel`` until this thread waits for the run that starts now."""
    # Inside a run, the handler of that run is in effect, and cancels both runs.
    if waiters.held is not None and not waiters.stack:
        waiters.held.hold(cancel)


@contextlib.contextmanager
def hold_interrupts() -> Iterator[DeferredInterrupt]:
    """Let an interrupt in the block, which starts a run and waits for it, cancel the run instead of
    raising.

    Raises KeyboardInterrupt at the end of the block for an interrupt after the end of the run.
    """
    deferred = DeferredInterrupt(sigint_handler())
    has_outer_handler = isinstance(deferred.before, OnSigint | DeferredInterrupt)
    if has_outer_handler or not on_main_thread() or not callable(deferred.before):
        yield deferred
        return
    # Set inside of `try`, so that an interrupt between the lines cannot leave the handler behind.
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
