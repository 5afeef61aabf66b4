"""Large arguments in the journal: each part is stored once for a run, and a user sees the complete value."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.journal.calls.argument_pieces import LARGE
from agf_magics.journal.calls.call_rows import CallRows
from agf_magics.lifecycle.past import past_runs
from tests.engine import kept

ROWS = [{"id": n, "text": "x" * 60} for n in range(1_500)]

READERS = """
pipeline: readers
steps:
- tool: {name: load, output: rows}
- tool: {name: size, args: {rows: !expr rows, label: a}, output: a}
- tool: {name: size, args: {rows: !expr rows, label: b}, output: b}
- tool: {name: size, args: {rows: !expr rows, label: c}, output: c}
- tool: {name: last, args: {}}
"""

FAN = """
pipeline: fan
steps:
- tool: {name: load, output: rows}
- for_each:
    items: [a, b, c]
    on_error: abort
    do: {tool: {name: size, args: {rows: !expr rows, label: !expr item}}}
    collect: {transform: {value: pipe}}
    output: found
- tool: {name: last, args: {}}
"""

GRAPH = {
    "name": "steps",
    "state": {"n": "int", "rows": "list"},
    "nodes": {f"n{i}": {"type": "python", "tool": "bump"} for i in range(12)},
    "edges": [
        {"from": a, "to": b} for a, b in zip(["START", *(f"n{i}" for i in range(12))],
                                             [*(f"n{i}" for i in range(12)), "END"], strict=True)
    ],
}  # fmt: skip


def registry_of(calls: list[str], fails: bool = False, rows: Callable[[], Any] = lambda: ROWS) -> agf.Registry:
    """The tools and flows of these tests. ``made``: gets the calls in this process. ``fails``: whether the last call of
    a flow raises an error."""
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def load() -> Any:
        calls.append("load")
        return rows()

    @agf.tool(registry=registry)
    def size(rows: Any, label: str) -> str:
        calls.append(label)
        text = f"{label}{len(rows)}"
        rows.clear()  # changes only its own copy
        return text

    @agf.tool(registry=registry)
    def bump(state: dict[str, Any]) -> dict[str, Any]:
        return {"n": state["n"] + 1}

    @agf.tool(registry=registry)
    def last() -> str:
        if fails:
            raise ValueError("not yet")
        return "done"

    agf.define(READERS, registry=registry)
    agf.define(FAN, registry=registry)
    agf.define(json.dumps(GRAPH), "graph", registry=registry)
    return registry


def large_parts(path: Path) -> list[str]:
    kept.flush(path)
    with closing(sqlite3.connect(path)) as connection:
        return [text for (text,) in connection.execute("SELECT text FROM large")]


@pytest.mark.parametrize(("flow", "on"), [("readers", None), ("fan", None), ("fan", "processes:2")])
def test_arguments_of_many_calls_are_stored_once(flow: str, on: str | None, tmp_path: Path) -> None:
    with kept.journal_in(tmp_path) as path:
        run = agf.run(flow, registry=registry_of([]), on=on)
        results = run.stores["found"] if flow == "fan" else [run.stores[name] for name in "abc"]
        assert results == ["a1500", "b1500", "c1500"]
        assert [json.loads(text) for text in large_parts(path)] == [ROWS]
        inputs = [call["input"] for call in agf.runs(run.run_id).calls if call["label"] == "size"]
        assert sorted(arguments["label"] for arguments in inputs) == ["a", "b", "c"]
        assert all(arguments["rows"] == ROWS for arguments in inputs)


def stored_stores(path: Path) -> str:
    kept.flush(path)
    with closing(sqlite3.connect(path)) as connection:
        (text,) = connection.execute("SELECT stores FROM runs").fetchone()
    return str(text)


def test_the_end_of_a_run_refers_to_stored_arguments(tmp_path: Path) -> None:
    with kept.journal_in(tmp_path) as path:
        run = agf.run("readers", registry=registry_of([]))
        assert len(stored_stores(path)) < 1_000
        past = agf.runs(run.run_id)
        assert {**past.stores} == {**run.stores} == {"rows": ROWS, "a": "a1500", "b": "b1500", "c": "c1500"}
        assert list(past.stores) == list(run.stores)


def test_a_list_that_the_check_of_arguments_copies_is_stored_once(tmp_path: Path) -> None:
    registry = registry_of([])

    def size(rows: list[Any], label: str) -> str:
        return f"{label}{len(rows)}"

    agf.tool(size, registry=registry)
    with kept.journal_in(tmp_path) as path:
        run = agf.run("readers", registry=registry)
        assert [json.loads(text) for text in large_parts(path)] == [ROWS]
        assert len(stored_stores(path)) < 1_000
        assert agf.runs(run.run_id).stores["rows"] == ROWS


@pytest.mark.parametrize("change", ["DELETE FROM large", "UPDATE large SET text='[1]'"])
def test_a_changed_store_counts_as_damaged(change: str, tmp_path: Path) -> None:
    with kept.journal_in(tmp_path) as path:
        run = agf.run("readers", registry=registry_of([]))
        kept.flush(path)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(change)
            connection.commit()
        with pytest.raises(agf.AgfError, match="a store of the run cannot be read"):
            agf.runs(run.run_id)


def test_the_state_of_a_graph_is_stored_once(tmp_path: Path) -> None:
    with kept.journal_in(tmp_path) as path:
        run = agf.run("steps", {"n": 0, "rows": ROWS}, registry=registry_of([]))
        assert run.output == {"n": 12, "rows": ROWS}
        assert len(large_parts(path)) == 1
        states = [call["input"]["state"] for call in agf.runs(run.run_id).calls]
        assert [state["n"] for state in states] == list(range(12))
        assert all(state["rows"] == ROWS for state in states)


def test_a_part_is_deleted_with_its_run(tmp_path: Path) -> None:
    registry = registry_of([])
    with kept.journal_in(tmp_path) as path:
        first, second = (agf.run("readers", registry=registry).run_id for _ in range(2))
        assert len(large_parts(path)) == 2
        past_runs.delete([first])
        assert len(large_parts(path)) == 1
        calls = agf.runs(second).calls
        assert [call["input"]["rows"] for call in calls if call["label"] == "size"] == [ROWS] * 3


@pytest.mark.parametrize(("flow", "on"), [("readers", None), ("fan", "processes:2")])
def test_a_resumed_run_makes_no_call_with_them_again(flow: str, on: str | None, tmp_path: Path) -> None:
    calls = list[str]()
    with kept.journal_in(tmp_path) as path:
        failed = agf.run(flow, registry=registry_of(calls, fails=True), raises=False, on=on)
        run = agf.resume(failed.run_id, registry=registry_of(calls), on=on)
        assert (run.output, len(agf.runs(run.run_id).calls)) == ("done", 6)
        # A worker adds the labels to its own copy of the list.
        assert calls == (["load"] if on else ["load", "a", "b", "c"])
        assert len(large_parts(path)) == 1


def test_a_later_run_reuses_calls_with_equal_large_arguments(tmp_path: Path) -> None:
    calls = list[str]()
    with kept.journal_in(tmp_path):
        agf.run("readers", registry=registry_of(calls))
        calls.clear()
        run = agf.run("readers", registry=registry_of(calls), reuse=True)
        assert (run.output, calls) == ("done", [])
        other = [*ROWS[:-1], {"id": -1, "text": "changed"}]
        agf.run("readers", registry=registry_of(calls, rows=lambda: other))
        calls.clear()
        again = agf.run("readers", registry=registry_of(calls, rows=lambda: other), reuse=True)
        assert (again.stores["a"], calls) == ("a1500", [])


@pytest.mark.parametrize("sql", ["DELETE FROM large", "UPDATE large SET text = replace(text, 'x', 'y')"])
def test_a_damaged_part_is_an_error_and_no_wrong_value(sql: str, tmp_path: Path) -> None:
    with kept.journal_in(tmp_path) as path:
        run_id = agf.run("readers", registry=registry_of([])).run_id
        kept.flush(path)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(sql)
        with pytest.raises(agf.AgfError) as caught:
            list(agf.runs(run_id).calls)
        assert caught.value.code == "journal.damaged"


def test_a_secret_of_the_environment_in_a_large_argument_is_masked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "pk-0123456789abcdef")
    rows = [*ROWS, {"id": 0, "text": "pk-0123456789abcdef"}]
    with kept.journal_in(tmp_path) as path:
        run = agf.run("readers", {}, registry=registry_of([], rows=lambda: rows))
        assert run.stores["a"] == "a1501"
        kept.flush(path)
        stored = b"".join(file.read_bytes() for file in tmp_path.glob("runs*"))
    assert b"pk-0123456789abcdef" not in stored


def test_a_list_with_an_object_that_is_not_json_is_not_stored_as_a_part(tmp_path: Path) -> None:
    rows = [*ROWS, {"id": 0, "text": object()}]
    with kept.journal_in(tmp_path) as path:
        run = agf.run("readers", {}, registry=registry_of([], rows=lambda: rows))
        assert (run.stores["a"], large_parts(path)) == ("a1501", [])


def test_a_value_that_grows_is_stored_again(tmp_path: Path) -> None:
    """An equal identity of a list proves nothing: each step makes a new list."""
    registry = registry_of([])
    agf.define(
        "pipeline: grows\nsteps:\n- tool: {name: load, output: rows}\n"
        "- tool: {name: size, args: {rows: !expr rows, label: a}}\n"
        "- transform: {value: 'map(rows, x -> {id: x.id, text: x.text + x.text})', output: rows}\n"
        "- tool: {name: size, args: {rows: !expr rows, label: b}}\n",
        registry=registry,
    )
    with kept.journal_in(tmp_path) as path:
        run = agf.run("grows", registry=registry)
        assert len(large_parts(path)) == 2
        inputs = [call["input"]["rows"] for call in agf.runs(run.run_id).calls if call["label"] == "size"]
        assert inputs == [ROWS, [{**row, "text": "x" * 120} for row in ROWS]]


def test_equal_large_parts_of_many_calls_are_handed_to_the_store_once() -> None:
    digests = list[str]()
    rows = CallRows(
        "run",
        most=10 * LARGE,
        next_line=lambda: 1,
        not_stored=lambda call, why: None,
        keep=lambda digest, text: digests.append(digest),
        note_paid=lambda key, model, usage: None,
    )
    stored = [rows.arguments_text({"state": {"text": "x" * (2 * LARGE)}, "n": 1}) for _ in range(3)]
    assert stored[0] == stored[1] == stored[2]
    assert len(digests) == 1
