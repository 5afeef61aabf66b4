"""Limits the rate of a tool's calls and repeats failed calls, for services that fail (decision
D46).

A tool has one gate for all its calls in this process, whatever run, thread, loop or session they
come from. So a gate is a lock and a queue of futures, not a semaphore of one loop. A call waits in
the engine, without a thread, and a worker gets the call when its turn has come.
"""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import math
import random
import re
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from numbers import Real
from typing import NamedTuple, TypeVar

from ...text.raised import attribute, is_a, kind_of
from .outcome_unknown import OutcomeUnknown

T = TypeVar("T")

WhenEnded = Callable[[Callable[[], None]], None]
"""Calls a function, on any thread, when a call has ended."""

AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
"""The HTTP statuses of a service that is busy or restarts."""

TRANSPORT = frozenset(
    {
        ("httpx", "TransportError"),
        ("requests", "ConnectionError"),
        ("requests", "Timeout"),
        ("aiohttp", "ClientConnectionError"),
        ("urllib", "URLError"),
    }
)
"""The classes of other libraries that mean ConnectionError or TimeoutError."""

_RATE = re.compile(r"([1-9][0-9]{0,4})/(s|min|h)", re.ASCII)
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}
LONGEST = 3600.0
"""The longest pause, in seconds."""


def is_number(value: object, kind: type = Real) -> bool:
    """Whether ``value`` is a number of this kind. True and False are not."""
    return isinstance(value, kind) and not isinstance(value, bool)


def check_at_once(at_once: object) -> None:
    """Raises TypeError or ValueError if this is no number of calls or runs at the same time."""
    if not is_number(at_once, int):
        raise TypeError(f"at_once must be a whole number, got {at_once!r}")
    if at_once < 1:  # type: ignore[operator]
        raise ValueError(f"at_once must be at least 1, got {at_once!r}")


@dataclass(frozen=True, slots=True)
class Retry:
    """How a failed call of a tool is repeated.

        @tool(retry=agf.Retry(5, most=30))
        def fetch(url: str) -> str: ...

    Errors with the HTTP status 408, 425, 429, 500, 502, 503 or 504 are repeated, and no other
    status. A server's ``Retry-After`` sets the pause, for all calls of the tool.

    Parameters:

    - ``times``: how many more attempts a call gets. Default 3.
    - ``on``: the exceptions without a status that are repeated. Default: ConnectionError and
      TimeoutError, which include those of httpx, requests, aiohttp and urllib.
    - ``first``: the pause before the second attempt, in seconds. Default 0.5. Each pause is up to a
      quarter longer or shorter, so that calls that failed together do not come back together.
    - ``factor``: what each further pause is multiplied by. Default 2.
    - ``most``: the longest pause, in seconds. Default 60. If a server asks for a longer one, the
      call fails at once.
    """

    times: int = 3
    on: tuple[type[BaseException], ...] = (ConnectionError, TimeoutError)
    first: float = 0.5
    factor: float = 2.0
    most: float = 60.0

    def __post_init__(self) -> None:
        if not is_number(self.times, int) or self.times < 0:
            raise ValueError(f"Retry: times must be a number from 0, got {self.times!r}")
        kinds = self.on if isinstance(self.on, tuple) else (self.on,)
        if not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
            raise TypeError(f"Retry: on must be a tuple of exception classes, got {self.on!r}")
        object.__setattr__(self, "on", kinds)
        for name in ("first", "factor", "most"):
            value = getattr(self, name)
            if not (is_number(value) and 0 <= value <= LONGEST):
                message = f"Retry: {name} must be a number from 0 to {LONGEST:g}, got {value!r}"
                raise ValueError(message)


def repeats(retry: Retry, error: BaseException) -> bool:
    """Whether a call that failed with ``error`` is made again."""
    # The first call may still run, so a second one would run beside it.
    if is_a(error, OutcomeUnknown):
        return False
    status = status_of(error)
    if status is not None:
        return status in AGAIN
    return is_a(error, retry.on) or (ConnectionError in retry.on and _is_transport(error))


def pause_after(retry: Retry, attempt: int) -> float:
    """The seconds before the attempt after ``attempt``, which counts from 1."""
    # The exponent is bounded, because a large power of a float is an error.
    grown = min(retry.first * retry.factor ** min(attempt - 1, 60), retry.most)
    return min(grown * random.uniform(0.75, 1.25), retry.most)


def status_of(error: BaseException) -> int | None:
    """The HTTP status in an error of httpx, requests, aiohttp or urllib; None: it has no status."""
    response = attribute(error, "response")
    candidates = [
        attribute(response, "status_code"),
        *(attribute(error, name) for name in ("status_code", "status", "code")),
    ]
    return next(
        (status for status in candidates if type(status) is int and 100 <= status < 600), None
    )


def asked_pause(error: BaseException) -> float | None:
    """The seconds that a server asks to wait by ``Retry-After``, a number or a date; None: it does
    not ask."""
    with contextlib.suppress(BaseException):  # a mapping of another library, or a user's class
        headers = attribute(attribute(error, "response"), "headers") or attribute(error, "headers")
        retry_after = headers.get("retry-after", headers.get("Retry-After"))
        with contextlib.suppress(ValueError):
            seconds = float(retry_after)
            return max(seconds, 0.0) if math.isfinite(seconds) else None
        moment = email.utils.parsedate_to_datetime(retry_after).timestamp()
        return max(moment - time.time(), 0.0)
    return None


def reason(error: BaseException) -> str:
    """The reason why a call is repeated, in a word: ``HTTP 429``, ``ConnectionError``."""
    status = status_of(error)
    return kind_of(error) if status is None else f"HTTP {status}"


def _is_transport(error: BaseException) -> bool:
    """Whether an error of another library means ConnectionError or TimeoutError."""
    return any(
        (kind.__module__.partition(".")[0], kind.__name__) in TRANSPORT
        for kind in type(error).__mro__
    )


class Gate:
    """Limits how many calls of a tool run at the same time, and how many start in an interval."""

    def __init__(self) -> None:
        self.at_once: int | None = None
        """The number of calls that may run at the same time; None: no limit."""
        self._rate = 0
        """The number of calls that may start in `_per` seconds; 0: no limit."""
        self._per = 0.0
        """The interval of the rate, in seconds."""
        self._starts: deque[float] = deque()
        """The start times of the last calls, at most `_rate` of them."""
        self._running = 0
        """The number of running calls."""
        self._paused_until = 0.0
        """The time until which no call starts, because a server asked for a pause."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        """The futures of the calls that wait until another call ends."""
        self._lock = threading.Lock()

    def limit(self, rate: str | None, at_once: int | None) -> None:
        """Set the limits. Raises TypeError or ValueError."""
        if rate is not None and not isinstance(rate, str):
            raise TypeError(f'rate must be a text such as "20/s", got {rate!r}')
        # "1/s" only makes the match succeed: without a rate its numbers are not used.
        written = _RATE.fullmatch("1/s" if rate is None else rate)
        if written is None:
            forms = '"20/s", "100/min" or "1000/h", with a number from 1'
            raise ValueError(f"rate must be written {forms}, got {rate!r}")
        if at_once is not None:
            check_at_once(at_once)
        with self._lock:
            self.at_once = at_once
            self._rate = int(written[1]) if rate else 0
            self._per = _SECONDS[written[2]] if rate else 0.0
            self._starts = deque(self._starts, self._rate)
            waiting = len(self._waiting)
        for _ in range(waiting):  # the new limit may have room for all of them
            self._wake()

    async def pass_through(
        self,
        make: Callable[[], Awaitable[T]],
        goes_on: Callable[[object], WhenEnded | None] = lambda outcome: None,
    ) -> T:
        """Wait for the turn, then await ``make()`` and return its result. ``goes_on``: for the result
        or the exception of ``make()``, tells the end of a call that goes on and so keeps its place;
        None: no call goes on. Default: none does."""
        # A tool that runs a flow that calls the same tool would wait for itself.
        if self in _inside.get():
            return await make()
        await self._enter()
        before = _inside.set(_inside.get() | {self})
        outcome: object = None
        try:
            outcome = result = await make()
            return result
        except BaseException as error:
            outcome = error
            raise
        finally:
            _inside.reset(before)
            when_ended = goes_on(outcome)
            if when_ended is None:
                self._leave()
            else:
                when_ended(self._leave)

    def _leave(self) -> None:
        """Give the place of a call to the next one. Any thread may call this."""
        with self._lock:
            self._running -= 1
        self._wake()

    def pause(self, seconds: float) -> None:
        """Start no call for ``seconds``."""
        with self._lock:
            self._paused_until = max(
                self._paused_until, asyncio.get_running_loop().time() + seconds
            )

    async def _enter(self) -> None:
        """Wait until a call may start, and count it."""
        loop = asyncio.get_running_loop()
        while True:
            turn: asyncio.Future[None] = loop.create_future()
            with self._lock:
                current_time = loop.time()  # all loops have the same clock
                wait = self._until_open(current_time)
                if not wait:
                    self._running += 1
                    if self._rate:
                        self._starts.append(current_time)
                    return
                if wait == math.inf:
                    self._waiting.append(turn)
            try:
                await (turn if wait == math.inf else asyncio.sleep(wait))
            except asyncio.CancelledError:
                with self._lock, contextlib.suppress(ValueError):
                    self._waiting.remove(turn)
                # It may have had the turn, also while it waits for the rate.
                self._wake()
                raise

    def _until_open(self, current_time: float) -> float:
        """The seconds until a call may start; infinite: another call must end first."""
        if self._paused_until > current_time:
            return self._paused_until - current_time
        if self.at_once is not None and self._running >= self.at_once:
            return math.inf
        # Look at the start `_rate` calls ago, so that any window has at most `_rate` starts. A
        # token bucket would let twice as many start in the first second.
        if self._rate and len(self._starts) == self._rate:
            return max(self._starts[0] + self._per - current_time, 0.0)
        return 0.0

    def _wake(self) -> None:
        """Wake the first waiting call, to check whether its turn has come."""
        while True:
            with self._lock:
                if not self._waiting:
                    return
                turn = self._waiting.popleft()
            with contextlib.suppress(RuntimeError):  # the loop of the call is closed
                turn.get_loop().call_soon_threadsafe(_give, turn)
                return


def _give(turn: asyncio.Future[None]) -> None:
    """Wake the call that waits for ``turn``."""
    if not turn.done():
        turn.set_result(None)


_inside: ContextVar[frozenset[Gate]] = ContextVar("gates", default=frozenset())
"""The gates that the calls around this code have passed."""


class Throttle(NamedTuple):
    """The gate and the retries of a tool's calls."""

    gate: Gate
    retry: Retry | None
    """How a failed call is repeated; None: it is not."""


def make_throttle(
    retry: object, rate: str | None, at_once: int | None, before: Throttle | None
) -> Throttle | None:
    """The throttle for these options; None: there is nothing to limit or repeat. ``before``: the
    throttle of an earlier tool with the same name, whose running calls still count. Raises
    TypeError or ValueError."""
    if retry is not None and not isinstance(retry, Retry):
        raise TypeError(f"retry must be an agf.Retry, got {retry!r}: write retry=agf.Retry(3)")
    if retry is None and rate is None and at_once is None:
        return None
    gate = before.gate if before is not None else Gate()
    gate.limit(rate, at_once)
    return Throttle(gate, retry)
