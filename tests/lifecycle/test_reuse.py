"""``reuse``: results of identical calls are taken from earlier runs, and no other results."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy
import pandas
import polars
import pyarrow  # type: ignore[import-untyped]
import pytest

import agf_magics as agf
from agf_magics.journal.calls.reuse import EarlierRun, Reuse
from agf_magics.journal.database.store import ROOM, Store
from agf_magics.journal.deletion import forget
from agf_magics.journal.runs import list_runs, missing_results, reading_texts, records
from agf_magics.lifecycle.past.past_runs import delete
from agf_magics.lifecycle.storage.stored_results import unpickle
from agf_magics.settings.settings import Settings, current
from tests.engine import kept
from tests.fans import fan_out


class Calls:
    """The calls in a file, because a tool with changing fields is never the same tool again."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "calls.txt"
        self.clear()

    def append(self, name: str) -> None:
        with self.path.open("a") as file:
            file.write(f"{name}\n")

    def clear(self) -> None:
        self.path.write_text("")

    @property
    def made(self) -> list[str]:
        return self.path.read_text().split()


@pytest.fixture
def calls(tmp_path: Path) -> Calls:
    return Calls(tmp_path)


BOTH = """\
pipeline: main
steps:
- tool: {name: load, args: {path: !expr ctx.path}, output: rows}
- agent: {prompt: "say {rows}", output: said}
- tool: {name: shout, args: {text: !expr said}, output: loud}
"""


@pytest.fixture(autouse=True)
def _journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    before, current.settings = current.settings, Settings(journal=str(tmp_path / ".agf" / "runs.sqlite"))
    yield
    current.settings = before


def world(calls: Calls, *, louder: str = "!", reuse: bool = True, reads: Callable[[], Any] = lambda: [1, 2]) -> Any:
    registry = agf.Registry()

    @agf.tool(registry=registry, reuse=reuse)
    def load(path: str) -> Any:
        calls.append("load")
        return reads()

    @agf.agent(registry=registry)
    def carol(prompt: str) -> str:
        calls.append("carol")
        return prompt.upper()

    @agf.tool(registry=registry)
    def shout(text: str) -> str:
        calls.append("shout")
        return text + louder

    return registry


def run(text: str, calls: Calls, *, reuse: bool | str = False, path: str = "a.csv", **made_calls: Any) -> agf.Run:
    return agf.run(text, {"path": path}, registry=world(calls, **made_calls), reuse=reuse)


def test_an_equal_run_calls_nothing_and_has_the_same_end(calls: Calls) -> None:
    first = run(BOTH, calls)
    again = run(BOTH, calls, reuse=True)
    assert (again.output, again.stores) == (first.output, first.stores)
    assert len(calls.made) == 3
    assert [row.earlier for row in again.steps.values()] == [1, 1, 1]


@pytest.mark.parametrize(
    ("edit", "n", "why"),
    [
        ("", 1, "1 call reused from {}"),
        ("", 2, "0 calls reused from {} (no edit of a tool was found: its calls have other values)"),
        ("factor = 3", 1, "0 calls reused from {} (measure reads factor, which changed)"),
        (
            "def measure(n: int) -> int:\n    return n - factor",
            1,
            "0 calls reused from {} (the code of measure was edited)",
        ),
    ],
)
def test_a_run_that_reused_nothing_says_why(edit: str, n: int, why: str) -> None:
    registry, names = agf.Registry(), dict[str, Any](__name__="__main__")
    exec("factor = 2\ndef measure(n: int) -> int:\n    return n * factor", names)
    agf.tool(names["measure"], registry=registry)
    text = "pipeline: reason\nsteps:\n- tool: {name: measure, args: {n: !expr ctx.n}}"
    first = agf.run(text, {"n": 1}, registry=registry, reuse=True)
    assert first.note == "nothing is reused: this is the first run of reason"
    exec(edit, names)
    agf.tool(names["measure"], registry=registry)
    assert agf.run(text, {"n": n}, registry=registry, reuse=True).note == why.format(first.run_id)


def test_the_reason_is_not_known_if_the_earlier_run_is_deleted_meanwhile() -> None:
    registry = agf.Registry()
    agf.tool(lambda n: n, name="measure", registry=registry)
    text = "pipeline: reason\nsteps:\n- tool: {name: measure, args: {n: !expr ctx.n}}"
    first, other = (agf.run(text, {"n": n}, registry=registry, reuse=True) for n in (1, 2))
    delete([first.run_id])
    assert other.note == f"0 calls reused from {first.run_id}"


def test_an_identical_call_after_an_edited_step_is_reused_too(calls: Calls) -> None:
    run(BOTH, calls)
    edited = BOTH.replace("steps:\n", 'steps:\n- transform: {value: "1", output: one}\n').replace("shout", "shout")
    calls.clear()
    assert run(edited, calls, reuse=True).status == "ok"
    assert calls.made == []


@pytest.mark.parametrize(
    ("text", "how", "called"),
    [
        (BOTH.replace("say {rows}", "sing {rows}"), {}, ["carol", "shout"]),
        (BOTH, {"path": "b.csv"}, ["load"]),
        (BOTH, {"louder": "!!"}, ["shout"]),
        (BOTH, {"reuse_of_load": False}, ["load"]),
    ],
)
def test_only_changed_steps_and_those_that_depend_on_them_are_called(
    calls: Calls, text: str, how: dict[str, Any], called: list[str]
) -> None:
    run(BOTH, calls)
    calls.clear()
    registry = world(calls, louder=how.get("louder", "!"), reuse=how.get("reuse_of_load", True))
    agf.run(text, {"path": how.get("path", "a.csv")}, registry=registry, reuse=True)
    assert calls.made == called


def test_results_of_a_failed_run_are_reused_and_its_failed_call_is_repeated(calls: Calls) -> None:
    broken = BOTH.replace("{text: !expr said}", '{text: !expr "said - 1"}')
    with pytest.raises(agf.StepError):
        run(broken, calls)
    assert run(BOTH, calls, reuse=True).status == "ok"
    assert calls.made == ["load", "carol", "shout"]


def test_results_come_from_the_named_run(calls: Calls) -> None:
    first = run(BOTH, calls)
    run(BOTH, calls, path="b.csv")
    calls.clear()
    assert run(BOTH, calls, reuse=first.run_id).status == "ok"
    assert calls.made == []


def test_equal_calls_take_equal_outcomes_one_each(calls: Calls) -> None:
    text = "pipeline: two\nsteps:\n" + "".join(
        f"- tool: {{name: load, args: {{path: same}}, output: {name}}}\n" for name in "ab"
    )
    registry = world(calls, reads=lambda: len(calls.made))
    agf.run(text, registry=registry)
    again = agf.run(text, registry=registry, reuse=True)
    assert (again.stores, len(calls.made)) == ({"a": 1, "b": 2}, 2)


def test_equal_results_of_one_character_are_taken_one_each(calls: Calls) -> None:
    text = "pipeline: two\nsteps:\n" + "".join(
        f"- tool: {{name: load, args: {{path: same}}, output: {name}}}\n" for name in "ab"
    )
    registry = world(calls, reads=lambda: 1)
    agf.run(text, registry=registry)
    agf.run(text, registry=registry, reuse=True)
    assert len(calls.made) == 2


def test_a_table_is_taken_over_and_is_an_equal_argument_by_what_it_holds(calls: Calls) -> None:
    text = BOTH.replace('"say {rows}"', '"say {n}"').replace(
        "- agent", "- tool: {name: count_rows, args: {table: !expr rows}, output: n}\n- agent"
    )

    def again(value: int, reuse: bool) -> agf.Run:
        registry = world(calls, reads=lambda: pandas.DataFrame({"a": [1, value]}), reuse=value == 2)

        @agf.tool(registry=registry)
        def count_rows(table: pandas.DataFrame) -> int:
            calls.append("count_rows")
            return len(table)

        return agf.run(text, {"path": "a"}, registry=registry, reuse=reuse)

    assert again(2, False).status == again(2, True).status == "ok"
    assert calls.made == ["load", "count_rows", "carol", "shout"]
    calls.clear()
    assert again(3, True).status == "ok"
    assert calls.made == ["load", "count_rows"]


def test_the_first_run_of_a_flow_reuses_nothing(calls: Calls) -> None:
    assert run(BOTH, calls, reuse=True).status == "ok"
    assert len(calls.made) == 3


def test_a_run_that_is_named_must_exist_and_a_journal_too(calls: Calls) -> None:
    with pytest.raises(agf.DefinitionError) as raised:
        run(BOTH, calls, reuse="nobody")
    assert raised.value.code == "journal.unknown-run"
    current.settings = Settings(journal="")
    with pytest.raises(agf.DefinitionError) as raised:
        run(BOTH, calls, reuse=True)
    assert raised.value.code == "journal.off"


EVERY = {
    "pipeline": "pipeline: main\nsteps:\n- tool: {name: load, args: {path: a}, output: one}\n",
    "policy": "id: agf.sequential\nconfig:\n  steps:\n  - {agent: carol, input_mapping: {prompt: parent.input.path}}\n",
    "plan": "name: main\ncalls:\n- {_tool: load, path: a, _outputPath: †state.one}\n"
    "- {_tool: shout, text: b, _outputPath: †state.two}\noutput: †state\n",
    "graph": "name: main\nstate: {n: any, path: any}\nnodes:\n"
    "  a: {type: tool, tool: load, variables: {path: '{state.path}'},"
    " state_key: n}\nedges:\n- {from: START, to: a}\n- {from: a, to: END}\n",
}


@pytest.mark.parametrize("language", EVERY)
def test_every_language_reuses_in_the_same_way(calls: Calls, language: str) -> None:
    registry = world(calls)
    agf.define(EVERY[language], language, name="main", registry=registry)
    first = agf.run("main", {"path": "x"}, registry=registry)
    assert calls.made
    calls.clear()
    again = agf.run("main", {"path": "x"}, registry=registry, reuse=True)
    assert (again.output, calls.made) == (first.output, [])


def test_for_each_call_the_newest_result_of_all_runs_of_the_flow_is_reused(calls: Calls) -> None:
    complete = run(BOTH, calls)
    with pytest.raises(agf.StepError):
        run(BOTH.replace("say {rows}", "{rows[0]}"), calls, path="b.csv", reads=lambda: 1 / 0)  # this run has no result
    calls.clear()
    again = run(BOTH, calls, reuse=True)
    assert calls.made == []
    assert again.output == complete.output
    assert again.note == "3 calls reused from the last 2 runs"
    assert run(BOTH, calls, reuse=again.run_id).note == f"3 calls reused from {again.run_id}"


def test_of_equal_calls_the_newest_run_that_has_so_many_counts(calls: Calls) -> None:
    def steps(count: int) -> str:
        load = "- tool: {name: load, args: {path: same}, output: x%d}\n"
        return "pipeline: some\nsteps:\n" + "".join(load % number for number in range(count))

    registry = world(calls, reads=lambda: len(calls.made))
    agf.run(steps(3), registry=registry)
    agf.run(steps(1), registry=registry)
    run = agf.run(steps(4), registry=registry, reuse=True)
    assert list(run.stores.values()) == [4, 2, 3, 5]


WIDE = """\
pipeline: wide
steps:
- for_each:
    over: ctx.xs
    max_parallel: 4
    on_error: abort
    do: {tool: {name: square, args: {x: !expr item}}}
    collect: {transform: {value: pipe}}
"""


def test_a_run_that_reused_has_rows_of_its_own(tmp_path: Path) -> None:
    registry, called = agf.Registry(), tmp_path / "calls.txt"

    @agf.tool(registry=registry, where="loop")
    def square(x: int) -> dict[str, int]:
        with called.open("a") as file:
            file.write("x")
        return {"square": x * x}

    fields = {"xs": list(range(300))}
    runs = [agf.run(WIDE, fields, registry=registry)]
    for _ in range(2):  # the second run finds only the first run, which reused itself
        runs.append(agf.run(WIDE, fields, registry=registry, reuse=True))
        store = Store.at(Path(str(current.settings.journal)))
        forget(store, [head for head in list_runs(store) if head.run_id != runs[-1].run_id])
    assert [run.output for run in runs] == [runs[0].output] * 3
    assert len(called.read_text()) == 300
    assert [list(run.steps.values())[1].earlier for run in runs] == [0, 300, 300]


MANY = fan_out(on_error="continue", name="many")


def counting(calls: Calls) -> agf.Registry:
    """A registry with a tool whose results differ at each call."""
    registry = agf.Registry()

    @agf.tool(registry=registry)
    async def work(x: int) -> Any:
        calls.append(str(x))
        if x == 3:
            raise ValueError(x)
        return (x, len(calls.made)) if x == 2 else [x, len(calls.made)]

    agf.define(MANY, registry=registry)
    return registry


@pytest.mark.parametrize(
    "runs",
    [
        [[1, 1, 1], [1], [1, 1]],
        [[0, 1, 2, 2], [2, 1, 0], [4]],
        [[3, 1], [1, 3, 1, 1], [3]],
        [[0] * 5, [1] * 5, [0, 1] * 4],
        [[2] * 4, [2], [2, 2]],
    ],
)
def test_results_that_a_newer_run_has_need_not_be_read(calls: Calls, runs: list[list[int]]) -> None:
    registry = counting(calls)
    ids = [agf.run("many", {"xs": xs}, registry=registry).run_id for xs in runs]
    store = Store.at(Path(current.settings.journal or ""))
    nums = {head.run_id: head.num for head in list_runs(store)}
    read = partial(unpickle, trust=False)
    of_all = Reuse("all", [(EarlierRun(run_id), list(records(store, nums[run_id]))) for run_id in reversed(ids)], read)
    without_runs = Reuse("missing", (), read)
    with reading_texts(store) as connection:
        for run_id in reversed(ids):
            without_runs.add(EarlierRun(run_id), missing_results(connection, nums[run_id], without_runs.count))
    digests = {record.digest for run_id in ids for record in records(store, nums[run_id]) if record.what == "finished"}
    assert digests
    for digest in digests:
        assert digest is not None
        assert without_runs.count(digest) == of_all.count(digest) > 0
        taken = [of_all.take(digest) for _ in range(of_all.count(digest) + 1)]
        assert [without_runs.take(digest) for _ in taken] == taken
        assert taken[-1] is None


def change(run_id: str) -> None:
    """Change the values of a run, but not their checksums."""
    num = {head.run_id: head.num for head in list_runs(Store.at(Path(current.settings.journal or "")))}[run_id]
    Store.close_all()
    with closing(sqlite3.connect(current.settings.journal or "")) as connection:
        changed = connection.execute(
            "UPDATE records SET value='[1,99]' WHERE what='finished' AND line>? AND line<?", (num, num + ROOM)
        )
        assert changed.rowcount == 1
        connection.commit()


def test_a_result_that_was_changed_is_never_reused(calls: Calls) -> None:
    registry = counting(calls)
    older, newer = (agf.run("many", {"xs": [1]}, registry=registry) for _ in range(2))
    change(older.run_id)
    calls.clear()
    assert agf.run("many", {"xs": [1]}, registry=registry, reuse=True).output == newer.output == [[1, 2]]
    with pytest.raises(agf.DefinitionError, match="has changed since it was written"):
        agf.run("many", {"xs": [1]}, registry=registry, reuse=older.run_id)
    change(newer.run_id)
    with pytest.raises(agf.DefinitionError, match="has changed since it was written"):
        agf.run("many", {"xs": [1]}, registry=registry, reuse=newer.run_id)
    assert calls.made == []


CHANGED = """\
pipeline: changed
steps:
- tool: {name: table, output: frame}
- tool: {name: widen, args: {frame: !expr ctx.frame, names: [b]}, output: wide}
- for_each:
    over: "[1]"
    on_error: abort
    do: {tool: {name: widen, args: {frame: !expr ctx.frame, names: [c]}}}
    collect: {transform: {value: pipe}}
- tool: {name: width, args: {frame: !expr ctx.frame, names: [x]}}
"""


@pytest.mark.parametrize("where", ["loop", "kernel", "thread", "async"])
def test_a_call_that_changed_a_table_is_made_again(calls: Calls, tmp_path: Path, where: str) -> None:
    """All steps share the table. Without the call, later steps would get the table unchanged."""
    registry = agf.Registry()

    def widen(frame: Any, names: list[str]) -> int:
        calls.append("widen")
        for name in names:
            frame[name] = 1
        return len(names)

    async def widen_later(frame: Any, names: list[str]) -> int:
        return widen(frame, names)

    def width(frame: Any, names: list[str]) -> int:
        calls.append("width")
        names.append("y")  # changes only its own copy
        return int(frame.shape[1])

    place: dict[str, Any] = {} if where == "async" else {"where": where}
    agf.tool(lambda: pandas.DataFrame({"a": [1, 2]}), name="table", registry=registry)
    agf.tool(widen_later if where == "async" else widen, name="widen", registry=registry, **place)
    agf.tool(width, registry=registry, **place)
    flow = agf.define(CHANGED, registry=registry)
    assert flow is not None
    first = agf.run(flow, registry=registry)
    assert first.output == 3
    assert [warning.message for warning in first.warnings] == [
        f"the result of 'widen' in {place} is not stored: the call changed its arguments, which later steps share"
        for place in ("steps[1]", "steps[2].do")
    ]
    cut = kept.cut(tmp_path / ".agf" / "runs.sqlite", 3, tmp_path / "cut")
    calls.clear()
    again = agf.run(flow, registry=registry, reuse=True)
    assert (again.output, calls.made) == (3, ["widen", "widen"])
    calls.clear()
    with kept.journal_in(cut.parent):
        resumed = agf.resume(first.run_id, registry=registry)
    assert (resumed.output, calls.made) == (3, ["widen", "widen", "width"])


DAYS = pandas.date_range("2020-01-01", periods=3)
READ: dict[str, Callable[[], Any]] = {
    "whole numbers": lambda: pandas.Series([1, None, 3], dtype="Int64"),
    "numbers": lambda: pandas.Series([1.5, None, 3], dtype="Float64"),
    "truths": lambda: pandas.Series([True, None, False], dtype="boolean"),
    "texts": lambda: pandas.Series(["a", None], dtype="string"),
    "objects": lambda: pandas.Series([1, pandas.NA, float("nan"), None, pandas.NaT], dtype=object),
    "lists": lambda: pandas.Series([[pandas.NA, float("nan")], [None]], dtype=object),
    "dates": lambda: pandas.Series([DAYS[0], pandas.NaT]),
    "dates of a zone": lambda: pandas.Series([DAYS.tz_localize("UTC")[0], pandas.NaT]),
    "durations": lambda: pandas.Series([pandas.Timedelta(1), pandas.NaT]),
    "periods": lambda: pandas.Series(pandas.PeriodIndex(["2020", None], freq="M")),
    "categories": lambda: pandas.Series(pandas.Categorical(["b", None, "a"])),
    "intervals": lambda: pandas.Series(pandas.arrays.IntervalArray.from_tuples([(0, 1), None])),
    "rare numbers": lambda: pandas.Series(pandas.arrays.SparseArray([0.0, float("nan")])),
    "Arrow": lambda: pandas.Series([1, None], dtype="int64[pyarrow]"),
    "lists of Arrow": lambda: pandas.Series(
        [[1.0, None], [float("nan")]], dtype=pandas.ArrowDtype(pyarrow.list_(pyarrow.float64()))
    ),
    "a table": lambda: pandas.DataFrame({"n": pandas.array([1, None], "Int64"), "o": ["x", pandas.NA]}),
    "a table of days": lambda: pandas.DataFrame({"n": [1, 2, 3]}, index=DAYS),
    "two indexes": lambda: pandas.DataFrame({"n": [1, 2]}, index=pandas.MultiIndex.from_tuples([(1, "a"), (2, "b")])),
    "an index": lambda: pandas.Index([1, None], dtype="Int64"),
    "polars": lambda: polars.DataFrame({"n": [1.0, float("nan"), None], "l": [[None, 1], None, []]}),
    "a table of Arrow": lambda: pyarrow.table({"n": [1.0, float("nan"), None]}),
    "an array": lambda: numpy.array([pandas.NA, None, float("nan")], dtype=object),
    "a large table": lambda: pandas.DataFrame({"n": pandas.array([1, None] * 40_000, "Int64")}),
}


NOT_COMPARED = frozenset({"rare numbers", "Arrow", "lists of Arrow", "an array"})
"""Calls with these arguments have no digest, and are always made."""


def read_all(table: Any) -> None:
    """What a person looks at: it fills the caches of pandas."""
    str(table)
    if isinstance(table, pandas.DataFrame | pandas.Series):
        len(table.loc[table.index[:1]])
        table.index.is_unique, table.dtypes, table.isna().sum()
        array = table.array if isinstance(table, pandas.Series) else table.iloc[:, 0].array
        array.dtype.kind, getattr(array.dtype, "itemsize", 0), array.isna()


@pytest.mark.parametrize("values", READ)
def test_a_table_with_missing_values_that_a_call_reads_and_returns_is_stored(calls: Calls, values: str) -> None:
    registry = agf.Registry()
    returns = READ[values]

    @agf.tool(registry=registry)
    def make() -> Any:
        calls.append("make")
        return returns()

    @agf.tool(registry=registry)
    def check(table: Any) -> Any:
        calls.append("check")
        read_all(table)
        return table

    text = "pipeline: p\nsteps:\n- tool: {name: make, output: t}\n" + 3 * (
        "- tool: {name: check, args: {table: !expr ctx.t}, output: t}\n"
    )
    first = agf.run(text, registry=registry)
    assert first.warnings == ()
    again = agf.run(text, registry=registry, reuse=True)
    assert calls.made == ["make", *3 * ["check"], *(3 * ["check"] if values in NOT_COMPARED else [])]
    assert type(again.output) is type(first.output)
    assert str(again.output) == str(first.output)
    read_all(again.output)
