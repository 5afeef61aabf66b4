"""The recorded calls that a run takes instead of making them, as the engine asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

from ..flow.step_path import StepPath
from ..journal.records.recorded_outcomes import RecordedOutcome
from ..text.diagnostics import Diagnostic, StepError
from ..values.value import Value

Site = Any
"""A `CallSite`, of whose module this one knows nothing: the runner imports it."""


class AskedCall(NamedTuple):
    """A call as a recording knows it."""

    kind: str
    """``tool``, ``agent``, ``model``, ``transform``, ``policy`` or ``question``."""
    step_kind: str

    name: str
    arguments: str
    """The arguments as JSON, without secrets."""
    contents: str | None
    """The digest of arguments that are no JSON; empty: they cannot be compared; None: they are."""
    site: Site


class Recording(Protocol):
    """The recorded calls that a run takes instead of making them: see lifecycle/recordings/replay.py."""

    name: str
    """The name of its file."""

    @property
    def replays_tools(self) -> bool:
        """Whether the calls of tools are taken from it."""
        ...

    @property
    def makes_no_call(self) -> bool:
        """Whether every call is taken from it, and none is made."""
        ...

    def ask(self, site: Site, kind: str, callee: object, arguments: Value) -> AskedCall:
        """A call that is about to be made. ``kind``: as in `AskedCall`."""
        ...

    def is_made(self, asked: AskedCall) -> bool:
        """Whether the call will be made, because the recording leaves it to the run."""
        ...

    def absent(self, asked: AskedCall) -> StepError:
        """The error of a call that is not recorded and must not be made."""
        ...

    def take(self, asked: AskedCall) -> RecordedOutcome | None:
        """The recorded outcome, once; None: the call is made. Raises StepError if it may not be."""
        ...

    def keep(self, asked: AskedCall, value: Value, error: StepError | None = None) -> None:
        """Record the outcome of a call that was made."""
        ...

    def order(self, paths: Sequence[StepPath]) -> list[int]:
        """The positions of the concurrent parts at these paths whose ends are recorded, in the
        order of their ends."""
        ...

    def notes(self) -> Sequence[Diagnostic]:
        """What the run warns about at its end."""
        ...


replaying: ContextVar[Recording | None] = ContextVar("replaying", default=None)
"""The recording that runs replay here, also those that a tool of such a run starts."""
