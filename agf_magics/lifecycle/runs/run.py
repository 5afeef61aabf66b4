"""The handle of a run, running or ended."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import secrets
import warnings
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping
from decimal import Decimal
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar
from unicodedata import category

from ...catalog import Tool
from ...engine import run as engine
from ...engine.host import host, job
from ...engine.host.background_calls import cancel_background_calls, count_background_calls
from ...engine.host.held_interrupt import PersonsInterrupt
from ...engine.linking.linked import Linked
from ...engine.runner import clock
from ...flow.progress.events import Event, RunEnded, StepAbandoned
from ...flow.progress.progress import Progress
from ...flow.progress.rows import Row, Usage
from ...flow.protocols import FlowInput
from ...flow.steps import Flow
from ...journal.calls.reuse import Reuse
from ...journal.database.errors import JournalError
from ...journal.database.store import Store
from ...journal.records.recorded_outcomes import ReplayLog
from ...journal.run_journal import Journal
from ...journal.secrets.masking import Secrets, names_a_secret
from ...limits.grants import ANYTHING
from ...limits.limits import Limits
from ...pictures.amounts import counted
from ...pictures.plain import untypeset
from ...pictures.widget_hook import Widgets
from ...settings.settings import current
from ...text.diagnostics import AgfError, Diagnostic, StepError, sort_by_place
from ...text.names import same_name
from ...text.source import Source
from ...text.suggestions import suggest
from ...values.value import Value
from ..definitions.influence import SecretSources, find_secret_sources
from ..input.fields import fields_of
from ..input.options import RunOptions
from .event_queue import EventQueue
from .trace import Trace, trace_rows

if TYPE_CHECKING:
    from ...workers.backends.backend import WorkerBackend
    from ..table_runs.table import RowTable


class RunCancelled(StepError):
    """A run was cancelled before its end: by `Run.cancel`, the button *Cancel*, or a person's
    interrupt, which raises `RunInterrupted`. ``run`` has the results so far (decision A17)."""

    run: Run


class RunInterrupted(KeyboardInterrupt):
    """A person interrupted a run: with ■ in a notebook, with Ctrl-C elsewhere (decision D140).

    A KeyboardInterrupt, so that it ends the cell, and ``except Exception`` does not keep it.
    ``run`` has the results so far, ``error`` says where the run stopped."""

    def __init__(self, run: Run) -> None:
        error = run.error
        if not isinstance(error, RunCancelled):  # it ended before it could be cancelled
            message = f"run of {run.name!r} was interrupted; it has ended: {run.status}"
            error = RunCancelled(Diagnostic("run.cancelled", message))
            error.run = run
        super().__init__(str(error))
        self.run, self.error = run, error

    def __reduce__(self) -> Any:
        return KeyboardInterrupt, self.args  # its run stays in its process


V = TypeVar("V")


class NamedValues(dict[str, V]):
    """Values by name. An unknown name is told with the nearest one."""

    def __missing__(self, name: object) -> V:
        if isinstance(name, str) and (same := same_name(name)) in self:
            return self[same]
        near = suggest(str(name), self, "the names")
        raise KeyError(f"there is no {name!r} here: {near or 'there are no names yet'}")

    if not TYPE_CHECKING:  # it would allow every name

        def __getattr__(self, name: str) -> NoReturn:
            near = f"write [{name!r}]" if name in self else suggest(name, self, "the names")
            hint = near or "there are no names yet"
            raise AttributeError(f"values are read by name, as [{name!r}]: {hint}")


class BaseRun:
    """What a run of this process and one of the journal have in common."""

    run_id: str
    """The id by which the journal knows it."""

    @cached_property
    def progress(self) -> Progress:
        """The tree of steps with their states."""
        raise NotImplementedError

    @property
    def usage(self) -> Usage:
        """The use of models so far, including earlier sessions: ``requests``, ``input``,
        ``output``, ``tokens``, ``cost``, and ``by_model``."""
        return self.progress.usage

    @property
    def cost(self) -> Decimal | None:
        """The cost of its models so far in US dollars, estimated; None: a price is not known, or it
        asked none."""
        return self.usage.cost

    @property
    def steps(self) -> Mapping[str, Row]:
        """The state of each step, by id: ``run.steps["steps[1]"].value``; steps of called flows as
        ``steps[1]/steps[0]``.
        """
        return NamedValues((row.id, row) for row in self.progress.rows.values())

    def widget(self) -> Any:
        """The explorer of the run as an ipywidget, which can be placed in a box or a Voilà page."""
        return Widgets.of(self)

    if not TYPE_CHECKING:
        __iter__ = None

        def __getattr__(self, name: str) -> Any:
            """The error for an attribute that a run does not have names the nearest one."""
            if name.startswith("_") or hasattr(type(self), name):
                return object.__getattribute__(self, name)
            names = [each for each in dir(self) if not each.startswith("_")]
            near = suggest(name, names) or "dir(…) lists what it has"
            raise AttributeError(f"a run has no {name!r}: {self._store_hint(name) or near}")

        def __getitem__(self, name: object) -> NoReturn:
            how = self._store_hint(name) or f"write run.{name}"
            raise TypeError(f"a run is not read with brackets: {how}")

        def _store_hint(self, name: object) -> str:
            """How to read a named result; empty if there is none of that name."""
            stores = getattr(self, "stores", {})
            return f"write run.stores[{name!r}]" if name in stores else ""

        def __reduce__(self) -> NoReturn:
            raise TypeError(
                f"a run cannot be pickled or copied: run.output and run.stores are its values, the "
                f"journal has it as agf.runs({self.run_id!r}), and %runs {self.run_id} --export FILE "
                f"writes it into a file"
            )


class Run(BaseRun):
    """A run, while it is running and afterwards. All attributes can be read at any time."""

    def __init__(
        self,
        linked: Linked,
        flow_input: FlowInput,
        limits: Limits,
        options: RunOptions,
        warnings: Iterable[Diagnostic],
    ) -> None:
        name = _typable(linked.flow.name or linked.flow.language)[:60]
        self.run_id = f"{name}-{next(_numbers)}-{secrets.token_hex(3)}"
        self.input, self.context = flow_input.input, flow_input.context
        self._continues = ""
        """What it reads of its named context."""
        if (context := flow_input.context) is not None and (count := len(context.log or ())):
            messages = f"{count:,} earlier message{'s' * (count != 1)}"
            self._continues = f"reads {messages} of the context {context.name!r}"
        self._table: RowTable | None = None
        self.limits = limits
        self.dry = options.dry
        self.progress = Progress(linked.flow, linked.callees)
        self._output: Value = None
        self.error: StepError | None = None
        self.calls = 0
        """The number of tool calls; for a dry run, the least number that a real run makes."""
        self.sessions = 0
        """The number of agent sessions."""
        self.journal: Journal | None = None
        """None: the run is not journaled."""
        self.work = ""
        self.secrets = Secrets()
        self.grant = ANYTHING
        """The tools that it may use; a resumed run may use no more than the original one."""
        self.background = options.background
        """Whether it runs in the background."""
        self.origin = ""
        """The cell that started it and shows its result: ``In[6]``."""
        self._linked = linked
        self._options = options
        self._notes: Callable[[], Iterable[Diagnostic]] = tuple
        """What it warns about at its end."""
        self._workers: WorkerBackend | None = None
        """What makes its concurrent calls; None: threads."""
        self._warnings = tuple(sort_by_place([*warnings]))
        self._given = flow_input
        self._job: job.Job[engine.Done] | None = None
        self._stop: Callable[[], object] | None = None
        """Cancels the task that awaits the run."""
        self._reason: str | None = None
        """Why it was cancelled without a job."""
        self._bug: BaseException | None = None
        self._place: host.Host | None = None
        self._emit: Callable[[Event], None] = self.progress.apply
        self._queue = EventQueue() if options.queue else None
        self._has_secrets = self._surround()

    @property
    def flow(self) -> Flow:
        return self._linked.flow

    @property
    def name(self) -> str:
        return self.flow.name

    @property
    def status(self) -> str:
        """``pending``, ``running``, ``ok``, ``error``, ``cancelled`` or ``waiting``."""
        return self.progress.status

    @property
    def _in_journal(self) -> tuple[Store, int] | None:
        """Its journal, and its number there; None if it is not journaled."""
        return (self.journal.store, self.journal.num) if self.journal is not None else None

    @property
    def done(self) -> bool:
        """Whether the run has ended, with any status."""
        return self._job.done if self._job is not None else self.progress.ended is not None

    @property
    def seconds(self) -> float | None:
        """The time that the run took; None before its end."""
        return self.progress.seconds

    @property
    def stores(self) -> Mapping[str, Value]:
        """The named results of the run, whatever its status; empty before its end."""
        return NamedValues(self.progress.stores)

    @property
    def output(self) -> Value:
        """The output; None for a run that failed. A run that has not ended has none yet, and
        reading it warns."""
        if not self.done:
            message = f"the run {self.run_id} has not ended and has no output yet: .wait() waits"
            warnings.warn(message, stacklevel=2)
        return self._output

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """The warnings of the run and of its definition, without those that the notebook has
        already shown."""
        return (
            *(finding for finding in self._warnings if finding.severity == "warning"),
            *self.progress.warnings,
        )

    @property
    def note(self) -> str:
        """Whether the run is a dry or a resumed one or reused results, how many earlier messages of
        a named context it reads, and which model replaced the one that the definition names
        (decision B2). Usually empty."""
        others = (
            finding.message for finding in self._warnings if finding.code == "model.configured"
        )
        return "; ".join(
            filter(None, (self._kind, self._options.note, self._continues, *dict.fromkeys(others)))
        )

    @property
    def _kind(self) -> str:
        if self.dry:
            calls, sessions = (
                counted(self.calls, "tool call"),
                counted(self.sessions, "agent session"),
            )
            return f"dry run, nothing was called: a real run makes at least {calls} and {sessions}"
        count = sum(row.earlier for row in self.progress.rows.values())
        reused = counted(count, "call")
        match self.journal:
            case Journal(earlier=ReplayLog()):
                repeats = f": {reused} of an earlier session not repeated" if count else ""
                return f"resumed{repeats}"
            case Journal(reuse=Reuse() as reuse):
                return f"{reused} reused from {reuse.run_id}"
        return ""

    @property
    def how_to_continue(self) -> str:
        """What to write to resume the run, ``%resume big-2``; empty if there is nothing to
        resume, or if it would fail in the same way."""
        if self.journal is None or (self.status == "error" and fails_again(self.error)):
            return ""
        return (self._options.continuing or partial(current.words.resume, self.run_id))(self.status)

    @property
    def trace(self) -> Trace:
        """A table with one row per step, in the order of the definition."""
        with contextlib.suppress(JournalError):  # the run has its own warning about the journal
            return trace_rows(self.progress, self._in_journal, self.secrets.shown)
        return trace_rows(self.progress, None, self.secrets.shown)

    @property
    def table(self) -> RowTable:
        """The result of a run over data: a row for each row, with its outcome. Raises
        DefinitionError for another run."""
        from ..table_runs.table import RowTable

        if self._table is None or not self.done:  # of a run that goes on, as it is now
            self._table = RowTable(self)
        self._table.refresh()
        return self._table

    @property
    def _input_value(self) -> Value:
        return self.input

    @property
    def _definition(self) -> tuple[str, Source]:
        return self.flow.language, self.flow.source

    def wait(self, timeout: float | None = None) -> Run:
        """Wait for the end of the run, at most ``timeout`` seconds (default None: no limit), and
        return the run.

        Errors of the run are not raised: see `result`. An interrupt while waiting for a background
        run ends the waiting only. Any other run is driven by this call: plain functions run on this
        thread, the first interrupt cancels the run, and the second raises at once.
        """
        if self._job is None:
            assert self.progress.ended is not None, "wait() needs a run that was started"
        elif self.background:
            self._job.join(timeout)
        else:
            try:
                self._job.wait()
            except (asyncio.CancelledError, AgfError):
                return self  # the run has the error
        return self

    def events(self) -> AsyncIterator[Event]:
        """The events of the run, for ``async for``: from the first to the last, with the text of
        models (`ModelText`).

        Each event is given once. Raises RuntimeError unless ``agf.start(…, stream=True)`` started
        the run."""
        if self._queue is None:
            raise RuntimeError("this run keeps no events: start it with agf.start(…, stream=True)")
        return self._queue.read()

    def cancel(self, reason: str = "cancelled") -> None:
        """Ask the run to stop; completed results are saved. Cancel also the fire-and-forget calls
        that it started, even after its end. ``reason`` (default "cancelled") is shown with the
        run."""
        if self._place is not None:
            cancel_background_calls(self._place)
        if self._is_started:
            assert self._job is not None
            self._job.cancel(reason)
        elif self._reason is None:
            self._reason = reason  # `start_on_engine` reads it
            if self._stop is not None:
                self._stop()

    def result(self) -> Run:
        """Wait for the end of the run and return the run; raise its error if it failed or was
        cancelled."""
        if self.background and not self.done:
            self.wait()
        if self.error is not None:
            raise self.error
        if self._bug is not None:
            raise self._bug
        return self

    def __await__(self) -> Generator[Any, None, Run]:
        """``await run``: `result` without blocking a loop."""
        if self._job is not None:
            yield from self._job.ended().__await__()
        return self.result()

    @property
    def _is_started(self) -> bool:
        """Whether it was started on the engine's loop, which reports its end from then on."""
        return self._job is not None and self._job.started

    @property
    def _cancel_reason(self) -> str | None:
        return self._job.reason if self._job is not None else self._reason

    @property
    def _interrupted(self) -> bool:
        """Whether a person has interrupted it, with ■ or Ctrl-C."""
        return isinstance(self._cancel_reason, PersonsInterrupt)

    @property
    def _fired(self) -> int:
        """The number of its fire-and-forget calls that are still running."""
        return count_background_calls(self._place) if self._place is not None else 0

    def _leave_open(self) -> None:
        """Journal no end that an interrupt caused: the process is exiting, and the run counts as
        interrupted."""
        if self.journal is not None and (self._interrupted or self._cancel_reason is None):
            self.journal.leave_open()

    def _surround(self) -> bool:
        """Tell its secrets what a `functools.partial` gives to its tools. Whether one of these takes
        a secret argument."""
        tools = [callee for callee, _ in self._linked.every_callee if isinstance(callee, Tool)]
        self.secrets.surround(bound_secrets(tools))
        for value in self._options.secrets:
            self.secrets.learn(value)
        return any(tool.secret for tool in tools)

    @cached_property
    def _secret_sources(self) -> SecretSources:
        """What feeds the secret arguments of its tools. Of nearly every run nothing is followed."""
        return find_secret_sources(self._linked) if self._has_secrets else SecretSources()

    def _find_secrets(self) -> None:
        """Find which of its values are secret before any tool is called: the manifest with the
        input is on disk before the first one. Without a journal, a secret is learned with the call
        that receives it, and elements without it may leave the kernel."""
        sources = self._secret_sources
        self.secrets.names, self.secrets.steps = sources.names, sources.steps
        for name in sources.names & fields_of(self.input).keys():
            self.secrets.learn(self.input[name])

    def _log_to_keep(self) -> Any:
        """The messages of its named context, without secrets; None: there are none."""
        log, remove = (self.context and self.context.log, self.flow.dialect.without_secrets)
        if log is None or remove is None:
            return log
        paths = self._secret_sources.paths
        if not paths and not self.secrets.active:
            return log
        return remove(log, paths, self.secrets.holds_any)

    def _end_early(self, status: str, why: str, error: StepError | None = None) -> None:
        """Emit and journal the end of a run that the engine has not ended; later events of its loop
        are ignored."""
        if self.progress.ended is not None:
            return
        for row in list(self.progress.rows.values()):
            for _ in range(row.running):
                self._emit(StepAbandoned(row.key, clock(), why))
        if self.journal is not None:
            self.journal.end(status, None, {}, error)
            self.journal.close()
        self._emit(RunEnded(clock(), status, error))

    def _set_cancelled(self, stop: asyncio.CancelledError) -> None:
        """Set the error of a cancelled run: where it stopped, and why unless it was simply
        cancelled."""
        stopped = [
            row.id for row in self.progress.rows.values() if row.state in ("cancelled", "left")
        ]
        where = f" in {stopped[-1]}" if stopped else ""
        why = f" ({self._cancel_reason})" if self._cancel_reason not in (None, "cancelled") else ""
        left = getattr(stop, "left_running", None)
        error = RunCancelled(
            Diagnostic(
                "run.cancelled", f"run of {self.name!r} was cancelled{where}{why}", hint=left
            )
        )
        error.run = self
        self.error = error

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from ...pictures.pages.run_page import run_html, run_text

        return {"text/html": untypeset(run_html(self)), "text/plain": run_text(self)}

    def __repr__(self) -> str:
        return f"<Run {self.run_id} {self.status}>"


_numbers = itertools.count(1)


def _typable(name: str) -> str:
    """The name of a flow as the first part of an id: a word of a line without quotes. It keeps the
    letters and digits of all scripts, with their marks."""
    return "".join(
        each if each.isalnum() or each in "_.-" or category(each).startswith("M") else "_"
        for each in same_name(name)
    )


DETERMINED = frozenset({"pipeline", "policy", "plan", "graph", "r1", "flow"})
"""The first words of the codes of errors that follow from a definition and its input."""


def fails_again(error: BaseException | None) -> bool:
    """Whether a resumed run would meet the same error: it has the definition, the input and the
    results of this one, and only failed calls are made again."""
    return (
        isinstance(error, AgfError)
        and error.code != "policy.invalid-output"
        and error.code.partition(".")[0] in DETERMINED
    )


def bound_secrets(tools: Iterable[Tool]) -> Iterator[str]:
    """The texts that a `functools.partial` gives to these tools for parameters whose names say that
    they are secrets (decision D42)."""
    for tool in tools:
        function: Any = tool.function
        while isinstance(function, partial):
            for name, value in function.keywords.items():
                if names_a_secret(name) and isinstance(value, str):
                    yield value
            function = function.func
