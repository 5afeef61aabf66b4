"""What a list of runs says of their starts: the input, which a text finds, and the run that a run repeats."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.journal.runs import MOST_INPUT
from agf_magics.lifecycle.past.retried_rows import choose_rows
from tests.engine.kept import no_journal

ORDERS = "{pipeline: orders, steps: [{transform: {value: '10 / order', output: share}}, {transform: {value: share}}]}"
PAYS = "{pipeline: pays, steps: [{tool: {name: pay, args: {token: !expr ctx.token}}}]}"


@pytest.fixture
def registry() -> agf.Registry:
    registry = agf.Registry()
    agf.define(ORDERS, registry=registry)
    agf.define(PAYS, registry=registry)
    agf.tool(lambda token: "paid", name="pay", secret=["token"], registry=registry)
    return registry


@pytest.mark.parametrize("is_kept", [True, False], ids=["in the journal", "only here"])
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("4711", 1),
        ("order 4711", 1),
        ("order: 4711", 1),
        ('city: "zürich"', 1),
        ("orders ZÜRICH", 1),
        ("HAUPTSTRASSE", 1),  # as a search of calls finds it
        ("🍎", 1),
        ("4711 failed", 0),
        ("4712", 0),
        ("tk-4713", 0),  # a secret is in no text
        ("last", 0),  # after the first characters
        ("json", 0),  # how the journal stores it
    ],
)
def test_a_text_finds_the_input_of_a_run(
    text: str, found: int, is_kept: bool, journaled: Path, registry: agf.Registry
) -> None:
    long = {"a": "🍎", "b": "x" * MOST_INPUT, "c": "last"}
    with contextlib.nullcontext() if is_kept else no_journal():
        runs = [  # without a journal, a list has runs in the background
            agf.start(
                "orders", {"order": 4711, "city": "Zürich", "street": "Hauptstraße", "more": long}, registry=registry
            ),
            agf.start("pays", {"token": "tk-4713"}, registry=registry),
        ]
        assert [run.result() is not None for run in runs] == [True, True]
    assert len(agf.runs(text=text)) == found
    assert len(agf.runs(text=text)) == found  # as a page asks at each key


def test_a_run_from_a_step_says_which_run_it_repeats(journaled: Path, registry: agf.Registry) -> None:
    failed = agf.run("orders", {"order": 0}, registry=registry, raises=False)
    again = agf.rerun(failed.run_id, "steps[0]", input={"order": 5}, registry=registry)
    note = f"run from 'share' of {failed.run_id}"
    assert again.note == f"{note}; 0 calls reused"
    assert agf.runs(again.run_id).note == note
    assert [(run.run_id, run.note) for run in agf.runs(text=f"from {failed.run_id}")] == [(again.run_id, note)]


def test_a_run_of_the_rows_that_failed_says_so(journaled: Path, registry: agf.Registry) -> None:
    rows = [{"order": number} for number in (0, 5)]
    failed = agf.run("orders", over=rows, registry=registry, raises=False)
    again = agf.run("orders", over=choose_rows(None, retried=failed.run_id), registry=registry, raises=False)
    assert agf.runs(again.run_id).note.startswith(f"1 row that failed in {failed.run_id}")


@pytest.mark.parametrize("work", ["no json", "[1", '{"input": 5}', b"\x00"])
def test_a_manifest_of_somebody_else_does_not_end_the_list(work: Any, journaled: Path, registry: agf.Registry) -> None:
    agf.run("orders", {"order": 4711}, registry=registry)
    with sqlite3.connect(journaled) as connection:
        connection.execute("UPDATE runs SET work = ?", (work,))
    assert agf.runs(text="4711") == ()
    assert [run.note for run in agf.runs()] == [""]
