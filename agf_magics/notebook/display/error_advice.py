"""Advice after a cell: the parameter or the magic that was probably meant, and a run not awaited."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from contextlib import ExitStack
from types import CoroutineType, TracebackType
from typing import Any

from ...lifecycle.launch.launch import arun
from ...text.diagnostics import Diagnostic
from ...text.suggestions import suggest
from .print_problems import print_problems
from .tracebacks import without_ours

_UNEXPECTED = re.compile(r"\A(\w++)(?:\.__init__)?\(\) got an unexpected keyword argument '(\w++)'")
"""Python's message about a wrong call: its groups are the function and the unknown parameter."""

_MEANT = {("agent", "model"): "a model is an agent with agf.model_agent(NAME, model=…)"}
"""What to write instead, by the function and the unknown parameter."""


def install_advice(undo: ExitStack, shell: Any, is_full: Callable[[], bool]) -> None:
    """Give the advice while the extension is loaded. ``is_full()``: whether to show Python's
    tracebacks with our frames."""

    def wrong_call(_: Any, kind: Any, error: Any, tb: TracebackType, tb_offset: Any = None) -> None:
        frames = tb if is_full() else without_ours(tb)
        for name, parameter in _UNEXPECTED.findall(str(error)):
            function = vars(sys.modules["agf_magics"]).get(name)
            is_theirs = shell.user_ns.get(name, function) is not function
            if function is None or is_theirs:
                continue
            parameters = inspect.signature(function).parameters
            near = suggest(parameter, parameters, "its parameters")
            if note := _MEANT.get((name, parameter), near):
                error.add_note(note)
        shell.showtraceback((kind, error, frames), tb_offset=tb_offset)

    # These are the errors that Python and our functions raise for a wrong call: `agf.run(1)` is a
    # TypeError. A person who has set a handler of their own keeps it.
    if not shell.custom_exceptions:
        shell.set_custom_exc((TypeError, ValueError, LookupError, AttributeError), wrong_call)
        undo.callback(shell.set_custom_exc, (), None)

    warned = set[int]()
    """The coroutines that were warned about, by their ids."""

    def after_cell(result: Any) -> None:
        if near := _near_magic(shell, str(result.error_in_exec)):
            print(near, file=sys.stderr)  # where IPython prints the error
        waiting = {id(value) for value in shell.user_ns.values() if _is_run_not_awaited(value)}
        if waiting - warned:
            print_problems([_NOT_AWAITED])
        warned.clear()  # a later coroutine may have the id of one that is gone
        warned.update(waiting)

    shell.events.register("post_run_cell", after_cell)
    undo.callback(shell.events.unregister, "post_run_cell", after_cell)


_UNKNOWN_MAGIC = re.compile(
    r"(?:Line magic function|Cell magic) `(?P<sign>%%?)(?P<name>\w+)` not found\."
)
"""IPython's message about an unknown magic, which names no near magic. If the other kind of magic has the
name, IPython's message goes on and says so; then a near name would lead astray."""


def _near_magic(shell: Any, message: str) -> str | None:
    """The hint with the magic that was probably meant, if ``message`` is about an unknown magic."""
    match = _UNKNOWN_MAGIC.match(message)
    if match is None:
        return None
    sign = match["sign"]
    names = shell.magics_manager.magics["line" if sign == "%" else "cell"]
    return suggest(sign + match["name"], [f"{sign}{name}" for name in names])


def _is_run_not_awaited(value: object) -> bool:
    # A run is recognized by its code: other packages have a function `arun`, too.
    is_run = type(value) is CoroutineType and value.cr_code is inspect.unwrap(arun).__code__
    return is_run and inspect.getcoroutinestate(value) == "CORO_CREATED"  # type: ignore[arg-type]


_NOT_AWAITED = Diagnostic(
    "run.not-awaited",
    "agf.arun(…) starts when it is awaited",
    hint="write await agf.arun(…), or agf.start(…) for a run in the background",
    severity="warning",
)
