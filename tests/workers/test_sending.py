"""Sending to workers: modules are collected while other threads of the kernel work, and large arguments go into
files."""

import asyncio
import gc
import itertools
import sys
import types
from pathlib import Path
from typing import Any

import numpy

from agf_magics.engine.host.remote_calls import Terms
from agf_magics.engine.threads.call_threads import ThreadCall
from agf_magics.workers.call_queue import CallQueue, RemoteFanOut
from agf_magics.workers.sending.functions import own_modules
from tests.workers.in_process import InProcess


def test_the_modules_are_listed_while_another_one_is_imported() -> None:
    """The garbage collector plays the other thread, because it can run wherever an object is made."""
    added = itertools.count()

    def add(phase: str, info: dict[str, int]) -> None:
        name = f"added_{next(added)}"
        sys.modules[name] = types.ModuleType(name)

    before = gc.get_threshold()
    gc.callbacks.append(add)
    gc.set_threshold(1)
    try:
        own_modules()
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(add)
    count = next(added)
    for number in range(count):
        sys.modules.pop(f"added_{number}", None)
    assert count > 0


# --- two fan-outs over one function ---


class Apart(InProcess):
    """A backend with a folder for large arguments, like that of processes."""

    def __init__(self, folder: str) -> None:
        super().__init__(lanes=1, holds=True)
        self.folder = lambda: folder


def test_the_files_of_a_fan_out_stay_until_its_chunks_have_landed(tmp_path: Path) -> None:
    """A chunk may have calls of two fan-outs, and one fan-out may end before the calls of the other have begun."""

    async def main() -> None:
        backend, loop = Apart(str(tmp_path)), asyncio.get_running_loop()
        queue = CallQueue(backend)
        ends: RemoteFanOut[ThreadCall] = queue.fan_out(
            first_of, lambda calls: None, Terms(), False, lambda placement: None
        )
        stays: RemoteFanOut[ThreadCall] = queue.fan_out(
            first_of, lambda calls: None, Terms(), False, lambda placement: None
        )

        def calls(*numbers: int) -> list[ThreadCall]:
            return [ThreadCall(first_of, {"a": numpy.full(50_000, number)}, loop) for number in numbers]

        # The first chunk has one call, and later chunks have more.
        ends.hand(calls(0))
        await turns()
        backend.release()
        await turns()
        ends.hand(calls(1))
        held_calls = calls(2)
        stays.hand(held_calls)
        await turns()
        assert (len(backend.held), len(list(tmp_path.iterdir()))) == (1, 2), "one chunk, a file for each array"
        ends.close()
        backend.release()
        await turns()
        stays.close()
        assert held_calls[0].result == (True, 2.0)
        assert not list(tmp_path.iterdir())

    asyncio.run(main())


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def first_of(a: Any) -> float:
    return float(a[0])
