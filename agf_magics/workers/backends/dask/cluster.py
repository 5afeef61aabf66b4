"""Questions to a Dask cluster: the facts that a run needs before its first step, and its workers' answers.

A question must not wait for ever: a worker answers nothing while a call holds its interpreter's
lock (a slow regular expression, an extension module).
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ....limits.budgets import LimitReached
from ....text.diagnostics import Diagnostic
from ...sending.functions import loadable
from ..requirements import Need, lacking_resource
from . import tasks
from .flights import DaskFlight

ANSWER = 2.0
"""Seconds in which a worker must answer."""
ANSWER_HERE = 0.5
"""Seconds in which a worker of this machine must answer before it may be ended: the run waits for it."""
FEW = 16
"""Workers up to which each is asked alone, so that a worker without an answer delays no other answer."""


async def ask_workers(
    client: Any, function: Callable[[], Any], workers: Sequence[str], seconds: float = ANSWER
) -> dict[str, Any]:
    """The value that ``function`` returns on each of ``workers``, by address. A worker that does not
    answer in ``seconds`` is left out."""

    async def ask(addresses: Sequence[str]) -> dict[str, Any]:
        question = client.run(loadable(function), workers=list(addresses), on_error="ignore")
        with contextlib.suppress(TimeoutError):
            return dict(await asyncio.wait_for(question, seconds))
        return {}

    # Many workers get one question together: a thousand questions would occupy the client's loop.
    answers = await ask(workers) if len(workers) > FEW else {}
    if not answers:
        for answer in await asyncio.gather(*(ask([worker]) for worker in workers)):
            answers |= answer
    return answers


async def find_versions(client: Any) -> Mapping[str, Any]:
    """The versions that each worker reports, by its address; empty if any worker does not answer in
    time."""
    with contextlib.suppress(TimeoutError):
        answer = await asyncio.wait_for(client.get_versions(), ANSWER)
        versions: Mapping[str, Any] = answer["workers"]
        return versions
    return {}


async def cancel_flights(
    client: Any, flights: Sequence[DaskFlight], end_worker: Callable[[str], object], seconds: float
) -> None:
    """Drop the chunks that no worker executes. A chunk that is executed ends by itself; if it is
    cancelled again, after the grace period, ``end_worker`` ends its worker. Only chunks on our own
    workers are cancelled twice. ``seconds``: the time in which a worker must say what it executes."""
    placed: Mapping[str, Sequence[str]] = await client.processing()
    named = {flight.key for flight in flights}
    workers_asked = [worker for worker, keys in placed.items() if not named.isdisjoint(keys)]
    answers = await ask_workers(client, tasks.running_tasks, workers_asked, seconds)
    running = dict[str, str]()
    for worker in workers_asked:
        # A worker without an answer is busy, so all its chunks may be running.
        running |= dict.fromkeys(answers.get(worker, placed[worker]), worker)
    late = {
        running[flight.key] for flight in flights if flight.key in running and flight.cancels > 1
    }
    # A chunk that no worker executes has the worker None.
    dropped = [flight.future for flight in flights if running.get(flight.key) in {None, *late}]
    if dropped:
        await client.cancel(dropped, force=True)
    # The other chunks of such a worker are repeated elsewhere, without blame.
    for worker in late:
        end_worker(worker)


def find_problems(
    needs: Sequence[Need],
    name: str,
    addresses: Sequence[str],
    resources: Mapping[str, Mapping[str, float]],
) -> list[Diagnostic]:
    """The problems of sending the calls of these tools to a cluster.

    ``addresses``: the addresses of the scheduler, then of the workers. ``resources``: the resources of
    each worker, by its address.
    """
    problems = list[Diagnostic]()
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
            problems.append(Diagnostic("on.plain-secret", message, need.span, hint))
        can_run = any(_has(offered, need.resources) for offered in resources.values())
        if need.resources and resources and not can_run:
            problems.append(lacking_resource(need, name))
    # Without a second address there is only the scheduler.
    if len(addresses) < 2:
        problems.append(without_workers("no worker has connected to the scheduler yet"))
    return problems


def without_workers(why: str) -> Diagnostic:
    """The warning that a run waits for a worker."""
    hint = "start one: dask worker ADDRESS"
    return Diagnostic(
        "on.no-workers", f"{why}: the run waits for one", hint=hint, severity="warning"
    )


def no_worker_came(seconds: float, is_own: bool) -> LimitReached:
    """The error that ends a run whose workers are all lost. ``is_own``: whether the cluster belongs to
    this process."""
    message = f"all workers are lost, and no new one has joined within {seconds:g} s"
    hint = "start workers: dask worker ADDRESS"
    if is_own:
        hint = "do the calls need more memory than there is? %workers --restart starts new workers"
    return LimitReached(Diagnostic("on.no-workers", message, hint=f"{hint}; then %resume"))


def _has(worker: Mapping[str, float], needed: Mapping[str, float]) -> bool:
    return all(worker.get(name, 0) >= amount for name, amount in needed.items())


def counted(count: int) -> str:
    return f"{count} worker{'s' * (count != 1)}"


def find_dashboard(client: Any) -> str:
    """The address of Dask's page about a cluster; empty if there is no such page, or if the person's
    setting ``distributed.dashboard.link`` names a variable that is not set."""
    try:
        return client.dashboard_link or ""
    except (LookupError, ValueError):
        return ""


def is_private(address: str) -> bool:
    """Whether nothing between here and this address can read the data, because the data stay on this
    machine or are encrypted.

    >>> is_private("tcp://127.0.0.1:8786"), is_private("tls://10.0.0.5:8786"), is_private("tcp://10.0.0.5:8786")
    (True, True, False)
    """
    scheme, _, host_and_port = address.partition("://")
    host = host_and_port.rpartition(":")[0].strip("[]")
    return scheme in ("tls", "inproc") or _THIS_MACHINE.fullmatch(host) is not None


_THIS_MACHINE = re.compile(r"localhost|::1|127(?:\.[0-9]{1,3}){3}")
