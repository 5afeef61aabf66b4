"""A worker backend inside this process, which pickles everything that it sends and receives, so that nothing is
shared."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Callable
from typing import Any

from agf_magics.workers.backends.backend import Cancel, Lost


class InProcess:
    """Runs each chunk at once, in `submit`. If it ``holds``, it runs a chunk when a test releases it."""

    identifies_lost_chunk = True

    def __init__(self, lanes: int = 2, holds: bool = False) -> None:
        self.name, self.lanes, self.holds = "this process", lanes, holds
        self.sent: list[bytes] = []
        """The bytes of each chunk."""
        self.answers: list[bytes] = []
        """The bytes of the outcome of each chunk."""
        self.held: list[tuple[bytes, Callable[[Any], None]]] = []
        """The chunks that wait for their release, each with the function that reports its outcome."""
        self.cancelled = 0
        self.arrived = threading.Event()
        """An event that is set when a chunk is held."""
        self.change: Callable[[Any], Any] = lambda outcome: outcome
        """The function that changes an outcome before it is reported."""

    def submit(self, run: Callable[..., Any], order: tuple[Any, ...], done: Callable[[Any], None]) -> Cancel:
        data = pickle.dumps((run, order), 5)
        self.sent.append(data)
        if self.holds:
            self.held.append((data, done))
            self.arrived.set()
        else:
            done(self.execute(data))
        return lambda: self.cancel(data, done)

    def cancel(self, data: bytes, done: Callable[[Any], None]) -> None:
        """Drop a chunk that was not executed."""
        self.cancelled += 1
        if (data, done) in self.held:
            self.held.remove((data, done))
            done(Lost("cancelled", cancelled=True))

    def execute(self, data: bytes) -> Any:
        """Run a chunk as a process without a running loop does. Returns its outcome."""
        loop = asyncio._get_running_loop()
        asyncio._set_running_loop(None)
        try:
            run, order = pickle.loads(data)
            answer = pickle.dumps(run(*order), 5)
        finally:
            asyncio._set_running_loop(loop)
        self.answers.append(answer)
        return self.change(pickle.loads(answer))

    def release(self, number: int = 0) -> None:
        """Run a held chunk and report its outcome."""
        data, done = self.held.pop(number)
        done(self.execute(data))
