"""The page's table of a run over a table: order, filters, wrong requests, and labels."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.catalog import Registry
from agf_magics.notebook.explorer.request_types import Refused
from agf_magics.notebook.explorer.requests import requests_of
from tests.engine import kept

FLOW = "pipeline: sizes\nsteps: [{tool: {name: size, args: {name: !expr ctx.name}}}]"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[agf.Run]:
    monkeypatch.chdir(tmp_path)
    registry = Registry()
    shift = [0]

    @agf.tool(registry=registry)
    def size(name: str) -> Any:
        number = int(name[1:])
        if number == 7:
            raise ValueError("no sevens")
        mixed = {1: None, 2: "text", 3: [1], 4: float("nan")}
        return {"value": mixed.get(number, number % (5 + shift[0]))}

    flow = agf.define(FLOW, "pipeline", registry=registry)
    rows = [{"name": f"n{number}"} for number in range(60)]
    with kept.journal_in(tmp_path / "kept"):
        agf.run(flow, over=rows, registry=registry)
        shift[0] = 1
        yield agf.run(flow, over=rows, registry=registry)


def places(run: Any, **wish: Any) -> list[int]:
    return [row[0] for row in requests_of(run)["table"](wish)["rows"]]


def test_numbers_come_before_texts_and_rows_without_a_value_are_last(run: agf.Run) -> None:
    whole = requests_of(run)["table"]({"sort": "value"})
    assert whole["total"] == 60
    last = [row[0] for row in requests_of(run)["table"]({"sort": "value", "offset": 50})["rows"]]
    assert last[-5:] == [2, 3, 1, 4, 7]
    down = [row[0] for row in requests_of(run)["table"]({"sort": "value", "down": True, "offset": 50})["rows"]]
    assert down[-3:] == [1, 4, 7]
    assert places(run, sort="value", down=True)[:2] == [3, 2]


@pytest.mark.parametrize(
    ("columns", "repeat", "begin"),
    [
        ({}, 1, ["row", "status", "error_text", "name"]),
        ({}, 2, ["row", "repeat", "status", "error_text", "name"]),
        ({"status": "new", "row": 1}, 1, ["run.row", "run.status", "error_text", "name", "status", "row"]),
    ],
    ids=["as it is", "repeated", "with columns of these names"],
)
def test_how_a_row_ended_stands_before_the_columns_of_its_input(
    tmp_path: Path, columns: dict[str, Any], repeat: int, begin: list[str]
) -> None:
    registry = Registry()

    @agf.tool(registry=registry)
    def size(name: str) -> Any:
        raise ValueError(name)

    flow = agf.define(FLOW, "pipeline", registry=registry)
    with kept.journal_in(tmp_path / "kept"):
        over = agf.Over(table=[{"name": "pear", **columns}], repeat=repeat)
        run = agf.run(flow, over=over, registry=registry, raises=False)
        page = requests_of(run)["table"]({})
    assert [column[0] for column in page["columns"]][: len(begin)] == begin


@pytest.mark.parametrize("with_journal", [True, False])
def test_a_table_that_was_read_during_the_run_is_whole_after_its_end(tmp_path: Path, with_journal: bool) -> None:
    registry = Registry()
    gate = threading.Event()

    @agf.tool(registry=registry)
    def size(name: str) -> int:
        assert gate.wait(60)
        return 10 // int(name[1:])

    flow = agf.define(FLOW, "pipeline", registry=registry)
    rows = [{"name": f"n{number}"} for number in range(3)]
    with kept.journal_in(tmp_path) if with_journal else nullcontext():
        run = agf.start(flow, over=rows, registry=registry)
        assert run.table.counts == {"not run": 3}
        assert requests_of(run)["table"]({})["failed"] == 0
        gate.set()
        run.wait()
        assert requests_of(run)["table"]({})["failed"] == 1
        assert requests_of(run)["table"]({"only": "failed"})["total"] == 1
        assert run.table.counts == {"ok": 2, "failed": 1}


def test_rows_are_filtered(run: agf.Run) -> None:
    assert places(run, only="failed") == [7]
    assert places(run, sort="value", below=1) == list(range(0, 60, 6))
    assert set(places(run, only="changed")) <= {number for number in range(5, 60) if number % 5 != number % 6}


@pytest.mark.parametrize(
    "wish",
    [
        {"offset": -1},
        {"offset": 10**9},
        {"offset": "x"},
        {"sort": ["value"]},
        {"sort": "nothing", "down": "yes"},
        {"only": "odd"},
        {"below": "1"},
        {"below": float("nan")},
    ],
)
def test_a_senseless_request_is_answered(run: agf.Run, wish: dict[str, Any]) -> None:
    assert requests_of(run)["table"](wish)["total"] == 60


def test_a_label_is_saved_and_a_wrong_one_is_refused(run: agf.Run) -> None:
    requests_of(run)["label"]({"place": 5, "text": " <b>good</b> "})
    assert requests_of(agf.runs(run.run_id))["table"]({})["rows"][5][-1] == "<b>good</b>"
    requests_of(run)["label"]({"place": 5, "text": ""})
    assert requests_of(run)["table"]({})["rows"][5][-1] == ""
    for wrong in ({"place": 60, "text": "x"}, {"place": 5}, {"place": 5, "text": 7}):
        with pytest.raises(Refused):
            requests_of(run)["label"](wrong)
    with pytest.raises(agf.DefinitionError, match=r"over\.label"):
        requests_of(run)["label"]({"place": 5, "text": "x" * 201})


def test_a_run_without_rows_has_no_table() -> None:
    run = agf.run("pipeline: p\nsteps: [{transform: {value: '1'}}]")
    assert not requests_of(run)["run"]({})["table"]
    with pytest.raises(Refused, match="no table"):
        requests_of(run)["table"]({})
