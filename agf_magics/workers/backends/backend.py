"""`WorkerBackend`, the protocol of everything that sends chunks of calls to workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

CLOSED = "its workers were closed (%workers --close)"
"""Why a call cannot run after the person has closed the workers. Unloading the extension closes the
workers, too."""


class Lost(Exception):
    """The outcome of a chunk whose worker ended before it reported."""

    def __init__(
        self,
        why: str,
        *,
        last: bool = False,
        cancelled: bool = False,
        gone: bool = False,
        late: float | None = None,
    ) -> None:
        """``why``: the reason, for the message of the call. ``last``: the backend has repeated the
        chunk itself, and the chunk will not succeed. ``cancelled``: we have cancelled the chunk, or
        ended its worker on purpose, so that no call is to blame. ``gone``: the backend runs nothing any
        more. ``late``: the time limit of the chunk's calls, in seconds, if the worker gave no sign of
        life for that long."""
        super().__init__(why)
        self.last = last
        self.cancelled = cancelled
        self.gone = gone
        self.late = late


Cancel = Callable[[], None]
"""Cancels a chunk. Called a second time after the grace period: ends its worker, if the backend may
(`kills`)."""


@runtime_checkable
class WorkerBackend(Protocol):
    """Sends chunks to workers.

    A backend may also have the attributes ``kills`` (bool: cancelling twice ends the worker),
    ``ahead`` (int: chunks in flight for each lane), ``close`` (a function), ``starting`` (int: how
    many workers are being started; 0: all are there), ``notify_started`` (a function: calls its
    argument on any thread as soon as the workers are there) and ``notify_warning`` (a function: calls
    ``warn_soon`` of its argument, a `Dispatcher`, on any thread with each later warning)."""

    @property
    def name(self) -> str:
        """The name of the workers in errors and in the live row: ``2 processes``."""

    identifies_lost_chunk: bool
    """Whether a loss names the one chunk that was with the process that ended."""

    @property
    def lanes(self) -> int:
        """The number of calls that can run at the same time now. Never blocks."""

    def submit(
        self, run: Callable[..., Any], order: tuple[Any, ...], report: Callable[[Any], None]
    ) -> Cancel:
        """Execute ``run(*order)`` on a worker.

        ``report(outcome)`` is called once, on any thread. The outcome is the value that ``run`` returned,
        a `Lost`, or the exception with which the backend failed. Returns the function that cancels the
        chunk."""


def options_of(order: tuple[Any, ...]) -> Mapping[str, Any]:
    """The options of a chunk: the last argument of each function that runs a chunk."""
    return order[-1] if isinstance(order[-1], Mapping) else {}


def nothing(*_: object) -> None:
    """Do nothing: stands for an optional function that a backend does not have, and for the `Cancel` of
    a chunk that is not in flight."""
