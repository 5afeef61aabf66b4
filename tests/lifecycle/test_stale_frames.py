"""Stale marks of runs with data frames, which are found without unpickling any of them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import polars
import pyarrow
import pytest

import agf_magics as agf
from agf_magics.journal.codec.plain_pickles import is_plain_pickle
from agf_magics.lifecycle.forecasts.stale import Stale, find_stale
from agf_magics.lifecycle.forecasts.unread_results import NeedsUnpickling

pytestmark = pytest.mark.usefixtures("journaled")

STEPS = """\
pipeline: frames
steps:
- tool: {name: load, output: raw}
- tool: {name: clean, args: {frame: !expr raw, least: 1}, output: kept}
- tool: {name: total, args: {frame: !expr kept, raw: !expr raw}, output: sums}
- transform: {value: "{sums: sums, kept: kept}"}
"""
LIBRARIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": pandas.DataFrame,
    "polars": polars.DataFrame,
    "pyarrow": pyarrow.table,
}


def tools(registry: agf.Registry, make: Callable[[dict[str, Any]], Any], made: list[str], **others: Any) -> None:
    def load() -> object:
        made.append("load")
        return make({"n": [1, 2, 3], "name": ["a", "b", None]})

    def clean(frame: object, least: int) -> object:
        made.append("clean")
        return make({"n": [least, 2]})

    def total(frame: Any, raw: object) -> object:
        made.append("total")
        return make({"n": [len(frame)]})

    for function in {"load": load, "clean": clean, "total": total, **others}.values():
        agf.tool(function, registry=registry)


def unread(run: agf.Run, registry: agf.Registry) -> Stale:
    return find_stale(run.run_id, None, registry, unpickles=False)


def rows(stale: Stale) -> list[dict[str, Any]]:
    return [dict(row) for row in stale]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("edited", ["", "load", "clean", "total"])
def test_the_marks_need_no_frame_and_are_those_of_reuse(
    library: str, edited: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry, made = agf.Registry(), list[str]()
    make = LIBRARIES[library]
    tools(registry, make, made)
    agf.define(STEPS, registry=registry)
    run = agf.run("frames", registry=registry)

    def again(**arguments: object) -> object:
        made.append(edited)
        return make({"n": [5, 6]})

    def load() -> object:
        return again()

    def clean(frame: object, least: int) -> object:
        return again()

    def total(frame: object, raw: object) -> object:
        return again()

    if edited:
        tools(registry, make, made, **{edited: {"load": load, "clean": clean, "total": total}[edited]})
    with monkeypatch.context() as patched:
        patched.setattr(pickle, "loads", None)
        stale = unread(run, registry)
    states = [row["state"] for row in stale if row["kind"] == "tool"]
    place = ["load", "clean", "total"].index(edited) if edited else 3
    assert states == ["reused"] * place + ["again"] * (place < 3) + ["depends"] * (2 - place)
    assert stale.is_edited == bool(edited)
    made.clear()
    agf.run("frames", registry=registry, reuse=True)
    assert made == ["load", "clean", "total"][place:]
    # The run before is compared with the results of the newest one, which are copies of its own.
    if not edited:
        assert rows(unread(run, registry)) == rows(stale)


def test_frames_that_somebody_else_has_signed_are_not_reused_and_the_marks_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry, made = agf.Registry(), list[str]()
    tools(registry, pandas.DataFrame, made)
    agf.define(STEPS, registry=registry)
    run = agf.run("frames", registry=registry)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "somebody else"))
    for stale in (unread(run, registry), find_stale(run.run_id, None, registry)):
        assert [row["state"] for row in stale if row["kind"] == "tool"] == ["again"] * 3
    agf.run("frames", registry=registry, reuse=run.run_id)
    assert made == ["load", "clean", "total"] * 2


def changing(frame: Any, least: int) -> object:
    frame["n"] = least
    return pandas.DataFrame({"n": [least]})


def returning(frame: Any, least: int) -> object:
    return frame


def in_a_list(frame: Any, least: int) -> object:
    return [pandas.DataFrame({"n": [least]})]


class Own:
    def __init__(self, n: int) -> None:
        self.n = n


def of_the_notebook(frame: Any, least: int) -> object:
    return Own(least)


@pytest.mark.parametrize("clean", [changing, returning, in_a_list, of_the_notebook])
def test_objects_that_a_digest_does_not_tell_are_read_on_request(clean: Callable[..., object]) -> None:
    registry = agf.Registry()
    agf.tool(clean, name="clean", registry=registry)
    agf.tool(lambda: pandas.DataFrame({"n": [1, 2]}), name="load", registry=registry)
    agf.tool(lambda frame, raw: 1, name="total", registry=registry)
    run = agf.run(STEPS.replace("frames", "other"), registry=registry)
    assert run.status == "ok"
    agf.define(STEPS.replace("frames", "other"), registry=registry)
    with pytest.raises(NeedsUnpickling):
        unread(run, registry)
    assert len(find_stale(run.run_id, None, registry)) == 4


def test_an_edited_definition_needs_the_frames() -> None:
    registry = agf.Registry()
    tools(registry, pandas.DataFrame, [])
    agf.define(STEPS, registry=registry)
    run = agf.run("frames", registry=registry)
    agf.define(STEPS.replace("least: 1", "least: 2"), registry=registry)
    with pytest.raises(NeedsUnpickling):
        unread(run, registry)
    assert agf.stale(run.run_id, registry=registry).again == ("steps[1]", "steps[2]")


def test_a_new_input_needs_the_frames() -> None:
    registry = agf.Registry()
    tools(registry, pandas.DataFrame, [])
    text = STEPS.replace("least: 1", "least: !expr ctx.least")
    agf.define(text, registry=registry)
    run = agf.run("frames", {"least": 1}, registry=registry)
    assert unread(run, registry).again == ()
    assert agf.stale(run.run_id, input={"least": 2}, registry=registry).again == ("steps[1]", "steps[2]")


GRAPH = """\
variables: {ready: 1}
nodes:
  load: {type: python, tool: load, state_key: frame}
  heavy: {type: python, tool: heavy}
edges:
- {from: START, to: load}
- {from: load, to: heavy, condition: CONDITION}
- {from: load, to: END, condition: else}
- {from: heavy, to: END}
"""


@pytest.mark.parametrize(("condition", "is_read"), [("frame.size > 1", True), ("ready > 0", False)])
def test_only_a_condition_that_looks_into_a_frame_needs_it(condition: str, is_read: bool) -> None:
    registry = agf.Registry()
    agf.tool(lambda: pandas.DataFrame({"n": [1, 2]}), name="load", registry=registry)
    agf.tool(lambda: 1, name="heavy", registry=registry)
    agf.define(GRAPH.replace("CONDITION", condition), "graph", name="looks", registry=registry)
    run = agf.run("looks", registry=registry)
    assert [call["label"] for call in agf.runs(run.run_id).calls] == ["load", "heavy"]
    if is_read:
        with pytest.raises(NeedsUnpickling):
            unread(run, registry)
    else:
        assert unread(run, registry).again == ()
    assert agf.stale(run.run_id, registry=registry).again == ()


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (pandas.DataFrame({"a": [1], "b": ["x"]}), True),
        (pandas.DataFrame({"a": [1, 2]}, index=["x", "y"]).groupby("a").sum(), True),
        (polars.DataFrame({"a": [1]}), True),
        (pyarrow.table({"a": [1]}), True),
        (pandas.DataFrame({"a": [Own(1)]}), False),
        (Own(1), False),
        ([Own], False),
        (list(range(60_000)), False),
    ],
)
def test_a_pickle_without_a_class_of_the_notebook_is_plain(value: object, plain: bool) -> None:
    for protocol in (4, 5):
        assert is_plain_pickle(pickle.dumps(value, protocol)) is plain
    assert not is_plain_pickle(pickle.dumps(value)[:-1])
