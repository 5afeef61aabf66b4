"""Which workers a run uses: those of its options, otherwise those of the settings."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

from ..catalog import Tool
from ..engine.callee import runs_on_workers
from ..engine.linked import Choice, Linked
from ..engine.runner import clock
from ..flow.steps import Invoke, every
from ..progress.events import Warned
from ..settings import current
from ..text.diagnostics import Diagnostics
from ..workers.backend import WorkerBackend
from ..workers.needs import Need, find_problems
from ..workers.on import find_backend
from .options import RunOptions


def find_workers(options: RunOptions, linked: Linked) -> tuple[WorkerBackend | None, tuple[Warned, ...]]:
    """The worker backend of a run, None: this process; and warnings about it. Raises DefinitionError.

    A run that a tool starts follows the settings, not the run around it; a dry run has no workers.
    """
    backend = find_backend(_wanted(options))
    problems = Diagnostics()
    if backend is not None:
        problems.extend(find_problems(backend, list(_needs(linked))))
    problems.refuse()
    return backend, tuple(Warned(clock(), found) for found in problems)


def _wanted(options: RunOptions) -> object:
    if options.dry:
        return None
    return options.on if options.on is not None else current.settings.on or None


async def prepare_workers(options: RunOptions) -> RunOptions:
    """``options`` with the worker backend in place of its name: a loop must not wait for a connection."""
    if _wanted(options) is None:
        return options
    return replace(options, on=await asyncio.to_thread(find_backend, _wanted(options)) or "here")


def _needs(linked: Linked) -> Iterator[Need]:
    """What the tools of a flow, and of the flows that it calls, need of workers."""
    seen, queue = {id(linked)}, [linked]
    while queue:
        flow = queue.pop()
        steps = {step.id: step for step in every(flow.flow.body) if isinstance(step, Invoke)}
        for step_id, callee in flow.callees.items():
            for one in callee.callees.values() if isinstance(callee, Choice) else (callee,):
                if isinstance(one, Linked) and id(one) not in seen:
                    seen.add(id(one))
                    queue.append(one)
                elif isinstance(one, Tool) and runs_on_workers(one):
                    span = steps[step_id].name.span if step_id in steps else None
                    yield Need(one.name, one.resources, bool(one.secret), span)
