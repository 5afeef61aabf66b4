"""`Need`, what the calls of a tool need of workers, and the problems if the workers lack it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...text.diagnostics import Diagnostic
from ...text.source import Span
from .backend import WorkerBackend


class Need(NamedTuple):
    """What the calls of a tool that may go to workers need."""

    name: str
    """The name of the tool; empty: the need of all tools."""
    resources: Mapping[str, float]
    secret: bool
    """Whether calls of the tool are sent although one of its arguments is a secret."""
    span: Span | None


def find_problems(backend: WorkerBackend, needs: Sequence[Need]) -> list[Diagnostic]:
    """The errors of tools that cannot run on ``backend``, and warnings. Waits for no worker."""
    find = getattr(backend, "find_problems", None)
    if find is not None:
        problems: list[Diagnostic] = find(needs)
        return problems
    return [lacking_resource(need, backend.name) for need in needs if need.resources]


def lacking_resource(need: Need, name: str) -> Diagnostic:
    """The error for a need that no worker of the backend ``name`` has."""
    amounts = ", ".join(f"{amount:g} {resource}" for resource, amount in need.resources.items())
    subject = f"tool {need.name!r}" if need.name else "each call"
    message = f"{subject} needs {amounts}, and no worker of {name} has it"
    option = ",".join(f"{resource}={amount:g}" for resource, amount in need.resources.items())
    where = "the tool" if need.name else "agf.Workers"
    hint = (
        f"start a Dask worker with it: dask worker ADDRESS --resources {option}; or remove "
        f"resources= from {where}"
    )
    return Diagnostic("on.resources", message, need.span, hint)
