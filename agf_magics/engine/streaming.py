"""The replies of models and the prints of user code as events, while they arrive.

Only a watched run has them. Texts are gathered: a view shows ten changes a second, and an event costs as
much as a step. Secrets are masked before they leave the engine, also one that arrives in two pieces: the end of a text
waits as long as it could be the beginning of a secret.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..catalog import MASK, Delta, Part, Tool, Where
from ..host.prints import with_prints
from ..progress import events as ev
from .callee import UserCallable
from .runner import Runner, clock

EVERY = 0.1
"""Seconds between two events of a part."""


class ReplyStream:
    """Emits what `hear` gets. Used as a context around one attempt of a request, on the engine's loop."""

    def __init__(self, run: Runner, at: ev.StepPath, attempt: int, tools: Mapping[str, Any]) -> None:
        """``tools``: those that the model was offered, by their names."""
        self._run, self._at, self._attempt = run, at, attempt
        self._tools = tools
        self._has_secrets = any(isinstance(tool, Tool) and tool.secret for tool in tools.values())
        self._pending: dict[Part, str] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._masked = False
        """Whether the arguments of the open call are masked already."""

    def __enter__(self) -> ReplyStream:
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._emit(is_end=True)

    def hear(self, delta: Delta) -> None:
        text = delta.text
        if delta.tool == "":
            self._masked = False
        elif text and self._may_be_secret(delta.tool):
            text, self._masked = "" if self._masked else MASK, True
        if text:
            self._pending[delta.part] = self._pending.get(delta.part, "") + text
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(EVERY, self._flush)

    def _may_be_secret(self, tool: str | None) -> bool:
        """Whether the arguments of a call may have a secret, which is known only when they are complete."""
        found = self._tools.get(tool or "")
        return bool(found.secret) if isinstance(found, Tool) else self._has_secrets and found is None

    def _flush(self) -> None:
        self._timer = None
        self._emit()

    def _emit(self, is_end: bool = False) -> None:
        for part, text in list(self._pending.items()):
            shown, self._pending[part] = _split(self._run, text, is_end)
            if shown:
                self._run.emit(ev.ModelText(self._at, clock(), self._attempt, part, shown))


class StepPrints:
    """Emits what the user code of one call prints, on any thread."""

    __slots__ = ("_at", "_is_closed", "_is_waiting", "_loop", "_pending", "_pieces", "_run")

    def __init__(self, run: Runner, at: ev.StepPath) -> None:
        self._run, self._at = run, at
        self._loop = asyncio.get_running_loop()
        self._pieces: list[str] = []
        self._pending = ""
        self._is_waiting = self._is_closed = False

    def write(self, text: str) -> None:
        if self._is_closed:  # the call was left running
            return
        self._pieces.append(text)
        if not self._is_waiting:
            self._is_waiting = True
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._loop.call_later, EVERY, self._flush)

    def close(self) -> None:
        if self._pieces or self._pending:
            self._emit(is_end=True)
        self._is_closed = True

    def _flush(self) -> None:
        self._is_waiting = False  # first: a print from now on needs a turn of its own
        self._emit()

    def _emit(self, is_end: bool = False) -> None:
        if self._is_closed:
            return
        pieces = self._pieces
        count = len(pieces)  # another thread may append meanwhile
        text = "".join(pieces[:count])
        del pieces[:count]
        shown, self._pending = _split(self._run, self._pending + text, is_end)
        if shown:
            self._run.emit(ev.StepPrinted(self._at, clock(), shown))


@dataclass(frozen=True, slots=True, eq=False)
class Watched:
    """A callee whose prints are emitted."""

    callee: UserCallable
    prints: StepPrints

    @property
    def name(self) -> str:
        return self.callee.name

    @property
    def function(self) -> Callable[..., Any]:
        return with_prints(self.prints.write, self.callee.function)

    @property
    def where(self) -> Where | None:
        return self.callee.where

    @property
    def timeout(self) -> float | None:
        return self.callee.timeout

    @property
    def is_async(self) -> bool:
        return self.callee.is_async


def _split(run: Runner, text: str, is_end: bool) -> tuple[str, str]:
    """The beginning of ``text`` that can be shown, masked, and the rest."""
    length = len(text) if is_end else run.secrets.maskable(text)
    return "" if run.secrets.blind else run.secrets.text(text[:length]), text[length:]
