"""Calls that leave this process, as the engine sees them: `workers.queue` implements both
protocols."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from .threads import Call

C = TypeVar("C", bound=Call)


class Terms(NamedTuple):
    """How calls are made; only calls with the same terms share a chunk."""

    timeout: float | None = None
    """Seconds of each call, counted on its worker."""
    has_effect: bool = False
    """Whether a call travels alone and is never sent twice."""
    limit: int | None = None
    """The number of concurrent calls that the author allows; None: one for each lane."""
    resources: tuple[tuple[str, float], ...] = ()
    """What a call needs of its worker."""


class Placement(NamedTuple):
    """How many elements of a fan-out are with workers."""

    elements: int
    where: str
    """The name of the workers."""
    starting: int = 0
    """How many workers are being started, before the first one is there."""


class CallPool(Protocol[C]):
    """The calls of one fan-out: threads of this process (`thread_pool.ThreadPool`), or workers."""

    @property
    def halted(self) -> bool: ...
    @property
    def is_quick(self) -> bool: ...
    @property
    def running(self) -> list[C]: ...
    def hand(self, calls: Sequence[C], first: Sequence[C] = (), resumes: bool = True) -> None: ...
    def take_back(self) -> list[C]: ...
    def close(self) -> None: ...


class WidePool(CallPool[C], Protocol[C]):
    @property
    def wanted(self) -> int:
        """The number of calls that should have started and not ended, so that no lane waits."""


class RemoteCalls(Protocol):
    """The calls of one run that workers make."""

    @property
    def lanes(self) -> int:
        """The number of concurrent calls, now."""

    @property
    def wanted(self) -> int:
        """As `WidePool.wanted`, for the calls of all functions."""

    def hand(self, call: Call, terms: Terms) -> None:
        """Make ``call`` on a worker, under the rights of the present context. Its result is set on
        the present loop."""

    def pool(
        self,
        report: Callable[[list[C]], None],
        terms: Terms,
        halts: bool,
        place: Callable[[Placement], None],
    ) -> WidePool[C]:
        """The calls of a fan-out.

        ``report`` receives the calls that have ended. ``halts``: after a failure, no further call
        is sent before the next `hand`. ``place`` receives each change of the number of calls that
        are with workers."""

    def on_change(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call ``wake`` after each chunk, until the function that this returns is called."""
