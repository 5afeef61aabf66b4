"""Questions to workers that must not wait for ever: a worker answers nothing while a call holds its
interpreter's lock (a slow regular expression, an extension module)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..sending import loadable
from . import tasks
from .flight import DaskFlight

ANSWER = 2.0
"""Seconds in which a worker must answer."""
ANSWER_HERE = 0.5
"""The same for a worker of this machine that is about to be ended: the run waits for that."""
FEW = 16
"""Workers that are asked one by one, so that one without an answer keeps no other answer."""


async def ask_workers(
    client: Any, function: Callable[[], Any], workers: Sequence[str], seconds: float = ANSWER
) -> dict[str, Any]:
    """What ``function`` returns on each of ``workers``. Those that do not answer in ``seconds`` are
    left out."""

    async def ask(some: Sequence[str]) -> dict[str, Any]:
        question = client.run(loadable(function), workers=list(some), on_error="ignore")
        with contextlib.suppress(TimeoutError):
            return dict(await asyncio.wait_for(question, seconds))
        return {}

    found = await ask(workers) if len(workers) > FEW else {}
    if not found:
        for answer in await asyncio.gather(*(ask([worker]) for worker in workers)):
            found |= answer
    return found


async def find_versions(client: Any) -> Mapping[str, Any]:
    """The versions that each worker reports, by its address; empty if one of them does not answer
    in time."""
    with contextlib.suppress(TimeoutError):
        found: Mapping[str, Any] = (await asyncio.wait_for(client.get_versions(), ANSWER))[
            "workers"
        ]
        return found
    return {}


async def cancel_flights(
    client: Any, wanted: Sequence[DaskFlight], end_worker: Callable[[str], None] | None
) -> None:
    """Drop the chunks that no worker executes. One that is executed ends by itself; if it is
    cancelled again, after the grace period, ``end_worker`` ends its worker; None: it is not our
    own."""
    placed: Mapping[str, Sequence[str]] = await client.processing()
    named = {flight.key for flight in wanted}
    asked = [worker for worker, known in placed.items() if not named.isdisjoint(known)]
    seconds = ANSWER if end_worker is None else ANSWER_HERE
    found = await ask_workers(client, tasks.running_tasks, asked, seconds)
    running = {
        key: worker for worker in asked for key in found.get(worker, placed[worker])
    }  # a silent one is busy
    late = {
        running[each.key]
        for each in wanted
        if each.key in running and each.cancels > 1 and end_worker is not None
    }
    dropped = [
        each.future for each in wanted if each.key not in running or running[each.key] in late
    ]
    if dropped:
        await client.cancel(dropped, force=True)
    for worker in late:
        assert end_worker is not None
        end_worker(worker)
