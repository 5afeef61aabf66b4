"""Recordings whose calls get and return objects: a call is found by the content of its objects."""

from __future__ import annotations

import datetime
import decimal
import ipaddress
import json
import os
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pydantic
import pytest

import agf_magics as agf
from agf_magics.lifecycle.recordings.stored_objects import folder_of
from tests.engine import kept

CHAIN = """\
pipeline: chain
steps:
- for_each:
    over: ctx.days
    on_error: abort
    do: {tool: {name: load, args: {day: !expr item}}}
    collect: {transform: {value: pipe}}
    output: loaded
- for_each:
    over: ctx.loaded
    on_error: abort
    do: {tool: {name: total, args: {loaded: !expr item, unit: kg}}}
    collect: {transform: {value: pipe}}
"""


@dataclass
class Sales:
    day: pd.DataFrame


def column(day: int, size: int = 41) -> Any:
    """A column with the same beginning and end on all days."""
    values = np.zeros(size)
    values[size // 2] = day
    return values


LARGE = 1_500_000
"""The count of numbers that is large enough to be stored in parts."""

OBJECTS: dict[str, tuple[Callable[[int], Any], Callable[[Any], Any]]] = {
    "a table of pandas": (lambda day: pd.DataFrame({"v": column(day)}), lambda value: value["v"].sum()),
    "a table of polars": (lambda day: pl.DataFrame({"v": column(day)}), lambda value: value["v"].sum()),
    "an array": (column, np.sum),
    "a large array": (lambda day: column(day, LARGE), np.sum),
    "a large table": (lambda day: pd.DataFrame({"v": column(day, LARGE)}), lambda value: value["v"].sum()),
    "an array in a dict": (lambda day: {"v": column(day)}, lambda value: value["v"].sum()),
    "a set": (lambda day: {0, day}, sum),
    "bytes": (lambda day: bytes(3_000) + bytes([day]), sum),
    "a class of the user": (lambda day: Sales(pd.DataFrame({"v": column(day)})), lambda value: value.day["v"].sum()),
}


class Chain:
    """A tool that loads an object for each day, and a tool that gets it. Both count their calls."""

    def __init__(self, load: Callable[[int], Any], total: Callable[[Any], Any]) -> None:
        self.registry, self.made = agf.Registry(), list[str]()

        # The result of a tool that must not be repeated is stored, however quick the tool is.
        @agf.tool(name="load", registry=self.registry, reuse=False)
        def load_tool(day: int) -> Any:
            self.made.append(f"load {day}")
            return load(day)

        @agf.tool(name="total", registry=self.registry, reuse=False)
        def total_tool(loaded: Any, unit: str) -> Any:
            self.made.append("total")
            return float(total(loaded))

    def run(self, *days: int, raises: bool = True) -> agf.Run:
        return agf.run(CHAIN, {"days": list(days)}, registry=self.registry, raises=raises)

    def recorded(self, *days: int, **options: Any) -> Path:
        with kept.journal_in(Path("kept")):
            path = agf.record(self.run(*days), "run.agf", **options)
        self.made.clear()
        return path


pytestmark = pytest.mark.filterwarnings("ignore:.*not made again")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def tables() -> Chain:
    return Chain(*OBJECTS["a table of pandas"])


@pytest.mark.parametrize("kind", OBJECTS)
def test_a_call_is_found_by_what_is_in_its_objects(kind: str) -> None:
    chain = Chain(*OBJECTS[kind])
    path = chain.recorded(1, 2, 3)
    for days in ([1, 2, 3], [3, 2, 1]):
        with agf.replay(path, strict=True):
            assert chain.run(*days).output == days
    assert chain.made == []
    with agf.replay(path, missing="call"):
        assert chain.run(7, 2, 9).output == [7, 2, 9]
    assert sorted(chain.made) == ["load 7", "load 9", "total", "total"]


@pytest.mark.parametrize("kind", OBJECTS)
def test_calls_with_objects_are_recorded_when_they_are_made(kind: str) -> None:
    chain = Chain(*OBJECTS[kind])
    for days in ([1, 2], [2, 3]):
        with agf.replay("run.agf", missing="record"):
            chain.run(*days)
    assert sorted(chain.made) == ["load 1", "load 2", "load 3", "total", "total", "total"]
    with agf.replay("run.agf", strict=True):
        assert chain.run(3, 1, 2).output == [3, 1, 2]
    assert len(chain.made) == 6


def drop_digests(path: Path) -> None:
    path.write_text(path.read_text("utf-8").replace('"contents"', '"old"'), "utf-8")


def test_a_line_without_a_digest_is_not_that_of_a_call_with_objects() -> None:
    chain = tables()
    drop_digests(chain.recorded(1))
    with agf.replay("run.agf"):
        error = chain.run(1, raises=False).error
    assert error.code == "replay.missing"
    hint = "the nearest recorded call has another object in its arguments, or one that cannot be compared; record"
    assert error.diagnostic.hint.startswith(hint)
    with agf.replay("run.agf", missing="call"):
        assert chain.run(1).output == [1]


def test_arguments_that_cannot_be_compared_are_never_equal() -> None:
    chain = Chain(lambda day: [threading.Lock(), day], lambda value: value[1])
    for day in (1, 2, 1):
        with agf.replay("run.agf", missing="record"):
            assert chain.run(day).output == [day]
    assert '"name": "total"' not in Path("run.agf").read_text("utf-8")
    with agf.replay("run.agf", missing="call"):
        assert chain.run(2).output == [2]


class Point:
    def __init__(self, x: int) -> None:
        self.x = x

    def __str__(self) -> str:
        return "a point"


class Model(pydantic.BaseModel):
    x: int = 1


SEEN: dict[str, Callable[[int], Any]] = {
    "a moment": lambda day: pd.Timestamp(2020, 1, day),
    "a moment of a zone": lambda day: pd.Timestamp(2020, 1, day, tz="Europe/Berlin"),
    "a duration": lambda day: pd.Timedelta(day, "ns"),
    "a period": lambda day: pd.Period(f"2020-01-0{day}", "D"),
    "an interval": lambda day: pd.Interval(0, day),
    "a column of moments": lambda day: pd.Series([pd.Timestamp(day), "x"], dtype=object),
    "an address": lambda day: ipaddress.ip_address(f"10.0.0.{day}"),
    "a range": range,
    "bytes that may change": lambda day: bytearray([day]),
    "a date": lambda day: datetime.date(2020, 1, day),
    "a number": lambda day: decimal.Decimal(day) / 10,
    "bytes": lambda day: bytes([day]),
    "an object of one's own": Point,
}


def length(thing: Any) -> int:
    return len(type(thing).__name__)


TEXT = """\
pipeline: of_a_text
steps:
- tool: {name: total, args: {loaded: !expr ctx.shown, unit: kg}}
"""


def shown_in(path: Path) -> Any:
    """What a recording shows of the object that the tool `total` got."""
    calls = map(json.loads, path.read_text("utf-8").splitlines())
    return next(call["given"]["loaded"] for call in calls if call.get("name") == "total")


@pytest.mark.parametrize("kind", SEEN)
def test_the_text_of_an_object_is_not_the_object(kind: str) -> None:
    chain = Chain(SEEN[kind], length)
    path = chain.recorded(1, 2)
    with agf.replay(path, strict=True):
        chain.run(2, 1)
    assert chain.made == []
    with agf.replay(path, missing="call"):
        agf.run(TEXT, {"shown": shown_in(path)}, registry=chain.registry)
    assert chain.made == ["total"]


def test_a_call_that_no_replay_finds_is_reported_when_it_is_recorded() -> None:
    chain = Chain(random.Random, length)  # each use changes it, so no digest compares it
    with pytest.warns(UserWarning, match=r"never finds 2 calls, .* 2 × tool total \[replay.missing\]"):
        path = chain.recorded(1, 2)
    with agf.replay(path, missing="call"):
        agf.run(TEXT, {"shown": shown_in(path)}, registry=chain.registry)
    assert chain.made == ["total"]
    with agf.replay(path):
        error = chain.run(1, raises=False).error
    assert error.code == "replay.missing"
    assert error.diagnostic.hint.startswith("its arguments cannot be compared; pass the parts of an object")
    with (
        pytest.warns(UserWarning, match="replay.missing"),
        agf.replay("new.agf", missing="record"),
    ):
        chain.run(1)


def test_redact_may_leave_out_lines() -> None:
    def redact(line: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in line.items() if key != "contents"}

    chain = tables()
    path = chain.recorded(1, redact=redact)
    with agf.replay(path, missing="call", redact=redact):
        assert chain.run(1).output == [1]


def test_a_redacted_recording_has_no_object_of_an_earlier_one() -> None:
    chain = Chain(*OBJECTS["a large array"])
    folder = folder_of(chain.recorded(1))
    assert os.listdir(folder)
    chain.recorded(1, redact=lambda line: line)
    assert not folder.exists()
    with agf.replay("new.agf", missing="record", redact=lambda line: line):
        chain.run(1)
    assert not Path("new.agf.values").exists()
    assert '"stored"' not in Path("new.agf").read_text("utf-8")


MARKS: dict[str, Callable[[bytes], bytes]] = {
    "as it was written": lambda data: data,
    "with the mark of its encoding": lambda data: b"\xef\xbb\xbf" + data,
    "with the ends of lines of Windows": lambda data: data.replace(b"\n", b"\r\n"),
    "without the last end of a line": lambda data: data.rstrip(b"\n"),
}


@pytest.mark.parametrize("mark", MARKS)
def test_calls_are_added_to_a_file_of_any_editor(mark: str) -> None:
    registry = agf.Registry()
    agf.tool(lambda word: f"{word}\u2028\x85\x1e\x0b", name="say", registry=registry)
    text = "pipeline: p\nsteps:\n- tool: {name: say, args: {word: !expr ctx.word}}"
    with kept.journal_in(Path("kept")):
        path = agf.record(agf.run(text, {"word": "a"}, registry=registry), "run.agf")
    path.write_bytes(MARKS[mark](path.read_bytes()))
    with agf.replay(path, missing="record"):
        agf.run(text, {"word": "b"}, registry=registry)
    agf.tool(lambda word: 1 / 0, name="say", registry=registry)
    with agf.replay(path, strict=True):
        for word in "ba":
            assert agf.run(text, {"word": word}, registry=registry).output == f"{word}\u2028\x85\x1e\x0b"


def test_a_pickle_of_some_size_is_a_file_beside_the_recording() -> None:
    # Objects of one kind in a list have a pickle without large buffers.
    chain = Chain(lambda day: [column(day, 7_000) for _ in range(3)], lambda value: value[2].sum())
    path = chain.recorded(1, 2)
    assert path.stat().st_size < 20_000
    assert len(os.listdir(folder_of(path))) == 2
    with agf.replay(path, strict=True):
        assert chain.run(2, 1).output == [2, 1]
    os.truncate(next(folder_of(path).iterdir()), 10)
    with agf.replay(path):
        assert chain.run(2, 1, raises=False).error.code == "replay.opaque"


def test_a_line_that_cannot_be_read_is_replaced_when_its_call_is_recorded() -> None:
    registry = agf.Registry()
    agf.tool(threading.Lock, name="conf", registry=registry)
    text = "pipeline: p\nsteps:\n- tool: {name: conf}"
    with kept.journal_in(Path("kept")):
        path = agf.record(agf.run(text, registry=registry), "run.agf")
    with agf.replay(path):
        error = agf.run(text, registry=registry, raises=False).error
    assert error.code == "replay.opaque"
    assert 'missing="record" of agf.replay makes the call' in error.diagnostic.hint
    agf.tool(lambda: {1, 2}, name="conf", registry=registry)
    for _ in range(2):
        with agf.replay(path, missing="record"):
            assert agf.run(text, registry=registry).output == {1, 2}
    assert len(path.read_text("utf-8").splitlines()) == 2
    with agf.replay(path, strict=True):
        assert agf.run(text, registry=registry).output == {1, 2}


def test_no_object_is_recorded_in_a_run_that_has_a_secret() -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry, secret=["key"])
    def fetch(key: str) -> Any:
        return {key}

    text = "pipeline: p\nsteps:\n- tool: {name: fetch, args: {key: !expr ctx.key}}"
    with agf.replay("run.agf", missing="record"):
        agf.run(text, {"key": "sesame-8341"}, registry=registry)
    written = Path("run.agf").read_text("utf-8")
    assert "sesame" not in written
    assert '"stored"' not in written
