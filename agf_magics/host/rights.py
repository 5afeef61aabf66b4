"""The rights of code: what it may use, and whether it runs inside a run.

Two context variables hold them; coroutines, tasks and callbacks inherit them. A thread does not
(before Python 3.14): so after the first run, `threading.Thread.start` and
`ThreadPoolExecutor.submit` pass on the rights of the caller (decision D2). Code outside of a run is
not affected.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

from ..text.diagnostics import Diagnostic, StepError
from .limits import ANYTHING, Grant, granted, inside
from .threads import running


class Rights(NamedTuple):
    grant: Grant = ANYTHING
    """What a run that it starts may use."""
    inside: bool = False
    """Whether it runs inside a run, where it must not launch runs."""


PERSON = Rights()
"""The rights of code outside of runs."""

NO_RIGHTS = Rights(Grant(tools=frozenset()), True)
"""The rights of the engine's thread; the code on it has the rights of its run."""


class _Thread(threading.local):
    rights: Rights | None = None
    """The rights of the tool that started this thread."""


_thread = _Thread()


def rights() -> Rights:
    """The rights of the caller.

    Code can leave its context (``contextvars.Context().run``): then those of the call on this
    thread count, or of the code that started the thread.
    """
    grant, within = granted.get(None), inside.get(None)
    if grant is None or within is None:
        around = running.call.context if running.call is not None else None
        other = (
            Rights(around[granted], around[inside])
            if around and granted in around and inside in around
            else None
        )
        other = other or _thread.rights or PERSON
        return Rights(
            other.grant if grant is None else grant, other.inside if within is None else within
        )
    return Rights(grant, within)


@contextmanager
def held() -> Iterator[Rights]:
    """Set the rights of the caller in its context, so that a loop of another thread inherits
    them."""
    found = rights()
    grant, within = granted.set(found.grant), inside.set(found.inside)
    try:
        yield found
    finally:
        granted.reset(grant)
        inside.reset(within)


def refuse_inside(launch: str) -> None:
    """Raise StepError for a launch inside a run (decision A13)."""
    if rights().inside:
        hint = "nest with a call step; Python code in a tool may use agf_magics.run"
        raise StepError(
            Diagnostic(
                "flow.launch", f"a pipeline cannot be launched inside a run: {launch}", hint=hint
            )
        )


def watch_threads() -> None:
    """Give each thread that a tool starts the rights of the tool, from now on."""
    if not hasattr(threading.Thread.start, "agf_rights"):
        threading.Thread.start = _starting(threading.Thread.start)  # type: ignore[method-assign, assignment]
        ThreadPoolExecutor.submit = _submitting(ThreadPoolExecutor.submit)  # type: ignore[method-assign]


def _starting(start: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    @functools.wraps(start)
    def started(self: threading.Thread) -> None:
        mine = rights()
        if mine == PERSON:
            return start(self)
        own = vars(self).get("run")
        self.run = functools.partial(_run_with_rights, self, own, mine)  # type: ignore[method-assign]
        try:
            return start(self)
        except RuntimeError:  # it was started before, or there are no more threads
            _restore_run(self, own)
            raise

    started.agf_rights = True  # type: ignore[attr-defined]
    return started


def _run_with_rights(
    thread: threading.Thread, own: Callable[[], None] | None, mine: Rights
) -> None:
    """Call the ``run`` of a thread with the rights of the tool that started it."""
    _restore_run(thread, own)
    under(mine, thread.run)


def _restore_run(thread: threading.Thread, own: Callable[[], None] | None) -> None:
    if own is None:
        del thread.run
    else:
        thread.run = own  # type: ignore[method-assign]


def _submitting(submit: Callable[..., Future[Any]]) -> Callable[..., Future[Any]]:
    @functools.wraps(submit)
    def submitted(
        self: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **named: Any
    ) -> Future[Any]:
        mine = rights()
        # A pool of interpreters pickles its arguments, and other interpreters have no runs.
        if mine == PERSON or type(self).__name__ == "InterpreterPoolExecutor":
            return submit(self, fn, *args, **named)
        return submit(self, under, mine, fn, *args, **named)

    return submitted


def under(mine: Rights, function: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
    """``function(*args, **named)`` with the rights ``mine``."""
    before, _thread.rights = _thread.rights, mine
    grant, within = granted.set(mine.grant), inside.set(mine.inside)
    try:
        return function(*args, **named)
    finally:
        granted.reset(grant)
        inside.reset(within)
        _thread.rights = before
