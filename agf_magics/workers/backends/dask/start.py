"""How a Dask backend starts: a LocalCluster of this process, an address, or a client of the
person.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ....text.diagnostics import DefinitionError, Diagnostic
from ....text.giving_up import giving_up, note_given_up
from .backend import Dask

OWN_WORKER = str(Path(__file__).with_name("own_worker.py"))
"""The file that a worker of our own cluster runs first."""
STARTS = 3
"""The number of attempts to start a cluster if one of its workers dies meanwhile."""
REACH = 5.0
"""Seconds in which the scheduler at an address must answer."""


def start_cluster(count: int | None = None) -> Dask:
    """A backend on a LocalCluster of this process, with ``count`` workers; None: one worker per core.

    The cluster starts on a thread of its own, and is closed with the backend."""
    # One thread in each worker: Python code in two threads of a worker would take turns.
    count = count or os.cpu_count() or 1
    ends = list[Callable[[], object]]()
    backend = Dask(
        f"dask, {count} worker{'s' * (count != 1)}",
        count,
        kills=True,
        close=lambda: _close_all(ends),
    )

    def start() -> None:
        try:
            from dask import config
            from distributed import Client, LocalCluster

            preload = [*config.get("distributed.worker.preload", ()), OWN_WORKER]
            cluster = _started(
                LocalCluster,
                n_workers=count,
                threads_per_worker=1,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
                # Encrypted where that is possible, else None: distributed refuses False.
                security=True if find_spec("cryptography") is not None else None,
                silence_logs=logging.CRITICAL,
                preload=preload,
            )
            ends.append(cluster.close)
            client = Client(cluster, set_as_default=False)
            ends.insert(0, client.close)  # the client is closed before its cluster
            backend.grow = lambda: _grow(cluster, count)
            backend.end_worker = lambda address: _end_worker(cluster, address)
            backend.open(client)
        except Exception as error:
            _close_all(ends)
            backend.fail(_not_started(error))

    threading.Thread(target=start, name="agf-dask-start", daemon=True).start()
    return backend


def _started(kind: Callable[..., Any], **options: Any) -> Any:
    """A cluster that has started. A single worker that dies while it starts fails the whole cluster, so
    the cluster is started again. A lasting fault, such as a script without a guard, fails again."""
    for _ in range(STARTS - 1):
        try:
            return kind(**options)
        except RuntimeError as error:
            note_given_up(__name__, "the Dask cluster did not start, and is started again", error)
    return kind(**options)


def _grow(cluster: Any, count: int) -> None:
    """Start the workers that are missing.

    Dask removes a worker that is not back after ``distributed.deploy.lost-worker-timeout``. For a worker
    that died while it started, the cluster keeps the nanny (Dask's process that watches the worker) and
    starts no worker in its place, so such nannies are removed here."""
    for name, nanny in list(cluster.workers.items()):
        if nanny.status.name in ("failed", "closed"):
            cluster.workers.pop(name, None)
    cluster.scale(count)


def _end_worker(cluster: Any, address: str) -> None:
    """Kill the process of a worker; the worker's nanny starts another one."""
    for nanny in list(cluster.workers.values()):
        if nanny.worker_address == address and nanny.pid:
            with contextlib.suppress(OSError):  # the process has ended already
                os.kill(nanny.pid, getattr(signal, "SIGKILL", signal.SIGTERM))


def connect_address(address: str) -> Dask:
    """A backend on the scheduler at an address. Raises DefinitionError if no scheduler answers: its
    socket and the client have `REACH` seconds each."""
    host, _, port = address.partition("://")[2].rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACH).close()
        client = _client_in_time(address)
    except (OSError, ValueError, RuntimeError) as error:
        why = (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
        message = f"no Dask scheduler answers at {address!r}: {why}"
        hint = (
            "start one with `dask scheduler`, or check the address; for tls:// give a Client "
            "with its Security"
        )
        raise DefinitionError(Diagnostic("on.unreachable", message, hint=hint)) from None
    return _opened(Dask(f"dask {address}", close=client.close), client)


def _client_in_time(address: str) -> Any:
    """A client of the scheduler at an address. It is made on another thread: distributed waits for ever
    for a server that accepts a connection and never answers."""
    from distributed import Client

    outcome: list[Any] = []

    def connect() -> None:
        try:
            outcome.append(Client(address, timeout=REACH, set_as_default=False))
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=connect, name="agf-dask-connect", daemon=True)
    thread.start()
    thread.join(REACH)
    if not outcome:
        raise TimeoutError(f"no answer in {REACH:g} s")
    if isinstance(outcome[0], Exception):
        raise outcome[0]
    return outcome[0]


def connect_client(client: Any) -> Dask:
    """A backend on a Dask client of the person. Raises DefinitionError if the client is closed or
    asynchronous."""
    address = client.scheduler.address if client.scheduler is not None else ""
    if client.status != "running" or not address:
        hint = "make a new one: Client(address)"
        raise DefinitionError(
            Diagnostic("on.unreachable", f"the Dask client is {client.status}", hint=hint)
        )
    if client.asynchronous or client.loop.asyncio_loop is asyncio._get_running_loop():
        message = "the Dask client is asynchronous: it shares the event loop of this thread"
        raise DefinitionError(
            Diagnostic("on.unknown", message, hint="make one with Client(address)")
        )
    from distributed import LocalCluster

    backend = Dask(f"dask {address}")
    if isinstance(cluster := client.cluster, LocalCluster):
        backend.is_local = True
        # Lost workers are started again, else one call that always ends its worker would end them all.
        # Other clusters open machines or jobs, which is not for us to decide.
        backend.planned = lambda: len(cluster.plan)
        backend.grow = lambda: _grow(cluster, len(cluster.plan))
    return _opened(backend, client)


def _opened(backend: Dask, client: Any) -> Dask:
    backend.open(client)
    try:
        backend.check()
        backend.look()
    except DefinitionError:
        backend.close()
        raise
    return backend


def _not_started(error: Exception) -> RuntimeError:
    cause, hint = error.__cause__ or error, ""
    if isinstance(error, RuntimeError) and hasattr(sys.modules["__main__"], "__file__"):
        hint = (
            " (a script needs `if __name__ == '__main__':` around agf.run(…, on='dask'), but not "
            "for on='processes')"
        )
    return RuntimeError(f"the workers did not start: {type(cause).__name__}: {cause}{hint}")


def _close_all(ends: list[Callable[[], object]]) -> None:
    while ends:
        with giving_up(__name__, "the Dask cluster could not be closed"):
            ends.pop(0)()
