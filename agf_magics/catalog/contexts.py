"""Named contexts: what plans have said so far, kept across cells. What a log is, its language knows."""

from __future__ import annotations

from typing import Any

from ..text.diagnostics import DefinitionError, Diagnostic


class Context:
    """A log with a name. One run at a time adds to it."""

    __slots__ = ("_free", "holder", "last", "log", "name")

    def __init__(self, name: str, log: Any = None) -> None:
        self.name = name
        self.log = log
        """None: nothing was ever said."""
        self.holder = ""
        """The run that adds to it now."""
        self.last = ""
        """The run that added to it last."""
        self._free = [None]  # taking the one thing out of a list is one step for other threads

    def hold(self, run_id: str) -> None:
        """Let a run add to it. Raises DefinitionError while another one does."""
        try:
            self._free.pop()
        except IndexError:
            message = f"another run adds to the context {self.name!r}"
            hint = "%runs lists it: wait for it or cancel it; or give this plan a context of its own"
            raise DefinitionError(Diagnostic("run.context-busy", message, hint=hint)) from None
        self.holder = self.last = run_id

    def release(self, run_id: str) -> None:
        if self.holder == run_id:
            self.holder = ""
            self._free.append(None)
