"""The handle of a run, live or done, and which runs of this process there are."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import secrets
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any

from ..engine import run as engine
from ..engine.linked import Linked
from ..engine.runner import clock
from ..engine.subflows import too_long
from ..flow.frame import FlowInput
from ..flow.steps import Flow
from ..flow.values import Value
from ..host import host, job
from ..host.interrupts import held_interrupts, hold_for
from ..host.limits import ANYTHING, Limits
from ..host.loop import cancel_outliving, outliving
from ..journal.errors import JournalError
from ..journal.queries import once_each
from ..journal.recorder import Journal
from ..journal.records import Record
from ..pictures.plain import counted
from ..progress.events import Event, RunEnded, StepAbandoned
from ..progress.progress import Progress, Row, Usage
from ..secrets.masking import Secrets
from ..settings import current
from ..text.diagnostics import AgfError, Diagnostic, StepError
from .secret_flow import secret_paths
from .trace import Trace, traced


class RunCancelled(StepError):
    """A run was cancelled before its end. ``run`` has the results so far (decision A17)."""

    run: Run


class Run:
    """A run, while it is running and afterwards. All attributes can be read at any time."""

    def __init__(
        self, linked: Linked, given: FlowInput, limits: Limits, warnings: tuple[Diagnostic, ...], dry: bool
    ) -> None:
        name = _ODD.sub("_", linked.flow.name or linked.flow.language)[:60]
        self.run_id = f"{name}-{next(_numbers)}-{secrets.token_hex(3)}"
        self.linked = linked
        self.input, self.context = given.input, given.context
        self.limits = limits
        self.dry = dry
        self._asker: host.Asker | None = None
        """Who is asked what only a person can say; None: whoever the notebook or the terminal has for that."""
        self.progress = Progress(linked.flow, linked.callees)
        self.output: Value = None
        self.error: StepError | None = None
        self.calls = 0
        """Tool calls made (for a dry run: that a real one would make at least)."""
        self.sessions = 0
        """Agent sessions opened."""
        self.journal: Journal | None = None
        """Where it is kept; None: nowhere."""
        self.work = ""
        self.secrets = Secrets()
        self.grant = ANYTHING
        """What it may use; a run that is taken up may use no more than it might."""
        self._warnings = warnings
        self._given = given
        self.behind = False
        """Whether it runs in the background: nobody needs to wait for it."""
        self.origin = ""
        """Where it was started and where its result is shown, as a person would say it: ``In[6]``."""
        self._job: job.Job[engine.Done] | None = None
        self._stop: Callable[[], object] | None = None
        """Cancels the task that awaits it, and why that was done."""
        self._reason: str | None = None
        self._bug: BaseException | None = None
        self._place: host.Host | None = None
        self._emit: Callable[[Event], None] = self.progress.apply

    @property
    def flow(self) -> Flow:
        return self.linked.flow

    @property
    def name(self) -> str:
        return self.flow.name

    @property
    def status(self) -> str:
        """``pending``, ``running``, ``ok``, ``error``, ``cancelled`` or ``waiting``."""
        return self.progress.status

    @property
    def done(self) -> bool:
        """Whether the run has ended, with any status."""
        return self._job.done if self._job is not None else self.progress.ended is not None

    @property
    def stores(self) -> Mapping[str, Value]:
        """The named results of the run, whatever its status; empty before its end."""
        found = self.progress.stores
        if not isinstance(found, dict):  # put together when somebody looks, who may want to write it as JSON
            found = self.progress.stores = dict(found)
        return found

    @property
    def usage(self) -> Usage:
        """The use of models so far, including earlier sessions: ``requests``, ``input``, ``output``, ``tokens``."""
        return self.progress.usage

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """The warnings of the definition and of the run. Notes are shown when the flow is defined."""
        return (*(found for found in self._warnings if found.severity == "warning"), *self.progress.warnings)

    @property
    def note(self) -> str:
        """What must be known to read this run: that it was a dry one or taken up again, and which model answered where
        a definition names another one (decision B2). Mostly empty."""
        others = (found.message for found in self._warnings if found.code == "model.configured")
        return "; ".join(filter(None, (self._apart, *dict.fromkeys(others))))

    @property
    def _apart(self) -> str:
        journal, kept = self.journal, sum(row.earlier for row in self.progress.rows.values())
        if journal is not None and journal.earlier is not None:
            return "taken up again" + (
                f": {counted(kept, 'call')} of an earlier session not made again" if kept else ""
            )
        if journal is not None and journal.reuse is not None:
            return f"{counted(kept, 'call')} taken over from {journal.reuse.run_id}"
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
        calls: list[Record] = []
        if self.journal is not None:
            once = [row.key for row in self.progress.rows.values() if row.started and not row.many]
            with contextlib.suppress(JournalError):  # a run says itself that it is not kept
                calls += once_each(self.journal.store, self.journal.num, once)
        return traced(self.progress, calls, self.secrets.shown)

    def begin(
        self, emit: Callable[[Event], None], *, enter: Callable[[], None] | None = None, behind: bool = False
    ) -> None:
        """Start it on the engine's loop. ``behind``: nobody needs to wait for it."""
        self.behind, self._emit = behind, emit
        if not behind:
            hold_for(self.cancel)
        self._hold()
        live.add(self)
        try:
            self._job = job.prepare(self._main, enter=enter, waited=not behind, over=self._over, limit=self._limit())
            self._job.begin()
            if self._reason is not None:
                self._job.cancel(self._reason)
        except BaseException:
            if self._begun:
                self.cancel("nobody waits for it")
            else:
                self._release()
                live.end(self)
            raise

    @property
    def _begun(self) -> bool:
        """Whether it was started on the engine's loop: from then on its end is told, whatever happens."""
        return self._job is not None and self._job.begun

    async def here(self, emit: Callable[[Event], None]) -> None:
        """Run it on the loop that is running, to its end. Raises CancelledError when the task that awaits this was
        cancelled, and not when the run alone was."""
        self._emit, task, loop = emit, asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        self._stop = lambda: loop.call_soon_threadsafe(task.cancel)
        self._hold()
        live.add(self)
        outcome: tuple[engine.Done] | BaseException
        try:
            outcome = (await host.here(self._main),)
        except BaseException as error:
            outcome = error
        self._stop = None
        self._over(outcome)
        if isinstance(outcome, asyncio.CancelledError) and self._reason is not None:
            task.uncancel()
        elif isinstance(outcome, BaseException) and not isinstance(outcome, AgfError):
            raise outcome

    def wait(self, timeout: float | None = None) -> Run:
        """Wait for the end of the run, at most ``timeout`` seconds (default None: no limit), and return the run.

        Errors of the run are not raised: see `result`. An interrupt while waiting for a background run ends the waiting
        only. Any other run is driven by this call: plain functions run on this thread, the first interrupt cancels the
        run, and the second raises at once.
        """
        if self._job is None:
            assert self.progress.ended is not None, "only a run that was begun can be waited for"
        elif self.behind:
            self._job.join(timeout)
        else:
            try:
                self._job.wait()
            except (asyncio.CancelledError, AgfError):
                return self  # it stands on the run
        return self

    def cancel(self, reason: str = "cancelled") -> None:
        """Ask the run to stop; completed results are saved. Cancel also the fire-and-forget calls that it started, even
        after its end. ``reason`` (default "cancelled") is shown with the run."""
        if self._place is not None:
            cancel_outliving(self._place)
        if self._begun:
            assert self._job is not None
            self._job.cancel(reason)
        elif self._reason is None:
            self._reason = reason  # `begin` finds it
            if self._stop is not None:
                self._stop()

    def result(self) -> Run:
        """Wait for the end of the run and return the run; raise its error if it failed or was cancelled."""
        if self.behind and not self.done:
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

    def _limit(self) -> job.Limit | None:
        """When the run is ended from outside, where a tool does not let it end."""
        own, cap = self.limits.timeout, self.flow.caps.seconds if self.flow.caps is not None else None
        if own is not None and (cap is None or own <= cap):
            return job.Limit(own, lambda left: engine.too_long(self.linked, self.limits, left))
        if cap is not None:
            return job.Limit(cap, lambda left: too_long(self.flow, left))
        return None

    @property
    def _fired(self) -> int:
        """How many fire-and-forget calls that it started are still running."""
        return outliving(self._place) if self._place is not None else 0

    async def _main(self, place: host.Host) -> engine.Done:
        self._place = place
        place.asker = self._asker or (current.ask if place.waited else current.ask_behind)
        return await engine.run(
            self.linked,
            self._given,
            host=place,
            emit=self._emit,
            limits=self.limits,
            dry=self.dry,
            journal=self.journal,
            work=self.work,
            secrets=self.secrets,
        )

    def _over(self, outcome: tuple[engine.Done] | BaseException) -> None:
        """Its end stands on it before anybody is told."""
        self._release()
        reason = self._job.reason if self._job is not None else self._reason
        match outcome:
            case (done,):
                self.output = done.ended.output
                self.calls, self.sessions = done.calls, done.sessions
            case asyncio.CancelledError() as stop:
                self._leave("cancelled", getattr(stop, "left_running", "left running"))
                self._cancelled(reason, stop)
                if reason in (None, "interrupt"):
                    live.interrupted.append((self, time.monotonic()))
            case AgfError() as error:
                assert isinstance(error, StepError), "whatever fails in a run is a step's failure"
                self._leave("error", error.diagnostic.hint or "left running", error)
                self.error = error
            case BaseException() as bug:
                self._bug = bug
        live.end(self)

    def _hold(self) -> None:
        """Its named context is its own while it runs."""
        if self._given.context is not None:
            self._given.context.hold(self.run_id)

    def _release(self) -> None:
        context, extension = self._given.context, self.flow.extension
        if context is None:
            return
        if context.holder == self.run_id and context.log is not None and extension is not None:
            paths = secret_paths(self.linked)
            if paths or self.secrets.active:
                context.log = extension.without_secrets(context.log, paths, self.secrets.holds_any)
        context.release(self.run_id)

    def _leave_open(self) -> None:
        """Journal no end that an interrupt has brought: the process is ending, and the run counts as interrupted."""
        reason = self._job.reason if self._job is not None else self._reason
        if self.journal is not None and reason in (None, "interrupt"):
            self.journal.leave_open()

    def _leave(self, status: str, why: str, error: StepError | None = None) -> None:
        """Emit and journal the end of a run that the engine has not ended; what its loop emits later is ignored."""
        if self.progress.ended is not None:
            return
        for row in list(self.progress.rows.values()):
            for _ in range(row.running):
                self._emit(StepAbandoned(row.key, clock(), why))
        if self.journal is not None:
            self.journal.end(status, None, {}, error)
            self.journal.close()
        self._emit(RunEnded(clock(), status, error))

    def _cancelled(self, reason: str | None, stop: asyncio.CancelledError) -> None:
        stopped = [row.id for row in self.progress.rows.values() if row.state in ("cancelled", "left")]
        where = f" in {stopped[-1]}" if stopped else ""
        why = f" ({reason})" if reason not in (None, "cancelled") else ""
        left = getattr(stop, "left_running", None)
        error = RunCancelled(Diagnostic("run.cancelled", f"run of {self.name!r} was cancelled{where}{why}", hint=left))
        error.run = self
        self.error = error

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from ..pictures.run_page import run_html, run_text

        return {"text/html": run_html(self), "text/plain": run_text(self)}

    def __repr__(self) -> str:
        return f"<Run {self.run_id} {self.status}>"


def driven(begin: Callable[[], Run], wait: Callable[[Run], object] = Run.wait) -> Run:
    """Begin a run and wait for its end. Whatever is raised in between cancels the run, an interrupt raises nothing."""
    with held_interrupts() as held:
        run = begin()
        try:
            wait(run)
        except BaseException:
            run.cancel("interrupt")
            raise
        finally:
            held.ended = True
    return run


JUST_NOW = 2.0
"""Seconds between the interrupt and the request to end with which a kernel is shut down, at most."""


class Live:
    """The runs of this process: those that go on, and the last ones of the background that have ended."""

    KEPT = 100

    def __init__(self) -> None:
        self._running: dict[str, Run] = {}
        self._ended: dict[str, Run] = {}
        self.interrupted: deque[tuple[Run, float]] = deque(maxlen=8)
        """The last runs that an interrupt cancelled, and when each ended, by the monotonic clock."""

    @property
    def running(self) -> tuple[Run, ...]:
        """In the order in which they began, those that somebody waits for too."""
        return tuple(self._running.values())

    @property
    def ended(self) -> tuple[Run, ...]:
        """The last `KEPT` that ran in the background, or had fired calls that went on, in the order of their ends."""
        return tuple(self._ended.values())

    def __iter__(self) -> Iterator[Run]:
        return iter((*self.ended, *self.running))

    def find(self, run_id: str) -> Run | None:
        return self._running.get(run_id) or self._ended.get(run_id)

    def add(self, run: Run) -> None:
        self._running[run.run_id] = run

    def end(self, run: Run) -> None:
        if (run.behind or run._fired) and run.progress.ended is not None:
            self._ended[run.run_id] = run
            for old in list(self._ended)[: -self.KEPT]:
                self._ended.pop(old, None)
        self._running.pop(run.run_id, None)

    def forget(self) -> None:
        """Forget those that have ended."""
        self._ended.clear()
        self.interrupted.clear()

    def leave_open(self) -> None:
        """The process is about to end. Whoever restarts a kernel interrupts it first, so a run that was interrupted
        just now counts as interrupted and not as cancelled by the person."""
        now = time.monotonic()
        for run in (*self.running, *(run for run, ended in list(self.interrupted) if now - ended < JUST_NOW)):
            run._leave_open()


live = Live()
"""One per process. A dict is changed by single operations and read by snapshots: any thread may look."""

_numbers = itertools.count(1)
_ODD = re.compile(r"[^A-Za-z0-9_.-]")
