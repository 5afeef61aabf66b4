"""Runs selected by flow, status and time, as a table; the states of a run."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.lifecycle.past.since import seconds_of
from tests.engine.kept import journal_in

GRAPH = """\
name: counts
state: {n: int}
variables: {n: 0}
nodes:
  add: {type: passthrough, output: {n: "{state.n + 1}"}}
edges:
- {from: START, to: add}
- {from: add, to: add, condition: n < 3}
- {from: add, to: END, condition: else}
"""


@pytest.fixture(autouse=True)
def _journal(tmp_path: Path) -> Iterator[None]:
    with journal_in(tmp_path):
        yield


def test_runs_are_selected_by_flow_status_and_time_and_are_a_table() -> None:
    pandas = pytest.importorskip("pandas")
    for name, value in (("good", "1"), ("bad", "1 / 0"), ("good", "2")):
        try:
            agf.run(f"{{pipeline: {name}, steps: [{{transform: {{value: '{value}'}}}}]}}", registry=agf.Registry())
        except agf.StepError:
            assert name == "bad"
    assert [run.name for run in agf.runs(flow="good")] == ["good", "good"]
    assert [run.name for run in agf.runs(status="error")] == ["bad"]
    assert agf.runs(flow="good", status="error") == ()
    assert (
        len(agf.runs(since="1h")) == len(agf.runs(since=timedelta(hours=1))) == len(agf.runs(since=date.today())) == 3
    )
    assert agf.runs(since="3000-01-01") == ()
    frame = agf.runs(flow="good").to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame["status"]) == ["ok", "ok"]
    assert frame["started"][0] >= frame["started"][1]


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"status": "failed"}, "journal.filter"),
        ({"since": "soon"}, "journal.filter"),
        ({"run_id": "p", "status": "ok"}, "journal.unknown-run"),
    ],
)
def test_a_wrong_filter_says_what_there_is(given: dict[str, Any], code: str) -> None:
    with pytest.raises(agf.DefinitionError) as refused:
        agf.runs(**given)
    assert refused.value.code == code
    assert refused.value.diagnostic.hint


@pytest.mark.parametrize(
    ("when", "seconds"),
    [
        ("2h", 7_200.0),
        (timedelta(minutes=5), 300.0),
        (datetime.fromtimestamp(999_990.0), 10.0),
        (datetime.fromtimestamp(999_000.0).isoformat(sep=" "), 1_000.0),
    ],
)
def test_a_time_is_so_long_ago(when: object, seconds: float) -> None:
    assert seconds_of(when, 1_000_000.0) == 1_000_000.0 - seconds


def test_a_graph_has_a_state_after_each_round_live_and_later() -> None:
    run = agf.run(GRAPH, registry=agf.Registry())
    for found in (run.states, agf.runs(run.run_id).states):
        assert [row["state"]["n"] for row in found] == [0, 1, 2, 3]
        assert [row["after"] for row in found] == ["start", "add", "add", "add"]
        assert found.note == ""
    assert "after" in repr(run.states)
