"""The code that runs on a worker, in a bare interpreter with only cloudpickle and without this package."""

from __future__ import annotations

import dataclasses
import enum
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest

from agf_magics.workers import chunk
from agf_magics.workers.sending.functions import Apart, Program, applied, applied_apart

BARE = """
import sys
sys.path.append(sys.argv[1])
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "agf_magics":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Blocked())
import pickle
frame = sys.stdin.buffer.read()
outcome = pickle.loads(frame)
assert "agf_magics" not in sys.modules
sys.__stdout__.buffer.write(pickle.dumps(outcome))
"""


def run_bare(function: Any, arguments: list[dict[str, Any]], **options: Any) -> tuple[str, list[Any], list[Any], str]:
    """Run a chunk. Returns the marks, the outcomes, the prints and the name of the worker."""
    program = Program(function)
    frame = applied(chunk.run, (program.pickled, program.digest, *program.dump_each(arguments), options))
    packages = str(Path(cloudpickle.__file__).parents[1])
    completed = subprocess.run([sys.executable, "-I", "-c", BARE, packages], input=frame, capture_output=True)
    assert completed.returncode == 0, completed.stderr.decode()
    marks, data, seconds, prints, worker = pickle.loads(completed.stdout)
    assert seconds >= 0
    return marks, [pickle.loads(pickled) for pickled in data], prints, worker


class Odd(Exception):
    """An exception of a module that the worker does not have."""


class Point:
    def __init__(self, x: int) -> None:
        self.x = x


def work(x: Any) -> Any:
    import asyncio
    import sys
    import time

    if x == "odd":
        raise Odd("seven")
    if x == "exit":
        sys.exit(3)
    if x == "slow":
        time.sleep(60)
    if x == "open":
        return open(__import__("os").devnull, "w")
    if x == "point":
        return Point(7)
    if x == "async":
        return asyncio.sleep(0, "awaited")
    print("here is", x)
    print("error", x, file=sys.stderr)
    return x


def test_a_chunk_needs_only_python_and_cloudpickle() -> None:
    arguments = [{"x": x} for x in (1, "odd", "point", "async", "exit", 2)]
    marks, values, prints, worker = run_bare(work, arguments)
    assert marks == "vevvev"
    assert (values[0], values[3], values[5]) == (1, "awaited", 2)
    assert isinstance(values[2], Point), "the class of this process"
    data, trace = values[1]
    assert isinstance(pickle.loads(data), Odd)
    assert trace.endswith("Odd: seven\n")
    assert trace.count("File ") == 1, "the frame of the function alone"
    assert isinstance(pickle.loads(values[4][0]), SystemExit)
    texts = ["".join(text for i, stream, text in prints if stream == name) for name in ("stdout", "stderr")]
    assert texts == ["here is 1\nhere is 2\n", "error 1\nerror 2\n"]
    assert {i for i, _, _ in prints} == {0, 5}
    assert worker.startswith("process ")


def test_a_failure_ends_a_chunk_that_stops() -> None:
    marks, values, *_ = run_bare(work, [{"x": 1}, {"x": "odd"}, {"x": 2}], stops=True)
    assert (marks, len(values)) == ("ven", 2)


def test_a_result_that_cannot_be_sent_is_marked_alone() -> None:
    marks, values, *_ = run_bare(work, [{"x": 1}, {"x": "open"}, {"x": 2}])
    assert marks == "vuv"
    assert (values[0], values[2]) == (1, 2)
    assert "pickle" in values[1]


def test_a_result_that_is_too_large_is_marked_alone() -> None:
    marks, values, *_ = run_bare(lambda x: "y" * x, [{"x": 10}, {"x": 2000}, {"x": 20}], most=1000)
    assert marks == "vuv"
    assert values[1].endswith("bytes, and at most 1,000 are sent")


def test_a_call_that_takes_too_long_is_left_and_the_chunk_continues() -> None:
    marks, values, *_ = run_bare(work, [{"x": "slow"}, {"x": 2}], timeout=0.2)
    assert (marks, values) == ("tv", [0.2, 2])


def test_prints_are_limited() -> None:
    def loud(x: int) -> None:
        print("z" * 100_000)

    _, _, prints, _ = run_bare(loud, [{"x": 1}, {"x": 2}])
    text = "".join(text for _, _, text in prints)
    assert text.count("z") == chunk.PRINTS
    assert text.endswith("… (a chunk returns 65,536 characters of prints)\n")


def test_a_chunk_that_cannot_be_read_says_why() -> None:
    class Scales:
        def __reduce__(self) -> Any:
            return __import__, ("scales",)

    marks, values, *_ = run_bare(lambda x: 1, [{"x": 0}, {"x": Scales()}, {"x": 2}])
    assert (marks, values[0], values[2]) == ("vxv", 1, 1), "the other calls are made"
    data, _ = values[1]
    assert isinstance(pickle.loads(data), ModuleNotFoundError)
    marks, values, *_ = run_bare(lambda x: 1, [{"x": 0}, {"x": Scales()}, {"x": 2}], stops=True)
    assert (marks, len(values)) == ("vxn", 2)


def test_a_function_that_cannot_be_read_fails_every_call() -> None:
    program = Program(work)
    marks, data, seconds, *_ = chunk.run(b"not a pickle", "unknown", *program.dump_each([{"x": 1}, {"x": 2}]), {})
    assert (marks, len(data), seconds) == ("xx", 2, 0.0)
    assert isinstance(pickle.loads(pickle.loads(data[1])[0]), pickle.UnpicklingError)


class Shared:
    """Arguments and results that calls change."""

    def __init__(self) -> None:
        self.items: list[Any] = []


CHANGES: dict[str, Any] = {
    "a list": [],
    "a list in a list": [[]],
    "a dict": {},
    "a set": set(),
    "bytes": bytearray(),
    "an object": Shared(),
    "an object in a dict": {"a": Shared()},
    "an array": np.zeros(1),
}


def change(x: Any) -> Any:
    """Change an argument, and return how large it is then."""
    held = x
    while isinstance(held, list | dict) and held:
        held = held[0] if isinstance(held, list) else held["a"]
    if hasattr(held, "items") and isinstance(held.items, list):
        held = held.items
    if hasattr(held, "fill"):
        held += 1
        return int(held[0])
    getattr(held, "append", getattr(held, "add", None) or (lambda key: held.update({"k": key})))(7)
    return len(held)


@pytest.mark.parametrize("value", CHANGES.values(), ids=CHANGES.keys())
def test_calls_of_a_chunk_share_no_argument(value: Any) -> None:
    marks, values, *_ = run_bare(change, [{"x": value}] * 3)
    assert (marks, values) == ("vvv", [1, 1, 1])


def test_an_argument_that_a_call_gets_twice_is_one_object() -> None:
    both: list[int] = []
    marks, values, *_ = run_bare(lambda x, y: x is y, [{"x": both, "y": both}] * 2)
    assert (marks, values) == ("vv", [True, True])


def test_a_result_is_what_it_was_when_its_call_ended() -> None:
    box, rows = Shared(), dict[str, Any]()

    def fill(x: Any) -> Any:
        box.items.append(x)
        rows["last"] = x
        return [box, rows][x % 2]

    marks, values, *_ = run_bare(fill, [{"x": x} for x in range(4)])
    assert marks == "vvvv"
    assert [values[0].items, values[2].items] == [[0], [0, 1, 2]]
    assert [values[1], values[3]] == [{"last": 1}, {"last": 3}]


def test_a_pickle_that_fails_leaves_no_trace_in_those_after_it() -> None:
    part = [Point(1), "text" * 100]
    arguments: list[dict[str, Any]] = [{"x": part}, {"x": [lambda: 5, part]}, {"x": "text" * 100}, {"x": part}]
    marks, values, *_ = run_bare(lambda x: [type(x).__name__, x], arguments)
    assert marks == "vvvv"
    assert values[2] == ["str", "text" * 100]
    assert values[3][1][0].x == 1


SMALL_MEMORY = """
import pickle, sys
frames = pickle.load(sys.stdin.buffer)
outcomes = [pickle.loads(frame) for frame in frames]
held = sys.modules["_agf_chunk"]
sys.__stdout__.buffer.write(pickle.dumps([len(held.functions), len(held.weights), [one[0] for one in outcomes]]))
"""


@pytest.mark.slow
def test_a_worker_drops_large_functions_that_it_has_not_used_last() -> None:
    def reads(table: bytes) -> Any:
        return lambda x: len(table)

    frames = []
    for number in (1, 2, 3, 1):
        program = Program(reads(bytes([number]) * 100_000_000))
        frames.append(applied(chunk.run, (program.pickled, program.digest, *program.dump_each([{"x": 1}]), {})))
    completed = subprocess.run([sys.executable, "-c", SMALL_MEMORY], input=pickle.dumps(frames), capture_output=True)
    assert completed.returncode == 0, completed.stderr.decode()
    assert pickle.loads(completed.stdout) == [2, 2, ["v"] * 4]


def test_parts_of_an_order_travel_next_to_the_head_and_are_not_copied() -> None:
    program, arguments = Program(lambda x: len(x)), pickle.dumps({"x": "long" * 100_000})
    order = (Apart(program.pickled), program.digest, Apart(arguments), [len(arguments)], {})  # type: ignore[var-annotated]
    head, buffers = applied_apart(chunk.run, order)
    assert [id(part) for part in buffers] == [id(program.pickled), id(arguments)]
    assert b"longlong" not in head
    marks, data, *_ = pickle.loads(head, buffers=buffers)
    assert (marks, pickle.loads(data[0])) == ("v", 400_000)


def test_a_part_may_become_bytes_on_the_worker() -> None:
    program, later = Program(lambda x: x), object()
    head, buffers = applied_apart(chunk.run, (Apart(later), program.digest, *program.dump_each([{"x": 1}]), {}))
    assert buffers == [later]
    marks, data, *_ = pickle.loads(head, buffers=[program.pickled])
    assert (marks, pickle.loads(data[0])) == ("v", 1)


# --- objects of the notebook's classes ---


class Corner(Point):
    pass


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass(frozen=True)
class Pair:
    first: Any
    second: Any


class Kind(type): ...


class Special(metaclass=Kind): ...


class Remade:
    def __reduce__(self) -> Any:
        return Remade, ()


OBJECTS: list[Any] = [
    Point(1),
    Corner(2),
    Colour.RED,
    Pair(Point(1), [Colour.RED]),
    Special(),
    Remade(),
    Odd("seven"),
    Point,
    Colour,
    Pair(1, Point(2)).__eq__,
    Pair(lambda: 5, Point(2)),
    [Point(1), {"a": Corner(2)}],
]


def test_objects_of_own_classes_arrive_as_they_are() -> None:
    arguments = [{"x": thing} for thing in OBJECTS for _ in range(2)]
    marks, values, *_ = run_bare(lambda x: (type(x).__name__, x), arguments)
    assert marks == "v" * len(arguments)
    assert [name for name, _ in values] == [type(arguments_of["x"]).__name__ for arguments_of in arguments]
    assert (values[0][1].x, values[2][1].x, values[4][1]) == (1, 2, Colour.RED)
    assert isinstance(values[6][1].first, Point)


def test_the_calls_of_a_chunk_have_one_class_for_their_objects() -> None:
    program = Program(lambda x: id(type(x)))
    data, sizes = program.dump_each([{"x": Corner(number)} for number in range(50)])
    marks, packed, *_ = chunk.run(program.pickled, program.digest, data, sizes, {})
    assert marks == "v" * 50
    assert len({pickle.loads(pickled) for pickled in packed}) == 1
    assert not sys.modules["_agf_chunk"].local.classes, "the classes are let go with the chunk"
