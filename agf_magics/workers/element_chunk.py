"""What runs on a worker for whole elements: the same step engine as in the kernel, for one chunk of
elements.

Every call is made on the thread of the chunk, one after another. What the kernel would have done at
once is collected: the events, or their numbers; the records of the journal; the prints.
`run_elements` raises nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import pickle
import threading
import time
import traceback
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NamedTuple, TypeVar

from ..engine.concurrent import SHAPES
from ..engine.host import Host, Place
from ..engine.limits import Budget, granted, inside
from ..engine.pool import retry_scope
from ..engine.runner import Runner, clock, is_rescuable
from ..engine.threads import Terms
from ..engine.user_code import Result, watched_stdout
from ..flow import events as ev
from ..flow.step import finished
from ..flow.steps import Invoke, Step
from ..flow.values import Value
from ..journal.collected import Collected, CollectingJournal
from ..journal.records import CallKey
from ..text.diagnostics import Diagnostic, Span, StepError
from . import chunk
from .pickles import Unreadable, dump_plain
from .program import ElementProgram, on_one_thread, version_of_workers
from .sending import STAY

UNSENT = f"write a file and return its path, or keep the tool here: {STAY}"

T = TypeVar("T")

new_event_loop = asyncio.new_event_loop


class Element(NamedTuple):
    """The outcome of one element. On the wire a plain tuple."""

    ok: bool
    value: Any
    """Or the failure."""
    events: list[ev.Event]
    records: list[Collected]


class Answer(NamedTuple):
    """The answer for a chunk. On the wire a plain tuple."""

    elements: list[Any]
    counts: Any
    """``{ids in the path: (starts, ends)}``; None: all events travel."""
    calls: int
    began: float
    """By the clock of the worker, as ``ended``."""
    ended: float


def run_elements(
    program: Any, digest: str, given: bytes, count: int, options: dict[str, Any]
) -> tuple[Any, ...]:
    """Run elements. Returns ``("ok", answer, seconds, prints, worker)``, or ``("no", b"", …,
    traceback)`` for a program that this worker cannot run; the kernel then sends calls.

    The parameters are those of `chunk.run`; ``given``: the pickled numbers and elements."""
    held, began = chunk._held(), time.perf_counter()
    capture = chunk._capture_of(held, options["kernel"])
    where, data = chunk._worker(), b""
    try:
        known: ElementProgram = chunk._function(held, program, digest)
        numbers, items = pickle.loads(given)
        # On a worker, its context names it (distributed.get_worker); that of the kernel is not for
        # elements.
        context = contextvars.Context() if capture is None else contextvars.copy_context()
        context.run(_capturing.set, capture)
        answer = context.run(_run, known, numbers, items)
        kind, data = "ok", _pack(known, numbers, answer, options["most"])
    except BaseException as error:
        kind, where = "no", "".join(traceback.format_exception(error))[-chunk.TRACE :]
    prints = capture.texts if capture is not None else []
    return kind, data, time.perf_counter() - began, prints, where


def read_program(version: tuple[str, str, int], pickled: bytes) -> ElementProgram:
    """A program, which a worker with another version would read as something else."""
    # Before the pickle is read: classes of another version would be filled with wrong fields,
    # and say nothing.
    if version != version_of_workers():
        raise Unreadable(f"this worker has version {version_of_workers()}")
    program: ElementProgram = pickle.loads(pickled)
    linked = on_one_thread(program.linked, [program.step.body], _alone)
    return program._replace(linked=linked, scope=program.scope._replace(linked=linked))


_capturing: contextvars.ContextVar[Any] = contextvars.ContextVar("capturing", default=None)
"""Gets what the calls of a chunk print; None: that stays where it is."""


# --- calls ---


def _alone(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` as it is called on a thread of its own: in a copy of the context, and without a
    running loop, so that it may run one."""

    @functools.wraps(function, updated=())
    def call(**given: Any) -> Any:
        loop, held, me = asyncio._get_running_loop(), chunk._held(), threading.get_ident()
        # A call that is left running after its time keeps its process from the next run:
        # see `child`.
        held.calls.add(me)
        local, capture = held.local, _capturing.get()
        before = getattr(local, "capture", None)
        # The loop of the chunk runs on this thread, and `asyncio.run` of a tool would
        # refuse to start.
        asyncio._set_running_loop(None)
        # Of this thread: a call with a time limit has one of its own.
        if capture is not None:
            local.capture = (capture, 0)
        try:
            return contextvars.copy_context().run(function, **given)
        finally:
            local.capture = before
            asyncio._set_running_loop(loop)
            held.calls.discard(me)

    return call


class ChunkHost(Host):
    """The host of a chunk: calls with a time limit get a thread, which can be left running."""

    def __init__(self) -> None:
        super().__init__()
        self.where = f" on {chunk._worker()}"

    async def make_call(
        self,
        place: Place,
        function: Callable[..., Any],
        given: Mapping[str, Any],
        timeout: float | None = None,
        terms: Terms | None = None,
    ) -> Result:
        return await super().make_call(
            place if timeout is None else "thread", function, given, timeout
        )


def _drive(main: Coroutine[Any, Any, T]) -> T:
    """Run ``main`` to its end on a loop of its own. `asyncio.run` would handle the interrupts of
    this process."""
    loop = new_event_loop()
    try:
        return loop.run_until_complete(main)
    finally:
        # It did not start if a loop runs on this thread.
        main.close()
        try:
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()


# --- elements ---


def _run(program: ElementProgram, numbers: list[int], items: list[Value]) -> Answer:
    began = clock()
    # A tool may look at its rights, and must not start a run of its own here.
    granted.set(program.scope.grant)
    inside.set(True)
    chunk_run = _Chunk(program)
    with watched_stdout() if program.stream else contextlib.nullcontext():
        elements = _drive(chunk_run.run(numbers, items))
    counts = (
        {key: tuple(row) for key, row in chunk_run.counts.items()} if not program.events else None
    )
    return Answer(elements, counts, chunk_run.runner.calls, began, clock())


class _Chunk:
    """Runs the elements of one chunk, in their order."""

    def __init__(self, program: ElementProgram) -> None:
        self.program = program
        self.events: list[ev.Event] = []
        self.counts: dict[tuple[str, ...], list[int]] = {}
        """The starts and the ends of steps by the ids in their paths, if their events do not
        travel."""
        before, index = len(program.scope.before), len(program.around) + 1
        self.journal = (
            CollectingJournal(program.most, dump_plain, before, index) if program.most else None
        )
        self.records = self.journal.found if self.journal is not None else []
        self.runner = Runner(
            SHAPES,
            ChunkHost(),
            self.events.append if program.events else self._count,
            Budget(program.limits),
            journal=self.journal,
            stream=program.stream,
        )
        scope, step = program.scope, program.step
        self.path = (*scope.before, step.body.id, *program.around)

    def _count(self, event: ev.Event) -> None:
        """Keep an event, or count it if it is the start or the end of a step."""
        if not isinstance(event, ev.StepStarted | ev.StepFinished):
            self.events.append(event)
            return
        at: ev.StepPath = event.at
        row = self.counts.setdefault(tuple([bit for bit in at if type(bit) is str]), [0, 0])
        row[type(event) is ev.StepFinished] += 1

    async def run(self, numbers: list[int], items: list[Value]) -> list[Any]:
        found: list[Any] = []
        for i, item in zip(numbers, items, strict=True):
            ok, value = await self._element(i, item)
            found.append(tuple(Element(ok, value, self.events[:], self.records[:])))
            # The runner holds these lists: they are emptied, not replaced.
            self.events.clear()
            self.records.clear()
            if not ok and (
                self.program.step.failing.on_error == "abort" or not is_rescuable(value)
            ):
                break
        return found

    async def _element(self, i: int, item: Value) -> tuple[bool, Any]:
        attempt = 1
        while True:
            try:
                return True, await self._attempt(i, item, attempt)
            except BaseException as error:
                if not (is_rescuable(error) and attempt <= self.program.step.failing.retries):
                    return False, error
                self._retry(i, attempt, error)
                await asyncio.sleep(self.program.step.failing.wait)
                attempt += 1

    async def _attempt(self, i: int, item: Value, attempt: int) -> Value:
        step, scope = self.program.step, self.program.scope
        where = retry_scope(scope, (*self.path, i), attempt)
        frame = step.element.store(self.program.frame, finished((item, None, None, "finished")))
        value, _ = await self.runner.run_step(
            step.body, frame, where, (*self.program.around, i), attempt
        )
        return value

    def _retry(self, i: int, attempt: int, error: BaseException) -> None:
        at = (*self.path, i)
        self.runner.emit(ev.StepRetried(at, clock(), error))
        self.runner.mark("retried", CallKey(at, retry_scope(self.program.scope, at, attempt).tries))


# --- answers ---


def _pack(program: ElementProgram, numbers: list[int], answer: Answer, most: int) -> bytes:
    """The answer as bytes. An element whose value cannot be sent, or has more than ``most`` bytes,
    fails instead."""
    with contextlib.suppress(Exception):
        data = dump_plain(tuple(answer), program.sources)
        if len(data) <= most:
            return data
    elements = [
        _sendable(program, i, one, answer, most)
        for i, one in zip(numbers, answer.elements, strict=False)
    ]
    return dump_plain(tuple(answer._replace(elements=elements)), program.sources)


def body_name(body: Step) -> tuple[str, Span | None]:
    """The name of the body of a fan-out in messages, and its place."""
    if isinstance(body, Invoke):
        return body.name.text, body.place
    return body.label or body.word, body.span


def _sendable(program: ElementProgram, i: int, element: Any, answer: Answer, most: int) -> Any:
    """The element, or its failure if it cannot be sent: the end of its step was then counted in
    vain."""
    try:
        size = len(dump_plain(element, program.sources))
        if size > most:
            raise ValueError(chunk.too_large(size, most))
        return element
    except Exception as error:
        why = f"{type(error).__name__}: {error}"[:300]
    step, scope = program.step, program.scope
    at = (*scope.before, step.body.id, *program.around, i)
    name, span = body_name(step.body)
    message = f"the result of {name!r} cannot be sent to the kernel: {why}"
    failure = StepError(Diagnostic("step.unsent-result", message, span, UNSENT))
    failure.path, failure.where = at, ev.format_path(at)
    events: list[ev.Event] = [ev.StepFailed(at, clock(), failure)]
    if answer.counts is None:
        events.insert(0, ev.StepStarted(at, clock()))
    elif element[0]:
        key = tuple(bit for bit in at if type(bit) is str)
        starts, ends = answer.counts[key]
        answer.counts[key] = (starts, ends - 1)
    return tuple(Element(False, failure, events, []))
