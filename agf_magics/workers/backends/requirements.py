"""What the tools of a run need of the run's workers, and the problems if the workers lack it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...text.diagnostics import Diagnostic
from ...text.source import Span
from .backend import WorkerBackend


class Need(NamedTuple):
    """A tool whose calls may go to workers."""

    name: str
    """The name of the tool; empty: the need of all tools."""
    resources: Mapping[str, float]
    secret: bool
    """Whether calls of the tool are sent although one of its arguments is a secret."""
    span: Span | None


def find_problems(backend: WorkerBackend, needs: Sequence[Need]) -> list[Diagnostic]:
    """Errors that say why tools cannot run on ``backend``, and warnings. Waits for no worker."""
    find = getattr(backend, "find_problems", None)
    if find is not None:
        problems: list[Diagnostic] = find(needs)
        return problems
    return [lacking_resource(need, backend.name) for need in needs if need.resources]


def lacking_resource(need: Need, name: str) -> Diagnostic:
    wanted = ", ".join(f"{amount:g} {resource}" for resource, amount in need.resources.items())
    who = f"tool {need.name!r}" if need.name else "each call"
    message = f"{who} needs {wanted}, and no worker of {name} has it"
    option = ",".join(f"{resource}={amount:g}" for resource, amount in need.resources.items())
    where = "the tool" if need.name else "agf.Workers"
    hint = (
        f"start a Dask worker with it: dask worker ADDRESS --resources {option}; or remove "
        f"resources= from {where}"
    )
    return Diagnostic("on.resources", message, need.span, hint)
