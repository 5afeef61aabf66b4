"""Connects a running tool with its run, for the reports and questions of `ToolContext` (decision
D47).

On a worker, a report is sent to the kernel at most once a second, if the worker has a connection to
it (``tellers`` of `chunk`). Questions are not possible there.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any

from ...catalog import Tool, ToolContext
from ...catalog import Where as Place
from ...catalog.tools.context import Contact, Report, check_report, context_of, no_user
from ...flow.progress import events as ev
from ...flow.progress.question import Question
from ...flow.step_path import format_path
from ...flow.steps import Invoke
from ...journal.database.errors import JournalError
from ...text.diagnostics import Diagnostic, StepError
from ...values.value import Value
from ..host.deadline import time_limits
from ..host.host import NoUser
from ..host.waiting_thread import Waiter
from ..runner import CallSite, clock
from ..threads.call_threads import running
from ..threads.prints import printing
from .failures import failure, unrecorded_start
from .questions import ask_person
from .step_prints import EVERY

EVERY_REMOTE = 1.0
"""The seconds between two reports of a call on a worker."""

STAY = "@tool(where='thread') makes the calls of the tool in the kernel, where it can ask"
"""The hint for a question from a worker."""


class RunContact:
    """The contact of one call. It is created on the engine's loop."""

    def __init__(self, site: CallSite[Invoke], place: Place) -> None:
        self._site = site
        self._place = place
        self._loop = asyncio.get_running_loop()
        self._report: Report | None = None
        """The last report since the last event; None: nothing was reported."""
        self._next = 0.0
        """The time of the loop before which no further event is emitted."""
        self._is_waiting = False
        """Whether a report waits for its event."""
        self._has_row = site.step.awaited
        """Whether the row of the step shows reports: that of a background call has ended."""
        self.may_have_effect = False
        """Whether the function of the call may call a tool with an effect."""
        self._is_closed = False
        self._time_limits = time_limits.get()
        """The time limits around the call, which pause while a person thinks."""
        self._number = next(_numbers)
        """Its number in `SENT`."""
        self._questions = set[Future[Value]]()
        """The answers that are not there yet."""

    def __reduce__(self) -> Any:
        """Pickled for a worker, which gets the contact that `on_worker` returns there."""
        SENT[self._number] = self
        return on_worker, (self._number, os.getpid())

    def begin(self) -> None:
        """Note the time limits of the call, which begins now in this task."""
        self._time_limits = time_limits.get()

    # --- reports ---

    def report(self, report: Report) -> None:
        self._report = report
        if self._has_row and not (self._is_waiting or self._is_closed):
            self._is_waiting = True
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._set_timer)

    def _set_timer(self) -> None:
        self._loop.call_at(max(self._loop.time(), self._next), self._emit)

    def _emit(self) -> None:
        self._is_waiting = False  # set first, because a report from now on needs another turn
        report = self._report
        self._report = None
        if report is None or self._is_closed or not self._has_row:
            return
        self._next = self._loop.time() + EVERY
        run = self._site.run
        text = "" if run.secrets.blind else run.secrets.text(report.text)
        outer = printing.set(None)  # prints of a listener do not belong to the call
        try:
            run.emit(ev.Progressed(self._site.path, clock(), report.done, report.total, text))
        finally:
            printing.reset(outer)

    def begin_effect(self, tool: str) -> None:
        """Write that the function of the call is about to call ``tool``, which has an effect: a
        resumed run must not repeat it without a question. Raises StepError if that cannot be
        written. Any thread may call this."""
        journal = self._site.run.journal
        if journal is None or self._is_closed:
            return
        try:
            journal.start_effect_inside(self._site.key)
        except JournalError as why:
            raise unrecorded_start(self._site.step, tool, why) from None

    def close(self) -> None:
        """Emit the last report of the ended call, and close its questions."""
        self._emit()
        self._is_closed = True
        for question in list(self._questions):
            question.cancel()

    # --- questions ---

    async def ask(self, question: Question) -> Value:
        if asyncio.get_running_loop() is self._loop:
            return await self._ask_on_loop(question)
        return await asyncio.wrap_future(
            self._ask_from_thread(question)
        )  # the tool may run its own loop

    def ask_and_wait(self, question: Question) -> Value:
        if asyncio._get_running_loop() is not None:
            message = "ask_and_wait would stop the event loop that runs on this thread"
            hint = "write `await call.ask(…)` in an async def"
            raise StepError(Diagnostic("tool.ask", message, hint=hint))
        call = running.call
        pending_answer = self._ask_from_thread(question)
        if call is None:  # the tool has started this thread
            return pending_answer.result()

        def stop(reason: str) -> None:
            pending_answer.cancel()

        call.inner = stop  # stopping the call ends its question
        try:
            if isinstance(call.waiter, Waiter):
                call.waiter.serve_inside(pending_answer.done)
            return pending_answer.result()
        except CancelledError:
            raise KeyboardInterrupt from None  # the call ends, too
        finally:
            call.inner = None
            pending_answer.cancel()

    def _ask_from_thread(self, question: Question) -> Future[Value]:
        """Ask on the engine's loop, and return the future of the answer. Any thread may call
        this."""
        call = running.call
        # If the thread that waits for the run makes this call, it can put a question only inside
        # `ask_and_wait`.
        waits = call is not None and isinstance(call.waiter, Waiter)
        is_busy = self._place == "kernel" and not (waits and asyncio._get_running_loop() is None)
        pending_answer = asyncio.run_coroutine_threadsafe(
            self._ask_on_loop(question, is_busy), self._loop
        )
        self._questions.add(pending_answer)
        pending_answer.add_done_callback(self._questions.discard)
        return pending_answer

    async def _ask_on_loop(self, question: Question, is_busy: bool = False) -> Value:
        """Ask a person. ``is_busy``: see `Host.ask`. Raises StepError without an answer."""
        site = self._site
        secrets = self._site.run.secrets
        if self._is_closed:
            raise no_user(question, "its call has ended", "ask before the function returns")
        shown = question._replace(text=secrets.text(question.text), where=format_path(site.path))
        # The call may ask from a thread of its own, or a server asks for it: this task knows other
        # time limits, or none.
        around = dict.fromkeys((*time_limits.get(), *self._time_limits))
        outer = time_limits.set(tuple(around))
        try:
            ok, value = await ask_person(site, shown, is_busy=is_busy)
        finally:
            time_limits.reset(outer)
        if ok:
            return value
        if isinstance(value, NoUser):
            hint = "run it in a cell that waits, or with agf.run(…, ask=…)"
            raise no_user(shown, "there is no user to answer", hint)
        raise failure(site, None, "question", value)


def contexts_of(tool: Tool, contact: Contact) -> dict[str, ToolContext]:
    """The `ToolContext` arguments of a call, which are not part of the tool's schema."""
    return dict.fromkeys(tool.context, context_of(contact))


# --- workers ---

SENT = weakref.WeakValueDictionary[int, RunContact]()
"""The contacts of calls on workers, by the number of the call."""

_numbers = itertools.count()
"""The numbers of the contacts of this process. Unlike an `id`, none is used again: a report may arrive
after its call has ended."""


def hear(number: int, done: object, total: object, text: object) -> None:
    """Take a report that a worker sent for a call. Any thread of the kernel may call this."""
    contact = SENT.get(number)
    with contextlib.suppress(StepError):  # the worker has already checked the report
        if contact is not None:
            contact.report(check_report(done, total, text))


def on_worker(number: int, kernel: int) -> Contact:
    """The contact of call ``number``, in the process that unpickles its arguments. ``kernel``: the
    process id of the kernel."""
    # the worker may be a thread of the kernel
    contact = SENT.get(number) if kernel == os.getpid() else None
    tellers = getattr(sys.modules.get("_agf_chunk"), "tellers", {})
    return contact or WorkerContact(number, tellers.get(threading.get_ident()))


Tell = Callable[[tuple[Any, ...]], object]
"""Sends the number of a call and its report to the kernel."""


class WorkerContact:
    """The contact of a call on a worker."""

    def __init__(self, number: int, tell: Tell | None) -> None:
        """``tell``: sends a report to the kernel; None: there is no connection."""
        self._number = number
        self._tell = tell
        self._report = Report()
        self._is_waiting = False

    def report(self, report: Report) -> None:
        self._report = report
        if not self._is_waiting and self._tell is not None:
            self._is_waiting = True
            # Sent after a second, so that short calls send nothing.
            timer = threading.Timer(EVERY_REMOTE, self._send, (self._tell,))
            timer.daemon = True
            timer.start()

    def _send(self, tell: Tell) -> None:
        self._is_waiting = False
        with contextlib.suppress(OSError, ValueError):  # the kernel is gone
            tell((self._number, *self._report))

    def begin_effect(self, tool: str) -> None:
        """The start of the whole call was written in the kernel."""

    async def ask(self, question: Question) -> Value:
        return self.ask_and_wait(question)

    def ask_and_wait(self, question: Question) -> Value:
        raise no_user(question, "a worker has no user", STAY)
