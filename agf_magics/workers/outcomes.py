"""The traceback of an exception on its worker, as its cause: with it, Python and IPython show where
the tool failed.

What the kernel has and a worker does not: a module (the failure ``step.worker-lacks``),
flows.

A chunk of calls in flight, and what its outcome means for each of them.
"""

from __future__ import annotations

import asyncio
import linecache
import pickle
import re
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any, Protocol

from ..catalog.digests import is_ours
from ..engine.threads import Call, Terms
from ..engine.user_code import OutcomeUnknown, Result, TimedOut
from ..text.diagnostics import Diagnostic, StepError
from .backend import Cancel, ChunkSize, Lost, WorkerBackend
from .sending import STAY, SharedData, name_of, other_python

FRAME = re.compile(r'  File "([^"\n]+)", line ([0-9]{1,9}), in [^\n]+')


class RemoteTraceback(Exception):
    """The text of a traceback. A worker has no file of a notebook's cell, so the lines of the
    source are added here."""

    def __str__(self) -> str:
        return f"\n{with_source(self.args[0])}"


def raised_there(data: bytes, text: str) -> BaseException:
    """An exception of a worker, with the traceback there as its cause."""
    try:
        error = pickle.loads(data)
    except BaseException:
        error = ("RuntimeError", text.strip().rpartition("\n")[2])
    if isinstance(error, tuple):
        name, said, *answer = error
        error = type(name, (Exception,), {})(said)
        if len(answer) == 2:
            error.status_code, error.headers = answer[0], {"retry-after": str(answer[1])}
    assert isinstance(error, BaseException)
    error.__cause__ = RemoteTraceback(text)
    return error


def with_source(text: str, name_of_file: Callable[[str], str] | None = None) -> str:
    """The text of a traceback, with the lines of the source that this process knows and the text
    lacks.

    ``name_of_file``: what to call a file instead of ``File "…"``; empty: no other name. None: no
    file has one."""
    return "\n".join(_lines(text.split("\n"), name_of_file))


def _lines(lines: list[str], name_of_file: Callable[[str], str] | None) -> Iterator[str]:
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        found = FRAME.fullmatch(line)
        if found is None:
            yield line
            continue
        file, number = found[1], int(found[2])
        name = name_of_file(file) if name_of_file is not None else ""
        yield line.replace(f'File "{file}"', name, 1) if name else line
        source = linecache.getline(file, number).strip()
        if source and not after.startswith("    "):
            yield f"    {source}"


def lacking_module(function: str, where: str, error: ImportError) -> Diagnostic:
    """The failure of calls of ``function``, because an import of the module ``error.name`` failed
    on a worker.

    ``where``: the name of the backend."""
    message = f"{function!r} needs the module {error.name!r}, which a worker of {where} lacks"
    top = str(error.name).partition(".")[0]
    hint = f"install {top!r} on the workers"
    if is_here(error) and is_ours(top):
        hint = f"import {top!r} outside of the function: it is then sent with the function"
    return Diagnostic("step.worker-lacks", message, hint=f"{hint}; or {STAY}")


def is_worker() -> bool:
    """Whether this process makes calls for a kernel, and is none itself."""
    held = sys.modules.get("_agf_chunk")
    return held is not None and not hasattr(held, "kernel")


def is_here(error: BaseException) -> bool:
    """Whether ``error`` says that a module is missing which this process has."""
    top = str(getattr(error, "name", None)).partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or not top.isidentifier():
        return False
    try:
        return find_spec(top) is not None
    except (ImportError, ValueError):  # a module that was made by code
        return False


LOSSES = 3
"""How often a call is sent again after the loss of its worker."""

LOST_HINT = (
    "does it end its process? If memory is short: give each call less data, or start "
    "workers with more memory"
)
NO_SIGN = "its worker gave no sign of life and was ended"
GONE_HINT = (
    "%resume continues a run that has failed, on new processes; workers of a cluster must "
    "be started first"
)


class FanOut(Protocol):
    """A fan-out whose calls are in the queue: `queue.RemotePool`."""

    halts: bool
    halted: bool
    held: list[Entry]
    report: Callable[[list[Any]], None]
    shared: SharedData | None

    def halt(self) -> None: ...
    def move(self, count: int) -> None: ...


class Calls(Protocol):
    """The calls of one function: `queue.Line`."""

    function: Callable[..., Any]
    terms: Terms
    size: ChunkSize
    waiting: deque[Entry]
    lost: deque[Entry]
    flights: int

    @property
    def backend(self) -> WorkerBackend: ...


class Entry:
    """A call in the queue."""

    __slots__ = ("call", "losses", "pool", "workers")

    def __init__(self, call: Call, pool: FanOut | None) -> None:
        """``pool``: the fan-out of the call; None: a task waits for it."""
        self.call, self.pool, self.losses = call, pool, 0
        self.workers: list[str] = []
        """How its workers were lost."""


def end_call(entry: Entry, result: Result) -> None:
    """Set the result of a call and report it."""
    entry.call.end(result)
    if entry.pool is not None:
        if entry.pool.halts and not result[0]:
            entry.pool.halt()
        entry.pool.report([entry.call])


class Flight:
    """A chunk of calls."""

    kills = True
    """Whether `interrupt` by force may end the call; read by the host."""

    def __init__(
        self, line: Calls, entries: list[Entry], run: Callable[..., Any], order: tuple[Any, ...]
    ) -> None:
        self.line, self.entries, self.run, self.order = line, entries, run, order
        self.shared = False
        self.cancel: Cancel = _nothing
        self.is_suspect = bool(entries[0].losses)
        self.kills = bool(getattr(line.backend, "kills", False))
        self._dropped = 0
        for entry in entries:
            entry.call.waiter = self

    @property
    def where(self) -> str:
        """For the message about a call that is left running."""
        return f" on {self.line.backend.name}"

    def interrupt(self, call: Call, force: bool = False) -> None:
        """The call is not needed. A chunk without a call that is needed is cancelled; by ``force``,
        its worker ends."""
        if any(not entry.call.stopped for entry in self.entries):
            return
        if self._dropped < 1 + (force and self.kills):
            self._dropped += 1
            self.cancel()

    def place(self, sign: int) -> None:
        """Tell the fan-outs how many of their calls are with a worker, or are back."""
        for pool, count in Counter(entry.pool for entry in self.entries).items():
            if pool is not None:
                pool.move(sign * count)

    def land(self, outcome: Any) -> None:
        self.line.flights -= 1
        self.place(-1)
        for entry in self.entries:
            entry.call.waiter = None
        if isinstance(outcome, Lost):
            self._lose(outcome)
        elif isinstance(outcome, BaseException):
            self._end_all((False, _backend_failed(self, outcome)))
        else:
            try:
                self._open(*outcome)
            except Exception as error:  # a backend that returns something else
                self._end_all((False, _backend_failed(self, error)))

    def _open(
        self, marks: str, data: Any, seconds: float, prints: list[tuple[int, str, str]], worker: str
    ) -> None:
        self._print(prints)
        if marks == "x":
            self._end_all((False, _unread(self, raised_there(*data[0]))))
            return
        begun = [entry for entry, mark in zip(self.entries, marks, strict=True) if mark != "n"]
        if not begun:  # only a call after a failure is not started: it would be sent for ever
            self._lose(Lost(f"{worker} made none of the calls that it was sent"))
            return
        line = self.line
        if not line.terms.has_effect:
            line.size.weigh_returned(
                (len(data) if type(data) is bytes else sum(map(len, data))) / len(begun)
            )
            line.size.learn(seconds, len(begun), line.backend.lanes)
        results, unread = self._results(marks, data, worker)
        for entry in unread:
            self._repeat(
                entry,
                StepError(
                    Diagnostic("step.unsent-result", _UNREADABLE.format(self.name), hint=_FILE)
                ),
            )
        self._report(list(zip(begun, results, strict=True)) if not unread else [])
        self._return(
            [entry for entry, mark in zip(self.entries, marks, strict=True) if mark == "n"]
        )

    @property
    def name(self) -> str:
        return name_of(self.line.function)

    def _results(self, marks: str, data: Any, worker: str) -> tuple[list[Result], list[Entry]]:
        """The results of the calls; or the calls of a chunk whose results this process cannot
        read."""
        try:
            values = (
                pickle.loads(data) if type(data) is bytes else [pickle.loads(one) for one in data]
            )
        except BaseException as error:  # reading a pickle can raise SystemExit too
            if len(self.entries) > 1 and not self.line.terms.has_effect:
                return [], self.entries
            text = f"{_UNREADABLE.format(self.name)}: {type(error).__name__}: {error}"
            found = StepError(Diagnostic("step.unsent-result", text, hint=_FILE))
            return [(False, found)] * len(marks.replace("n", "")), []
        letters = [mark for mark in marks if mark != "n"]
        return [
            self._result(mark, value, worker) for mark, value in zip(letters, values, strict=True)
        ], []

    def _result(self, mark: str, value: Any, worker: str) -> Result:
        match mark:
            case "v":
                return True, value
            case "e":
                error = raised_there(*value)
                if isinstance(error, ModuleNotFoundError) and is_here(error):
                    failure = StepError(lacking_module(self.name, self.line.backend.name, error))
                    failure.__cause__ = error
                    return False, failure
                return False, error
            case "t":
                return False, TimedOut(value, f"left running: {self.name} on {worker}")
        message = f"the result of {self.name!r} cannot be sent to the kernel: {value}"
        return False, StepError(Diagnostic("step.unsent-result", message, hint=_FILE))

    def _report(self, ended: list[tuple[Entry, Result]]) -> None:
        """Set results; each fan-out gets all its calls at once."""
        pools = dict[Any, list[Call]]()
        for entry, result in ended:
            entry.call.end(result)
            if entry.pool is not None:
                pools.setdefault(entry.pool, []).append(entry.call)
                if entry.pool.halts and not result[0] and not entry.pool.halted:
                    entry.pool.halt()
        for pool, calls in pools.items():
            pool.report(calls)

    def _return(self, entries: list[Entry]) -> None:
        """Calls that have not started wait again."""
        for entry in reversed(entries):
            if entry.call.stopped:
                end_call(entry, _CANCELLED)
                continue
            entry.call.give_back()
            if entry.pool is not None and entry.pool.halted:
                entry.pool.held.insert(0, entry)
            else:
                self.line.waiting.appendleft(entry)

    def _end_all(self, result: Result) -> None:
        self._report([(entry, result) for entry in self.entries])

    def _lose(self, lost: Lost) -> None:
        names_one = self.line.backend.identifies_lost_chunk
        alone = len(self.entries) == 1 and (names_one or not self.shared)
        for entry in reversed(self.entries):
            if entry.call.stopped:
                end_call(entry, _CANCELLED)
                continue
            if not lost.cancelled:
                # A pool that breaks loses all its chunks: only a call that was alone is to blame.
                entry.losses = entry.losses + 1 if alone or names_one else max(1, entry.losses)
                entry.workers.append(str(lost))
            is_last = lost.gone or (alone and (lost.last or lost.late is not None))
            self._repeat(entry, _call_lost(self, entry, lost), is_last)

    def _repeat(self, entry: Entry, error: Exception, is_last: bool = False) -> None:
        """Send a call again, alone; or end it with ``error``."""
        if self.line.terms.has_effect or is_last or entry.losses > LOSSES:
            end_call(entry, (False, error))
            return
        entry.losses = max(1, entry.losses)
        entry.call.give_back()
        if entry.pool is not None and entry.pool.halted:
            entry.pool.held.insert(0, entry)
        else:
            self.line.lost.appendleft(entry)

    def _print(self, prints: list[tuple[int, str, str]]) -> None:
        for i, name, text in prints:
            stream = sys.stderr if name == "stderr" else sys.stdout
            if stream is not None:
                self.entries[i].call.context.run(
                    stream.write, text
                )  # a watched run gives it to the step


_CANCELLED: Result = (False, asyncio.CancelledError())
_FILE = f"write a file and return its path, or keep the tool here: {STAY}"
_UNREADABLE = "the kernel cannot read the result of {!r}"


def _unread(flight: Flight, error: BaseException) -> StepError:
    """The failure of calls whose function or arguments a worker could not read."""
    where = flight.line.backend.name
    if isinstance(error, ImportError) and error.name:
        return StepError(lacking_module(flight.name, where, error))
    message = (
        f"a worker of {where} cannot read {flight.name!r} or its arguments: "
        f"{type(error).__name__}: {error}"
    )
    return StepError(Diagnostic("step.unsendable", message, hint=STAY))


def _backend_failed(flight: Flight, error: BaseException) -> StepError:
    if isinstance(error, StepError):
        return error
    if isinstance(error, ImportError) and error.name:
        return _unread(flight, error)
    if python := other_python(error):
        message = f"a worker of {flight.line.backend.name} cannot read {flight.name!r}: {python}"
        hint = "start the workers with the Python of the kernel"
        return StepError(Diagnostic("step.unsendable", message, hint=hint))
    message = (
        f"{flight.line.backend.name} could not run {flight.name!r}: {type(error).__name__}: {error}"
    )
    return StepError(Diagnostic("step.worker-lost", message, hint=STAY))


def worker_lost(name: str, what: str, losses: Sequence[str], gone: bool = False) -> Diagnostic:
    """The failure of a call or an element. ``losses``: how its workers were lost; ``gone``: now
    there are none."""
    if gone:
        return Diagnostic(
            "step.worker-lost", f"no worker can run {name!r}: {losses[-1]}", hint=GONE_HINT
        )
    times = {1: "once", 2: "twice"}.get(len(losses), f"{len(losses)} times")
    why = "; ".join(dict.fromkeys(losses[-3:]))
    message = f"the worker of {name!r} ended before the {what} did, {times}: {why}"
    return Diagnostic("step.worker-lost", message, hint=LOST_HINT)


def _call_lost(flight: Flight, entry: Entry, lost: Lost) -> Exception:
    if flight.line.terms.has_effect:
        return OutcomeUnknown(f"its worker was lost: {lost}")
    if lost.late is not None:
        return TimedOut(lost.late, NO_SIGN)
    return StepError(worker_lost(flight.name, "call", entry.workers or [str(lost)], lost.gone))


def _nothing() -> None:
    """It is not in flight yet."""
