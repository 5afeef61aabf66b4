"""Emits the prints of user code as events while they arrive, without secrets.

Only a watched run emits prints. Texts are gathered, because a view shows ten changes a second and
an event costs as much as a step. Secrets are masked before they leave the engine. A secret may
arrive in two pieces, so the end of a text waits as long as it could be the beginning of a secret.
"""

from __future__ import annotations

import asyncio
import contextlib

from ...flow.progress import events as ev
from ...flow.step_path import StepPath
from ..runner import Runner, clock
from ..threads.prints import printing

EVERY = 0.1
"""The seconds between two events."""


NEVER: StepPath = ()
"""The path of a call that has ended."""


class StepPrints:
    """Emits the prints of one call, on any thread. After the end of the call it emits nothing,
    although tasks that the call started may still print.
    """

    __slots__ = ("_is_waiting", "_loop", "_pending", "_run", "path", "pieces")

    def __init__(self, run: Runner, loop: asyncio.AbstractEventLoop, path: StepPath) -> None:
        self._run = run
        self._loop = loop
        self.path = path
        """The path of the call; `NEVER`: the call has ended."""
        self.pieces: list[str] = []
        """The texts since the last event."""
        self._pending = ""
        """The end of the text so far, which may be the beginning of a secret."""
        self._is_waiting = False
        """Whether the next event is scheduled."""

    def add(self, text: str) -> None:
        """Take a print. Any thread may call this."""
        if not self.path:  # the call has ended
            return
        self.pieces.append(text)
        if not self._is_waiting:
            self._is_waiting = True
            with contextlib.suppress(RuntimeError):  # the loop is closed
                # A tool may print on any thread, but `call_later` may be called only on the loop's.
                self._loop.call_soon_threadsafe(self._loop.call_later, EVERY, self._flush)

    def close(self) -> None:
        """Emit the remaining text."""
        if self.pieces or self._pending:
            self._emit(is_end=True)
        self.path = NEVER

    def _flush(self) -> None:
        self._is_waiting = False  # set first, because a print from now on needs another turn
        self._emit()

    def _emit(self, is_end: bool = False) -> None:
        if not self.path:
            return
        pieces = self.pieces
        count = len(pieces)  # another thread may append pieces meanwhile
        text = "".join(pieces[:count])
        del pieces[:count]
        shown, self._pending = split_masked(self._run, self._pending + text, is_end)
        if shown:
            outer = printing.set(None)  # prints of a listener do not belong to the call
            try:
                self._run.emit(ev.StepPrinted(self.path, clock(), shown))
            finally:
                printing.reset(outer)


def open_prints(run: Runner, path: StepPath) -> StepPrints:
    """Assign the prints of the code that this task calls from now on to the step ``path``, until
    `StepPrints.close`."""
    prints = StepPrints(run, asyncio.get_running_loop(), path)
    # The variable is not reset: tasks of the call may keep the object, which is silent after
    # `close`.
    printing.set(prints)
    return prints


def separate_prints(run: Runner) -> None:
    """Separate this task from the `StepPrints` of the task that started it."""
    if run.stream:
        printing.set(None)


def split_masked(run: Runner, text: str, is_end: bool) -> tuple[str, str]:
    """The beginning of ``text`` that can be shown, masked, and the remaining text. ``is_end``:
    whether no more text follows."""
    # The end may be the beginning of a secret whose rest is in the next piece.
    length = len(text) if is_end else run.secrets.maskable(text)
    return "" if run.secrets.blind else run.secrets.text(text[:length]), text[length:]
