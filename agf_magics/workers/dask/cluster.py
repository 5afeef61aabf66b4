"""What the Dask backend knows of a chunk that it sent, or that waits for the cluster.

Questions to workers that must not wait for ever: a worker answers nothing while a call holds its
interpreter's lock (a slow regular expression, an extension module).

What a task of Dask that did not finish means for its chunk: chunks themselves never raise.

Large functions, which are sent once to the cluster instead of with each chunk.

Such a function is the result of a task, because Dask repeats a task whose worker was lost.
Scattered data, and all chunks that need it, would be lost.

What a run needs to know of a cluster before its first step: versions, resources, encryption.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...engine.limits import LimitReached
from ...lifecycle.settings import is_private
from ...text.diagnostics import DefinitionError, Diagnostic
from ..backend import CLOSED, Lost, Need, lacking_resource
from ..sending import loadable, other_python
from . import tasks


class DaskFlight:
    """A chunk in flight."""

    def __init__(
        self, key: str, run: Callable[..., Any], order: tuple[Any, ...], done: Callable[[Any], None]
    ) -> None:
        self.key, self.run, self.order, self.done = key, run, order, done
        self.future: Any = None
        self.worker = ""
        """The only worker that may run it."""
        self.cancels = 0
        self.ended = False

    def end(self, outcome: Any) -> None:
        if not self.ended:
            self.ended = True
            self.order = ()
            self.done(outcome)


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

    # All at once first: a thousand questions would take the loop of the client.
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
    client: Any, wanted: Sequence[DaskFlight], end_worker: Callable[[str], object], seconds: float
) -> None:
    """Drop the chunks that no worker executes. One that is executed ends by itself; if it is
    cancelled again, after the grace period, ``end_worker`` ends its worker: only our own workers
    are cancelled twice. ``seconds``: in which a worker must say what it executes."""
    placed: Mapping[str, Sequence[str]] = await client.processing()
    named = {flight.key for flight in wanted}
    asked = [worker for worker, known in placed.items() if not named.isdisjoint(known)]
    found = await ask_workers(client, tasks.running_tasks, asked, seconds)
    running = {
        key: worker for worker in asked for key in found.get(worker, placed[worker])
    }  # a silent one is busy
    late = {running[each.key] for each in wanted if each.key in running and each.cancels > 1}
    dropped = [
        each.future for each in wanted if each.key not in running or running[each.key] in late
    ]
    if dropped:
        await client.cancel(dropped, force=True)
    # Its other chunks are repeated elsewhere, without blame.
    for worker in late:
        end_worker(worker)


MEMORY_TOPIC = "worker-restart-memory"
"""Where a nanny reports a worker that it ends because of its memory."""

CONNECTED = ("running", "connecting")
"""The status of a client that sends its chunks, now or when it has connected again."""

SOON = 5.0
"""Seconds in which the scheduler must answer."""


async def find_failure(
    client: Any, future: Any, is_cancelled: bool, is_closed: bool
) -> BaseException:
    """The outcome of a chunk whose ``future`` did not finish. ``is_closed``: whether the workers
    were closed."""
    from distributed import KilledWorker

    if future.status != "error":
        if is_cancelled:
            return Lost("cancelled", cancelled=True)
        return lost_connection(client.status, is_closed)
    error: BaseException = await future.exception()
    if isinstance(error, KilledWorker):
        why = await explain_end(client, error.last_worker.address)
        if error.allowed_failures:
            why = f"{error.allowed_failures + 1} workers ended during it; the last one: {why}"
        return Lost(why, last=True)
    if python := other_python(error):
        # Such a worker came after the first look; another one can run the chunk.
        return Lost(f"a worker cannot read it: {python}")
    return error


def lost_connection(status: str, is_closed: bool) -> Lost:
    """The outcome of a chunk that was sent when the client had this status; while it connects
    again, it can succeed. ``is_closed``: whether the person has closed the workers; Dask closes a
    client that cannot connect again."""
    why = CLOSED if is_closed else "the connection to the scheduler was lost"
    return Lost(why, gone=status not in CONNECTED)


async def explain_end(client: Any, worker: str) -> str:
    """How a worker ended, by its address: its nanny reports one that it ends because of its
    memory."""
    found: Sequence[Any] = ()
    with contextlib.suppress(Exception):
        # The scheduler is lost too.
        found = await asyncio.wait_for(client.get_events(MEMORY_TOPIC), SOON)
    for _, event in reversed(found):
        if isinstance(event, Mapping) and event.get("worker") == worker:
            used = event.get("rss")
            size = f" at {used / 1e6:,.0f} MB" if isinstance(used, int | float) else ""
            return f"worker {worker} was out of memory{size}, so its nanny restarted it"
    return f"worker {worker} ended during it"


def submit_program(client: Any, key: str, program: bytes) -> Any:
    """The future of a pickled function, for the chunks that depend on it. ``key``: the name of its
    task."""
    from dask import config

    with config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
        # `on.heavy` has the warning.
        return client.submit(bytes, program, key=key, pure=False)


Versions = Mapping[str, str]
"""Of Python and of `tasks.PACKAGES`."""


def compare_versions(client: Any, name: str) -> tuple[dict[str, Versions], list[Diagnostic]]:
    """The versions of each worker by its address, and a warning about those that differ from the
    kernel's.

    Raises DefinitionError ``on.versions`` for another minor version of Python: compiled code cannot
    be sent there.
    """
    here = tasks.describe_process()
    reported = client.sync(find_versions, client)
    pythons = {address: str(found["host"]["python"]) for address, found in reported.items()}
    others = {
        address: python
        for address, python in pythons.items()
        if _minor(python) != _minor(here["python"])
    }
    if others:
        address, python = next(iter(others.items()))
        message = (
            f"{_counted(len(others))} of {name} cannot read what the kernel sends: Python "
            f"{_minor(python)} there, "
        )
        message += f"{_minor(here['python'])} here ({address})"
        hint = "start the workers with the Python of the kernel"
        raise DefinitionError(Diagnostic("on.versions", message, hint=hint))
    found: dict[str, Versions] = {}
    if pythons:
        found = client.sync(ask_workers, client, tasks.describe_process, list(pythons))
    differences = [
        text for package in here if (text := _difference(package, here, list(found.values())))
    ]
    if not differences:
        return found, []
    message = f"the workers have other versions than the kernel: {'; '.join(differences)}"
    hint = "install the same versions if a result looks wrong or cannot be read"
    return found, [Diagnostic("on.versions", message, hint=hint, severity="warning")]


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _difference(package: str, here: Versions, workers: Sequence[Versions]) -> str:
    """``numpy 1.26.0 on 2 workers, 2.1.0 here``; empty if they have the same version, or one side
    has none."""
    own = here[package]
    if not own or package == "python":
        return ""
    other = Counter(found[package] for found in workers if found[package] not in ("", own))
    named = [f"{version} on {_counted(count)}" for version, count in other.most_common(3)]
    return f"{package} {', '.join(named)}, {own} here" if named else ""


def find_problems(
    needs: Sequence[Need],
    name: str,
    addresses: Sequence[str],
    resources: Mapping[str, Mapping[str, float]],
) -> list[Diagnostic]:
    """The problems of sending the calls of these tools to a cluster.

    ``addresses``: of the scheduler, then of the workers. ``resources``: of each worker, by its
    address.
    """
    found = list[Diagnostic]()
    is_public = not all(map(is_private, addresses))
    for need in needs:
        if need.secret and is_public:
            message = (
                f"tool {need.name!r} has a secret and where='worker', and the connection is "
                f"not encrypted"
            )
            hint = (
                "use a tls:// address, or remove where='worker': the tool then runs in the kernel"
            )
            found.append(Diagnostic("on.plain-secret", message, need.span, hint))
        if (
            need.resources
            and resources
            and not any(_has(one, need.resources) for one in resources.values())
        ):
            found.append(lacking_resource(need, name))
    if len(addresses) < 2:
        found.append(without_workers("no worker has connected to the scheduler yet"))
    return found


def without_workers(why: str) -> Diagnostic:
    hint = "start one: dask worker ADDRESS"
    return Diagnostic(
        "on.no-workers", f"{why}: the run waits for one", hint=hint, severity="warning"
    )


def no_worker_came(seconds: float, is_own: bool) -> LimitReached:
    """What ends a run whose workers have all left. ``is_own``: the cluster is one of this
    process."""
    message = f"all workers have left, and for {seconds:g} s no other one has come"
    hint = "start workers: dask worker ADDRESS"
    if is_own:
        hint = "do the calls need more memory than there is? %workers --restart starts new workers"
    return LimitReached(Diagnostic("on.no-workers", message, hint=f"{hint}; then %resume"))


def _has(worker: Mapping[str, float], needed: Mapping[str, float]) -> bool:
    return all(worker.get(name, 0) >= amount for name, amount in needed.items())


def _counted(count: int) -> str:
    return f"{count} worker{'s' * (count != 1)}"


def find_dashboard(client: Any) -> str:
    """The address of Dask's page about a cluster; empty: there is none, or the person's
    ``distributed.dashboard.link`` names a variable that is not set."""
    try:
        return client.dashboard_link or ""
    except (LookupError, ValueError):
        return ""
