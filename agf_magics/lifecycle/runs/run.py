"""`Run`, a person's handle of a run: its results so far, and methods to wait for, watch and stop
it."""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from collections.abc import AsyncIterator, Generator, Mapping
from decimal import Decimal
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from ...engine.ended_rows import EndedRows
from ...engine.linking.linked import Linked
from ...flow.flow import Flow
from ...flow.progress.events import Event
from ...flow.progress.progress import Progress
from ...flow.progress.rows import Row
from ...flow.progress.usage import Usage
from ...journal.calls.reuse import Reuse
from ...journal.database.errors import JournalError
from ...journal.database.store import Store
from ...journal.run_journal import Journal
from ...journal.secrets.masking import Secrets
from ...languages.ours import OURS
from ...limits.limits import Limits
from ...pictures.amounts import counted
from ...pictures.plain import untypeset
from ...pictures.widget_hook import Widgets
from ...settings.settings import current
from ...text.diagnostics import AgfError, Diagnostic, StepError
from ...text.names import same_name
from ...text.source import Source
from ...text.suggestions import suggest
from ...values.unread import ReadWhenUsed
from ...values.value import Value
from .answering import answer_question
from .state import RunState
from .states import States
from .trace import Trace, trace_rows

if TYPE_CHECKING:
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
        if not isinstance(error, RunCancelled):  # the run ended before it could be cancelled
            message = f"run of {run.name!r} was interrupted; it has ended: {run.status}"
            error = RunCancelled(Diagnostic("run.cancelled", message))
            error.run = run
        super().__init__(str(error))
        self.run = run
        self.error = error

    def __reduce__(self) -> Any:
        return KeyboardInterrupt, self.args  # its run stays in its process


V = TypeVar("V")


class NamedValues(dict[str, V]):
    """Values by name. The error for an unknown name tells the nearest name."""

    def __missing__(self, name: object) -> V:
        if isinstance(name, str) and (same := same_name(name)) in self:
            return self[same]
        near = suggest(str(name), self, "the names")
        raise KeyError(f"there is no {name!r} here: {near or 'there are no names yet'}")

    if not TYPE_CHECKING:  # that would allow every name

        def __getattr__(self, name: str) -> NoReturn:
            near = f"write [{name!r}]" if name in self else suggest(name, self, "the names")
            hint = near or "there are no names yet"
            raise AttributeError(f"values are read by name, as [{name!r}]: {hint}")


class LateValues(ReadWhenUsed, NamedValues[Value]):
    """Values of a resumed run by name: each is read when somebody asks for it."""


class BaseRun:
    """The common base of a run of this process and a run of the journal."""

    run_id: str
    """The id of the run, also in the journal."""

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
        """The estimated cost of the run's models so far, in US dollars; None: a price is not known,
        or the run asked no model."""
        return self.usage.cost

    @property
    def steps(self) -> Mapping[str, Row]:
        """The state of each step, by id: ``run.steps["steps[1]"].value``; steps of called flows as
        ``steps[1]/steps[0]``.
        """
        return NamedValues((row.id, row) for row in self.progress.rows.values())

    @property
    def states(self) -> States:
        """The state of a graph after each round, of another flow its named values after each step,
        as a table with ``to_pandas()``: ``run.states[-1]["state"]``. Raises DefinitionError if the
        run is not journaled."""
        return States.of(self)

    def widget(self) -> Any:
        """The explorer of the run as an ipywidget, which can be placed in a box or a Voilà page."""
        return Widgets.of(self)

    if not TYPE_CHECKING:
        __iter__ = None  # else Python would call `__getitem__` with 0, 1, 2 …

        def __getattr__(self, name: str) -> Any:
            """The error for an attribute that a run does not have names the nearest one."""
            if name.startswith("_") or hasattr(type(self), name):
                return object.__getattribute__(self, name)
            names = [attribute for attribute in dir(self) if not attribute.startswith("_")]
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

    def __init__(self, state: RunState) -> None:
        self._state = state
        self.progress = state.progress  # an attribute: views read it at every beat
        self._table: RowTable | None = None
        self._table_is_final = False

    @property
    def run_id(self) -> str:  # type: ignore[override]
        """The id of the run: the name of the flow, a number and a random part."""
        return self._state.run_id

    @property
    def input(self) -> Value:
        """The input as the run got it."""
        return self._state.flow_input.input

    @property
    def limits(self) -> Limits:
        return self._state.limits

    @property
    def dry(self) -> bool:
        """Whether nothing is called: values made from schemas replace the results."""
        return self._state.options.dry

    @property
    def background(self) -> bool:
        """Whether the run runs in the background."""
        return self._state.options.background

    @property
    def origin(self) -> str:
        """The cell that started the run and shows its result: ``In[6]``; empty: no cell started
        it."""
        return self._state.origin

    @property
    def error(self) -> StepError | None:
        """The error that the run failed with, or its cancellation; None: the run did not fail, or
        has not ended."""
        return self._state.error

    @property
    def calls(self) -> int:
        """The number of tool calls so far, failed ones and all attempts included; for a dry run,
        the least number that a real run makes. A resumed run counts those of its earlier sessions,
        and a run that reuses results those that it would have made."""
        return self._state.counts.calls

    @property
    def sessions(self) -> int:
        """The number of agent sessions so far, counted as `calls` are."""
        return self._state.counts.sessions

    @property
    def journal(self) -> Journal | None:
        """The journal of the run; None: the run is not journaled."""
        return self._state.journal

    @property
    def secrets(self) -> Secrets:
        """The secrets that are masked when values of the run are shown."""
        return self._state.secrets

    @property
    def flow(self) -> Flow:
        return self._state.flow

    @property
    def _linked(self) -> Linked:
        return self._state.linked

    @property
    def name(self) -> str:
        return self.flow.name

    @property
    def status(self) -> str:
        """``pending``, ``running``, ``ok``, ``error``, ``cancelled`` or ``waiting``."""
        return self.progress.status

    @property
    def _in_journal(self) -> tuple[Store, int] | None:
        return self._state.in_journal

    @property
    def _ended_rows(self) -> EndedRows:
        return self._state.counts.rows

    @property
    def done(self) -> bool:
        """Whether the run has ended, with any status."""
        return self._state.is_done

    @property
    def seconds(self) -> float | None:
        """The time that the run took; None before its end."""
        return self.progress.seconds

    @property
    def stores(self) -> Mapping[str, Value]:
        """The named results of the run, whatever its status; empty before its end."""
        journal = self._state.journal
        is_late = journal is not None and bool(journal.unread)
        return (LateValues if is_late else NamedValues)(self.progress.stores)

    @property
    def output(self) -> Value:
        """The output; None for a run that failed. A run that has not ended has none yet, and
        reading it warns."""
        if not self.done:
            message = f"the run {self.run_id} has not ended and has no output yet: .wait() waits"
            warnings.warn(message, stacklevel=2)
        return self._state.output

    @property
    def shown_output(self) -> Value:
        """The output for display."""
        return self._state.output

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """The warnings of the run and of its definition, without those that the notebook has
        already shown."""
        return (
            *(problem for problem in self._state.warnings if problem.severity == "warning"),
            *self.progress.warnings,
        )

    @property
    def note(self) -> str:
        """Which run it repeats from which step, whether it is a dry or a resumed one or reused
        results, how many earlier messages of a named context it reads, and which model replaced the
        one that the definition names (decision B2). Usually empty."""
        state = self._state
        models = (note.message for note in state.warnings if note.code == "model.configured")
        parts = (state.options.note, self._kind, state.continues, *dict.fromkeys(models))
        return "; ".join(filter(None, parts))

    @property
    def _kind(self) -> str:
        if self.dry:
            calls = counted(self.calls, "tool call")
            sessions = counted(self.sessions, "agent session")
            return f"dry run, nothing was called: a real run makes at least {calls} and {sessions}"
        count = sum(row.earlier for row in self.progress.rows.values())
        match self.journal:
            case Journal(is_resumed=True):
                repeats = f": {counted(count, 'completed call')} not repeated" if count else ""
                return f"resumed{repeats}"
            case Journal(reuse=Reuse() as reuse):
                source = "" if reuse.run_id in self._state.options.note else f" from {reuse.run_id}"
                why = self._why_not_reused if source and not count and self.done else ""
                return f"{counted(count, 'call')} reused{source}{why and f' ({why})'}"
        return self._why_not_reused

    @cached_property
    def _why_not_reused(self) -> str:
        return self._state.why_not_reused()

    @property
    def how_to_continue(self) -> str:
        """What to write to resume the run, ``%resume big-2``; empty if there is nothing to
        resume, or if it would fail in the same way."""
        if self.journal is None or (self.status == "error" and fails_again(self.error)):
            return ""
        continuing = self._state.options.continuing or partial(current.words.resume, self.run_id)
        return continuing(self.status)

    @property
    def trace(self) -> Trace:
        """A table with one row per step, in the order of the definition."""
        with contextlib.suppress(JournalError):  # the run has its own warning about the journal
            return trace_rows(self.progress, self._in_journal, self.secrets.shown)
        return trace_rows(self.progress, None, self.secrets.shown)

    @property
    def table(self) -> RowTable:
        """The result of a run over a table: each of its rows with its outcome. Raises DefinitionError
        for another run."""
        from ..table_runs.table import RowTable

        if self._table is None or not self._table_is_final:
            self._table_is_final = self.done  # else it is a snapshot of a run that goes on
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
        job = self._state.job
        if job is None:
            assert self.progress.ended is not None, "wait() needs a run that was started"
        elif self.background:
            job.join(timeout, current.meanwhile)
        else:
            try:
                job.wait(current.meanwhile)
            except (asyncio.CancelledError, AgfError):
                return self  # the run has the error
        return self

    def events(self) -> AsyncIterator[Event]:
        """The events of the run, for ``async for``: from the first to the last, with the text of
        models (`ModelText`).

        Each event is given once. Raises RuntimeError unless ``agf.start(…, stream=True)`` started
        the run."""
        if self._state.queue is None:
            raise RuntimeError("this run keeps no events: start it with agf.start(…, stream=True)")
        return self._state.queue.read()

    def answer(self, value: Value, step: str | None = None) -> None:
        """Answer the question that a background run asks, as a person would in its view: ``h.answer("yes")``.

        ``value``: a text as a person types it, True or False for an approval, or a mapping in the
        place of a call. Required. ``step``: the step that asks. Default None: the step whose
        question is open. Raises DefinitionError if the run asks nothing, another step asks, or the
        answer does not fit. The questions are in ``run.progress.open_questions``."""
        answer_question(self.run_id, self.name, self.progress, value, step)

    def cancel(self, reason: str = "cancelled") -> None:
        """Ask the run to stop; completed results are saved. Cancel also the fire-and-forget calls
        that it started, even after its end. ``reason`` (default "cancelled") is shown with the
        run."""
        self._state.cancel(reason)

    def result(self) -> Run:
        """Wait for the end of the run and return the run; raise its error if it failed or was
        cancelled."""
        if self.background and not self.done:
            self.wait()
        if self.error is not None:
            raise self.error
        if self._state.bug is not None:
            raise self._state.bug
        return self

    def __await__(self) -> Generator[Any, None, Run]:
        """``await run``: `result` without blocking a loop."""
        if self._state.job is not None:
            yield from self._state.job.ended().__await__()
        return self.result()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from ...pictures.pages.run_page import run_html, run_text

        return {"text/html": untypeset(run_html(self)), "text/plain": run_text(self)}

    def __repr__(self) -> str:
        return f"<Run {self.run_id} {self.status}>"


def state_of(run: Run) -> RunState:
    """The internal data of a run, which a person's handle does not show."""
    return run._state


DETERMINED = {"flow", *OURS, *(layer for known in OURS.values() for layer in known.layers)}
"""The first words of the codes of errors that follow from a definition and its input."""


def fails_again(error: BaseException | None) -> bool:
    """Whether a resumed run would meet the same error: it has the definition, the input and the
    results of this one, and only failed calls are made again."""
    return (
        isinstance(error, AgfError)
        and error.code != "policy.invalid-output"
        and error.code.partition(".")[0] in DETERMINED
    )
