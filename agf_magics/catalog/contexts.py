"""`Context`, a named log of plans in the registry, whose messages last from cell to cell."""

from __future__ import annotations

from typing import Any

from ..text.diagnostics import DefinitionError, Diagnostic


class Context:
    """A named log. Only one run at a time may write to it. The plan language defines the type of
    the log."""

    __slots__ = ("_free", "holder", "last", "log", "name")

    def __init__(self, name: str, log: Any = None) -> None:
        self.name = name
        self.log = log
        """The messages after the last run; None: no run has used the context."""
        self.holder = ""
        """The id of the run that uses the context now; empty: none does."""
        self.last = ""
        """The id of the last run that used the context."""
        self._free = [None]  # an atomic lock: `pop` succeeds for one thread

    def hold(self, run_id: str) -> None:
        """Lock the context for a run. Raises DefinitionError if another run uses it."""
        try:
            self._free.pop()
        except IndexError:
            message = f"another run uses the context {self.name!r}"
            hint = "%runs lists it: wait for it, cancel it, or give this plan its own context"
            raise DefinitionError(Diagnostic("run.context-busy", message, hint=hint)) from None
        self.holder = self.last = run_id

    def release(self, run_id: str) -> None:
        if self.holder == run_id:
            self.holder = ""
            self._free.append(None)
