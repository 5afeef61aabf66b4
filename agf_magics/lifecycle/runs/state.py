"""The state of a run, which its driver writes and its handle reads: flow, options, job, outcome."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from ...catalog import Tool
from ...engine.host import host, job
from ...engine.host.background_calls import cancel_background_calls, count_background_calls
from ...engine.host.held_interrupt import PersonsInterrupt
from ...engine.linking.linked import Linked
from ...engine.run_options import RunOptions
from ...engine.runner import RunCounts, clock
from ...flow.flow import Flow
from ...flow.progress.events import CancelAsked, Event, RunEnded, StepAbandoned
from ...flow.progress.progress import Progress
from ...flow.protocols import FlowInput, FlowResult
from ...journal.calls.reuse import ReusedRuns
from ...journal.database.store import Store
from ...journal.run_journal import Journal
from ...journal.secrets.forms import is_searchable
from ...journal.secrets.masking import Secrets, names_a_secret
from ...limits.grants import ANYTHING, Grant
from ...limits.limits import limits_of_run
from ...settings.settings import current
from ...text.diagnostics import Diagnostic, StepError, sort_by_place
from ...text.names import MOST_IN_ID, word_of
from ...values.value import Value
from ..definitions.secret_sources import SecretSources, find_secret_sources
from ..input.fields import fields_of
from .event_queue import EventQueue

if TYPE_CHECKING:
    from ...workers.backends.backend import WorkerBackend

_numbers = itertools.count(1)


class RunState:
    """The state of one run of this process, from before its first step to after its end.

    ``run_id`` and ``grant``: of a resumed run, those of the original one; empty: a new id.
    """

    def __init__(
        self,
        linked: Linked,
        flow_input: FlowInput,
        options: RunOptions,
        warnings: Iterable[Diagnostic],
        *,
        run_id: str = "",
        grant: Grant = ANYTHING,
        workers: WorkerBackend | None = None,
    ) -> None:
        self.linked = linked
        self.flow_input = flow_input
        self.limits = limits_of_run(options.limits, current.settings.limits)
        self.options = replace(options, limits=self.limits)
        self.warnings = tuple(sort_by_place([*warnings]))
        """The problems of the definition and the input."""
        self._run_id = run_id
        self.grant = grant
        """The tools that the run may use; a resumed run may use no more than the original run."""
        self.workers = workers
        """The workers that make the concurrent calls of the run; None: threads make them."""
        self.continues = _about_context(flow_input)
        """The note which messages of a named context the run reads; empty: it reads none."""
        self.progress = Progress(linked.flow, linked.callees)
        self.emit: Callable[[Event], None] = self.progress.apply
        self.queue = EventQueue() if options.queue else None
        """The events that nobody has read yet."""
        self.journal: Journal | None = None
        """The journal; None: the run is not journaled."""
        self.reused = ReusedRuns()
        """The runs whose results the run reuses."""
        self.job: job.Job[FlowResult] | None = None
        """The work on the engine's loop; None: the run is awaited, or was not started."""
        self.stop: Callable[[], object] | None = None
        """Cancels the task that awaits the run."""
        self.reason: str | None = None
        """The reason of a cancellation before the run had a job."""
        self.why_not_reused: Callable[[], str] = str
        """Returns why a run that may reuse results reused none; empty: it has nothing to say."""
        self.place: host.Host | None = None
        """The host that makes the calls; None: the run has not come to its loop."""
        self.output: Value = None
        self.error: StepError | None = None
        self.bug: BaseException | None = None
        """The error that ended the run, if it is not a failure of a step."""
        self.counts = RunCounts()
        """What the run has done so far."""
        self.origin = ""
        """The cell that started the run and shows its result: ``In[6]``; empty: no cell started
        it."""
        self.secrets = Secrets()
        tools = [callee for callee, _ in linked.every_callee if isinstance(callee, Tool)]
        self.secrets.surround(secrets_in_partials(tools))
        for value in options.secrets:
            self.secrets.learn(value)
        self._has_secrets = any(tool.secret for tool in tools)

    @cached_property
    def run_id(self) -> str:
        """The id of the run. Its number is assigned at the first reading, so that unstarted runs
        use up no numbers."""
        return self._run_id or _new_id(self.linked.flow)

    @property
    def flow(self) -> Flow:
        return self.linked.flow

    @property
    def in_journal(self) -> tuple[Store, int] | None:
        """The journal and the number of the run there; None if the run is not journaled."""
        return (self.journal.store, self.journal.num) if self.journal is not None else None

    @property
    def is_done(self) -> bool:
        """Whether the run has ended, with any status."""
        return self.job.done if self.job is not None else self.progress.ended is not None

    @property
    def is_started(self) -> bool:
        """Whether the run was started on the engine's loop, which reports its end from then on."""
        return self.job is not None and self.job.started

    @property
    def cancel_reason(self) -> str | None:
        return self.job.reason if self.job is not None else self.reason

    @property
    def is_interrupted(self) -> bool:
        """Whether a person has interrupted the run, with ■ or Ctrl-C."""
        return isinstance(self.cancel_reason, PersonsInterrupt)

    @property
    def background_calls(self) -> int:
        """The number of fire-and-forget calls of the run that are still running."""
        return count_background_calls(self.place) if self.place is not None else 0

    def cancel(self, reason: str) -> None:
        """Ask the run to stop, and its fire-and-forget calls, even after its end."""
        if self.place is not None:
            cancel_background_calls(self.place)
        if self.is_started:
            assert self.job is not None
            self.job.cancel(reason)
        elif self.reason is None:
            self.reason = reason  # the driver reads it when it starts the job
            if self.stop is not None:
                self.stop()

    def tell_cancelling(self) -> None:
        """Emit that the run is being cancelled. Called on its loop, as for every event."""
        if self.progress.status == "running" and not self.progress.is_cancelling:
            self.emit(CancelAsked(clock()))

    def leave_open(self) -> None:
        """Journal no end that an interrupt caused: the process is exiting, and the run counts as
        interrupted."""
        if self.journal is not None and (self.is_interrupted or self.cancel_reason is None):
            self.journal.leave_open()

    def end_early(self, status: str, why: str, error: BaseException | None = None) -> None:
        """Emit and journal the end of a run that the engine has not ended; later events of its loop
        are ignored."""
        if self.progress.ended is not None:
            return
        for row in list(self.progress.rows.values()):
            for _ in range(row.running):
                self.emit(StepAbandoned(row.key, clock(), why))
        if self.journal is not None:
            self.journal.end(status, None, {}, error)
            self.journal.close()
        self.emit(RunEnded(clock(), status, error))

    @cached_property
    def _secret_sources(self) -> SecretSources:
        """The values that feed secret arguments of tools. Nearly no run has secret arguments, and
        then no value is followed."""
        if not self._has_secrets:
            return SecretSources()
        return find_secret_sources(self.linked, fields_of(self.flow_input.input).keys())

    def find_secrets(self) -> None:
        """Find which values of the run are secret before any tool is called, because the manifest
        with the input is on disk before the first call. Without a journal, a secret is learned with
        the call that receives it, and elements without it may leave the kernel."""
        sources = self._secret_sources
        fields = fields_of(self.flow_input.input)
        self.secrets.steps, self.secrets.keys = sources.steps, sources.keys
        self.secrets.arguments = sources.arguments
        self.secrets.names = sources.names | (fields.keys() if sources.whole else frozenset())
        secret_values = self.flow.dialect.secret_values
        if secret_values is not None:
            for value in secret_values(fields, sources.names, sources.arguments):
                self.secrets.learn(value)
            return
        for name in self.secrets.names & fields.keys():
            # Of a whole input, most fields are no secret: none may make the run blind.
            if name in sources.names or is_searchable(fields[name]):
                self.secrets.learn(fields[name])

    def log_to_keep(self) -> Any:
        """The messages of the run's named context, without secrets; None: there is no context."""
        context = self.flow_input.context
        log, remove = (context and context.log, self.flow.dialect.without_secrets)
        if log is None or remove is None:
            return log
        paths = self._secret_sources.paths
        if not paths and not self.secrets.active:
            return log
        return remove(log, paths, self.secrets.has_searchable_secret)


def _new_id(flow: Flow) -> str:
    """An id that begins with the name of the flow."""
    name = word_of(flow.name or flow.language)
    return f"{name[:MOST_IN_ID]}-{next(_numbers)}-{secrets.token_hex(3)}"


def _about_context(flow_input: FlowInput) -> str:
    if (context := flow_input.context) is None or not (count := len(context.log or ())):
        return ""
    return f"reads {count:,} earlier message{'s' * (count != 1)} of the context {context.name!r}"


def secrets_in_partials(tools: Iterable[Tool]) -> Iterator[str]:
    """The texts that a `functools.partial` gives to these tools for parameters whose names say that
    they are secrets (decision D42)."""
    for tool in tools:
        function: Any = tool.function
        while isinstance(function, partial):
            for name, value in function.keywords.items():
                if names_a_secret(name) and isinstance(value, str):
                    yield value
            function = function.func
