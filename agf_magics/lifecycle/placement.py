"""Which workers a run uses: those of its options, otherwise those of the settings."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

from ..catalog import Tool
from ..engine.linked import Linked, every_callee
from ..engine.place import runs_on_workers
from ..engine.runner import clock
from ..progress.events import Warned
from ..settings import current
from ..text.diagnostics import Diagnostics
from ..workers.backend import WorkerBackend
from ..workers.needs import Need, find_problems
from ..workers.on import find_backend
from .options import RunOptions


def find_workers(
    options: RunOptions, linked: Linked
) -> tuple[WorkerBackend | None, tuple[Warned, ...]]:
    """The worker backend of a run, None: this process; and warnings about it. Raises
    DefinitionError.

    A run that a tool starts follows the settings, not the run around it; a dry run has no workers.
    """
    backend = find_backend(_wanted(options))
    if backend is None:
        return None, ()
    problems = Diagnostics()
    problems.extend(find_problems(backend, list(_needs(linked))))
    problems.refuse()
    return backend, tuple(Warned(clock(), found) for found in problems)


def _wanted(options: RunOptions) -> object:
    if options.dry:
        return None
    return options.on if options.on is not None else current.settings.on or None


async def prepare_workers(options: RunOptions) -> RunOptions:
    """``options`` with the worker backend in place of its name: a loop must not wait for a
    connection."""
    if _wanted(options) is None:
        return options
    return replace(options, on=await asyncio.to_thread(find_backend, _wanted(options)) or "here")


def _needs(linked: Linked) -> Iterator[Need]:
    """What the tools of a flow, and of the flows that it calls, need of workers."""
    for callee, span in every_callee(linked):
        if isinstance(callee, Tool) and runs_on_workers(callee):
            yield Need(callee.name, callee.resources, bool(callee.secret), span)
