"""Finds the workers of a run from ``on=`` or the settings, and starts workers ahead."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from ...catalog import Tool
from ...engine.host.placement import runs_on_workers
from ...engine.linking.linked import Linked
from ...engine.run_options import RunOptions
from ...engine.runner import clock
from ...flow.progress.events import Warned
from ...settings.settings import current
from ...text.diagnostics import Diagnostics

if TYPE_CHECKING:
    from ...workers.backends.backend import WorkerBackend


def find_workers(
    options: RunOptions, linked: Linked
) -> tuple[WorkerBackend | None, tuple[Warned, ...]]:
    """The worker backend of a run, None: this process; and warnings about it. Raises
    DefinitionError.

    A run that a tool starts follows the settings, not the run around it; a dry run has no workers.
    """
    chosen = _chosen_workers(options)
    if chosen is None:
        return None, ()
    # Imported here: most runs have no workers.
    from ...workers.backends.requirements import Need, find_problems
    from ...workers.on import find_backend

    backend = find_backend(chosen)
    if backend is None:
        return None, ()
    problems = Diagnostics()
    needs = [
        Need(callee.name, callee.resources, bool(callee.secret), span)
        for callee, span in linked.every_callee
        if isinstance(callee, Tool) and runs_on_workers(callee)
    ]
    problems.extend(find_problems(backend, needs))
    problems.refuse()
    return backend, tuple(Warned(clock(), problem) for problem in problems)


def _chosen_workers(options: RunOptions) -> object:
    if options.dry:
        return None
    return options.on if options.on is not None else current.settings.on or None


async def prepare_workers(options: RunOptions) -> RunOptions:
    """``options`` with the worker backend in place of its name: a loop must not wait for a
    connection."""
    if _chosen_workers(options) is None:
        return options
    from ...workers.on import find_backend

    return replace(
        options, on=await asyncio.to_thread(find_backend, _chosen_workers(options)) or "here"
    )
