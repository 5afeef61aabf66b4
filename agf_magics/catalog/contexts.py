"""A named context of plans, as the registry keeps it.

Its messages last across cells. The plan language defines the log.
"""

from __future__ import annotations

from typing import Any

from ..text.diagnostics import DefinitionError, Diagnostic


class Context:
    """A log with a name. One run at a time writes to it."""

    __slots__ = ("_free", "holder", "last", "log", "name")

    def __init__(self, name: str, log: Any = None) -> None:
        self.name = name
        self.log = log
        """The messages of its last run; None: no run has used it."""
        self.holder = ""
        """The run that uses it now; empty: none."""
        self.last = ""
        """The last run that used it."""
        self._free = [None]  # an atomic lock: `pop` succeeds for one thread

    def hold(self, run_id: str) -> None:
        """Lock it for a run. Raises DefinitionError if another run has it."""
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
