"""The handler of SIGINT that holds an interrupt: before a thread waits for a run, and until its end
is shown.

There an interrupt of the cell would lose a run that has started, or a page that is not shown.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any, Final


class PersonsInterrupt(str):
    """Why a run was cancelled: a person interrupted it. A type of its own, since a reason that a
    person gives to `cancel` may have the same text."""


INTERRUPT: Final = PersonsInterrupt("interrupt")


class DeferredInterrupt:
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
        # Only after the end: before it the second interrupt is the waiter's, which leaves the run.
        if self.ended and self.missed:
            raise KeyboardInterrupt
        # The first one after the end is kept for later: the result is being shown.
        self.missed = self.ended
        self._cancel(INTERRUPT)
