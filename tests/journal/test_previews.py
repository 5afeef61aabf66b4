"""Tests of previews, as which the journal has values that are not JSON."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas
import polars
import pyarrow
import pytest

import agf_magics as agf
from agf_magics.journal.codec.encoding import preview, without_mark
from agf_magics.notebook.explorer.open_call import open_call
from agf_magics.pictures.difference import MISSING, find_differences
from agf_magics.pictures.pages.past_page import past_text
from agf_magics.pictures.value_line import value_line
from agf_magics.pictures.values import value_brief, value_json, value_text

pytestmark = pytest.mark.usefixtures("journaled")

LIBRARIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": pandas.DataFrame,
    "polars": polars.DataFrame,
    "pyarrow": pyarrow.table,
}


def fruit(rows: int, library: str = "pandas") -> Any:
    return LIBRARIES[library]({"fruit": ["pear"] * rows, "kg": list(range(rows))})


@dataclass
class Basket:
    owner: str
    content: Any


def rows(count: int) -> list[dict[str, Any]]:
    return [{"fruit": "pear", "kg": number} for number in range(count)]


def test_a_frame_in_a_value_is_its_first_rows() -> None:
    shown = [*rows(2), "⟨DataFrame 2 × 2⟩"]
    assert preview(Basket("Ann", [fruit(2)])) == {"owner": "Ann", "content": [shown]}
    assert without_mark(shown) == (rows(2), 2)
    deep = [[[[[[fruit(2)]]]]]]
    assert preview(deep) == [[[[[["⟨DataFrame 2 × 2⟩"]]]]]]


def test_frames_share_the_parts_of_a_preview() -> None:
    shown = preview({name: fruit(1000) for name in "abcd"})
    assert {name: len(part) for name, part in shown.items()} == dict.fromkeys("abcd", 21)
    shown = preview({str(number): fruit(1000) for number in range(30)})
    assert len(json.dumps(shown)) < 20_000
    assert all(without_mark(part)[1] == 1000 for name, part in shown.items() if type(part) is list)


def test_a_cell_is_a_short_text() -> None:
    frame = pandas.DataFrame({"a": [[1, "é"], {"b": Basket("Ann", 1)}, 10**9999, b"x", object()]})
    cells = [row["a"] for row in preview(frame)[:-1]]
    assert cells == ['[1, "é"]', '{"b": {"owner": "Ann", "content": 1}}', "⟨int of 33,216 bits⟩", "b'x'", "⟨object⟩"]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("count", [1, 2, 55])
def test_a_frame_and_its_preview_have_the_same_title(library: str, count: int) -> None:
    frame = fruit(count, library)
    kind = "Table" if library == "pyarrow" else "DataFrame"
    title = f"{kind} · {count} row{'s' * (count > 1)} × 2 columns"
    for value in (frame, preview(frame)):
        assert value_json(value)["title"] == title
        assert value_brief(value) == f"{count} row{'s' * (count > 1)}"
    grid = value_json(preview(frame))
    assert (grid["kind"], grid["columns"]) == ("grid", ("fruit", "kg"))
    assert grid["more"] == ("35 more rows" if count == 55 else "")
    assert value_line({"frame": preview(frame), "n": 1}, 60) == f"frame: ⟨{kind} {count} × 2⟩, n: 1"


def test_a_frame_without_rows_says_its_columns() -> None:
    assert value_text(preview({"frame": fruit(0)})) == "frame: ⟨DataFrame 0 × 2: fruit, kg⟩"


def test_differences_of_frames_have_the_row_and_the_column() -> None:
    changed = fruit(30)
    changed.loc[3, "kg"] = 7
    assert list(find_differences(preview(fruit(30)), preview(changed))) == [("[3].kg", 3, 7)]
    assert list(find_differences(preview([fruit(2)]), preview([fruit(3)]))) == [
        ("[0]", "⟨DataFrame 2 × 2⟩", "⟨DataFrame 3 × 2⟩"),
        ("[0][2]", MISSING, rows(3)[2]),
    ]


PIPELINE = """\
pipeline: fruits
steps:
- tool: {name: load, output: frame}
- tool: {name: heavy, args: {frame: !expr frame, least: 1}, output: kept}
"""


@pytest.fixture
def registry() -> agf.Registry:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def load() -> object:
        return fruit(3)

    @agf.tool(registry=registry)
    def heavy(frame: object, least: int) -> object:
        assert isinstance(frame, pandas.DataFrame)
        return frame[frame.kg >= least]

    return registry


KEPT = [{"index": 1, "fruit": "pear", "kg": 1}, {"index": 2, "fruit": "pear", "kg": 2}, "⟨DataFrame 2 × 2⟩"]


def test_the_calls_and_stores_of_an_ended_run_have_the_first_rows(registry: agf.Registry) -> None:
    past = agf.runs(agf.run(PIPELINE, registry=registry).run_id)
    *_, call = past.calls
    assert (call["input"], call["output"]) == ({"frame": [*rows(3), "⟨DataFrame 3 × 2⟩"], "least": 1}, KEPT)
    assert past.stores == {"frame": [*rows(3), "⟨DataFrame 3 × 2⟩"], "kept": KEPT}
    assert isinstance(past.load("steps[1]"), pandas.DataFrame)


def test_an_opened_call_says_that_the_variable_has_only_the_first_rows(registry: agf.Registry) -> None:
    run = agf.run(PIPELINE, registry=registry)
    shell = SimpleNamespace(user_ns={})
    opened = open_call(shell, registry, run.run_id, "steps[1]")
    assert opened.shown == "frame: ⟨DataFrame 3 × 2⟩, least: 1"
    assert opened.note == (
        "some of the arguments are only previews: a secret, or a value that is not JSON; of 'frame', the variable "
        "has the first rows as a list"
    )
    assert shell.user_ns["arguments"]["frame"][-1] == "⟨DataFrame 3 × 2⟩"


def test_a_secret_is_masked_in_the_first_rows(registry: agf.Registry) -> None:
    @agf.tool(registry=registry, secret=["key"])
    def signed(key: str) -> object:
        return pandas.DataFrame({"n": [1], "key": [key]})

    text = (
        "pipeline: p\nsteps:\n- tool: {name: signed, args: {key: hunter2-hunter2}, output: frame}\n"
        "- tool: {name: count, args: {frame: !expr frame}}"
    )

    @agf.tool(registry=registry)
    def count(frame: object) -> object:
        return {"n": 1, "frame": frame}

    run = agf.run(text, registry=registry)
    past = agf.runs(run.run_id)
    assert "hunter2" not in json.dumps([list(past.calls), past.stores, past.shown_output])


def test_python_is_told_that_an_output_is_a_preview(registry: agf.Registry) -> None:
    @agf.tool(registry=registry)
    def days(count: int) -> list[Any]:
        return [{"day": date(2026, 1, 1), "n": number} for number in range(count)]

    text = "pipeline: days\nsteps:\n- tool: {name: days, args: {count: !expr ctx.count}}"
    run = agf.run(text, {"count": 1000}, registry=registry)
    past = agf.runs(run.run_id)
    with pytest.warns(UserWarning, match=r"a preview of the output of days-.* is not JSON: \.load\(\) returns"):
        shown = past.output
    assert (len(shown) < 1000, past.load()) == (True, run.output)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a page and a file say it themselves
        assert past_text(past)
        assert past.compare(past) is not None
        assert agf.runs(agf.run(text, {"count": 0}, registry=registry).run_id).output == []


def test_a_recording_with_other_previews_is_replayed(registry: agf.Registry, tmp_path: Path) -> None:
    file = tmp_path / "run.agf"
    agf.record(agf.run(PIPELINE, registry=registry), file)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        if "frame" in line.get("given", {}):
            line["given"]["frame"] = "⟨DataFrame 3 × 2⟩"  # as before
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with agf.replay(file) as replay:
        run = agf.run(PIPELINE, registry=registry)
    assert (replay.used, run.output["kg"].tolist()) == (2, [1, 2])
