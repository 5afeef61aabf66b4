"""`over` accepts an opaque sequence and reads it one element at a time (decision D41)."""

from __future__ import annotations

import array
import asyncio
import collections
import threading
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyarrow import dataset

import agf_magics as agf
from agf_magics.engine.shapes.elements import MOST, READ_AHEAD
from agf_magics.flow.progress import events as ev
from agf_magics.values.sequences import is_sequence, why_no_sequence
from tests.engine import kept
from tests.engine.test_fan_out import ELEMENTS, NEVER_FAILING, TOOLS, by_place, numbered, observed, unjournaled
from tests.fans import fan_out
from tests.workers.in_process import InProcess

EACH = """
pipeline: main
steps:
- for_each:
    over: ctx.xs
    max_parallel: {limit}
    on_error: {on_error}
    do: {do}
    collect: {{transform: {{value: pipe}}}}
"""
SAME = "{transform: {value: item}}"
FOLD = "pipeline: main\nsteps:\n- fold: {over: ctx.xs, init: '0', do: {transform: {value: acc + item}}, output: sum}\n"
MAP = """
name: main
state: {xs: any}
nodes:
  each:
    type: map
    over: "{state.xs}"
    as: x
    node: {type: passthrough, output: {sum: "{state.x + 1}"}}
    collect: sums
    max_items: 1000000000
    %s
edges:
- {from: START, to: each}
- {from: each, to: END}
"""


class Rows:
    """A sequence of the user's that records which elements are read, and fails at chosen elements."""

    def __init__(self, items: Any, broken: Callable[[int], Any] | None = None) -> None:
        self.items, self.broken = list(items), broken
        self.read = list[int]()
        self.threads = set[str]()

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, number: int) -> Any:
        self.read.append(number)
        self.threads.add(threading.current_thread().name)
        if self.broken is not None:
            self.broken(number)
        return self.items[number]


def error_of(run: Any) -> agf.StepError:
    assert isinstance(run.error, agf.StepError)
    return run.error


def fan_out_text(do: str = SAME, on_error: str = "abort", limit: int = 8) -> str:
    return EACH.format(do=do, on_error=on_error, limit=limit)


def run_text(text: str, xs: Any, registry: agf.Registry | None = None, **options: Any) -> agf.Run:
    return agf.run(agf.load(text), {"xs": xs}, registry=registry or agf.Registry(), raises=False, **options)


def warnings(run: agf.Run) -> list[str]:
    return [warning.code for warning in run.progress.warnings]


# --- which values are sequences ---

SEQUENCES = {
    "range": range(3), "an array": np.arange(3), "rows of an array": np.eye(3), "array.array": array.array("i", [1]),
    "a deque": collections.deque([1]), "a class": Rows([1]), "an index": pd.Index([1]), "arrow": pa.array([1]),
    "a chunked array": pa.chunked_array([[1]]), "a tuple": (1, 2),
}  # fmt: skip
OTHERS = {
    "text": "abc", "bytes": b"abc", "a bytearray": bytearray(b"a"), "a view": memoryview(b"a"), "a dict": {"a": 1},
    "a set": {1}, "a generator": (x for x in [1]), "an iterator": iter([1]), "a map": map(str, [1]), "null": None,
    "a scalar": np.array(1), "a mapping": collections.ChainMap({0: 1}), "a frame": pd.DataFrame({"a": [1]}),
    "a series": pd.Series([1]), "an arrow table": pa.table({"a": [1]}), "a batch": pa.record_batch({"a": [1]}),
    "a class": Rows,
}  # fmt: skip


@pytest.mark.parametrize("name", SEQUENCES)
def test_these_values_are_sequences(name: str) -> None:
    assert is_sequence(SEQUENCES[name])


@pytest.mark.parametrize("name", OTHERS)
def test_these_values_are_not_sequences(name: str) -> None:
    assert not is_sequence(OTHERS[name])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a frame", "rows"),
        ("an arrow table", "rows"),
        ("a series", "keys or values"),
        ("a generator", "only once"),
        ("a set", "no numbers"),
    ],
)
def test_an_iterable_that_is_not_a_sequence_has_a_hint_what_to_write(name: str, words: str) -> None:
    run = run_text(fan_out_text(), OTHERS[name])
    assert (error_of(run).code, error_of(run).diagnostic.span.text) == ("step.not-a-list", "ctx.xs")  # type: ignore[union-attr]
    assert words in (error_of(run).diagnostic.hint or "") == why_no_sequence(OTHERS[name])


def test_user_code_is_not_called_to_recognise_a_sequence() -> None:
    class Proxy:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(name)

        def __len__(self) -> int:
            raise AssertionError("len")

    assert not is_sequence(Proxy())


# --- each language ---


@pytest.mark.parametrize(
    "xs",
    [range(1, 4), np.arange(1, 4), Rows([1, 2, 3]), Rows(np.arange(1, 4))],
    ids=["range", "array", "class", "class of an array"],
)
def test_every_shape_reads_a_sequence(xs: Any) -> None:
    assert run_text(fan_out_text(), xs).output == [1, 2, 3]
    assert run_text(FOLD, xs).output == 6
    run = run_text(MAP % "", xs)
    assert run.error is None
    assert [row["sum"] for row in run.output["sums"]] == [2, 3, 4]
    assert [row["_map_index"] for row in run.output["sums"]] == [0, 1, 2]


def test_the_journal_has_no_sequence_for_a_list(tmp_path: Path) -> None:
    for number, text in enumerate((fan_out_text(), FOLD, MAP % "")):
        with kept.journal_in(tmp_path / str(number)) as path:
            run_text(text, [1, 2, 3])
            assert "sequence" not in [kind for kind, _, _ in kept.lines(path)]
            run_text(text, range(1, 4))
            assert "sequence" in [kind for kind, _, _ in kept.lines(path)]


def test_a_policy_reads_the_elements_of_a_sequence() -> None:
    registry = agf.Registry()

    @agf.agent(registry=registry)
    def double(x: int) -> dict[str, int]:
        return {"y": 2 * x}

    text = '{"id": "agf.batch", "config": {"agent": "double", "input_mapping": {"x": "parent.input.rows.[].x"}}}'
    flow = agf.load(text, "policy", name="main", registry=registry)
    rows = Rows([{"x": 1}, {"x": 2}])
    run = agf.run(flow, {"rows": rows}, registry=registry)
    assert run.output == agf.run(flow, {"rows": rows.items}, registry=registry).output
    assert Counter(rows.read) == {0: 2, 1: 2}, "once for the check of all inputs, once for its call"


@settings(max_examples=8)
@given(
    st.lists(st.sampled_from(ELEMENTS), max_size=12),
    st.integers(1, 5),
    st.sampled_from(["continue", "abort", "retry(1)"]),
    TOOLS,
    st.booleans(),
    st.booleans(),
)
@example(["fail"] * 5, 3, "continue", "work", False, True)
@example(["ok", "once", "fail", "ok"], 1, "retry(1)", "work", False, False)
@example(["awaits", 7, "ok", "deep"], 4, "continue", "timed", False, True)
def test_a_sequence_gives_what_its_list_gives(
    xs: list[Any], limit: int, on_error: str, tool: str, reuse: bool, remote: bool
) -> None:
    """The events, records, calls, failures and results are the same, apart from the record of the sequence and, where
    secrets are masked, from what an event has in its place."""
    if on_error != "continue" and not NEVER_FAILING.issuperset(xs):
        limit = 1  # how far the other elements come before the failure depends on timing
    text = fan_out(tool, limit=limit, on_error=on_error)
    listed: list[Any] = numbered(xs)
    rows: Any = SlicedRows(listed)
    of_sequence, of_list = (observed(remote, text, elements, None, reuse) for elements in (rows, listed))
    rest = of_sequence._replace(records=[row for row in of_sequence.records if row[0] != "sequence"])
    assert len(of_sequence.records) - len(rest.records) == 1
    assert by_place(without_over(rest)) == by_place(without_over(of_list))
    of_sequence, of_list = (unjournaled(remote, text, elements) for elements in (rows, listed))
    assert by_place(of_sequence) == by_place(of_list)


def without_over(seen: Any) -> Any:
    """What was observed, without the values over which fan-outs run."""
    events = [event[:3] if event[0] == "FanOutStarted" else event for event in seen.events]
    return seen._replace(events=events)


class SlicedRows(Rows):
    """A sequence for `observed`, which first makes a run over every second element."""

    def __getitem__(self, number: int | slice) -> Any:
        return SlicedRows(self.items[number]) if isinstance(number, slice) else super().__getitem__(number)

    def __repr__(self) -> str:
        return repr(self.items)


# --- where and when elements are read ---


def test_an_element_is_read_once_and_not_all_of_them_at_the_start() -> None:
    registry, rows = agf.Registry(), Rows(range(1000))
    before = list[int]()

    @agf.tool(registry=registry)
    def work(x: int) -> int:
        before.append(len(rows.read))
        return x

    for limit in (1, 8):
        before.clear()
        rows.read.clear()
        text = fan_out_text("{tool: {name: work, args: {x: !expr item}}}", limit=limit)
        assert run_text(text, rows, registry).output == list(range(1000))
        assert rows.read == list(range(1000))
        assert before[0] <= READ_AHEAD + limit


def test_elements_are_read_on_the_waiting_thread_or_a_worker_thread_but_never_on_the_loop() -> None:
    rows = Rows(range(10))
    run_text(fan_out_text(), rows)
    assert rows.threads == {threading.current_thread().name}
    rows.threads.clear()
    asyncio.run(agf.arun(agf.load(fan_out_text()), {"xs": rows}))
    assert threading.current_thread().name not in rows.threads
    assert len(rows.threads) >= 1


class Block:
    """A large element that counts how many of its kind are alive."""

    alive: ClassVar = set[int]()
    most = 0

    def __init__(self, number: int) -> None:
        self.data = bytes(100_000)
        Block.alive.add(id(self))
        Block.most = max(Block.most, len(Block.alive))

    def __del__(self) -> None:
        Block.alive.discard(id(self))

    def __sizeof__(self) -> int:
        return 100_000


class Blocks:
    def __len__(self) -> int:
        return 1000

    def __getitem__(self, number: int) -> Block:
        return Block(number)


@pytest.mark.parametrize("journal", [False, True])
@pytest.mark.parametrize("do", ["{tool: {name: size, args: {x: !expr item}}}", "{transform: {value: '1'}}"])
def test_memory_does_not_grow_with_the_number_of_elements(do: str, journal: bool, tmp_path: Path) -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def size(x: Block) -> int:
        return 1

    Block.most = 0
    if journal:
        with kept.journal_in(tmp_path):
            assert run_text(fan_out_text(do), Blocks(), registry).output == [1] * 1000
    else:
        assert run_text(fan_out_text(do), Blocks(), registry).output == [1] * 1000
    assert Block.most <= 200, "those that are open, those that wait for a thread and those that were read ahead"
    assert not Block.alive


def test_a_range_of_ten_million_has_no_objects() -> None:
    text = (MAP % "on_overflow: truncate").replace("max_items: 1000000000", "max_items: 3")
    flow = agf.load(text)
    tracemalloc.start()
    run = agf.run(flow, {"xs": range(10_000_000)}, registry=agf.Registry())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [row["sum"] for row in run.output["sums"]] == [1, 2, 3]
    assert "drops 9999997" in next(warning.message for warning in run.progress.warnings)
    assert peak < 2_000_000, "a list of them takes 80 MB"


def test_a_numpy_element_is_a_number_and_a_row_is_an_array() -> None:
    assert all(type(number) is float for number in run_text(fan_out_text(), np.arange(2) / 2).output)
    rows = run_text(fan_out_text(), np.eye(2)).output
    assert [type(row) for row in rows] == [np.ndarray, np.ndarray]
    assert run_text(fan_out_text(), Rows([(1, 2)])).output == [[1, 2]]


def test_a_tool_can_return_the_sequence_and_its_annotation_serves_a_dry_run() -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def numbers() -> collections.abc.Sequence[int]:
        return range(4)

    text = fan_out_text().replace("steps:", "steps:\n- tool: {name: numbers, output: xs}").replace("ctx.xs", "xs")
    flow = agf.load(text, registry=registry)
    assert agf.run(flow, registry=registry).output == [0, 1, 2, 3]
    assert len(agf.run(flow, registry=registry, dry=True).output) == 1


def test_the_fragments_of_a_parquet_data_set_can_be_elements(tmp_path: Path) -> None:
    registry = agf.Registry()
    for month in range(3):
        folder = tmp_path / f"month={month}"
        folder.mkdir()
        pq.write_table(pa.table({"kg": range(10 * month + 10)}), folder / "part.parquet", row_group_size=10)
    data = dataset.dataset(tmp_path, format="parquet", partitioning="hive")

    @agf.tool(registry=registry)
    def count(part: dataset.Fragment) -> int:
        return int(part.to_table().num_rows)

    do = "{tool: {name: count, args: {part: !expr item}}}"
    assert run_text(fan_out_text(do), list(data.get_fragments()), registry).output == [10, 20, 30]
    groups = [group for part in data.get_fragments() for group in part.split_by_row_group()]
    assert run_text(fan_out_text(do), groups, registry).output == [10] * 6


# --- failures ---


def fails_at(*numbers: int) -> Callable[[int], Any]:
    def broken(number: int) -> None:
        if number in numbers:
            raise OSError(f"no row {number}")

    return broken


@pytest.mark.parametrize("do", [SAME, "{tool: {name: same, args: {x: !expr item}}}"])
@pytest.mark.parametrize("limit", [1, 3])
def test_an_element_that_cannot_be_read_fails_alone(do: str, limit: int) -> None:
    registry, events = agf.Registry(), list[ev.Event]()
    agf.tool(lambda x: x, name="same", registry=registry)
    rows = Rows(range(5), fails_at(2))
    run = run_text(fan_out_text(do, "continue", limit), rows, registry, on_event=events.append)
    assert run.output == [0, 1, 3, 4]
    (failure,) = run.progress.failures
    assert error_of(failure).diagnostic.message == "element 2 of the Rows cannot be read: OSError: no row 2"
    starts = Counter(event.at for event in events if isinstance(event, ev.StepStarted))
    assert starts == Counter(e.at for e in events if isinstance(e, (ev.StepFinished, ev.StepFailed)))

    run = run_text(fan_out_text(do, "abort", limit), rows, registry)
    assert (error_of(run).code, error_of(run).path) == ("step.unread-element", ("steps[0].do", 2))
    span = error_of(run).diagnostic.span
    assert span.text == "ctx.xs"
    assert isinstance(error_of(run).__cause__, OSError)


@pytest.mark.parametrize("on", [None, "workers"])
@pytest.mark.parametrize("limit", [1, 3])
@pytest.mark.parametrize(
    ("failing", "retries", "output"), [(1, 2, [0, 1, 2, 3]), (3, 2, [0, 1, 3]), (3, 3, [0, 1, 2, 3])]
)
def test_another_attempt_reads_an_element_again_that_could_not_be_read(
    failing: int, retries: int, output: list[int], limit: int, on: str | None
) -> None:
    registry = agf.Registry()
    agf.tool(lambda x: x, name="same", registry=registry)
    rows = Rows(range(4))
    rows.broken = lambda number: 1 / 0 if number == 2 and rows.read.count(2) <= failing else None
    do = "{tool: {name: same, args: {x: !expr item}}}"
    run = run_text(
        fan_out_text(do, f"'retry({retries}, then: continue)'", limit), rows, registry, on=on and InProcess()
    )
    assert (run.output, rows.read.count(2)) == (output, min(failing, retries) + 1)


def test_a_failure_of_a_fold_s_sequence_fails_the_fold() -> None:
    run = run_text(FOLD, Rows([1, 2], fails_at(1)))
    assert (error_of(run).code, run.status) == ("step.unread-element", "error")


def lies(length: Any) -> Any:
    def __len__(self: Any) -> Any:
        if isinstance(length, Exception):
            raise length
        return length

    return type("Lies", (), {"__len__": __len__, "__getitem__": lambda self, i: [0, 1][i]})()


@pytest.mark.parametrize(
    ("length", "message"),
    [
        (-1, "the length of the Lies cannot be read: ValueError: __len__() should return >= 0"),
        (1.5, "the length of the Lies cannot be read: TypeError: 'float' object cannot be interpreted as an integer"),
        (OSError("gone"), "the length of the Lies cannot be read: OSError: gone"),
        (
            10**30,
            "the length of the Lies cannot be read: OverflowError: it has more than 9,223,372,036,854,775,807 elements",
        ),
        (MOST + 1, "the Lies has 100,000,001 elements; a step can have at most 100,000,000"),
    ],
)
def test_a_wrong_length_fails_the_step(length: Any, message: str) -> None:
    run = run_text(fan_out_text(), lies(length))
    assert (error_of(run).code, error_of(run).diagnostic.message) == ("step.sequence-length", message)


@pytest.mark.parametrize("xs", [range(10**30), range(10**30, 0, -1)])
def test_a_range_that_is_too_long_says_how_long_it_is(xs: range) -> None:
    run = run_text(fan_out_text(), xs)
    assert f"{10**30:,} elements" in error_of(run).diagnostic.message


def test_a_sequence_that_is_shorter_than_its_length_names_the_first_missing_number() -> None:
    run = run_text(fan_out_text(limit=1), lies(5))
    assert error_of(run).diagnostic.message.startswith("element 2 of the Lies cannot be read: IndexError")
    assert error_of(run).diagnostic.hint == "a sequence of 5 elements needs each of the numbers 0 to 4"


def test_a_sequence_that_grows_meanwhile_is_used_as_it_was_and_the_run_warns() -> None:
    registry, rows = agf.Registry(), Rows([1, 2])

    @agf.tool(registry=registry)
    def grow(x: int) -> int:
        rows.items.append(x)
        return x

    run = run_text(fan_out_text("{tool: {name: grow, args: {x: !expr item}}}"), rows, registry)
    assert (run.output, warnings(run)) == ([1, 2], ["run.sequence-changed"])


def test_a_read_that_blocks_ends_with_its_time_and_the_run_goes_on() -> None:
    free = threading.Event()
    rows = Rows(range(3), lambda number: number != 1 or free.wait(60))
    run = run_text(fan_out_text(on_error="continue", limit=1), rows, limits=agf.Limits(step_timeout=0.05))
    free.set()
    assert run.output == [0, 2]
    (failure,) = run.progress.failures
    assert error_of(failure).code == "step.timeout"
    assert error_of(failure).diagnostic.message.startswith("element 1 of the Rows cannot be read: it ")


def test_a_secret_in_the_failure_of_a_read_is_masked() -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry, secret=("token",))
    def connect(token: str) -> Any:
        return Rows([1], lambda number: (_ for _ in ()).throw(OSError(f"bad {token}")))

    text = """
pipeline: main
steps:
- tool: {name: connect, args: {token: !expr ctx.token}, output: rows}
- for_each: {over: rows, on_error: abort, do: {transform: {value: item}}, collect: {transform: {value: pipe}}}
"""
    run = agf.run(agf.load(text, registry=registry), {"token": "s3cr3t-token"}, registry=registry, raises=False)
    assert error_of(run).code == "step.unread-element"
    assert "s3cr3t" not in str(run.error)
    assert "s3cr3t" not in repr(error_of(run).__cause__)


# --- resume and reuse ---


def resumed(xs: Any, then: Any, tmp_path: Path, after: int) -> tuple[agf.Run, list[int]]:
    """Cut a run over ``xs`` after so many rows of the journal, and resume it over ``then``. Returns the resumed run and
    its calls."""
    registry, calls = agf.Registry(), list[int]()
    sequences = [xs]

    @agf.tool(registry=registry, where="loop", reuse=True)
    def work(x: int) -> int:
        calls.append(x)
        return x

    @agf.tool(registry=registry, where="loop")
    def source() -> Any:
        return Opaque(sequences[0]) if isinstance(sequences[0], Rows) else sequences[0]

    text = fan_out_text("{tool: {name: work, args: {x: !expr item}}}", limit=2)
    text = text.replace("steps:", "steps:\n- tool: {name: source, output: xs}").replace("ctx.xs", "xs")
    agf.define(text, registry=registry)
    with kept.journal_in(tmp_path / "whole") as whole:
        agf.run("main", registry=registry)
        path = kept.cut(whole, after, tmp_path / "cut")
    calls.clear()
    sequences[0] = then
    with kept.journal_in(path.parent):
        return agf.resume("main", registry=registry, raises=False), calls


class Opaque(Rows):
    """A sequence that cannot be stored, so that a resumed run asks for it again."""

    def __init__(self, rows: Rows) -> None:
        super().__init__(rows.items)
        self.lock = threading.Lock()


@pytest.mark.parametrize("xs", [range(10), np.arange(10), Rows(range(10))], ids=["range", "array", "class"])
def test_a_resumed_run_reads_the_remaining_elements(xs: Any, tmp_path: Path) -> None:
    run, calls = resumed(xs, xs, tmp_path, after=6)
    assert run.output == list(range(10))
    assert len(calls) == 6, "the sequence and its source are two of the six rows"


@pytest.mark.parametrize(
    ("xs", "then", "message"),
    [
        (Rows(range(10)), Rows(range(9)), "got Opaque with 9 elements"),
        (Rows(range(10)), range(10), "got range with 10 elements"),
    ],
    ids=["another length", "another class"],
)
def test_a_resumed_run_refuses_another_sequence(xs: Any, then: Any, message: str, tmp_path: Path) -> None:
    run, calls = resumed(xs, then, tmp_path, after=6)
    assert (error_of(run).code, calls) == ("step.sequence-changed", [])
    assert (
        error_of(run).diagnostic.message == f"expected Opaque with 10 elements, as at the start of the run, {message}"
    )


def changed(array: Any) -> Any:
    array = array.copy()
    array[-1] += 1
    return array


@pytest.mark.parametrize(
    "xs", [range(10), np.arange(10), np.ones((10, 200_000))], ids=["range", "array", "large array"]
)
def test_a_resumed_run_refuses_other_elements(xs: Any, tmp_path: Path) -> None:
    """The lock cannot be stored, so the resumed run calls its tool again."""
    registry, calls, sequences = agf.Registry(), list[int](), [xs]

    @agf.tool(registry=registry)
    def source() -> Any:
        return {"xs": sequences[0], "lock": threading.Lock()}

    @agf.tool(registry=registry, where="loop")
    def work(x: Any) -> int:
        calls.append(1)
        return 1

    text = fan_out_text("{tool: {name: work, args: {x: !expr item}}}", limit=2)
    text = text.replace("steps:", "steps:\n- tool: {name: source, output: s}").replace("ctx.xs", "s.xs")
    agf.define(text, registry=registry)
    with kept.journal_in(tmp_path / "whole") as whole:
        agf.run("main", registry=registry)
        paths = [kept.cut(whole, 6, tmp_path / name) for name in ("same", "other")]
    calls.clear()
    with kept.journal_in(paths[0].parent):
        assert agf.resume("main", registry=registry).output == [1] * 10
    assert len(calls) == 6, "the other four are in the journal"
    sequences[0] = range(1, 11) if isinstance(xs, range) else changed(xs)
    with kept.journal_in(paths[1].parent):
        run = agf.resume("main", registry=registry, raises=False)
    assert (error_of(run).code, len(calls)) == ("step.sequence-changed", 6)
    assert error_of(run).diagnostic.message.endswith("have changed since the start of the run")


def same(x: int) -> int:
    return x


def test_reuse_takes_the_results_of_equal_elements(tmp_path: Path) -> None:
    registry = agf.Registry()
    agf.tool(same, registry=registry)
    flow = agf.define(fan_out_text("{tool: {name: same, args: {x: !expr item}}}"), registry=registry)
    assert flow is not None
    with kept.journal_in(tmp_path):
        for xs, reused in ((range(5), 0), (range(10), 5), (np.arange(12), 10), (Rows(range(12)), 12)):
            events = list[ev.Event]()
            run = agf.run(flow, {"xs": xs}, registry=registry, reuse=reused > 0, on_event=events.append)
            assert run.output == list(range(len(xs)))
            assert sum(isinstance(event, ev.StepReplayed) for event in events) == reused


def test_a_page_of_the_run_shows_the_sequence_without_reading_it() -> None:
    rows = Rows(range(3))
    run = run_text(fan_out_text(), rows)
    rows.read.clear()
    assert "Rows" in run._repr_mimebundle_()["text/html"]
    assert rows.read == []
