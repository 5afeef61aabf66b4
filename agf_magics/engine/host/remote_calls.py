"""What the engine needs of workers that make its calls: `workers.call_queue` implements it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from ..threads.call_threads import ThreadCall

C = TypeVar("C", bound=ThreadCall)
C_contra = TypeVar("C_contra", bound=ThreadCall, contravariant=True)


class Terms(NamedTuple):
    """How calls are made; only calls with the same terms share a chunk."""

    timeout: float | None = None
    """Seconds of each call, counted on its worker."""
    has_effect: bool = False
    """Whether a call travels alone and is never sent twice."""
    limit: int | None = None
    """The number of concurrent calls that the author allows; None: one for each lane."""
    resources: tuple[tuple[str, float], ...] = ()
    """The resources that a call needs of its worker."""
    name: str | None = None
    """The name of the tool, for messages; None: that of the function."""


class Placement(NamedTuple):
    """How many elements of a fan-out are with workers."""

    elements: int
    where: str
    """The name of the workers."""
    starting: int = 0
    """The number of workers that are being started, before the first one is there."""


class FanOutCalls(Protocol[C_contra]):
    """The calls of one fan-out on workers."""

    @property
    def halted(self) -> bool:
        """Whether calls wait for a `hand` that resumes, after a failure was reported."""

    def hand(
        self, calls: Sequence[C_contra], first: Sequence[C_contra] = (), resumes: bool = True
    ) -> None:
        """Make ``calls`` after those that wait, and ``first`` before them. ``resumes``: the failures
        that were reported have been handled, so that waiting calls may start."""

    def close(self) -> None:
        """Start no further call; those that have started end."""

    @property
    def wanted(self) -> int:
        """The number of calls that should have started and not ended, so that no lane waits."""


class RemoteCalls(Protocol):
    """The calls of one run that workers make."""

    listeners: dict[Callable[[], None], None]
    """Called after each chunk."""

    @property
    def wanted(self) -> int:
        """As `FanOutCalls.wanted`, for the calls of all functions."""

    def hand(self, call: ThreadCall, terms: Terms) -> None:
        """Make ``call`` on a worker, under the rights of the present context. Its result is set on
        the present loop."""

    def fan_out(
        self,
        function: Callable[..., Any],
        report: Callable[[list[C]], None],
        terms: Terms,
        halts: bool,
        show: Callable[[Placement], None],
    ) -> FanOutCalls[C]:
        """The calls of a fan-out over ``function``.

        ``report`` receives the calls that have ended. ``halts``: after a failure, no further call
        is sent before the next `hand`. ``show`` receives each change of the number of calls that
        are with workers."""


class OutcomeUnknown(Exception):
    """A call with an effect (``reuse=False``) may or may not have been made: its worker was lost.

    It is no outcome of the call (decision D7): nothing repeats it but a person who knows."""
