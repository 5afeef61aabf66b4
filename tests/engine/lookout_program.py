"""Stops the lookout of a `ThreadPool` at each of some lines in turn, and prints at how many of
them the end of a short call was not reported before the end of the long call after it.

A program of its own: only threads that start after `threading.settrace` are stopped."""

from __future__ import annotations

import asyncio
import threading
from types import FrameType
from typing import Any

from agf_magics.engine.threads import ThreadPool
from agf_magics.engine.user_code import Call

LINES = range(45, 90)
"""Those before it sleeps for the second time; a request is left of its start, so that it does not
sleep at the first."""


class Stop:
    """Stops the lookout once, after so many lines."""

    def __init__(self, lines: int) -> None:
        self.left, self.reached, self.over = lines, threading.Event(), threading.Event()

    def trace(self, frame: FrameType, event: str, given: Any) -> Any:
        if frame.f_code.co_name != "_look":
            return None
        self.left -= event == "line"
        if not self.left:
            self.left = -1
            self.reached.set()
            self.over.wait(60)
        return self.trace


async def is_reported(stop: Stop) -> bool:
    """Whether a call that ends while the lookout is stopped is reported when it goes on."""
    loop, ended = asyncio.get_running_loop(), list[Call]()
    ends = {name: threading.Event() for name in ("short", "long")}
    begins = {name: threading.Event() for name in ends}
    pool = ThreadPool[Call](ended.extend, 2)

    def call(name: str) -> Call:
        return Call(lambda: (begins[name].set(), ends[name].wait(60)), {}, loop)

    async def until(done: Any) -> bool:
        for _ in range(2_000):
            if done():
                return True
            await asyncio.sleep(0.001)
        return False

    # Many trivial calls: afterwards the mean is short, and one thread makes all calls.
    pool.hand([Call(int, {}, loop) for _ in range(50)])
    await until(lambda: len(ended) == 50)
    await asyncio.to_thread(stop.reached.wait, 0.2)  # it may sleep before that line
    short, long = call("short"), call("long")
    pool.hand([short])
    await asyncio.to_thread(begins["short"].wait, 60)
    pool.hand([long])
    ends["short"].set()
    await asyncio.to_thread(begins["long"].wait, 5)
    stop.over.set()
    found = await until(lambda: short in ended)
    ends["long"].set()
    await until(lambda: long in ended)
    pool.close()
    return found


def main() -> None:
    stop = Stop(0)
    threading.settrace(lambda *event: stop.trace(*event))
    late = list[int]()
    for lines in LINES:
        stop = Stop(lines)
        if not asyncio.run(is_reported(stop)):
            late.append(lines)
    print(len(late))


if __name__ == "__main__":
    main()
