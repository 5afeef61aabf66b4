"""A call that cannot be sent fails alone. The error names the function, the argument or the result, and the part in
it."""

from __future__ import annotations

import io
import os
import pickle
import threading
import types
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

from agf_magics.workers import chunk
from agf_magics.workers.chunk import ByName
from tests.workers.fans import run_fan


class Table:
    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows


def size(x: Any) -> int:
    return len(x.rows) if isinstance(x, Table) else x


def messages(work: Any, xs: list[Any], **options: Any) -> tuple[Any, list[tuple[str, str]]]:
    """The output of a run, and the code and the message of each failure."""
    with ThreadPoolExecutor(2) as executor:
        run = run_fan(work, xs, executor, "continue", **options)
    diagnostics = [failure.error.diagnostic for failure in run.progress.failures]  # type: ignore[attr-defined]
    return run.output, [(diagnostic.code, diagnostic.message) for diagnostic in diagnostics]


@pytest.mark.parametrize(
    ("bad", "part"),
    [
        (Table([1, threading.Lock()]), "x.rows[1] is a lock"),
        (Table([{"open": threading.Event()}]), "x.rows[0]['open']._cond._lock is a lock"),
        (threading.Lock(), "it is a lock"),
    ],
    ids=["in a list", "deep", "itself"],
)
def test_an_argument_is_named_with_the_part_that_cannot_be_sent(bad: Any, part: str) -> None:
    output, errors = messages(size, [1, bad, 2])
    assert output == [1, 2]
    error = "(TypeError: cannot pickle '_thread.lock' object)"
    assert errors == [("step.unsendable", f"the argument 'x' of 'size' cannot be sent to a worker: {part} {error}")]


def test_a_function_is_named_with_the_variable_that_cannot_be_sent() -> None:
    lock = threading.Lock()

    def guarded(x: int) -> int:
        with lock:
            return x

    output, errors = messages(guarded, [1, 2])
    assert output == []
    error = "TypeError: cannot pickle '_thread.lock' object"
    message = f"the function 'guarded' uses 'lock', which cannot be sent to a worker: {error}"
    assert errors == [("step.unsendable", message)] * 2
    assert messages(guarded, [1, 2], where="thread") == ([1, 2], [])


def test_a_result_that_cannot_be_sent_fails_alone() -> None:
    def work(x: int) -> Any:
        return threading.Lock() if x == 2 else x

    output, errors = messages(work, [1, 2, 3])
    assert output == [1, 3]
    error = "TypeError: cannot pickle '_thread.lock' object"
    assert errors == [("step.unsent-result", f"the result of 'work' cannot be sent to the kernel: {error}")]


CHANGED = {
    "a memoryview": lambda: memoryview(b"pear"),
    "a memoryview in a list": lambda: [memoryview(b"pear")],
    "a memoryview in an object": lambda: types.SimpleNamespace(data=memoryview(b"pear")),
    "an open text file": lambda: open(os.devnull),  # noqa: SIM115
}
"""Values that would arrive as another type: cloudpickle sends a memoryview as bytes, a file as a StringIO."""


@pytest.mark.parametrize("case", CHANGED)
def test_a_result_that_would_come_back_as_another_type_fails_alone(case: str) -> None:
    make = CHANGED[case]
    output, errors = messages(lambda x: make() if x == 2 else x, [1, 2, 3])
    assert output == [1, 3]
    assert [code for code, _ in errors] == ["step.unsent-result"]


@pytest.mark.parametrize("case", CHANGED)
def test_an_argument_that_would_arrive_as_another_type_is_refused(case: str) -> None:
    _, errors = messages(lambda x: type(x).__name__, [CHANGED[case]()])
    ((code, message),) = errors
    assert code == "step.unsendable"
    assert "the argument 'x' of" in message


def test_an_exception_that_cannot_be_sent_keeps_its_name_and_text() -> None:
    class Locked(Exception):
        def __init__(self, text: str) -> None:
            super().__init__(text)
            self.lock = threading.Lock()

    def fails(x: int) -> int:
        raise Locked("no key")

    _, errors = messages(fails, [1])
    assert errors == [("step.tool-failed", "tool 'work' failed: Locked: no key")]


# --- things of the notebook ---

Own = type("Own", (), {"__module__": "__main__"})
T = TypeVar("T")
T.__module__ = "__main__"


@pytest.mark.parametrize("value", [Own, Own(), [{"a": (Own(),)}], T], ids=["class", "object", "part", "variable"])
def test_things_of_the_notebook_are_not_pickled_by_name(value: Any) -> None:
    with pytest.raises(pickle.PicklingError):
        ByName(io.BytesIO()).dump(value)


def test_things_of_own_modules_are_not_pickled_by_name() -> None:
    pickler = ByName(io.BytesIO())
    pickler.own = {__name__}
    with pytest.raises(pickle.PicklingError):
        pickler.dump([test_things_of_own_modules_are_not_pickled_by_name])


def test_a_text_that_names_the_notebook_is_a_text() -> None:
    file, text = io.BytesIO(), "if __name__ == '__main__': ..."
    pickler = ByName(file)
    pickler.own = {"tests"}
    pickler.dump([text, "tests"])
    assert pickle.loads(file.getvalue()) == [text, "tests"]
    assert pickle.loads(chunk._in_memory(text)) == text
