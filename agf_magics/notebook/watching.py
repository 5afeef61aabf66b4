"""A run is started and shown until its end: by the cell that waits for it, or while other cells
run.

The display of our exceptions in a cell: a few lines with a caret instead of a traceback of our
internals.

IPython calls ``_render_traceback_`` of an exception, which ours have while the extension is loaded.
If a tool raised, the frames of the tool are shown too.

Questions of background runs: the explorer of the run has the field for the answer.

A run that is shown as an explorer has it already. For any other run (``--quiet``, or started by
Python code) one is opened in the cell that started the run, as long as questions are open. Either
way the document has only text.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import re
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from types import CoroutineType, TracebackType
from typing import Any, ClassVar

from ..catalog import Registry
from ..engine.host import NoUser
from ..engine.interrupts import held_interrupts
from ..flow.events import Question
from ..flow.steps import Flow
from ..flow.values import Value
from ..lifecycle.input import ask_at_prompt
from ..lifecycle.launch import arun, wait_for
from ..lifecycle.past_run import PastRun
from ..lifecycle.run import Run, live
from ..pictures.diagram import Diagram
from ..pictures.plain import line, plain
from ..text.diagnostics import AgfError, Diagnostic, StepError, merge_equal, suggest, wrapped
from ..text.late_imports import IN_BROWSER
from ..workers.sending import RemoteTraceback, with_source
from . import output
from .config import BadSetting
from .output import (
    EMPTY,
    Bundle,
    OutputSlot,
    PendingQuestion,
    accompany,
    describe_answer,
    frozen,
    in_frames,
)
from .view import Explorer, View, framed, show_ended

Start = Callable[[Callable[[], None]], Run]
"""Starts a run and calls its argument first: the output must be above everything that the run
prints."""


def watch(start: Start, view: View, hz: float) -> Run:
    """Start a run, show it and wait for its end. The view is closed in any case."""
    over: SimpleQueue[None] = (
        SimpleQueue()
    )  # an interrupt can leave the lock of a `threading.Event` locked

    def wait(run: Run) -> None:
        def tick() -> None:
            while True:
                with suppress(Empty):
                    return over.get(timeout=1 / hz)
                _tick(view, run)

        if IN_BROWSER:
            assert run._job is not None
            run._job.every(1 / hz, partial(_tick, view, run), lambda: None)
            try:
                run.wait()
            finally:
                view.close(run)
            return
        # In the context of the cell, to which the output of the thread then belongs.
        context = contextvars.copy_context()
        ticker = threading.Thread(target=context.run, args=(tick,), name="agf-view", daemon=True)
        ticker.start()
        try:
            run.wait()
        finally:
            over.put(None)
            ticker.join()
            view.close(run)

    with held_interrupts() as held:
        return wait_for(start(view.reserve), held, wait)


def follow(start: Start, view: View, hz: float) -> Run:
    """Start a run in the background and show it in the output of this cell, from a thread that ends
    with the run."""
    run = start(view.reserve)
    accompany(run, 1 / hz, partial(_tick, view, run), partial(view.close, run), _thread_name(run))
    return run


def _tick(view: View, run: Run) -> None:
    """A view that does not work only shows the end of the run: its thread must not print into a
    cell."""
    with suppress(Exception):
        view.tick(run)


def join_views(run: Run, seconds: float = 5.0) -> None:
    """Wait until every view of an ended background run shows its end."""
    for thread in threading.enumerate():
        if thread.name == _thread_name(run):
            thread.join(seconds)


def _thread_name(run: Run) -> str:
    return f"agf-view {run.run_id}"


HOOK = "_render_traceback_"
OURS = str(Path(__file__).parents[1])
MOST = 20
"""Findings of one error that are shown."""

RED, BOLD, OFF = "\x1b[31m", "\x1b[1m", "\x1b[0m"


def install_rendering(undo: ExitStack, shell: Any, is_full: Callable[[], bool]) -> None:
    """Let IPython show our errors with `render`. ``is_full()``: whether to show Python's tracebacks
    instead."""

    def hook(error: Any) -> list[str]:
        if is_full():
            return list(
                shell.InteractiveTB.structured_traceback(
                    type(error), error, error.__traceback__, tb_offset=0
                )
            )
        return render(shell, error)

    for kind in (AgfError, BadSetting):
        setattr(kind, HOOK, hook)
        undo.callback(delattr, kind, HOOK)

    def wrong_call(_: Any, kind: Any, error: Any, tb: TracebackType, tb_offset: Any = None) -> None:
        frames = tb if is_full() else _without_ours(tb)
        for name, parameter in _UNEXPECTED.findall(str(error)):
            function = vars(sys.modules["agf_magics"]).get(name)
            if shell.user_ns.get(name, function) is function is not None:  # and not the user's own
                known = inspect.signature(function).parameters
                near = suggest(parameter, known, "its parameters")
                error.add_note(_MEANT.get((name, parameter), str(near)))
        shell.showtraceback((kind, error, frames), tb_offset=tb_offset)

    # What Python itself raises for a wrong call, we raise too: `agf.run(1)` is a TypeError. A person
    # who has set a handler of their own keeps it.
    if not shell.custom_exceptions:
        shell.set_custom_exc((TypeError, ValueError, LookupError, AttributeError), wrong_call)
        undo.callback(shell.set_custom_exc, (), None)

    told = set[int]()

    def after_cell(result: Any) -> None:
        if found := _UNKNOWN_MAGIC.match(str(result.error_in_exec)):
            sign, kind = found[1], "line" if found[1] == "%" else "cell"
            names = [f"{sign}{name}" for name in shell.magics_manager.magics[kind]]
            if near := suggest(sign + found[2], names):
                print(near, file=sys.stderr)  # where IPython prints the error
        waiting = {id(value) for value in shell.user_ns.values() if _is_run_not_awaited(value)}
        if waiting - told:
            print(_told(_NOT_AWAITED))
        told.clear()  # a later coroutine may have the id of one that is gone
        told.update(waiting)

    shell.events.register("post_run_cell", after_cell)
    undo.callback(shell.events.unregister, "post_run_cell", after_cell)


def _is_run_not_awaited(value: object) -> bool:
    # By its code: other packages have an `arun` too.
    is_run = type(value) is CoroutineType and value.cr_code is inspect.unwrap(arun).__code__
    return is_run and inspect.getcoroutinestate(value) == "CORO_CREATED"  # type: ignore[arg-type]


_NOT_AWAITED = Diagnostic(
    "run.not-awaited",
    "agf.arun(…) starts when it is awaited",
    hint="write await agf.arun(…), or agf.start(…) for a run in the background",
    severity="warning",
)

_MEANT = {("agent", "model"): "a model is an agent with agf.model_agent(NAME, model=…)"}
"""By a function and a parameter that it does not have."""
_UNEXPECTED = re.compile(r"\A(\w++)(?:\.__init__)?\(\) got an unexpected keyword argument '(\w++)'")


def formats(undo: ExitStack, shell: Any, is_shown: Callable[[Run], bool]) -> None:
    """Register the display of flows, registries and runs. ``is_shown``: whether the cell already
    shows the run."""

    def flow(found: Flow, **_: Any) -> dict[str, str]:
        return Diagram(found)._repr_mimebundle_()

    def registry(found: Registry, **_: Any) -> dict[str, str]:
        return output.everything(found)

    def run(found: Run) -> None:
        if not is_shown(found):
            show_ended(found, shell)

    formatter = shell.display_formatter
    for table, kind, shown in (
        (formatter.mimebundle_formatter, Flow, flow),
        (formatter.mimebundle_formatter, Registry, registry),
        (formatter.ipython_display_formatter, Run, run),
        (formatter.ipython_display_formatter, PastRun, partial(show_ended, shell=shell)),
    ):
        table.for_type(kind, shown)
        undo.callback(table.pop, kind, None)


def render(shell: Any, error: AgfError) -> list[str]:
    """The lines of an error; of a failed step also the frames of the code that failed, as
    ``%xmode`` has them."""
    red, bold, off = ("", "", "") if _colourless(shell) else (RED, BOLD, OFF)
    lines = []
    findings = merge_equal(error.diagnostics)
    for finding in findings[:MOST]:
        head = type(error).__name__ if finding.severity == "error" else finding.severity
        first, *rest = plain(str(finding), 20_000).split("\n")
        message = wrapped(f"{head}: {first}").removeprefix(head)
        lines += [f"{red}{head}{off}{bold}{message}{off}", *map(wrapped, rest)]
    if len(findings) > MOST:
        lines.append(f"... and {len(findings) - MOST} more")
    if isinstance(error, StepError) and error.path_text:
        lines.append(f"  {error.path_text}")
    cause = error.__cause__
    if isinstance(error, StepError) and cause is not None:
        frames = _theirs(cause.__traceback__)
        if frames is not None:
            shown = shell.InteractiveTB.structured_traceback(
                type(cause), cause, frames, tb_offset=0
            )
            lines += ["", *(_COLOUR_OR_NOT.sub(_safe, one) for one in shown)]
        else:
            lines += _remote_frames(shell, cause)
    return lines


def _remote_frames(shell: Any, cause: BaseException) -> list[str]:
    """The frames of an exception that a worker has sent, with the names of cells; none if a worker
    did not send it."""
    found = next(
        (one for one in (cause, cause.__cause__) if isinstance(one, RemoteTraceback)), None
    )
    if found is None:
        return []

    def cell(file: str) -> str:
        # IPython's compiler knows the names of the cells; nothing is compiled.
        name = getattr(getattr(shell, "compile", None), "format_code_name", None)
        return " ".join((name(file) if name is not None else None) or ())

    lines = with_source(str(found.args[0]), cell).rstrip("\n").split("\n")
    return ["", "On the worker:", *(plain(one, 2_000) for one in lines)]


_COLOUR_OR_NOT = re.compile(r"(\x1b\[[0-9;]*m)|\x1b|[^\n\t\x1b -~]+")


def _safe(found: re.Match[str]) -> str:
    """A colour of IPython's as it is; what else is not plain text, as it is shown everywhere."""
    return found[1] or plain(found[0], 20_000)


def print_findings(findings: Iterable[Diagnostic]) -> None:
    """Print warnings, and in a line each notes, under the line that a definition prints."""
    merged = merge_equal(tuple(findings))
    more = [f"... and {len(merged) - MOST} more"] if len(merged) > MOST else []
    for text in (*map(_told, merged[:MOST]), *more):
        print(text)


def _told(finding: Diagnostic) -> str:
    if finding.severity != "note":
        return wrapped(f"{finding.severity}: {plain(str(finding), 20_000)}")
    where = f" (line {finding.span.place[0]})" if finding.span else ""
    return wrapped(f"note: {line(finding.message, 300)}{where}")


_UNKNOWN_MAGIC = re.compile(r"(?:Line magic function|Cell magic) `(%%?)(\w+)` not found")
"""IPython's own message; it knows of no near names."""


def _without_ours(tb: TracebackType) -> TracebackType | None:
    """The traceback up to the call of the function that refused it, if a function of ours did."""
    frames = []
    at: TracebackType | None = tb
    while at is not None:
        frames.append(at)
        at = at.tb_next
    generated = "<string>"  # the constructor of a dataclass
    while len(frames) > 1 and frames[-1].tb_frame.f_code.co_filename.startswith((OURS, generated)):
        frames.pop()
    shown = None
    for frame in reversed(frames):
        shown = TracebackType(shown, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return shown


def _theirs(tb: TracebackType | None) -> TracebackType | None:
    """The part of a traceback that begins in code that is not ours."""
    while tb is not None and tb.tb_frame.f_code.co_filename.startswith(OURS):
        tb = tb.tb_next
    return tb


def _colourless(shell: Any) -> bool:
    return str(getattr(shell, "colors", "")).lower() in ("nocolor", "no color")


WAITING = "waiting for an answer in the view of the run"
NOT_ANSWERED = "not answered: the run has ended"


def asker(has_views: Callable[[], bool]) -> Callable[[Question], Awaitable[Value]]:
    """What asks. ``has_views()``: whether a run that is shown is shown as an explorer."""

    async def ask_in_explorer(question: Question) -> Value:
        """Ask in the explorer of the run, and keep the question and its answer in the cell that
        started the run.

        A run that a cell awaits is on the kernel's own loop. Not every kernel receives a click
        then, so it asks as a cell that waits does. Raises NoUser if no explorer can show the
        question.
        """
        run = _run_of(question)
        on_main_thread = threading.current_thread() is threading.main_thread()
        # In a browser all is on one thread, a background run too.
        if on_main_thread and (run is None or not run.background):
            return ask_at_prompt(question)
        if run is None:
            raise NoUser
        slot, pending = (
            OutputSlot(),
            PendingQuestion(question, asyncio.get_running_loop().create_future()),
        )
        shown = NOT_ANSWERED
        try:
            with nullcontext() if has_views() and Explorer.shows(run) else _explored(run):
                slot.reserve(frozen(question, WAITING))
                answer = await pending.wait()
            shown = describe_answer(question, answer)
            return answer
        finally:
            slot.put(frozen(question, shown))
            pending.close()

    return ask_in_explorer


def _run_of(question: Question) -> Run | None:
    return next(
        (run for run in live if any(one is question for one in list(run.progress.asked.values()))),
        None,
    )


@contextmanager
def _explored(run: Run) -> Iterator[None]:
    """An explorer of its own shows ``run`` meanwhile."""
    try:
        own = _OwnExplorer.of(run)
    except Exception as error:  # the widgets of this environment do not work
        raise NoUser from error
    try:
        yield
    finally:
        own.leave()


class _OwnExplorer:
    """The explorer of a run that is not shown otherwise, for all its open questions."""

    _open: ClassVar[dict[str, _OwnExplorer]] = {}
    _lock = threading.Lock()

    def __init__(self, run: Run) -> None:
        from .explorer import Channel

        self._run, self._count = run, 0
        self._channel = Channel(run, True, lambda _: None)
        self._slot = OutputSlot()
        page: Bundle = framed(EMPTY, self._channel.mark)
        self._slot.reserve({**(self._channel.widget_view if in_frames() else {}), **page})

    @classmethod
    def of(cls, run: Run) -> _OwnExplorer:
        with cls._lock:
            own = cls._open.get(run.run_id) or cls(run)
            cls._open[run.run_id] = own
            own._count += 1
            own._channel.tick()
            return own

    def leave(self) -> None:
        """One question less; the last one closes the explorer."""
        with self._lock, suppress(Exception):
            self._count -= 1
            if self._count:
                return self._channel.tick()
            del self._open[self._run.run_id]
            self._slot.put(EMPTY)
            self._channel.close()
