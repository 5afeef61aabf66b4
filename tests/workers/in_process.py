"""A worker backend in this process: it pickles everything that it sends and gets, so that nothing is shared."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from typing import Any

from agf_magics.workers.backend import Cancel, Lost


class InProcess:
    """Runs each chunk at once, in `submit`; or, if it ``holds``, when a test says so."""

    identifies_lost_chunk = True

    def __init__(self, lanes: int = 2, holds: bool = False) -> None:
        self.name, self.lanes, self.holds = "this process", lanes, holds
        self.sent: list[bytes] = []
        """The bytes of each chunk."""
        self.numbers: list[list[int]] = []
        """The elements of each chunk of whole elements."""
        self.answers: list[bytes] = []
        self.held: list[tuple[bytes, Callable[[Any], None]]] = []
        self.cancelled = 0
        self.change: Callable[[Any], Any] = lambda outcome: outcome
        """Changes an outcome before it is reported."""

    def submit(self, run: Callable[..., Any], order: tuple[Any, ...], done: Callable[[Any], None]) -> Cancel:
        data = pickle.dumps((run, order), 5)
        self.sent.append(data)
        if run.__name__ == "run_elements":
            self.numbers.append(pickle.loads(order[2])[0])
        if self.holds:
            self.held.append((data, done))
        else:
            done(self.execute(data))
        return self.cancel

    def cancel(self) -> None:
        self.cancelled += 1

    def execute(self, data: bytes) -> Any:
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

    def lose(self, number: int = 0, *, last: bool = False) -> None:
        """Report that the worker of a held chunk is lost."""
        _, done = self.held.pop(number)
        done(Lost("process 7 ended with -9", last=last))
