"""A worker backend on a Dask client.

Everything that asks the scheduler or changes the state of a `Dask` runs on the loop of its client, which
is never the loop of the engine. The engine only reads ``lanes`` and calls ``submit``; neither waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import pickle
import secrets
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from logging import DEBUG
from typing import Any

from ....engine.calls.tool_context import hear
from ....text.diagnostics import Diagnostic
from ....text.giving_up import giving_up
from ...sending.functions import Apart, applied_apart, loadable
from ...sending.sent_once import SentOnce
from ..backend import Cancel, Lost, nothing, options_of
from ..dispatcher import AHEAD, Dispatcher
from ..prints import write_print
from ..requirements import Need, lacking_resource
from ..status import BackendStatus, WorkerStatus
from . import tasks
from .cluster import (
    ANSWER,
    ANSWER_HERE,
    ask_workers,
    cancel_flights,
    find_dashboard,
    find_problems,
    no_worker_came,
    without_workers,
)
from .flights import (
    CONNECTED,
    DaskFlight,
    explain_end,
    find_failure,
    lost_connection,
    submit_bytes,
)
from .outlet import Outlet
from .versions import compare_versions

LOOK = 1.0
"""Seconds between two looks at the workers while chunks are in flight."""
PATIENCE = 60.0
"""Seconds without a worker after which the run ends. The run warns after a twelfth of this time, since
a worker that ended may be restarted meanwhile."""
HEAVY = 1_000_000
"""Bytes of a function above which it is sent once to the cluster instead of with each chunk."""


class Dask:
    """A worker backend on a Dask client. Dask's scheduler places the chunks, and repeats the chunks of
    lost workers."""

    # When a worker ends, Dask names all chunks that were queued on it, not the one that ended it.
    identifies_lost_chunk = False
    sends_once = True
    """Whether it keeps a `SentOnce` on the cluster, where the workers get the bytes from each other."""

    def __init__(
        self,
        name: str,
        lanes: int = 0,
        *,
        kills: bool = False,
        close: Callable[[], None] | None = None,
    ) -> None:
        """``lanes``: the expected number of lanes until there is a client (`open`). ``kills``: whether
        the workers are our own, so that a call can be ended by ending its worker. ``close``: ends the
        cluster and the connection."""
        self.name = name
        self.lanes = lanes
        self.kills = kills
        self._close = close
        self.grow: Callable[[], object] = nothing
        """Starts the missing workers of a cluster in this process: Dask gives up a worker that ends
        again and again."""
        self.planned: Callable[[], int] = lambda: lanes
        """The number of workers that a cluster in this process should have."""
        self.end_worker: Callable[[str], object] = nothing
        """Ends the process of a worker of our own cluster, by its address, whatever it executes."""
        self.patience = PATIENCE
        """Seconds without a worker, after the first one, after which the run ends."""
        self._warned = weakref.WeakSet[Dispatcher]()
        self.ahead = AHEAD
        self.client: Any = None
        """The client; None until `open`."""
        self.is_local = kills
        """Whether all workers are processes of this machine: their results then come directly, not by
        way of the scheduler."""
        self._closed = False
        self.tokens: dict[str, str] = {}
        """The process token of each worker, by its address."""
        self._prefix = f"agf-{secrets.token_hex(4)}"
        # The numbers in keys. No key is used twice: for a key that Dask knows it makes no call.
        self._numbers = itertools.count(1)
        self._outlet = Outlet()
        self._deserted = False
        """Whether the cluster had no worker for so long that new chunks fail at once."""
        self._flights: dict[str, DaskFlight] = {}
        """The chunks in flight, by key. Only code on the client's loop uses this."""
        self._arrived: list[DaskFlight] = []
        """The chunks that have ended and are not fetched yet."""
        self._cancelled: list[DaskFlight] = []
        """The chunks to cancel in the next turn."""
        self._programs: dict[str, Any] = {}
        """The futures of large functions, by digest."""
        self._threads: Mapping[str, int] = {}
        """The number of threads of each worker, by its address."""
        self._freed = asyncio.Event()
        """Set on the client's loop when a chunk has ended."""
        self._looking = False
        """Whether `_look` runs."""
        self.addresses: tuple[str, ...] = ()
        """The addresses of the scheduler, then of the workers, as `look` has seen them last."""
        self.resources: Mapping[str, Mapping[str, float]] = {}
        """The resources of each worker, by its address."""
        self.versions: Mapping[str, Mapping[str, str]] = {}
        """The versions of each worker, by its address; empty: not known."""
        self._version_problems: list[Diagnostic] = []

    @property
    def starting(self) -> int:
        return 0 if self._outlet.is_open else self.lanes

    @property
    def closed(self) -> bool:
        """Whether the backend cannot be used again."""
        if self.client is not None and self.client.status in ("closing", "closed"):
            return True
        return self._closed

    def open(self, client: Any) -> None:
        """Use this client from now on."""
        self.client = client
        self._loop = client.loop
        client.subscribe_topic(self._prefix, _receive)
        self._outlet.open(lambda flight: self._loop.add_callback(self._send, flight))

    def fail(self, error: Exception) -> None:
        """Note that there will be no client: each chunk gets ``error`` as its outcome."""
        self._closed = True
        self._outlet.open(lambda flight: flight.end(error))

    def notify_started(self, call: Callable[[], None]) -> None:
        """Call ``call`` on any thread when the workers are there; not at all if they are there
        already."""
        self._outlet.call_when_open(call)

    def notify_warning(self, run: Dispatcher) -> None:
        """Call ``run.warn_soon`` on any thread with each later warning, as long as ``run`` exists."""
        self._warned.add(run)

    def submit(
        self, run: Callable[..., Any], order: tuple[Any, ...], report: Callable[[Any], None]
    ) -> Cancel:
        flight = DaskFlight(f"{self._prefix}-{next(self._numbers)}", run, order, report)
        self._outlet.take(flight)
        return lambda: self._cancel_soon(flight)

    def _cancel_soon(self, flight: DaskFlight) -> None:
        flight.cancels += 1
        if self.client is not None:
            self._cancelled.append(flight)
            self._loop.add_callback(self._cancel)
        else:
            flight.end(Lost("cancelled", cancelled=True))

    # --- on the client's loop ---

    async def _send(self, flight: DaskFlight) -> None:
        if flight.ended or flight.cancels:
            flight.end(Lost("cancelled", cancelled=True))
            return
        # A new chunk must not wait another minute for the worker that never came.
        if self._deserted:
            flight.end(no_worker_came(self.patience, self.kills))
            return
        self._flights[flight.key] = flight
        if not self._looking:
            self._looking = True
            self._loop.add_callback(self._look)
        try:
            head, buffers, where = await self._prepared(flight)
            if flight.cancels:
                self._finish(flight, Lost("cancelled", cancelled=True))
            # It may have ended while it waited for a free worker. Nobody would know of its call.
            if flight.ended:
                return
            # Without a connection the future of the chunk would never end.
            if self.client.status not in CONNECTED:
                self._finish(flight, lost_connection(self.client.status, self._closed))
                return
            flight.future = self.client.submit(
                pickle.loads, head, buffers=buffers, key=flight.key, pure=False, **where
            )
            flight.future.add_done_callback(lambda _: self._loop.add_callback(self._arrive, flight))
        except Exception as error:
            self._finish(flight, error)

    async def _prepared(self, flight: DaskFlight) -> tuple[bytes, list[Any], dict[str, Any]]:
        """The head and the buffers to submit for a chunk, and the options that say where it may run.

        The scheduler reads a task and writes it again. A task of bytes costs it little; with functions
        inside, cloudpickle took a third of the kernel's time for a chunk."""
        program, digest, *other_parts = flight.order
        options = options_of(flight.order)
        if len(program) > HEAVY:
            if digest not in self._programs:
                self._programs[digest] = self._send_bytes(program)
            program = self._programs[digest]
        where: dict[str, Any] = {}
        if options.get("resources"):
            where["resources"] = dict(options["resources"])
        token = ""
        if options.get("effect"):
            flight.needs = options.get("resources", {})
            flight.worker, token = await self._free_worker(flight)
            where |= {"workers": [flight.worker], "allow_other_workers": False}
        # Every other chunk may go to any worker, even to one with another Python, which refuses it.
        # Preferred workers (`allow_other_workers`) do not help: if all of them are gone, and a new worker
        # has another address, Dask never starts the task.
        parts = list(map(self._beside, other_parts))
        order = (
            flight.key,
            token,
            self._prefix,
            loadable(flight.run),
            Apart(program),
            digest,
            *parts,
        )
        return *applied_apart(tasks.run_task, order), where

    def _beside(self, part: Any) -> Any:
        """A part of an order. Bytes and shared arguments travel beside the pickle."""
        if type(part) is SentOnce:
            return Apart(part.sent(self._send_bytes))
        return Apart(part) if type(part) is bytes else part

    def _send_bytes(self, data: bytes) -> Any:
        return submit_bytes(self.client, f"{self._prefix}-bytes-{next(self._numbers)}", data)

    async def _free_worker(self, flight: DaskFlight) -> tuple[str, str]:
        """A worker with a lane, and with the resources for ``flight``, that no pinned chunk has; and the
        worker's token. Both are empty if the chunk has ended meanwhile. A pinned chunk may run only on
        its worker, so that its effect cannot happen twice.

        A chunk that waited for its worker would be lost with the worker, although it did not start."""
        if not self.tokens:
            await self._update()
        while not flight.ended:
            pinned = [other for other in self._flights.values() if other.worker]
            lanes = Counter(other.worker for other in pinned)
            used = Counter[tuple[str, str]]()
            for other in pinned:
                used.update({(other.worker, name): need for name, need in other.needs.items()})
            for worker, token in self.tokens.items():
                offered = self.resources.get(worker, {})
                if lanes[worker] < self._threads.get(worker, 1) and all(
                    used[worker, name] + need <= offered.get(name, 0)
                    for name, need in flight.needs.items()
                ):
                    return worker, token
            self._freed.clear()
            # After `LOOK` seconds the workers are looked at again: a new one may have come.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._freed.wait(), LOOK)
        return "", ""

    def _arrive(self, flight: DaskFlight) -> None:
        """Note that a chunk has ended. Chunks that end in one turn of the loop are fetched together."""
        self._arrived.append(flight)
        if len(self._arrived) == 1:
            self._loop.add_callback(self._fetch)

    async def _fetch(self) -> None:
        """Fetch and report the outcomes of the chunks that have ended."""
        arrived = [flight for flight in self._arrived if not flight.ended]
        self._arrived = []
        finished = [flight for flight in arrived if flight.future.status == "finished"]
        failed = [flight for flight in arrived if flight.future.status != "finished"]
        try:
            futures = [flight.future for flight in finished]
            outcomes = await self.client.gather(futures, direct=self.is_local)
        except Exception as error:
            # Each chunk gets the error as its outcome: the run decides what that means.
            outcomes = [error] * len(finished)
        for flight, outcome in zip(finished, outcomes, strict=True):
            # `tasks.run_task` returns None if Dask has moved a pinned chunk to another process.
            if outcome is None:
                outcome = Lost(await explain_end(self.client, flight.worker))
            self._finish(flight, outcome)
        for flight in failed:
            # No further chunk is pinned to a worker that has ended.
            self.tokens.pop(flight.worker, None)
            is_cancelled = bool(flight.cancels)
            failure = await find_failure(self.client, flight.future, is_cancelled, self._closed)
            self._finish(flight, failure)

    def _finish(self, flight: DaskFlight, outcome: Any) -> None:
        """Report the outcome of a chunk."""
        self._flights.pop(flight.key, None)
        self._freed.set()
        flight.future = None
        flight.end(outcome)

    async def _cancel(self) -> None:
        """Cancel the chunks in `_cancelled`."""
        flights = [flight for flight in self._cancelled if flight.future and not flight.ended]
        # These are not sent yet: they may wait for a free worker.
        for flight in self._cancelled:
            if flight.future is None and flight.key in self._flights:
                self._finish(flight, Lost("cancelled", cancelled=True))
        self._cancelled = []
        if flights:
            # If this fails, the scheduler is lost: its chunks then end by themselves.
            with giving_up(__name__, "calls on Dask could not be cancelled"):
                seconds = ANSWER_HERE if self.kills else ANSWER
                await cancel_flights(self.client, flights, self.end_worker, seconds)

    async def _look(self) -> None:
        """Keep the lanes up to date while chunks are in flight, and notice the workers of pinned
        chunks that ended."""
        loop = asyncio.get_running_loop()
        has_warned = False
        # Our own cluster has its workers from the start. Others may get theirs during the run, so
        # there the first worker is waited for without a limit.
        had_workers = self.kills
        seen = loop.time()
        while self._flights and not self.closed:
            with giving_up(__name__, "the Dask scheduler did not name its workers", DEBUG):
                await self._update()
            had_workers = had_workers or bool(self._threads)
            if self._threads or not had_workers:
                seen, has_warned = loop.time(), False
            if len(self._threads) < self.planned():
                self.grow()
            elif loop.time() - seen > self.patience / 12 and not has_warned:
                has_warned = True
                for run in list(self._warned):
                    run.warn_soon(without_workers("the scheduler has lost all workers"))
            self._deserted = loop.time() - seen > self.patience
            for flight in list(self._flights.values()):
                if self._deserted:
                    await self._give_up(flight, no_worker_came(self.patience, self.kills))
                elif flight.worker and flight.worker not in self.tokens and flight.future:
                    await self._give_up(flight, Lost(await explain_end(self.client, flight.worker)))
            # The loop ends with the last chunk: a cluster that is not used is not asked.
            await asyncio.sleep(LOOK)
        self._looking = False

    async def _give_up(self, flight: DaskFlight, outcome: Exception) -> None:
        """End a chunk that has no worker, with ``outcome``."""
        future = flight.future
        self._finish(flight, outcome)
        # If this fails, the scheduler is lost.
        with giving_up(__name__, "a call on Dask could not be cancelled", DEBUG):
            await self.client.cancel([future] if future is not None else [], force=True)

    async def _update(self) -> None:
        """Ask the scheduler for the workers, and new workers for their tokens."""
        threads: Mapping[str, int] = await self.client.nthreads()
        new = [address for address in threads if address not in self.tokens]
        new_tokens = await ask_workers(self.client, tasks.process_token, new)
        tokens = {**self.tokens, **new_tokens}
        self.tokens = {address: tokens[address] for address in threads if address in tokens}
        resources = self.resources
        if new:
            identity = await self.client.scheduler.identity(n_workers=-1)
            resources = {
                address: worker.get("resources") or {}
                for address, worker in identity["workers"].items()
            }
        self.resources = {address: resources.get(address, {}) for address in threads}
        self._threads = threads
        self.lanes = sum(threads.values())

    # --- on any other thread: these wait, so they are not for an event loop ---

    def look(self) -> None:
        """Ask the scheduler for the workers and their resources, now, when a run begins."""
        if self.client is None:
            return
        self._deserted = False
        # Large functions of earlier runs leave the cluster when nobody refers to them.
        self._loop.add_callback(self._programs.clear)
        self.client.sync(self._update)
        workers = self._workers()
        self.addresses = (self.client.scheduler.address, *workers)

    def check(self) -> None:
        """Compare the versions of the workers with the kernel's. Raises DefinitionError
        ``on.versions``."""
        self.versions, self._version_problems = compare_versions(self.client, self.name)

    def find_problems(self, needs: Sequence[Need]) -> list[Diagnostic]:
        """See `requirements.find_problems`."""
        if self.client is None or self.kills:
            return [lacking_resource(need, self.name) for need in needs if need.resources]
        return [
            *self._version_problems,
            *find_problems(needs, self.name, self.addresses, self.resources),
        ]

    def lanes_with(self, resources: Mapping[str, float]) -> int:
        """The number of concurrent calls that each need these resources."""
        if not self.resources:
            return self.lanes
        lanes = 0
        for offered in self.resources.values():
            lanes += min(int(offered.get(name, 0) // need) for name, need in resources.items())
        return lanes

    def describe(self) -> BackendStatus:
        """What `%workers` shows."""
        if self.client is None:
            return BackendStatus(
                self.name, self.lanes, self._outlet.kept_count, starting=self.starting
            )
        workers = self._workers()
        running = self.client.sync(ask_workers, self.client, tasks.running_tasks, list(workers))
        if not self.versions:
            self.versions = self.client.sync(
                ask_workers, self.client, tasks.describe_process, list(running)
            )
        rows = [
            WorkerStatus(
                address,
                int(worker.get("nthreads", 0)),
                len(running[address]) if address in running else None,
                worker.get("metrics", {}).get("memory"),
                worker.get("memory_limit") or None,
                self.versions.get(address, {}),
                worker.get("resources") or {},
            )
            for address, worker in workers.items()
        ]
        has_dashboard = find_spec("bokeh") is not None or not self.kills
        link = find_dashboard(self.client) if has_dashboard else ""
        return BackendStatus(self.name, self.lanes, len(self._flights), tuple(rows), link)

    def restart(self) -> None:
        """End the processes of all workers and start new ones. The calls that they execute are
        repeated."""
        self.client.restart_workers(list(self._workers()), raise_for_error=False)

    def _workers(self) -> Mapping[str, Any]:
        workers: Mapping[str, Any] = self.client.scheduler_info(n_workers=-1)["workers"]
        return workers

    def close(self) -> None:
        self._closed = True
        if self.client is not None and self.client.status == "running":
            self.client.unsubscribe_topic(self._prefix)
        if self._close is not None:
            self._close()


def _receive(event: tuple[float, Any]) -> None:
    """Take an event of a chunk that still runs: write its prints, ``(call, stream, text)`` each, or pass
    on the report of a call, which begins with a number."""
    if event[1] and type(event[1][0]) is int:
        return hear(*event[1])
    for _, stream, text in event[1]:
        write_print(stream, text)
