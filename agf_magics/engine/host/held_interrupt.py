"""A handler of SIGINT that defers an interrupt while a run is started or its end is shown.

At these moments, an interrupt of the cell would lose a started run, or a page that is not shown
yet.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any, Final


class PersonsInterrupt(str):
    """The reason of a run that a person interrupted. It is a separate type, since a person may pass
    the same text to `cancel`."""


INTERRUPT: Final = PersonsInterrupt("interrupt")


class DeferredInterrupt:
    """The handler of SIGINT before a thread waits for a run, and then until the end of the run is
    shown.

    Before `hold`, interrupts work as usual. After it they raise nothing, so that a started run is
    not lost: the first one cancels the run. After the run has `ended`, the first one raises
    KeyboardInterrupt when everything is shown, and the second one at once.
    """

    def __init__(self, before: Any) -> None:
        self.before = before
        self.ended = False
        """Whether the run has ended."""
        self.missed = False
        """Whether an interrupt came after the end of the run."""
        self._cancel: Callable[[str], None] | None = None
        """Cancels the run; None: the run has not started."""

    def hold(self, cancel: Callable[[str], None]) -> None:
        """Let interrupts call ``cancel`` from now on."""
        self._cancel = cancel

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._cancel is None:
            self.before(number, frame)
            return
        # Before the end, the second interrupt belongs to the waiter, which leaves the run.
        if self.ended and self.missed:
            raise KeyboardInterrupt
        # The first interrupt after the end is deferred, because the result is being shown.
        self.missed = self.ended
        self._cancel(INTERRUPT)
