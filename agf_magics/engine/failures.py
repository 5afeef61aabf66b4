"""Exceptions of user code as failures of a step.

Questions to a person: steps that ask one, and calls that need an approval (decision A18).

How a running tool reaches its run: what it reports and asks (`agf.ToolContext`, decision D47).

On a worker of the run, a report goes to the kernel at most once a second, if the worker has a way
to it (``tellers`` of `chunk`), and nobody can be asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
import weakref
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import replace
from typing import Any, NamedTuple

from ..catalog import MASK, Tool, ToolContext
from ..catalog.tool_context import (
    Contact,
    Report,
    checked_answer,
    checked_report,
    context_of,
    no_user,
)
from ..flow import events as ev
from ..flow.events import Question
from ..flow.step import Frame, HintedArgs, Instead
from ..flow.steps import Invoke
from ..flow.values import TooDeep, Value, settle
from ..journal.records import error_from, value_of
from ..journal.secrets import HIDDEN, Secrets, hide
from ..text.diagnostics import Diagnostic, StepError
from .host import NoUser, Place
from .interrupts import Waiter
from .runner import CallSite, clock
from .streams import EVERY
from .user_code import OutcomeUnknown, Result, TimedOut, printing, running

RESULT = "result"
"""The key of the result in an answer about a call whose outcome is unknown."""


def failure(
    site: CallSite[Invoke], callee: str | None, what: str, raised: BaseException
) -> StepError:
    """What user code raised, as a failure of the step."""
    step, secrets = site.step, site.run.secrets
    span = step.place
    name = f"{what} {callee!r}" if callee is not None else "asking a person"
    code = f"step.{what}-failed"
    if isinstance(raised, OutcomeUnknown):
        # The worker was lost: nobody knows whether the call was made, so it has not failed
        # (decision D7).
        unknown = unknown_outcome(step, f"the outcome of {callee!r} is unknown: {raised}")
        if site.run.journal is None:
            hint = "check whether it had its effect; a run with a journal can be resumed"
            unknown.diagnostics = (replace(unknown.diagnostic, hint=hint),)
        return unknown
    if isinstance(raised, TimedOut):
        hint = f"@{what}(timeout=…) sets how long it may take"
        # The hint names what has set this time: the limit that was smallest.
        if raised.seconds == site.run.budget.limits.step_timeout:
            hint = (
                "%config AgfMagics.step_timeout sets it (in Python: limits=Limits(step_timeout=…))"
            )
        return StepError(Diagnostic("step.timeout", f"{name} {raised}", span, hint))
    if secrets.raised(raised):  # the exception itself is not shown either, so there is no cause
        message = f"{name} failed: {describe_masked(raised, secrets)}"
        return StepError(Diagnostic(code, message, span, HIDDEN if secrets.blind else None))
    # A tool may raise one itself, or a run inside it; a subclass of a user may hold anything.
    if isinstance(raised, StepError) and all(
        isinstance(d, Diagnostic) for d in getattr(raised, "diagnostics", [None])
    ):
        return with_place(_copy(raised), step)
    hint = "; ".join(map(str, getattr(raised, "__notes__", ())))
    if isinstance(raised, MemoryError):
        hint = (
            hint
            or "its process has too little memory: give the call less data, or the process a "
            "higher limit"
        )
    error = StepError(
        Diagnostic(code, f"{name} failed: {describe_exception(raised)}", span, hint or None)
    )
    error.__cause__ = raised
    return error


def unknown_outcome(step: Invoke, message: str) -> ev.Unanswered:
    """A call with an effect was started, and nobody knows whether it ended."""
    hint = f"%resume RUN --answer yes calls it again; --answer '{{{RESULT}: …}}' gives its result"
    return ev.Unanswered(Diagnostic("step.unknown-outcome", message, step.place, hint))


def unusable(site: CallSite[Invoke], callee: str, what: str, error: Exception) -> StepError:
    """The result of user code cannot be copied."""
    code, why = f"step.{what}-failed", describe_exception(error)
    if isinstance(error, TooDeep):
        code, why = "step.too-deep", str(error)
    message = f"{what} {callee!r} returned a value that cannot be used: {why}"
    return StepError(Diagnostic(code, message, site.step.place))


def with_place(error: StepError, step: Invoke, frame: Frame | None = None) -> StepError:
    """An error without a place, at the argument that it is about or at the name of the step.
    ``frame``: what the arguments were built from, for a hint of the language about them."""
    diagnostic = error.diagnostic
    if diagnostic.span is not None:
        return error
    span = next(
        (span for name, span in step.args.names or () if name in error.arguments),
        None,
    )
    placed, hint = _copy(error), diagnostic.hint
    if frame is not None and hint is None and isinstance(step.args, HintedArgs):
        hint = next((step.args.hint_for(name, frame) for name in error.arguments), None)
    placed.diagnostics = (
        Diagnostic(diagnostic.code, diagnostic.message, span or step.place, hint),
    )
    return placed


def failed_before(recorded: str, step: Invoke) -> StepError:
    """A recorded failure, at this step."""
    error = error_from(recorded, ())
    placed = StepError(*(replace(each, span=step.place) for each in error.diagnostics))
    placed.__cause__ = error.__cause__
    return placed


def _copy(error: StepError) -> StepError:
    """The same error without its path: a run inside a tool has set the path in its own flow."""
    # Not `copy.copy`, and not the class: both call its `__init__` or `__reduce__`, which a user may
    # have written.
    copy = type(error).__new__(type(error), *error.args)
    copy.__dict__.update({**error.__dict__, "path": None, "where": None})
    copy.__cause__ = error.__cause__
    return copy


def describe_exception(
    error: BaseException, mask: Callable[[str], str] = str, most: int = 500
) -> str:
    """An exception of user code in a line: its class and its text."""
    try:
        # The `__str__` of a user may raise anything, SystemExit too.
        text = mask(str(error))
    except BaseException as worse:
        text = f"(its text cannot be read: {type(worse).__name__})"
    text = text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"
    # The text of a TaskGroup's error only gives their number.
    if isinstance(error, BaseExceptionGroup):
        text = (
            f"{text}: "
            f"{'; '.join(describe_exception(inner, mask, most // 2) for inner in _leaves(error))}"
        )
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def describe_masked(error: BaseException, secrets: Secrets) -> str:
    """An exception that has a secret in a line; only its class where no text can be shown."""
    return type(error).__name__ if secrets.blind else describe_exception(error, secrets.text)


def _leaves(group: BaseExceptionGroup[BaseException], most: int = 3) -> list[BaseException]:
    """The first exceptions in a group and in the groups inside it, without recursion."""
    # Only the first ones of each group: a group of a million takes no longer.
    queue, leaves = list[BaseException](reversed(group.exceptions[:most])), list[BaseException]()
    while queue and len(leaves) < most:
        inner = queue.pop()
        if isinstance(inner, BaseExceptionGroup):
            queue += reversed(inner.exceptions[:most])
        else:
            leaves.append(inner)
    return leaves


ATTEMPTS = 3
"""How often a question is asked if the answer cannot be used."""


class Approved(NamedTuple):
    """What a person has approved."""

    arguments: Mapping[str, Value] = {}
    """They replace those of the call with the same names; empty: make the call as it is."""
    result: tuple[Value] | None = None
    """It is used instead of the call; None: there is a call."""


async def permitted(
    site: CallSite[Invoke], arguments: Mapping[str, Value], tool: Tool | None = None
) -> Approved:
    """Ask a person to approve the call; without a user the answer is no (decision A18). Raises
    StepError if the call is denied."""
    run, step, hides = site.run, site.step, tool.secret if tool is not None else frozenset()
    assert step.permit is not None
    instead = step.permit.instead
    # A run that masks everything would ask about nothing but masks: the person must see something.
    shown = hide(arguments, hides)
    shown = shown if run.secrets.blind else run.secrets.shown(shown)
    text = step.permit.ask(site.frame, arguments, shown)
    if text is None:
        return Approved()
    question = Question(text, approval=True, where=ev.format_path(site.at))
    if instead is not None:
        offers = step.exchange.offers
        offered = {name: value for name, value in shown.items() if name not in offers}
        question = question._replace(arguments=offered, result=instead.result)
    refused: StepError | None = None
    for _ in range(ATTEMPTS):
        try:
            reply = await answer(site, question, hides=hides)
        # A person who has left after an answer that cannot be used: that answer is the reason.
        except ev.Unanswered:
            raise refused or _denied(step, "there is no user to approve it", text) from None
        if reply is True:
            return Approved()
        if instead is None or not isinstance(reply, dict):
            raise _denied(step, "it was denied", text)
        try:
            return _replace_call(instead, site.frame, arguments, reply, tool, hides)
        except StepError as error:
            refused = _not_usable(step, error)
            question = question._replace(text=f"{refused.diagnostic.message}\n{text}")
    assert refused is not None, "a usable answer was returned"
    raise refused


def _replace_call(
    instead: Instead,
    frame: Frame,
    arguments: Mapping[str, Value],
    reply: Mapping[str, Value],
    tool: Tool | None,
    hides: Collection[str],
) -> Approved:
    """What replaces the call. ``hides``: keys of the answer that are secret. Raises StepError if it cannot be used."""
    replaces = instead.result in reply
    if replaces and len(reply) > 1:
        message = (
            f"give either other arguments or {instead.result!r}: with a result there is no call"
        )
        raise StepError(Diagnostic("step.instead", message))
    if tool is not None and not replaces:
        tool.check({**arguments, **reply})
    # Last: the language records what it is given.
    instead.take(frame, hide(reply, hides))
    return Approved(result=(reply[instead.result],)) if replaces else Approved(reply)


def _denied(step: Invoke, why: str, question: str) -> StepError:
    message = f"{step.name.text!r} was not called: {why}"
    return StepError(
        Diagnostic("step.denied", message, step.place, f"the question was: {question}")
    )


def _not_usable(step: Invoke, error: StepError) -> StepError:
    diagnostic = error.diagnostic
    message = f"this answer cannot replace the call: {diagnostic.message}"
    return StepError(Diagnostic("step.instead", message, step.place, diagnostic.hint))


async def answer(
    site: CallSite[Invoke], question: Question, secret: bool = False, hides: Collection[str] = ()
) -> Value:
    """The answer to ``question``, from a person, the journal or a recording. Raises Unanswered if there is
    no user.

    ``secret``: the answer is not journaled. ``hides``: neither are these keys of it.
    """
    run, step, journal, recording = site.run, site.step, site.run.journal, site.run.recording
    if journal is not None:
        # A resumed run must not ask again: the answer is in the journal, or `--answer` has put it
        # there.
        record = journal.answered(site.key)
        if record is not None:
            if not question.approval:  # an approved call may still have to be made
                run.emit(ev.StepReplayed(site.at, clock(), journal.run_id))
            return value_of(record)
    # Masked before anybody sees it: a notebook stores what it shows.
    question = question._replace(text=run.secrets.text(question.text))
    if recording is not None:
        asked = recording.ask(site, "question", None, {"text": question.text})
        outcome = recording.take(asked)
        if outcome is not None:
            if not question.approval:
                run.emit(ev.StepReplayed(site.at, clock(), recording.name))
            return outcome.value
    ok, value = await ask_person(site, question, secret, hides)
    if ok:
        if recording is not None:
            recording.keep(asked, hide(value, hides))
        if journal is not None:
            call = journal.start_call(step, None, site.key, {"text": question.text})
            hidden = isinstance(value, dict) and any(name in value for name in hides)
            await journal.keep_answer(call, value, secret or hidden)
        return value
    if isinstance(value, NoUser):
        hint = (
            f"resume it with an answer: %resume {journal.run_id} --answer …"
            if journal is not None
            else None
        )
        message = f"an answer is needed: {question.text}"
        raise ev.Unanswered(Diagnostic("run.waiting", message, step.place, hint))
    raise failure(site, None, "question", value)


async def ask_person(
    site: CallSite[Invoke],
    question: Question,
    secret: bool = False,
    hides: Collection[str] = (),
    is_busy: bool = False,
) -> Result:
    """Put ``question`` to a person, and emit that it is asked and how it ends. ``is_busy``: see
    `Host.ask`."""
    run = site.run
    run.emit(ev.QuestionAsked(site.at, clock(), question))
    # Whatever happens, the question must not stay open in a view.
    closed: ev.Event = ev.QuestionClosed(site.at, clock())
    try:
        ok, value = await run.host.ask(question, is_busy)
        if ok:
            # An asker is user code: its answer is a value like that of a tool.
            value = settle(value)
            if question.choices:
                checked_answer(question, value, site.step.place)  # before it is journaled
            for name in hides if isinstance(value, dict) else ():
                run.secrets.learn(value.get(name))
            closed = ev.QuestionAnswered(site.at, clock(), MASK if secret else hide(value, hides))
    finally:
        run.emit(closed._replace(when=clock()))
    return ok, value


EVERY_REMOTE = 1.0
"""Seconds between two reports of a call on a worker."""

STAY = "@tool(where='thread') makes the calls of the tool in the kernel, where it can ask"


class RunContact:
    """The contact of one call. Made on the engine's loop."""

    def __init__(self, site: CallSite[Invoke], place: Place) -> None:
        self._site, self._place = site, place
        self._loop = asyncio.get_running_loop()
        self._report: Report | None = None
        """What was reported since the last event."""
        self._next = 0.0
        """The time of the loop before which no further event is emitted."""
        self._is_waiting = False
        self._is_closed = not site.step.awaited  # the row of such a call has ended
        self._questions = set[Future[Value]]()

    def __reduce__(self) -> Any:
        SENT[id(self)] = self
        return on_worker, (id(self), os.getpid())

    # --- reports ---

    def report(self, report: Report) -> None:
        self._report = report
        if not (self._is_waiting or self._is_closed):
            self._is_waiting = True
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._set_timer)

    def _set_timer(self) -> None:
        self._loop.call_at(max(self._loop.time(), self._next), self._emit)

    def _emit(self) -> None:
        self._is_waiting = False  # first: a report from now on needs a turn of its own
        report, self._report = self._report, None
        if report is None or self._is_closed:
            return
        self._next, run = self._loop.time() + EVERY, self._site.run
        text = "" if run.secrets.blind else run.secrets.text(report.text)
        outer = printing.set(None)  # a listener that prints does not do it for the call
        try:
            run.emit(ev.Progressed(self._site.at, clock(), report.done, report.total, text))
        finally:
            printing.reset(outer)

    def close(self) -> None:
        """The call has ended: emit its last report, and close its questions."""
        self._emit()
        self._is_closed = True
        for question in list(self._questions):
            question.cancel()

    # --- questions ---

    async def ask(self, question: Question) -> Value:
        if asyncio.get_running_loop() is self._loop:
            return await self._put(question)
        return await asyncio.wrap_future(self._put_soon(question))  # a loop of the tool's own

    def ask_and_wait(self, question: Question) -> Value:
        if asyncio._get_running_loop() is not None:
            message = "ask_and_wait would stop the event loop that runs on this thread"
            hint = "write `await call.ask(…)` in an async def"
            raise StepError(Diagnostic("tool.ask", message, hint=hint))
        call, asked = running.call, self._put_soon(question)
        if call is None:  # a thread that the tool has started
            return asked.result()

        def stop(reason: str) -> None:
            asked.cancel()

        call.inner = stop  # what stops the call ends its question
        try:
            if isinstance(call.waiter, Waiter):
                call.waiter.serve_inside(asked.done)
            return asked.result()
        except CancelledError:
            raise KeyboardInterrupt from None  # the call ends, too
        finally:
            call.inner = None
            asked.cancel()

    def _put_soon(self, question: Question) -> Future[Value]:
        call = running.call
        # The thread that waits for the run makes this call: it puts a question only while
        # `ask_and_wait` waits there.
        waits = call is not None and isinstance(call.waiter, Waiter)
        is_busy = self._place == "kernel" and not (waits and asyncio._get_running_loop() is None)
        asked = asyncio.run_coroutine_threadsafe(self._put(question, is_busy), self._loop)
        self._questions.add(asked)
        asked.add_done_callback(self._questions.discard)
        return asked

    async def _put(self, question: Question, is_busy: bool = False) -> Value:
        site, secrets = self._site, self._site.run.secrets
        if self._is_closed:
            raise no_user(question, "its call has ended", "ask before the function returns")
        shown = question._replace(text=secrets.text(question.text), where=ev.format_path(site.at))
        ok, value = await ask_person(site, shown, is_busy=is_busy)
        if ok:
            return value
        if isinstance(value, NoUser):
            hint = "run it in a cell that waits, or with agf.run(…, ask=…)"
            raise no_user(shown, "there is no user to answer", hint)
        raise failure(site, None, "question", value)


def contexts_of(tool: Tool, contact: Contact) -> dict[str, ToolContext]:
    """The arguments of a call that are not part of the tool's schema."""
    return dict.fromkeys(tool.context, context_of(contact))


# --- workers ---

SENT = weakref.WeakValueDictionary[int, RunContact]()
"""The contacts of calls that are on workers, by their number."""


def hear(number: int, done: object, total: object, text: object) -> None:
    """A worker reports for a call, on any thread of the kernel."""
    contact = SENT.get(number)
    with contextlib.suppress(StepError):  # it sends only what it has checked
        if contact is not None:
            contact.report(checked_report(done, total, text))


def on_worker(number: int, kernel: int) -> Contact:
    """The contact of a call, where its arguments are unpickled."""
    contact = SENT.get(number) if kernel == os.getpid() else None  # a thread of the kernel
    tellers = getattr(sys.modules.get("_agf_chunk"), "tellers", {})
    return contact or WorkerContact(number, tellers.get(threading.get_ident()))


Tell = Callable[[tuple[Any, ...]], object]


class WorkerContact:
    """The contact of a call on a worker."""

    def __init__(self, number: int, tell: Tell | None) -> None:
        """``tell`` sends a report to the kernel; None: there is no way."""
        self._number, self._tell = number, tell
        self._report = Report()
        self._is_waiting = False

    def report(self, report: Report) -> None:
        self._report = report
        if not self._is_waiting and self._tell is not None:
            self._is_waiting = True
            # After a second, and not at once: short calls send nothing.
            timer = threading.Timer(EVERY_REMOTE, self._send, (self._tell,))
            timer.daemon = True
            timer.start()

    def _send(self, tell: Tell) -> None:
        self._is_waiting = False
        with contextlib.suppress(OSError, ValueError):  # the kernel is gone
            tell((self._number, *self._report))

    async def ask(self, question: Question) -> Value:
        return self.ask_and_wait(question)

    def ask_and_wait(self, question: Question) -> Value:
        raise no_user(question, "a worker has no user", STAY)
