"""The versions of Python and of packages on the workers, compared with the versions in the kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ....text.diagnostics import DefinitionError, Diagnostic
from . import tasks
from .cluster import ask_workers, counted, find_versions

Versions = Mapping[str, str]
"""The versions of Python and of `tasks.PACKAGES`, by name."""


def compare_versions(client: Any, name: str) -> tuple[dict[str, Versions], list[Diagnostic]]:
    """The versions of each worker by its address, and a warning about versions that differ from the
    kernel's.

    Raises DefinitionError ``on.versions`` for another minor version of Python: compiled code cannot
    be sent there.
    """
    here = tasks.describe_process()
    reported = client.sync(find_versions, client)
    pythons = {address: str(versions["host"]["python"]) for address, versions in reported.items()}
    different = {
        address: python
        for address, python in pythons.items()
        if _minor(python) != _minor(here["python"])
    }
    if different:
        address, python = next(iter(different.items()))
        message = (
            f"{counted(len(different))} of {name} cannot read what the kernel sends: Python "
            f"{_minor(python)} there, "
        )
        message += f"{_minor(here['python'])} here ({address})"
        hint = "start the workers with the Python of the kernel"
        raise DefinitionError(Diagnostic("on.versions", message, hint=hint))
    versions: dict[str, Versions] = {}
    if pythons:
        versions = client.sync(ask_workers, client, tasks.describe_process, list(pythons))
    differences = [
        text for package in here if (text := _difference(package, here, list(versions.values())))
    ]
    if not differences:
        return versions, []
    message = f"the workers have other versions than the kernel: {'; '.join(differences)}"
    hint = "install the same versions if a result looks wrong or cannot be read"
    return versions, [Diagnostic("on.versions", message, hint=hint, severity="warning")]


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _difference(package: str, here: Versions, workers: Sequence[Versions]) -> str:
    """``numpy 1.26.0 on 2 workers, 2.1.0 here``; empty if the versions are the same, or if one side does
    not have the package."""
    version_here = here[package]
    if not version_here or package == "python":
        return ""
    counts = Counter(
        versions[package] for versions in workers if versions[package] not in ("", version_here)
    )
    named = [f"{version} on {counted(count)}" for version, count in counts.most_common(3)]
    return f"{package} {', '.join(named)}, {version_here} here" if named else ""
