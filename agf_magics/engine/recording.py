"""The protocol of a recording, whose outcomes a run uses instead of making calls."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

from ..flow.step_path import StepPath
from ..journal.records.recorded_outcomes import RecordedOutcome
from ..text.diagnostics import Diagnostic, StepError
from ..values.value import Value

Site = Any
"""A `CallSite`. It is not imported, because its module imports this one."""


class AskedCall(NamedTuple):
    """A call in the form in which a recording is searched for it."""

    kind: str
    """``tool``, ``agent``, ``model``, ``transform``, ``policy`` or ``question``."""
    step_kind: str
    """`Invoke.kind` of the step."""
    name: str
    """The name of the callee."""
    arguments: str
    """The arguments as JSON, without secrets."""
    contents: str | None
    """The digest of arguments that are not JSON; empty: they cannot be compared; None: they are
    JSON."""
    site: Site


class Recording(Protocol):
    """The recorded outcomes that a run uses instead of making calls. lifecycle/recordings/replay.py
    implements it."""

    name: str
    """The name of the recording's file."""

    @property
    def replays_tools(self) -> bool:
        """Whether the outcomes of tools come from the recording."""
        ...

    @property
    def makes_no_call(self) -> bool:
        """Whether every outcome comes from the recording, so that no call is made."""
        ...

    def ask(self, site: Site, kind: str, callee: object, arguments: Value) -> AskedCall:
        """The `AskedCall` for a call that is about to be made."""
        ...

    def is_made(self, asked: AskedCall) -> bool:
        """Whether the call will be made: the recording does not cover calls of its kind, or lacks
        the call and lets it be made."""
        ...

    def absent(self, asked: AskedCall) -> StepError:
        """The error of a call that is not recorded and must not be made."""
        ...

    def take(self, asked: AskedCall) -> RecordedOutcome | None:
        """Take the recorded outcome, which is used once; None: the call is made. Raises StepError
        if the call must not be made."""
        ...

    def keep(self, asked: AskedCall, value: Value, error: StepError | None = None) -> None:
        """Record the outcome of a call that was made."""
        ...

    def order(self, paths: Sequence[StepPath]) -> list[int]:
        """The indexes of the concurrent parts at ``paths`` whose ends are recorded, in the order of
        their ends."""
        ...

    def notes(self) -> Sequence[Diagnostic]:
        """The warnings for the end of the run."""
        ...


replaying: ContextVar[Recording | None] = ContextVar("replaying", default=None)
"""The recording of the runs in this context, those that a tool starts included."""
