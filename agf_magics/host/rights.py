"""The rights of the code that runs here: what it may use, and whether it runs inside a run.

Two context variables carry them into user code, and a coroutine, a task and a callback inherit them from whoever makes
them. A thread does not (before Python 3.14): so once a run has begun, `threading.Thread.start` and
`ThreadPoolExecutor.submit` hand the rights of the caller on (decision D2). Code outside of a run is not affected: its
threads are started as they always were.
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
from .threads import here


class Rights(NamedTuple):
    """What code may do with runs."""

    grant: Grant = ANYTHING
    """What a run that it starts may use at most."""
    inside: bool = False
    """Whether it runs inside a run, where nothing is launched."""


PERSON = Rights()
"""Those of code that no run called."""

NOBODY = Rights(Grant(tools=frozenset()), True)
"""Those of the engine's own thread: what runs there has its rights from its run."""


class _Thread(threading.local):
    rights: Rights | None = None
    """Those of the code that started this thread; None: it was not started by a tool."""


_thread = _Thread()


def rights() -> Rights:
    """The rights of the code that calls this.

    Code can leave its context (``contextvars.Context().run``). The call that this thread performs answers then, or the
    code that started the thread.
    """
    grant, within = granted.get(None), inside.get(None)
    if grant is None or within is None:
        around = here.call.context if here.call is not None else None
        other = Rights(around[granted], around[inside]) if around and granted in around and inside in around else None
        other = other or _thread.rights or PERSON
        return Rights(other.grant if grant is None else grant, other.inside if within is None else within)
    return Rights(grant, within)


@contextmanager
def held() -> Iterator[Rights]:
    """The rights of the caller, written down in its context: a loop of another thread then has them too."""
    found = rights()
    grant, within = granted.set(found.grant), inside.set(found.inside)
    try:
        yield found
    finally:
        granted.reset(grant)
        inside.reset(within)


def refuse_inside(launch: str) -> None:
    """Raise for a launch within a run, from whatever code (decision A13)."""
    if rights().inside:
        hint = "nest with a call step; Python code in a tool may use agf_magics.run"
        raise StepError(Diagnostic("flow.launch", f"nobody can launch a pipeline inside a run: {launch}", hint=hint))


def watch_threads() -> None:
    """Let every thread that a tool starts from now on have the tool's rights. Once a process."""
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
        self.run = functools.partial(_first, self, own, mine)  # type: ignore[method-assign]
        try:
            return start(self)
        except RuntimeError:  # it was started before, or the machine has no thread left
            _put_back(self, own)
            raise

    started.agf_rights = True  # type: ignore[attr-defined]
    return started


def _first(thread: threading.Thread, own: Callable[[], None] | None, mine: Rights) -> None:
    """What a thread of a tool does: its ``run``, which is put back, with the tool's rights."""
    _put_back(thread, own)
    under(mine, thread.run)


def _put_back(thread: threading.Thread, own: Callable[[], None] | None) -> None:
    if own is None:
        del thread.run
    else:
        thread.run = own  # type: ignore[method-assign]


def _submitting(submit: Callable[..., Future[Any]]) -> Callable[..., Future[Any]]:
    @functools.wraps(submit)
    def submitted(self: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        mine = rights()
        # A pool of interpreters pickles what it is given, and another interpreter has no runs.
        if mine == PERSON or type(self).__name__ == "InterpreterPoolExecutor":
            return submit(self, fn, *args, **named)
        return submit(self, under, mine, fn, *args, **named)

    return submitted


def under(mine: Rights, function: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
    """``function(*args, **named)`` on this thread, with the rights ``mine``."""
    before, _thread.rights = _thread.rights, mine
    grant, within = granted.set(mine.grant), inside.set(mine.inside)
    try:
        return function(*args, **named)
    finally:
        granted.reset(grant)
        inside.reset(within)
        _thread.rights = before
