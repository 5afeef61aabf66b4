"""`Rights`, the grant of the current code, and whether it runs inside a run.

Two context variables hold the rights, which coroutines, tasks and callbacks inherit. Threads do not
(before Python 3.14), so after the first run, `threading.Thread.start` and
`ThreadPoolExecutor.submit` pass on the rights of the caller (decision D2). Code outside of a run is
not affected.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context
from typing import Any, NamedTuple

from ...limits.grants import ANYTHING, Grant, granted, inside
from ...text.diagnostics import Diagnostic, StepError
from .call_threads import running


class Rights(NamedTuple):
    """The grant of code, and whether it runs inside a run."""

    grant: Grant = ANYTHING
    """The grant for a run that the code starts."""
    inside: bool = False
    """Whether the code runs inside a run, where it must not launch runs."""


PERSON = Rights()
"""The rights of code outside of runs."""

NO_RIGHTS = Rights(Grant(tools=frozenset()), inside=True)
"""The rights of the engine's thread; the code on it has the rights of its run."""


class _ThreadRights(threading.local):
    """The rights that each thread has, whatever context its code makes."""

    rights: Rights | None = None
    """The rights of the tool that started this thread; None: no tool started it."""


_thread = _ThreadRights()


def rights() -> Rights:
    """The rights of the caller.

    Code can leave its context (``contextvars.Context().run``). Then the rights of the call on this
    thread count, or those of the code that started the thread.
    """
    around = running.call.context if running.call is not None else Context()
    thread_rights = _thread.rights or PERSON
    # A run sets both variables. Where they are not set, the code is outside of runs, or in a
    # context that it has made itself.
    grant = around.get(granted, thread_rights.grant)
    is_inside = around.get(inside, thread_rights.inside)
    return Rights(granted.get(grant), inside.get(is_inside))


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
    """From now on, give each thread that a tool starts the rights of the tool."""
    # Done once, even if the extension is loaded again, and only at the first run, so that the
    # import of the package changes no class of Python.
    if not hasattr(threading.Thread.start, "agf_rights"):
        threading.Thread.start = _passing_start(threading.Thread.start)  # type: ignore[method-assign, assignment]
        ThreadPoolExecutor.submit = _passing_submit(ThreadPoolExecutor.submit)  # type: ignore[method-assign]


def _passing_start(start: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    """``Thread.start``, which passes on the rights of its caller."""

    @functools.wraps(start)
    def started(self: threading.Thread) -> None:
        caller_rights = rights()
        if caller_rights == PERSON:
            return start(self)
        # Read from this object, because a subclass or the tool itself may define `run`.
        run = self.run

        def run_with_rights() -> None:
            # Restored first, so that the thread's code finds its own `run`.
            self.run = run  # type: ignore[method-assign]
            under(caller_rights, run)

        self.run = run_with_rights  # type: ignore[method-assign]
        try:
            return start(self)
        except RuntimeError:  # the thread was started before, or no thread can be started
            self.run = run  # type: ignore[method-assign]
            raise

    started.agf_rights = True  # type: ignore[attr-defined]
    return started


def _passing_submit(submit: Callable[..., Future[Any]]) -> Callable[..., Future[Any]]:
    """``ThreadPoolExecutor.submit``, which passes on the rights of its caller."""

    @functools.wraps(submit)
    def submitted(
        self: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **named: Any
    ) -> Future[Any]:
        caller_rights = rights()
        # A pool of interpreters pickles its arguments, and other interpreters have no runs to
        # protect.
        if caller_rights == PERSON or type(self).__name__ == "InterpreterPoolExecutor":
            return submit(self, fn, *args, **named)
        return submit(self, under, caller_rights, fn, *args, **named)

    return submitted


def under(new_rights: Rights, function: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
    """Call ``function(*args, **named)`` with the rights ``new_rights``."""
    # Set on the thread as well: code can leave its context, but not its thread.
    before = _thread.rights
    _thread.rights = new_rights
    outer_grant = granted.set(new_rights.grant)
    outer_inside = inside.set(new_rights.inside)
    try:
        return function(*args, **named)
    finally:
        granted.reset(outer_grant)
        inside.reset(outer_inside)
        _thread.rights = before
