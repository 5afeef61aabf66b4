"""Runs: here (`run`), awaited (`arun`), and started to be waited for (`begin`: the notebook's live view needs the
handle).
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .define import all_findings, load
from .draw.plain import counted
from .engine import host
from .engine import run as engine
from .engine.events import Event, RunEnded, StepLeft, Warned
from .engine.invoke import said
from .engine.limits import Limits
from .engine.link import Linked, link
from .engine.perform import clock
from .engine.progress import Progress, Row
from .flow.frame import Given
from .flow.steps import Flow
from .flow.values import TooDeep, Value, settle, type_name
from .registry import Registry, default
from .settings import current
from .text.diagnostics import AgfError, DefinitionError, Diagnostic, StepError, suggest
from .text.source import Span
from .trace import Trace, traced


class RunCancelled(StepError):
    """A run was stopped before its end; what was done is kept on ``run`` (decision A17)."""

    run: Run


class Run:
    """A run: live, then done. Everything on it may be read at any time."""

    def __init__(
        self, linked: Linked, given: Given, limits: Limits, warnings: tuple[Diagnostic, ...], dry: bool
    ) -> None:
        self.run_id = f"{linked.flow.name}-{next(_numbers)}-{secrets.token_hex(3)}"
        self.linked = linked
        self.input = given.input
        self.limits = limits
        self.dry = dry
        self.progress = Progress(linked.flow, linked.callees)
        self.output: Value = None
        self.error: StepError | None = None
        self.calls = 0
        """Tool calls made (for a dry run: that a real one would make at least)."""
        self.sessions = 0
        """Agent sessions opened."""
        self._warnings = warnings
        self._given = given
        self._job: host.Job[engine.Done] | None = None
        self._emit: Callable[[Event], None] = self.progress.apply

    @property
    def flow(self) -> Flow:
        return self.linked.flow

    @property
    def name(self) -> str:
        return self.flow.name

    @property
    def status(self) -> str:
        """pending, running, ok, error, cancelled."""
        return self.progress.status

    @property
    def stores(self) -> Mapping[str, Value]:
        """What it kept by its end, however it ended; empty before."""
        return self.progress.stores

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """What may be wrong with it; what is merely worth knowing was told when it was defined."""
        return (*(found for found in self._warnings if found.severity == "warning"), *self.progress.warnings)

    @property
    def note(self) -> str:
        """What must be known to read this run: that it was a dry one, and what a real one would cost. Mostly empty."""
        if not self.dry:
            return ""
        costs = f"{counted(self.calls, 'tool call')} and {counted(self.sessions, 'agent session')}"
        return f"dry run, nothing was called: a real run makes at least {costs}"

    @property
    def steps(self) -> Mapping[str, Row]:
        """What became of each step, by id: ``run.steps["steps[1]"].value``; steps of called flows as
        ``steps[1]/steps[0]``.
        """
        return {row.id: row for row in self.progress.rows.values()}

    @property
    def trace(self) -> Trace:
        """One row a step, in the order of the definition."""
        return traced(self.progress)

    def wait(self) -> Run:
        """Wait for the end of a run that was begun; the first interrupt cancels it, the second raises at once.

        Plain functions run on this very thread meanwhile. Raises nothing that belongs to the run: see `result`.
        """
        assert self._job is not None, "only a run that was begun can be waited for"
        try:
            self._end(self._job.wait())
        except asyncio.CancelledError as stop:
            self._leave(stop)
            self._cancelled(self._job.reason, stop)
        except AgfError as error:
            self._failed(error)
        return self

    def cancel(self, reason: str = "cancelled") -> None:
        """Ask the run to stop: running calls are stopped or left, what was done is kept."""
        if self._job is not None:
            self._job.cancel(reason)

    def result(self) -> Run:
        """This run if it came to its end; raises its error otherwise."""
        if self.error is not None:
            raise self.error
        return self

    async def _main(self, place: host.Host, emit: Callable[[Event], None]) -> engine.Done:
        return await engine.run(self.linked, self._given, host=place, emit=emit, limits=self.limits, dry=self.dry)

    def _end(self, done: engine.Done) -> None:
        self.output = done.ended.output
        self.calls, self.sessions = done.calls, done.sessions

    def _failed(self, error: AgfError) -> None:
        assert isinstance(error, StepError), "whatever fails in a run is a step's failure"
        self.error = error

    def _leave(self, stop: asyncio.CancelledError) -> None:
        """Tell the end of a run whose loop is blocked and cannot tell it; what that loop says later is not heard."""
        if self.progress.ended is not None:
            return
        why = getattr(stop, "left_running", "left running")
        for row in self.progress.rows.values():
            for _ in range(row.running):
                self._emit(StepLeft(row.key, clock(), why))
        self._emit(RunEnded(clock(), "cancelled"))

    def _cancelled(self, reason: str | None, stop: asyncio.CancelledError) -> None:
        stopped = [row.id for row in self.progress.rows.values() if row.state in ("cancelled", "left")]
        where = f" in {stopped[-1]}" if stopped else ""
        why = f" ({reason})" if reason else ""
        left = getattr(stop, "left_running", None)
        error = RunCancelled(Diagnostic("run.cancelled", f"run of {self.name!r} was cancelled{where}{why}", hint=left))
        error.run = self
        self.error = error

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from .draw.run_page import run_html, run_text

        return {"text/html": run_html(self), "text/plain": run_text(self)}

    def __repr__(self) -> str:
        return f"<Run {self.run_id} {self.status}>"


def run(
    flow: Flow | str | Path,
    input: Mapping[str, Value] | None = None,
    *,
    registry: Registry | None = None,
    limits: Limits | None = None,
    on_event: Callable[[Event], None] | None = None,
    raises: bool = True,
    dry: bool = False,
) -> Run:
    """Run a flow (a Flow, a registered name, a file or a definition's text) and wait for its end.

    ``input`` seeds the named context of the first step. Raises DefinitionError before the first step when a name is
    unknown or the input lacks what is surely read; StepError when a step fails, RunCancelled when the run is
    interrupted, both with ``raises=False`` found in ``run.error`` instead.
    """
    begun = begin(flow, input, registry=registry, limits=limits, on_event=on_event, dry=dry).wait()
    return begun.result() if raises else begun


async def arun(
    flow: Flow | str | Path,
    input: Mapping[str, Value] | None = None,
    *,
    registry: Registry | None = None,
    limits: Limits | None = None,
    on_event: Callable[[Event], None] | None = None,
    raises: bool = True,
    dry: bool = False,
) -> Run:
    """`run` on the loop that is running: ``await agf.arun(...)``. Plain functions go to worker threads."""
    made = prepare(flow, input, registry=registry, limits=limits, dry=dry)
    emit = _emit(made.progress, on_event)
    try:
        made._end(await host.here(lambda place: made._main(place, emit)))
    except asyncio.CancelledError as stop:
        made._cancelled(None, stop)
        raise
    except AgfError as error:
        made._failed(error)
    return made.result() if raises else made


def begin(
    flow: Flow | str | Path,
    input: Mapping[str, Value] | None = None,
    *,
    registry: Registry | None = None,
    limits: Limits | None = None,
    on_event: Callable[[Event], None] | None = None,
    dry: bool = False,
    enter: Callable[[], None] | None = None,
) -> Run:
    """Start a run and hand it back at once; the caller must `wait`, because plain functions run on the waiting thread.

    ``enter`` is called first in every thread that works for the run (the notebook routes prints with it).
    """
    made = prepare(flow, input, registry=registry, limits=limits, dry=dry)
    emit = made._emit = _emit(made.progress, on_event)
    made._job = host.start(lambda place: made._main(place, emit), enter=enter)
    return made


def prepare(
    flow: Flow | str | Path,
    input: Mapping[str, Value] | None = None,
    *,
    registry: Registry | None = None,
    limits: Limits | None = None,
    dry: bool = False,
) -> Run:
    """A run that is linked and whose input is checked, not yet started. Raises DefinitionError with all that is
    wrong.
    """
    registry = registry or default()
    found_flow = find(flow, registry)
    linked, problems = link(found_flow, registry)
    given = Given(_input(input))
    for missing in _missing(found_flow, given.input):
        problems.add(missing)
    if dry:  # which asks nobody
        problems = problems.without("flow.no-agent")
    problems.refuse()
    warnings = all_findings(found_flow.warnings, tuple(problems))
    return Run(linked, given, limits or current.settings.limits, warnings, dry)


def find(flow: Flow | str | Path, registry: Registry) -> Flow:
    """A flow by what a person gives: itself, its registered name, a file, a definition's text."""
    if isinstance(flow, Flow):
        return flow
    if isinstance(flow, str) and "\n" not in flow and ":" not in flow:
        if flow in registry.flows:
            return registry.flows[flow]
        hint = suggest(flow, registry.flows, "registered pipelines") or "define one first: %%pipeline"
        raise DefinitionError(Diagnostic("flow.unknown-flow", f"no pipeline {flow!r} is registered", hint=hint))
    return load(flow, registry=registry)


def _input(input: Mapping[str, Value] | None) -> dict[str, Value]:
    if input is None:
        return {}
    if not isinstance(input, Mapping) or not all(isinstance(key, str) for key in input):
        hint = "input is a mapping of names to values"
        raise DefinitionError(Diagnostic("run.input", f"the input is {type_name(input)}, not a mapping", hint=hint))
    try:
        return {str(key): settle(value) for key, value in input.items()}
    except Exception as error:  # it contains itself, or somebody's class that cannot be looked into
        why = str(error) if isinstance(error, TooDeep) else said(error)
        raise DefinitionError(Diagnostic("run.input", f"the input cannot be used: {why}")) from None


def _missing(flow: Flow, given: Mapping[str, Value]) -> Sequence[Diagnostic]:
    told: dict[str, Diagnostic] = {}
    known = {found.span: found.hint for found in flow.warnings if found.span and found.hint}
    others = [ref.path[-1] for ref in flow.inputs if not ref.certain and ref.path[-1] not in given]
    for ref in flow.inputs:
        name = ref.path[-1]
        if ref.certain and name not in given and name not in told:
            # What was found at this very token when it was loaded knows better what was meant.
            near = (ref.span and known.get(ref.span)) or suggest(name, given) or _give(name, ref.span, others)
            told[name] = Diagnostic(
                "run.missing-input", f"{flow.name!r} reads {name!r}, which the input lacks", ref.span, near
            )
    return list(told.values())


def _give(name: str, span: Span | None, others: Sequence[str]) -> str:
    bare = f" A text has quotes of its own: \"'{name}'\"." if span is not None and span.text == name else ""
    also = f" It may also read {', '.join(others)}." if others else ""
    return f"give it: --set {name}=… (in Python: input={{{name!r}: …}}).{bare}{also}"


def _emit(progress: Progress, listener: Callable[[Event], None] | None) -> Callable[[Event], None]:
    """Fold each event and tell the listener; one that raises is dropped with a warning and the run goes on."""
    if listener is None:
        return progress.apply
    told: list[Callable[[Event], None]] = [listener]

    def emit(event: Event) -> None:
        if progress.ended is not None:  # RunEnded is the last of all
            return
        progress.apply(event)
        for tell in told:
            try:
                tell(event)
            except Exception as error:
                told.clear()
                message = f"on_event raised {said(error)}; it is not called again"
                progress.apply(Warned(clock(), Diagnostic("run.listener", message, severity="warning")))

    return emit


_numbers = itertools.count(1)

__all__ = ["Run", "RunCancelled", "Trace", "arun", "begin", "find", "prepare", "run"]
