"""The threads of a fan-out: how many there are, and that no call is lost, made twice or reported late."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections import Counter
from typing import Any

import pytest

from agf_magics.engine import threads as thread_pool
from agf_magics.engine.threads import ThreadPool
from agf_magics.engine.user_code import Call
from tests.engine.jobs import no_call_is_away


class Calls:
    """Makes calls through a pool and waits for their ends."""

    def __init__(self, **more: Any) -> None:
        self.loop = asyncio.get_running_loop()
        self.ended: list[Call] = []
        self.more = asyncio.Event()
        self.pool = ThreadPool[Call](self.report, 8, **more)

    def report(self, calls: list[Call]) -> None:
        self.ended += calls
        self.more.set()

    def call(self, function: Any, *given: Any) -> Call:
        return Call(lambda: function(*given), {}, self.loop)

    async def all(self, count: int) -> list[Any]:
        while len(self.ended) < count:
            await self.more.wait()
            self.more.clear()
        return [call.result for call in self.ended]


def test_each_call_is_made_once_whatever_the_batches() -> None:
    made, lock = Counter[int](), threading.Lock()

    def work(i: int) -> int:
        with lock:
            made[i] += 1
        if i % 50 == 0:
            time.sleep(0.0005)  # now and then a long call, so that threads come and go
        return i

    async def main() -> list[Any]:
        calls, count = Calls(), 0
        for size in (1, 7, 64, 3, 128, 1, 1, 300):
            calls.pool.hand([calls.call(work, count + i) for i in range(size)])
            count += size
            await asyncio.sleep(0)
        try:
            return await calls.all(count)
        finally:
            calls.pool.close()

    results = asyncio.run(main())
    assert sorted(value for _, value in results) == list(range(505))
    assert set(made.values()) == {1}
    assert no_call_is_away()


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the machine is busy with, the calls are short."""
    monkeypatch.setattr(thread_pool, "SLOW", 3600.0)
    monkeypatch.setattr(ThreadPool, "_wake_lookout", lambda self: None)


@pytest.mark.usefixtures("one_thread")
def test_short_calls_have_one_thread() -> None:
    names = set[int]()

    async def main() -> None:
        calls = Calls()
        for _ in range(10):
            calls.pool.hand([calls.call(lambda: names.add(threading.get_ident())) for _ in range(16)])
        await calls.all(160)
        calls.pool.close()

    asyncio.run(main())
    assert len(names) == 1


def test_calls_that_wait_for_each_other_all_get_a_thread() -> None:
    met = threading.Barrier(12, timeout=60)

    async def main() -> list[Any]:
        calls = Calls()
        calls.pool.hand([calls.call(met.wait) for _ in range(12)])
        try:
            return await calls.all(12)
        finally:
            calls.pool.close()

    assert [ok for ok, _ in asyncio.run(main())] == [True] * 12


def test_a_single_call_does_not_wait_for_a_long_one() -> None:
    begun, gate = threading.Event(), threading.Event()

    def long() -> bool:
        begun.set()
        return gate.wait(60)

    async def main() -> list[Any]:
        calls = Calls()
        calls.pool.hand([calls.call(long)])
        await asyncio.to_thread(begun.wait)
        calls.pool.hand([calls.call(gate.set)])
        try:
            return await calls.all(2)
        finally:
            calls.pool.close()

    assert sorted(asyncio.run(main()), key=str) == [(True, None), (True, True)]


def test_the_end_of_a_short_call_does_not_wait_for_a_long_one_wherever_the_lookout_is() -> None:
    program = [sys.executable, "-m", "tests.engine.lookout_program"]
    assert subprocess.run(program, capture_output=True, text=True, check=True).stdout.strip() == "0"


@pytest.mark.parametrize("halts", [True, False])
@pytest.mark.usefixtures("one_thread")
def test_after_a_failure_a_halting_pool_waits_for_the_next_calls(halts: bool) -> None:
    made = list[int]()

    def work(i: int) -> None:
        made.append(i)
        if i == 0:
            raise ValueError

    async def main() -> tuple[list[int], list[Any]]:
        calls = Calls(halts=halts)
        calls.pool.hand([calls.call(work, i) for i in range(4)])
        await calls.all(1 if halts else 4)
        before = list(made)
        calls.pool.hand([calls.call(work, 5)], [calls.call(work, 4)])
        try:
            return before, await calls.all(6)
        finally:
            calls.pool.close()

    before, results = asyncio.run(main())
    assert before == ([0] if halts else [0, 1, 2, 3])
    assert made == ([0, 4, 1, 2, 3, 5] if halts else [0, 1, 2, 3, 4, 5])
    assert [ok for ok, _ in results] == [False] + [True] * 5


@pytest.mark.usefixtures("one_thread")
def test_calls_that_are_cancelled_are_not_made() -> None:
    made, begun, gate = list[int](), threading.Event(), threading.Event()

    def work(i: int) -> None:
        begun.set()
        gate.wait()
        made.append(i)

    async def main() -> None:
        calls = Calls()
        all_calls = [calls.call(work, i) for i in range(4)]
        calls.pool.hand(all_calls)
        await asyncio.to_thread(begun.wait)
        assert all_calls[2].take()  # it is cancelled
        gate.set()
        await calls.all(3)
        calls.pool.close()

    asyncio.run(main())
    assert made == [0, 1, 3]
    assert no_call_is_away()
