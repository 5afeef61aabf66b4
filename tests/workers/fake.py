"""A worker backend in this process and in virtual time: it executes each chunk, pickled, when its time is over."""

from __future__ import annotations

import asyncio
import heapq
import pickle
from collections.abc import Callable
from typing import Any

from agf_magics.workers.backends.backend import Lost

Script = Callable[[int, list[Any]], Any]


class Fake:
    """``lanes`` workers whose calls take ``seconds`` each. ``script(n, xs)``: the outcome of chunk ``n`` (from 0) with
    the calls ``xs``; None: what the calls return."""

    name = "fakes"
    kills = False

    def __init__(
        self, lanes: int = 2, seconds: float = 0.01, identifies: bool = True, script: Script = lambda n, xs: None
    ) -> None:
        self.lanes, self.seconds, self.identifies_lost_chunk, self.script = lanes, seconds, identifies, script
        self.chunks: list[list[Any]] = []
        """The ``x`` of the calls of each chunk, in the order of `submit`."""
        self.sent: list[bytes] = []
        """Everything that was sent."""
        self.cancelled: list[int] = []
        self.in_flight = self.peak = 0
        self.twice = False
        """Whether each outcome is reported twice."""
        self._free = [0.0] * lanes

    def submit(
        self, run: Callable[..., Any], order: tuple[Any, ...], done: Callable[[Any], None]
    ) -> Callable[[], None]:
        loop, number = asyncio.get_running_loop(), len(self.chunks)
        data = pickle.dumps(order)
        self.sent.append(data)
        xs = [given["x"] for given in pickle.loads(order[2])]
        self.chunks.append(xs)
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        begin = max(heapq.heappop(self._free), loop.time())
        heapq.heappush(self._free, begin + self.seconds * len(xs))

        def land() -> None:
            self.in_flight -= 1
            outcome = self.script(number, xs)
            if outcome is None:
                marks, values, _, *rest = run(*pickle.loads(data))
                outcome = (marks, values, self.seconds * sum(mark != "n" for mark in marks), *rest)
            for _ in range(1 + self.twice):
                done(outcome)

        timer = loop.call_at(begin + self.seconds * len(xs), land)

        def cancel() -> None:
            self.cancelled.append(number)
            if loop.time() < begin:
                timer.cancel()
                self.in_flight -= 1
                done(Lost("cancelled", cancelled=True))

        return cancel
