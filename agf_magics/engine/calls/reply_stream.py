"""Emits the reply of a model as events while it arrives, and keeps what has arrived of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from ...catalog import MASK, Delta, Part, Tool
from ...flow.progress import events as ev
from ...flow.step_path import StepPath
from ..runner import Runner, clock
from .step_prints import EVERY, split_masked

LONGEST = 20_000
"""The most characters that are kept of each part of a reply that may break off."""


class ReplyStream:
    """Emits the parts that `hear` gets, if the run is watched. Use it as a context around one attempt
    of a request, on the engine's loop."""

    def __init__(self, run: Runner, path: StepPath, attempt: int, tools: Mapping[str, Any]) -> None:
        """``tools``: the tools that the model was offered, by name."""
        self._run = run
        self._path = path
        self._attempt = attempt
        self._tools = tools
        self._has_secrets = any(isinstance(tool, Tool) and tool.secret for tool in tools.values())
        self._pending: dict[Part, str] = {}
        """The text of each part that is not emitted yet."""
        self.arrived: dict[str, str] = {}
        """The beginning of each part, masked; complete once the context has ended."""
        self._timer: asyncio.TimerHandle | None = None
        """The timer of the next event; None: there is nothing to emit."""
        self._masked = False
        """Whether the arguments of the open call are already replaced by a mask."""

    def __enter__(self) -> ReplyStream:
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._emit(is_end=True)

    def hear(self, delta: Delta) -> None:
        """Take the next piece of the reply."""
        text = delta.text
        if delta.tool == "":
            self._masked = False
        elif text and self._may_be_secret(delta.tool):
            text = "" if self._masked else MASK
            self._masked = True
        if text:
            self._pending[delta.part] = self._pending.get(delta.part, "") + text
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(EVERY, self._flush)

    def _may_be_secret(self, tool: str | None) -> bool:
        """Whether the arguments of a call of ``tool`` may have a secret. Only complete arguments
        would show it."""
        callee = self._tools.get(tool or "")
        if isinstance(callee, Tool):
            return bool(callee.secret)
        return self._has_secrets and callee is None

    def _flush(self) -> None:
        self._timer = None
        self._emit()

    def _emit(self, is_end: bool = False) -> None:
        for part, text in self._pending.copy().items():
            shown, self._pending[part] = split_masked(self._run, text, is_end)
            if shown and len(kept := self.arrived.get(part, "")) < LONGEST:
                self.arrived[part] = (kept + shown)[:LONGEST]
            if shown and self._run.stream:
                self._run.emit(ev.ModelText(self._path, clock(), self._attempt, part, shown))
