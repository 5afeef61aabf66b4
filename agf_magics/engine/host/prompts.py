"""Lets the `input` of user code ask one question at a time, on the thread that waits for the run.

Two threads that read the same terminal, or the same channel of a kernel, get each other's lines,
and an interrupt ends `input` only on the main thread. So during a run, calls of `input` and
`getpass.getpass` on other threads are made one after another on the thread that waits for the run.
This includes the calls of a debugger, as `set_trace` in a fan-out.
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import functools
import getpass
import signal
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, ClassVar

from ..threads.call_threads import ThreadCall, running
from ..threads.user_code import Result
from .deadline import time_limits
from .host import Host
from .signals import on_main_thread, sigint_handler
from .waiting_thread import POLL, Waiter, waiters

Ask = Callable[..., Any]
"""`input`, or a function that replaces it."""

TYPED = ((builtins, "input"), (getpass, "getpass"))
"""The functions that read what a person types."""

NOBODY = (
    "nobody can type into a run in the background: give the tool a parameter with the annotation "
    "agf.ToolContext, and write call.ask_and_wait(…)"
)
"""The error of an `input` in a background run that may not ask."""


class Prompt(ThreadCall):
    """A call of `input` for another thread, which waits for the result."""

    __slots__ = ("answers", "asker")

    def __init__(self, ask: Ask, loop: asyncio.AbstractEventLoop, asker: Prompts) -> None:
        super().__init__(ask, {}, loop)
        self.answers: SimpleQueue[Result] = SimpleQueue()
        self.asker = asker

    def perform(self) -> Result:
        # After an interrupt, the person is not asked the next question.
        is_stopped = bool(waiters.stack) and waiters.stack[0].user_interrupts > 0
        if is_stopped or self.asker.is_interrupted:
            return False, KeyboardInterrupt()
        return super().perform()

    def tell(self, result: Result) -> None:
        self.result = result
        self.answers.put(result)

    def answer_here(self) -> None:
        """Ask on this thread, which drives the loop of the run."""
        if self.take():
            with _interruptible():
                ok, value = self.perform()
            self.asker.is_interrupted |= not ok and isinstance(value, KeyboardInterrupt)
            self.tell((ok, value))


class Prompts:
    """The questions that the code of one run asks with `input`."""

    _waited: ClassVar[list[Prompts]] = []
    """The prompts of the runs that a thread waits for."""
    _one_at_a_time: ClassVar[threading.Lock] = threading.Lock()
    """Held while a background run, for which no thread waits, asks on the thread of its call."""

    def __init__(self, host: Host) -> None:
        self._host, self._loop = host, asyncio.get_running_loop()
        self._is_awaited = not host.waited and on_main_thread()
        """Whether a cell awaits the run on its own loop."""
        self._has_ended = False
        """Whether the run has ended."""
        self.is_interrupted = False
        """Whether the person has interrupted a question."""

    @classmethod
    def here(cls) -> Prompts | None:
        """The prompts of the run whose code calls this; None: `input` simply asks."""
        call = running.call
        if on_main_thread() or (call is not None and isinstance(call.waiter, Waiter)):
            return None
        # A thread that a tool started does not have the context of the run.
        return _prompts.get() or next(reversed(cls._waited), None)

    @property
    def can_ask(self) -> bool:
        """Whether a thread, or a cell, waits for the run."""
        return self._host.waited or self._is_awaited

    def ask(self, ask: Ask) -> Any:
        """The result of ``ask()``, asked when its turn has come. Raises what it raises,
        KeyboardInterrupt if the call that asks is stopped meanwhile, and EOFError after the run."""
        prompt = Prompt(ask, self._loop, self)
        call = running.call
        with self._pausing():
            if self._host.waited:
                self._host.make_soon(prompt)
            elif self._is_awaited:
                self._loop.call_soon_threadsafe(prompt.answer_here)
            else:
                with self._one_at_a_time:
                    return ask()
            ok, value = self._wait(prompt, call)
        if call is not None and prompt.interrupted:
            call.interrupted = True
        if ok:
            return value
        raise value

    def _wait(self, prompt: Prompt, call: ThreadCall | None) -> Result:
        """Wait for the answer. ``call``: the call that asks; None: a thread that a tool started."""
        while True:
            with contextlib.suppress(Empty):
                return prompt.answers.get(timeout=POLL)
            if call is not None and call.must_stop():
                if prompt.take():  # the question need not be asked any more
                    raise KeyboardInterrupt
                prompt.stop()
            elif self._has_ended and prompt.take():
                raise EOFError("the run has ended")

    @contextlib.contextmanager
    def _pausing(self) -> Iterator[None]:
        """Pause the time limits around the call, because a person may think for an hour."""
        limits = time_limits.get()
        for limit in limits:
            self._on_loop(limit.pause)
        try:
            yield
        finally:
            for limit in limits:
                self._on_loop(limit.resume)

    def _on_loop(self, change: Callable[[], None]) -> None:
        """Call ``change`` on the loop of the run."""
        if asyncio._get_running_loop() is self._loop:  # an async tool
            change()
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(change)

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        """The context of the run."""
        outer = _prompts.set(self)
        if self._host.waited:
            self._waited.append(self)
        _installed.begin()
        try:
            yield
        finally:
            self._has_ended = True
            _installed.end()
            if self._host.waited:
                self._waited.remove(self)
            _prompts.reset(outer)


_prompts: ContextVar[Prompts | None] = ContextVar("prompts", default=None)
"""The prompts of the run in this context; None: no run."""


def in_turn(ask: Ask, in_background: bool = True) -> Ask:
    """``ask`` in a form that all threads may call. ``in_background``: whether background runs may
    ask, too; if not, they get an EOFError, as without a terminal. Default True."""
    if hasattr(ask, "agf_in_turn"):
        return ask

    @functools.wraps(ask)
    def asks(*args: Any, **named: Any) -> Any:
        prompts = Prompts.here()
        if prompts is None:
            return ask(*args, **named)
        if not (in_background or prompts.can_ask):
            raise EOFError(NOBODY)
        return prompts.ask(partial(ask, *args, **named))

    asks.agf_in_turn = True  # type: ignore[attr-defined]
    return asks


class _Installed:
    """Replaces `input` from the start of the first run to the end of the last one."""

    def __init__(self) -> None:
        self._runs = 0
        self._ours: dict[str, Ask] = {}

    def begin(self) -> None:
        self._runs += 1
        for module, name in TYPED:  # done for each run, because a kernel sets `input` for each cell
            ask = getattr(module, name)
            if (ours := in_turn(ask)) is not ask:
                self._ours[name] = ours
                setattr(module, name, ours)

    def end(self) -> None:
        self._runs -= 1
        if self._runs:
            return
        for module, name in TYPED:
            ours = self._ours.pop(name, None)
            if ours is not None and getattr(module, name) is ours:
                setattr(module, name, ours.__wrapped__)  # type: ignore[attr-defined]


_installed = _Installed()


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Let an interrupt end the `input` of the block, then handle it as before. A kernel's own
    handler would only cancel the cell, which waits for this block."""
    before = sigint_handler()
    if not on_main_thread() or before is None:
        yield
        return
    hits = list[int]()

    def hit(number: int, frame: object) -> None:
        hits.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, hit)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if hits and callable(before):
            with contextlib.suppress(KeyboardInterrupt):
                before(signal.SIGINT, None)
