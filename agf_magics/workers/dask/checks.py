"""What a run needs to know of a cluster before its first step: versions, resources, encryption."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ...host.limits import LimitReached
from ...host.worker_words import is_private
from ...text.diagnostics import DefinitionError, Diagnostic
from ..needs import Need, lacking_resource
from . import tasks
from .asking import ask_workers, find_versions

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
