"""The protocols of workers that make the engine's calls. `workers.call_queue` implements them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from ..threads.call_threads import ThreadCall

C = TypeVar("C", bound=ThreadCall)
C_contra = TypeVar("C_contra", bound=ThreadCall, contravariant=True)


class Terms(NamedTuple):
    """The terms of calls on workers. Only calls with the same terms share a chunk."""

    timeout: float | None = None
    """The seconds of each call, counted on its worker; None: no limit."""
    has_effect: bool = False
    """Whether a call travels alone and is never sent twice."""
    limit: int | None = None
    """The number of concurrent calls that the author allows; None: one call for each lane."""
    resources: tuple[tuple[str, float], ...] = ()
    """The resources that a call needs of its worker."""
    name: str | None = None
    """The name of the tool, for messages; None: the name of the function."""


class Placement(NamedTuple):
    """The number of a fan-out's elements that are with workers."""

    elements: int
    where: str
    """The name of the workers."""
    starting: int = 0
    """The number of workers that are being started, before the first worker is ready."""


class FanOutCalls(Protocol[C_contra]):
    """The calls of one fan-out on workers."""

    @property
    def halted(self) -> bool:
        """Whether calls wait for a `hand` with ``resumes``, because a failure was reported."""

    def hand(
        self, calls: Sequence[C_contra], first: Sequence[C_contra] = (), resumes: bool = True
    ) -> None:
        """Make ``calls`` after the waiting calls, and ``first`` before them. ``resumes``: whether
        all reported failures have been handled, so that waiting calls may start."""

    def close(self) -> None:
        """Start no further call. Started calls end normally."""

    @property
    def wanted_calls(self) -> int:
        """The number of calls that should run at the same time, so that no lane waits."""


class RemoteCalls(Protocol):
    """The calls of one run that workers make."""

    listeners: dict[Callable[[], None], None]
    """Functions that are called after each chunk."""

    @property
    def wanted_calls(self) -> int:
        """`FanOutCalls.wanted_calls` for the calls of all functions."""

    def hand(self, call: ThreadCall, terms: Terms) -> None:
        """Make ``call`` on a worker, with the rights of the current context. The result is set on
        the current loop."""

    def fan_out(
        self,
        function: Callable[..., Any],
        report: Callable[[list[C]], None],
        terms: Terms,
        halts: bool,
        show: Callable[[Placement], None],
    ) -> FanOutCalls[C]:
        """The calls of a fan-out over ``function``.

        ``report``: gets the calls that have ended. ``terms``: the terms of all calls. ``halts``:
        whether no further call is sent after a failure until the next `hand`. ``show``: gets each
        change of the number of calls that are with workers."""
