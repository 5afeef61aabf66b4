"""Workers that answer wrongly: the run ends, each value is right or its call fails with a code, and no outcome is
double.

A cluster is trusted like the kernel (SECURITY.md), because an answer is a pickle, and reading a pickle can run code.
The answers here come from a worker that is damaged, that has another version, or that only confuses. The journal has at
most one outcome of each call.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.journal.runs import records
from agf_magics.settings.settings import Settings, current
from agf_magics.workers.backends.backend import Lost
from tests.workers.fans import FAN
from tests.workers.in_process import InProcess

XS = list(range(6))


class Exits:
    def __init__(self, kind: type[BaseException]) -> None:
        self.kind = kind

    def __reduce__(self) -> Any:
        return _raise, (self.kind,)


def _raise(kind: type[BaseException]) -> None:
    raise kind


def replaced(index: int, value: Any) -> Callable[[Any], Any]:
    return lambda outcome: (*outcome[:index], value, *outcome[index + 1 :])


def raised(error: Any) -> Callable[[Any], Any]:
    """The answer that each call raised ``error``, which is a pickle or an object."""
    data = error if isinstance(error, bytes) else pickle.dumps(error)
    return lambda outcome: ("e" * len(outcome[0]), pickle.dumps([(data, "a trace")] * len(outcome[0])), *outcome[2:])


CALLS: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda outcome: None,
    "a text": lambda outcome: "vvvvv",
    "a mapping": lambda outcome: {"marks": "v"},
    "too few fields": lambda outcome: outcome[:4],
    "too many fields": lambda outcome: (*outcome, 1),
    "no marks": replaced(0, ""),
    "more marks than calls": lambda outcome: (outcome[0] + "v", *outcome[1:]),
    "unknown marks": lambda outcome: ("z" * len(outcome[0]), *outcome[1:]),
    "marks of another type": replaced(0, 5),
    "nothing was started, for ever": lambda outcome: ("n" * len(outcome[0]), pickle.dumps([]), *outcome[2:]),
    "the chunk cannot be read, and no reason": replaced(0, "x"),
    "values of another type": replaced(1, "text"),
    "values that are no pickle": replaced(1, b"\x80\x05no"),
    "too many values": replaced(1, pickle.dumps([1] * 99)),
    "too few values": replaced(1, pickle.dumps([])),
    "values that are no list": replaced(1, pickle.dumps(7)),
    "a pickle for each, and not of bytes": replaced(1, [1, 2]),
    "a pickle that exits": replaced(1, pickle.dumps([Exits(SystemExit)])),
    "a pickle that interrupts": replaced(1, pickle.dumps([Exits(KeyboardInterrupt)])),
    "a pickle that cancels": replaced(1, pickle.dumps([Exits(asyncio.CancelledError)])),
    "a pickle that is too deep": replaced(1, pickle.dumps([Exits(RecursionError)])),
    "seconds of another type": replaced(2, "long"),
    "seconds below 0": replaced(2, -1e300),
    "seconds that are no number": replaced(2, float("nan")),
    "endless seconds": replaced(2, float("inf")),
    "prints of another type": replaced(3, 5),
    "prints of a call that is not there": replaced(3, [(99, "stdout", "x")]),
    "prints that are no text": replaced(3, [(0, "stdout", b"x")]),
    "prints without a call": replaced(3, [("a", None, None)]),
    "a worker without a name": replaced(4, None),
    "an error that is none": raised(7),
    "an error that is no pickle": raised(b"no"),
    "an error that exits when it is read": raised(Exits(SystemExit)),
    "a class name that is no name": raised(("a\0b", "text")),
    "a class name of another type": raised((5, "text")),
    "a KeyboardInterrupt": raised(KeyboardInterrupt()),
    "a SystemExit": raised(SystemExit(3)),
    "a cancellation": raised(asyncio.CancelledError()),
    "a StopIteration": raised(StopIteration(1)),
    "a GeneratorExit": raised(GeneratorExit()),
    "a time limit that is no number": lambda outcome: (
        "t" * len(outcome[0]), pickle.dumps([[]] * len(outcome[0])), *outcome[2:]
    ),
    "a result that cannot be sent, and no reason": lambda outcome: ("u" * len(outcome[0]), *outcome[1:]),
    "a failed setup that nobody asked for": lambda outcome: ("setup", "why", "trace"),
    "a loss": lambda outcome: Lost("it says so"),
    "an exception": lambda outcome: ValueError("of the backend"),
    "an interrupt": lambda outcome: KeyboardInterrupt(),
}  # fmt: skip


@pytest.fixture(autouse=True)
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(current, "settings", Settings(journal=str(tmp_path / "runs.sqlite")))


def work(x: int) -> int:
    return x * 2


def start(backend: InProcess, on_error: str = "continue") -> Any:
    registry = agf.Registry()
    agf.tool(work, where="worker", registry=registry)
    limits = agf.Limits(timeout=20)
    return agf.start(FAN.format(on_error=on_error), {"xs": XS}, registry=registry, on=backend, limits=limits)


def outcomes(handle: Any) -> list[Any]:
    return [
        (row.at, row.tries)
        for row in records(handle.journal.store, handle.journal.num)
        if row.what in ("finished", "failed")
    ]


def check_run(handle: Any) -> None:
    """Check what must be true of a run, whatever its workers answered."""
    ended = handle.wait(30)
    assert ended.status in ("ok", "error"), ended.status
    assert ended.error is None or "time" not in ended.error.code, ended.error
    failed = {failure.element for failure in ended.progress.failures}
    assert all(failure.error.code.startswith("step.") for failure in ended.progress.failures)
    if ended.status == "ok":
        assert ended.output == [x * 2 for x in XS if x not in failed]
    recorded = outcomes(handle)
    assert len(recorded) == len(set(recorded)), "an outcome is recorded twice"
    assert start(InProcess()).result().output == [x * 2 for x in XS], "the next run is not affected"


@pytest.mark.parametrize("on_error", ["continue", "abort"])
@pytest.mark.parametrize("lie", CALLS)
def test_a_lie_about_calls(lie: str, on_error: str) -> None:
    backend = InProcess()
    backend.change = CALLS[lie]
    check_run(start(backend, on_error))


class Repeats(InProcess):
    """A backend that reports each outcome, and then another outcome."""

    def __init__(self, second: Any) -> None:
        super().__init__()
        self.second = second

    def submit(self, run: Any, order: tuple[Any, ...], done: Callable[[Any], None]) -> Any:
        def twice(outcome: Any) -> None:
            done(outcome)
            done(self.second)

        return super().submit(run, order, twice)


@pytest.mark.parametrize("second", [None, Lost("late"), KeyboardInterrupt(), ("v", pickle.dumps([99]), 0.0, [], "")])
def test_a_second_outcome_of_a_chunk_is_ignored(second: Any) -> None:
    handle = start(Repeats(second))
    assert handle.result().output == [x * 2 for x in XS]
    check_run(handle)


def test_an_answer_after_the_cancellation_is_not_journaled() -> None:
    backend = InProcess(holds=True)
    handle = start(backend, "abort")
    assert backend.arrived.wait(20)
    held = list(backend.held)
    handle.cancel()
    ended = handle.wait(20)
    assert ended.status == "cancelled"
    for chunk, report in held:
        report(backend.execute(chunk))
    assert not outcomes(handle)
