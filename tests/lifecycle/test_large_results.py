"""Results of any size: a resumed or repeated run reads them, and never gets a wrong result."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
import pytest

import agf_magics as agf
from agf_magics.journal.codec.encoding import EncodedValue
from agf_magics.journal.codec.same_values import essence
from agf_magics.journal.database import value_files
from agf_magics.journal.database.store import Store
from agf_magics.lifecycle.past import past_runs
from agf_magics.lifecycle.recordings.stored_objects import folder_of
from agf_magics.lifecycle.storage import old_runs
from agf_magics.settings import settings
from tests.engine import kept

MAIN = """
pipeline: main
steps:
- tool: {name: load, output: data}
- tool: {name: grow, args: {data: !expr data}, output: more}
- tool: {name: same, args: {data: !expr more}, output: again}
- tool: {name: last, args: {one: !expr more, other: !expr again}}
"""

N = 2_000_000


@dataclass
class Fit:
    """A class of the user's with an array of 16 MB."""

    name: str
    weights: Any


KINDS: dict[str, Callable[[], Any]] = {
    "numpy": lambda: np.arange(N) * 1.5,
    "pandas": lambda: pd.DataFrame({"a": np.arange(N) * 1.5, "b": np.arange(N)}),
    "pandas with text": lambda: pd.DataFrame({"a": ["some words of a text"] * 600_000}),
    "polars": lambda: pl.DataFrame({"a": np.arange(N)}),
    "arrow": lambda: pa.table({"a": np.arange(N)}),
    "dataclass": lambda: Fit("fit", np.arange(N) * 1.5),
    "bytes": lambda: b"x" * 12_000_000,
    "text": lambda: "x" * 12_000_000,
    "rows": lambda: [{"n": n, "text": "word" * 50} for n in range(60_000)],
    "frames in a list": lambda: [pd.DataFrame({"a": np.arange(N)}), {"b": pl.DataFrame({"a": [1]})}],
}


@pytest.fixture(autouse=True)
def all_are_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that every result took longer to make than to store, so that all are stored."""
    monkeypatch.setattr(value_files, "RATE", 1e18)


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    with kept.journal_in(tmp_path) as path:
        yield path


SEEN: list[Any] = []
"""The arguments of the last tool. They are outside of its function, which would have no digest with so much data."""


class Session:
    """Tools that record their calls. The last one fails while ``fails`` has an element."""

    def __init__(self, make: Callable[[], Any], grow: Callable[[Any], Any] = lambda data: data) -> None:
        self.made, self.fails = calls, fails = list[str](), [True]
        self.registry = registry = agf.Registry()
        where = __name__
        self.edit(make, grow)

        @agf.tool(registry=registry)
        def same(data: Any) -> Any:
            calls.append("same")
            return data

        @agf.tool(registry=registry)
        def last(one: Any, other: Any) -> str:
            calls.append("last")
            sys.modules[where].SEEN[:] = one, other  # type: ignore[attr-defined]
            if fails:
                fails.pop()
                raise LookupError("not yet")
            return "done"

        agf.define(MAIN, registry=registry)

    def edit(self, make: Callable[[], Any], grow: Callable[[Any], Any] = lambda data: data) -> None:
        """Define the first tools again."""
        calls = self.made

        @agf.tool(registry=self.registry)
        def load() -> Any:
            calls.append("load")
            return make()

        @agf.tool(registry=self.registry, name="grow")
        def _grow(data: Any) -> Any:
            calls.append("grow")
            return grow(data)

    def run(self, **options: Any) -> Any:
        self.made.clear()
        return agf.run("main", registry=self.registry, raises=False, **options)

    def resume(self, run: Any, **options: Any) -> Any:
        self.made.clear()
        return agf.resume(run.run_id, registry=self.registry, **options)


def values_in(path: Path) -> list[Path]:
    folder = path.parent / "values"
    return sorted(folder.iterdir()) if folder.exists() else []


def codes(run: Any) -> list[str]:
    return [warning.code for warning in run.warnings]


def same_value(first: Any, second: Any) -> bool:
    if isinstance(first, Fit):
        return type(second) is Fit and same_value(first.weights, second.weights)
    if isinstance(first, np.ndarray):
        return bool(np.array_equal(first, second))
    if isinstance(first, list) and first and not isinstance(first[0], dict):
        return same_value(first[0], second[0]) and same_value(first[1]["b"], second[1]["b"])
    return bool(first.equals(second)) if hasattr(first, "equals") else bool(first == second)


@pytest.mark.parametrize("kind", KINDS)
def test_a_large_result_is_not_computed_again(kind: str, path: Path) -> None:
    session = Session(KINDS[kind])
    failed = session.run()
    assert (failed.error is not None, codes(failed)) == (True, [])
    before = [*SEEN]
    ended = session.resume(failed)
    assert (session.made, ended.output, codes(ended)) == (["last"], "done", [])
    first, second = SEEN
    assert type(first) is type(before[0])
    assert same_value(before[0], first)
    if kind not in (
        "rows",
        "frames in a list",
        "text",
        "bytes",
    ):  # values of these kinds are copied, or cannot be changed
        assert (first is second) == (before[0] is before[1])
    assert same_value(agf.runs(failed.run_id).load("steps[1]"), first)
    # A value that all steps pass on is stored once.
    assert sum(file.stat().st_size for file in values_in(path)) < 33_000_000


def test_identical_calls_of_later_runs_are_not_repeated(path: Path) -> None:
    def grown(frame: Any) -> Any:
        return frame.assign(c=frame["a"] * 2)

    session = Session(KINDS["pandas"], grown)
    session.fails.clear()
    first = session.run()
    files = values_in(path)
    again = session.run(reuse=True)
    assert (session.made, again.output) == ([], "done")
    assert values_in(path) == files, "two runs need one copy"
    past_runs.delete([first.run_id])
    assert values_in(path) == files
    assert (session.run(reuse=True).output, session.made) == ("done", [])
    loaded = agf.runs(again.run_id).load("steps[1]")
    assert loaded.equals(grown(KINDS["pandas"]()))

    @agf.tool(registry=session.registry)
    def last(one: Any, other: Any) -> int:
        session.made.append("edited")
        return len(one) - len(other)

    assert (session.run(reuse=True).output, session.made) == (0, ["edited"])


EDITS: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "a cell": lambda frame: frame.assign(a=frame["a"].where(frame.index != 1_234_567, frame["a"] + 1e-9)),
    "a name": lambda frame: frame.rename(columns={"b": "c"}),
    "a row less": lambda frame: frame.iloc[:-1],
}


@pytest.mark.parametrize("edit", EDITS)
def test_another_input_is_another_call(edit: str, path: Path) -> None:
    session = Session(KINDS["pandas"])
    agf.define(
        "pipeline: given\nsteps:\n- tool: {name: same, args: {data: !expr ctx.frame}}", registry=session.registry
    )
    frame = KINDS["pandas"]()
    for data, calls in ((frame, ["same"]), (frame.copy(), []), (EDITS[edit](frame), ["same"])):
        session.made.clear()
        reuse = bool(list(agf.runs()))
        run = agf.run("given", {"frame": data}, registry=session.registry, reuse=reuse)
        assert (session.made, run.output.equals(data)) == (calls, True)


def test_a_run_that_changed_an_object_makes_the_call_again(path: Path) -> None:
    def grow(frame: Any) -> Any:
        frame["new"] = 1.0
        return frame

    session = Session(KINDS["pandas"], grow)
    failed = session.run()
    assert codes(failed) == ["journal.unkept"]
    assert session.resume(failed).output == "done"
    assert session.made == ["grow", "last"]
    assert list(SEEN[0].columns) == ["a", "b", "new"]


def test_a_step_that_writes_into_a_column_in_place_is_made_again(path: Path) -> None:
    def grow(frame: Any) -> Any:
        frame["a"].array[7] += 1.0  # changes the frame itself, because pandas copies nothing
        return frame

    session = Session(KINDS["pandas"], grow)
    failed = session.run()
    assert "journal.unkept" in codes(failed)
    assert session.resume(failed).output == "done"
    # An earlier result may have been changed while it was stored. Then it is made again, too.
    assert "grow" in session.made
    assert SEEN[0]["a"].tolist()[6:9] == [9.0, 11.5, 12.0]


BETWEEN = """
pipeline: between
steps:
- tool: {name: load, output: data}
- tool: {name: same, args: {data: !expr data}}
- tool: {name: write}
- tool: {name: same, args: {data: !expr data}}
- tool: {name: last, args: {one: !expr data, other: 1}}
"""


@pytest.mark.parametrize("rate", [1e18, 1e-3], ids=["stored", "not stored"])
@pytest.mark.parametrize("kind", ["numpy", "pandas", "dataclass"])
def test_a_change_between_two_calls_counts_for_the_later_call(
    kind: str, rate: float, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each call its arguments are checked once, and no check comes before the next call."""
    monkeypatch.setattr(value_files, "RATE", rate)
    session = Session(KINDS[kind])
    held, make = SEEN, KINDS[kind]

    def load() -> Any:
        held[:] = [make()]
        return held[0]

    session.edit(load)
    calls, where = session.made, __name__

    @agf.tool(registry=session.registry)
    def write() -> str:
        calls.append("write")
        value = sys.modules[where].SEEN[0]  # type: ignore[attr-defined]
        array = value["a"].array if isinstance(value, pd.DataFrame) else getattr(value, "weights", value)
        array[7] += 1.0
        return "done"

    agf.define(BETWEEN, registry=session.registry)
    session.made.clear()
    failed = agf.run("between", registry=session.registry, raises=False)
    assert session.made == ["load", "same", "write", "same", "last"]
    session.resume(failed)
    assert session.made[-2:] == ["same", "last"]
    again = [warning for warning in failed.warnings if warning.code == "journal.unkept"]
    assert any("steps[3]" in str(warning) for warning in again), failed.warnings


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "gone": lambda file: file.unlink(),
    "another byte": lambda file: file.write_bytes(b"x" + file.read_bytes()[1:]),
    "cut": lambda file: os.truncate(file, file.stat().st_size - 1),
    "zeros": lambda file: file.write_bytes(bytes(file.stat().st_size)),
    "a link": lambda file: file.symlink_to(file.rename(file.with_name("other"))),
    "a pipe": lambda file: file.unlink() or os.mkfifo(file),  # type: ignore[func-returns-value]
}


@pytest.mark.skipif(os.name != "posix", reason="pipes and links")
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_part_is_never_read_and_its_call_is_made_again(damage: str, path: Path) -> None:
    session = Session(KINDS["numpy"], lambda data: data + 1.0)
    failed = session.run()
    Store.close_all()  # as in another process
    for file in values_in(path):
        DAMAGES[damage](file)
    with pytest.raises(agf.DefinitionError) as refused:
        agf.runs(failed.run_id).load("steps[1]")
    assert refused.value.code == "journal.unreadable"
    ended = session.resume(failed)
    assert (ended.output, session.made) == ("done", ["load", "grow", "last"])
    assert codes(ended) == ["journal.lost-value"] * 2
    assert np.array_equal(SEEN[0], KINDS["numpy"]() + 1.0)
    # The value is stored again.
    Store.close_all()
    assert np.array_equal(agf.runs(failed.run_id).load("steps[1]"), SEEN[0])


@pytest.mark.parametrize("other", [True, False])
def test_a_lost_result_that_is_different_now_is_a_warning(other: bool, path: Path) -> None:
    session = Session(KINDS["numpy"], lambda data: data + 1.0)
    failed = session.run()
    for file in values_in(path):
        file.unlink()
    if other:
        session.edit(lambda: np.arange(N) * 2.5, lambda data: data + 1.0)
    ended = session.resume(failed)
    # The last of the three calls has returned the object of the previous one, so no call needs it alone.
    count = {code: codes(ended).count(code) for code in ("journal.lost-value", "journal.not-the-same")}
    assert list(count.values()) == ([2, 2] if other else [2, 0])


def test_a_lost_result_of_a_call_with_an_effect_is_a_question(path: Path) -> None:
    calls = list[str]()
    registry = agf.Registry()

    @agf.tool(registry=registry, reuse=False)
    def book() -> Any:
        calls.append("book")
        return np.arange(N) * 1.5

    @agf.tool(registry=registry)
    def last(data: Any) -> str:
        if len(calls) < 2:
            raise LookupError("not yet")
        return "done"

    agf.define(
        "pipeline: booked\nsteps:\n- tool: {name: book, output: data}\n- tool: {name: last, args: {data: !expr data}}",
        registry=registry,
    )
    failed = agf.run("booked", registry=registry, raises=False)
    for file in values_in(path):
        file.unlink()
    waits = agf.resume(failed.run_id, registry=registry, raises=False, ask=None)
    assert (calls, waits.status) == (["book"], "waiting")
    assert agf.resume(failed.run_id, registry=registry, answer=True).output == "done"
    assert calls == ["book", "book"]


def test_nothing_of_a_strangers_folder_is_unpickled(path: Path, tmp_path: Path) -> None:
    session = Session(KINDS["dataclass"])
    failed = session.run()
    kept.flush(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE records SET sign = zeroblob(32) WHERE form = 'parts'")
        kept.seal(connection)
        connection.commit()
    for refuse in (lambda: agf.runs(failed.run_id).load("steps[0]"), lambda: session.resume(failed)):
        with pytest.raises(agf.DefinitionError) as refused:
            refuse()
        assert refused.value.code == "journal.unreadable"
    assert len(agf.runs(failed.run_id).calls) == 4
    session.fails.clear()
    assert session.resume(failed, trust=True).output == "done"


def test_a_class_that_is_gone_makes_the_call_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(lambda: Fit("fit", np.arange(N) * 1.0))
    failed = session.run()
    SEEN.clear()
    monkeypatch.delitem(globals(), "Fit")
    session.edit(lambda: None)
    ended = session.resume(failed)
    assert (ended.output, session.made) == ("done", ["load", "last"])
    assert codes(ended) == ["run.edited-since", "journal.lost-value", "journal.not-the-same"]


@pytest.mark.parametrize("other", [None, 2.5, 1.5 + 1e-9])
@pytest.mark.parametrize("kind", ["numpy", "pandas"])
def test_a_result_that_is_quick_to_make_is_made_again(
    kind: str, other: float | None, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(value_files, "RATE", 1e-3)
    session = Session(KINDS[kind])
    failed = session.run()
    assert (codes(failed), values_in(path)) == ([], [])
    if other is not None:
        array = np.arange(N) * other
        session.edit(lambda: array if kind == "numpy" else pd.DataFrame({"a": array, "b": np.arange(N)}))
    ended = session.resume(failed)
    assert ended.output == "done"
    assert session.made == ["load", "grow", "same", "last"]
    assert codes(ended) == ["journal.not-the-same"] * (0 if other is None else 3)


def test_the_result_of_an_effect_is_stored_however_quick_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_files, "RATE", 1e-3)
    monkeypatch.setattr(value_files, "FREE", 2.0)
    registry = agf.Registry()
    agf.tool(lambda: np.arange(N), name="book", registry=registry, reuse=False)
    agf.define("pipeline: booked\nsteps:\n- tool: {name: book}", registry=registry)
    run = agf.run("booked", registry=registry)
    assert np.array_equal(agf.runs(run.run_id).load("steps[0]"), np.arange(N))


STOPS: dict[str, Callable[[], Any]] = {
    "no pickle, small": threading.Lock,
    "no pickle, large": lambda: [np.arange(N), threading.Lock()],
    "a full disk": lambda: np.arange(N),
}


@pytest.mark.skipif(os.name != "posix", reason="limits")
@pytest.mark.parametrize("kind", ["tool", "agent"])
@pytest.mark.parametrize("why", STOPS)
def test_a_run_ends_where_a_result_must_be_stored_and_cannot(why: str, kind: str, path: Path) -> None:
    import resource

    calls, registry = list[str](), agf.Registry()

    def book(input: Any = None) -> Any:
        calls.append("book")
        return STOPS[why]()

    agf.tool(lambda given: calls.append("after"), name="after", registry=registry)
    if kind == "tool":
        agf.tool(lambda: book(), name="book", registry=registry, reuse=False)
        step = "tool: {name: book, output: booked, on_error: continue}"
    else:
        agf.agent(book, name="book", registry=registry)
        step = "agent: {identity: book, prompt: book, output: booked, on_error: continue}"
    text = f"pipeline: p\nsteps:\n- {step}\n- tool: {{name: after, args: {{given: !expr booked}}}}"
    agf.define(text, registry=registry)
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8_000_000, usual[1]))
    try:
        run = agf.run("p", registry=registry, raises=False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert (run.status, calls, codes(run)) == ("error", ["book"], [])
    assert getattr(run.error, "code", "") == "journal.unstored"
    assert ("File too large" if why == "a full disk" else "cannot be pickled") in str(run.error)
    if kind == "tool":  # the user decides whether it is called again
        waits = agf.resume(run.run_id, registry=registry, raises=False, ask=None)
        assert (waits.status, calls) == ("waiting", ["book"])


def test_a_disk_with_hardly_room_is_not_filled(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_files, "FREE", 2.0)
    session = Session(KINDS["pandas"])
    failed = session.run()
    assert codes(failed) == ["journal.unkept"] * 3
    assert "would stay free" in failed.warnings[0].message
    assert values_in(path) == []
    assert session.resume(failed).output == "done"


@pytest.mark.skipif(os.name != "posix", reason="limits")
def test_a_disk_that_fills_in_the_middle_leaves_nothing(path: Path) -> None:
    import resource

    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    session = Session(KINDS["numpy"])
    resource.setrlimit(resource.RLIMIT_FSIZE, (8_000_000, usual[1]))
    try:
        failed = session.run()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert codes(failed) == ["journal.unkept"] * 3
    assert "File too large" in failed.warnings[0].message
    assert values_in(path) == []
    assert session.resume(failed).output == "done"


def mount(*words: str) -> None:
    """Run `mount`, or skip the test where that is not allowed."""
    if not shutil.which("mount") or subprocess.run(["mount", *words], check=False, capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")


@contextmanager
def disk(path: Path, size: str) -> Iterator[Path]:
    """A disk of this size at ``path``."""
    path.mkdir()
    mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path))
    try:
        yield path
    finally:
        Store.close_all()
        subprocess.run(["umount", "--lazy", str(path)], check=False)


def test_a_read_only_folder_is_read_and_a_new_result_is_a_warning(path: Path) -> None:
    with disk(path.parent / "values", "200m") as values:
        session = Session(KINDS["numpy"])
        failed = session.run()
        Store.close_all()
        mount("-o", "remount,ro", str(values))
        assert session.resume(failed).output == "done"
        assert session.made == ["last"]
        assert (session.run(reuse=True).output, session.made) == ("done", [])
        session.edit(lambda: np.arange(N) * 2.5)
        new = session.run()
        assert (new.output, codes(new)) == ("done", ["journal.unkept"] * 3)
        assert "Read-only file system" in new.warnings[0].message
        assert past_runs.prune(days=0, size=1)[0] == 3
        assert len(values_in(path)) == 1, "nobody can delete it"


def test_a_small_disk_is_not_filled_by_what_can_be_made_again_and_an_effect_ends_the_run(tmp_path: Path) -> None:
    registry = agf.Registry()
    agf.tool(lambda n: np.arange(1_000_000) + n, name="make", registry=registry)
    agf.tool(lambda n: np.arange(1_000_000) - n, name="book", registry=registry, reuse=False)
    for name in ("make", "book"):
        steps = "".join(f"\n- tool: {{name: {name}, args: {{n: {n}}}, output: n{n}}}" for n in (10, 20, 30))
        agf.define(f"pipeline: {name}\nsteps:{steps}\n- transform: {{value: \"'done'\"}}", registry=registry)
    with disk(tmp_path / "disk", "24m") as small, kept.journal_in(small) as path:
        settings.current.settings = replace(settings.current.settings, journal_value=1_000_000)
        run = agf.run("make", registry=registry)
        assert (run.output, codes(run)) == ("done", ["journal.unkept"])
        assert old_runs.most_bytes(Store.at(path)) == shutil.disk_usage(small).total // 10
        booked = agf.run("book", registry=registry, raises=False)
        assert (booked.status, getattr(booked.error, "code", "")) == ("error", "journal.unstored")
        assert "No space left on device" in str(booked.error)
        assert not [file for file in values_in(path) if file.suffix == ".part"]
        assert np.array_equal(agf.runs(run.run_id).load("steps[1]"), np.arange(1_000_000) + 20)
        assert agf.resume(booked.run_id, registry=registry, raises=False, ask=None).status == "waiting"


def test_a_folder_that_cannot_be_written_is_a_warning(path: Path) -> None:
    (path.parent / "values").write_text("a file is in its place")
    session = Session(KINDS["numpy"])
    failed = session.run()
    assert codes(failed) == ["journal.unkept"] * 3
    assert session.resume(failed).output == "done"


SECRET = "sk-0123456789abcdef"

HOLDERS: dict[str, Callable[[], Any]] = {
    "text": lambda: "x" * 12_000_000 + SECRET,
    "rows": lambda: [{"n": n, "text": "word" * 50} for n in range(60_000)] + [{"key": SECRET}],
    "pandas": lambda: pd.DataFrame({"a": ["word" * 50] * 60_000 + [SECRET]}),
    "polars": lambda: pl.DataFrame({"a": ["word" * 50] * 60_000 + [SECRET]}),
    "array": lambda: np.frombuffer(b"x" * 12_000_000 + SECRET.encode(), "u1"),
    "dataclass": lambda: Fit(SECRET, np.arange(N) * 1.0),
}


@pytest.mark.parametrize("kind", HOLDERS)
def test_a_secret_of_the_environment_is_not_stored(kind: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_API_KEY", SECRET)
    session = Session(HOLDERS[kind])
    failed = session.run()
    assert codes(failed) == ["journal.unkept"] * 3
    kept.flush(path)
    Store.close_all()
    for file in path.parent.rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes()


@pytest.mark.parametrize("kind", HOLDERS)
def test_a_secret_argument_is_not_stored_in_a_result(kind: str, path: Path) -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry, secret=["token"])
    def fetch(token: str) -> Any:
        return HOLDERS[kind]()

    agf.define(
        "pipeline: fetched\nsteps:\n- tool: {name: fetch, args: {token: !expr ctx.token}, output: data}",
        registry=registry,
    )
    run = agf.run("fetched", {"token": SECRET}, registry=registry)
    assert codes(run) == ["journal.unkept"]
    kept.flush(path)
    Store.close_all()
    for file in path.parent.rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes()


SECRETS: dict[str, Callable[[int], Any]] = {
    "large text": lambda n: f"{n}{'x' * 12_000_000}{SECRET}",
    "small text": lambda n: f"{n} {SECRET}",
    "rows": lambda n: [{"n": n}] * 60_000 + [{"key": SECRET, "text": "word" * 3_000_000}],
    "array": lambda n: np.frombuffer(f"{n}{'x' * 12_000_000}{SECRET}".encode(), "u1"),
    "dataclass": lambda n: Fit(SECRET, np.arange(N) * 1.0 + n),
}


@pytest.mark.parametrize("other", [True, False])
@pytest.mark.parametrize("kind", SECRETS)
def test_a_value_with_a_secret_that_is_different_now_is_a_warning(
    kind: str, other: bool, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVICE_API_KEY", SECRET)
    registry, values, fails = agf.Registry(), [1], [True]
    agf.tool(lambda: SECRETS[kind](values[0]), name="make", registry=registry)
    agf.tool(lambda given: 1 / (0 if fails else 1), name="stop", registry=registry)
    steps = "- tool: {name: make, args: {}, output: made}\n- tool: {name: stop, args: {given: !expr made}}"
    agf.define(f"pipeline: kept\nsteps:\n{steps}", registry=registry)
    failed = agf.run("kept", registry=registry, raises=False)
    kept.flush(path)
    Store.close_all()
    values[0] += other
    fails.clear()
    ended = agf.resume(failed.run_id, registry=registry)
    assert codes(ended).count("journal.not-the-same") == other, codes(ended)


def test_the_digest_of_a_value_with_a_secret_is_no_digest_of_the_secret(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two calls, or two runs, return the same value. Their digests differ, and nobody can compute them without the
    key."""
    monkeypatch.setenv("SERVICE_API_KEY", SECRET)
    registry = agf.Registry()
    agf.tool(lambda: SECRET, name="make", registry=registry)
    agf.define(
        "pipeline: kept\nsteps:\n- tool: {name: make, args: {}}\n- tool: {name: make, args: {}}", registry=registry
    )
    for _ in range(2):
        agf.run("kept", registry=registry)
    kept.flush(path)
    Store.close_all()
    with closing(sqlite3.connect(path)) as database:
        rows = [row for (row,) in database.execute("SELECT value FROM records WHERE form='again'")]
    assert (len(rows), len(set(rows)), set(map(len, rows))) == (4, 4, {32})
    plain = essence(EncodedValue("json", f'"{SECRET}"')).digest
    assert not any(plain[:16] in row for row in rows)


def test_a_column_that_was_stored_before_its_secret_was_known_is_searched_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVICE_API_KEY", "another-0123456789")
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def load() -> Any:
        return pd.DataFrame({"a": [*["word" * 50] * 30_000, SECRET, *["word" * 50] * 30_000]})

    @agf.tool(registry=registry)
    def grow(data: Any, name: str) -> Any:
        return data.assign(**{name: np.arange(len(data))})

    @agf.tool(registry=registry)
    def key() -> str:
        return SECRET

    @agf.tool(registry=registry, secret=["token"])
    def sign_in(token: str) -> str:
        return "done"

    agf.define(
        "pipeline: late\nsteps:\n- tool: {name: load, output: one}\n"
        "- tool: {name: grow, args: {data: !expr one, name: b}, output: two}\n"
        "- tool: {name: key, output: key}\n"
        "- tool: {name: sign_in, args: {token: !expr key}}\n"
        "- tool: {name: grow, args: {data: !expr two, name: c}}",
        registry=registry,
    )
    run = agf.run("late", registry=registry)
    places_warned = [place for place in range(5) if any(f"steps[{place}]" in str(warning) for warning in run.warnings)]
    # The second table may still be written when the secret becomes known.
    assert [place for place in places_warned if place != 1] == [2, 4], "the key itself, and the column that has it"


@pytest.mark.parametrize("rate", [1e18, 1e-3])
def test_rows_of_a_table_have_their_large_values_however_quick_they_were(
    rate: float, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(value_files, "RATE", rate)
    registry = agf.Registry()
    agf.tool(lambda n: np.arange(N) + n, name="make", registry=registry)
    agf.define("pipeline: rows\nsteps:\n- tool: {name: make, args: {n: !expr ctx.n}}", registry=registry)
    run = agf.run("rows", over=[{"n": 1}, {"n": 2}], registry=registry)
    for table in (run.table, agf.runs(run.run_id).table):
        assert [int(row["output"][0]) for row in table] == [1, 2]
    scored = agf.score_over(run.run_id, lambda output, row: int(output[-1]) - row["n"] == N - 1)
    assert "1 [1, 1]" in str(scored)
    compared = agf.runs(run.run_id).compare(agf.run("rows", over=[{"n": 1}, {"n": 3}], registry=registry))
    of_rows = next(row for row in compared if row["name"] == "rows")
    assert (of_rows["same output"], of_rows["not compared"]) == (1, 0)


FAN = """
pipeline: fan
steps:
- for_each:
    over: ctx.numbers
    on_error: abort
    do: {tool: {name: make, args: {n: !expr item}}}
    collect: {transform: {value: pipe}}
    output: arrays
- tool: {name: last, args: {arrays: !expr arrays}}
"""


@pytest.mark.parametrize("on", ["here", "processes:2"])
def test_elements_of_a_fan_out_have_large_results(on: str, path: Path, tmp_path: Path) -> None:
    fails, registry = [True], agf.Registry()

    @agf.tool(registry=registry)
    def make(n: int) -> Any:
        with (tmp_path / "calls").open("a") as file:
            file.write(f"{n} ")
        return np.arange(2_000_000) + n

    @agf.tool(registry=registry, where="kernel")
    def last(arrays: Any) -> list[int]:
        if fails:
            fails.pop()
            raise LookupError("not yet")
        return [int(array[0]) for array in arrays]

    agf.define(FAN, registry=registry)
    failed = agf.run("fan", {"numbers": [1, 2, 3]}, registry=registry, on=on, raises=False)
    assert codes(failed) == []
    assert agf.resume(failed.run_id, registry=registry, on=on).output == [1, 2, 3]
    assert sorted((tmp_path / "calls").read_text().split()) == ["1", "2", "3"]


def test_runs_are_compared_by_the_digests_of_their_values(path: Path) -> None:
    session = Session(KINDS["numpy"])
    session.fails.clear()
    first, same = session.run(), session.run()
    session.edit(lambda: np.arange(N) * 2.5)
    other = session.run()
    compared = agf.runs(first.run_id).compare(same.run_id)
    assert [row["same output"] for row in compared] == [1, 1, 1, 1]
    compared = agf.runs(first.run_id).compare(other.run_id)
    assert [row["differs"] for row in compared][:3] == ["yes"] * 3


def test_stale_reads_what_reuse_would_read(path: Path) -> None:
    session = Session(KINDS["pandas"])
    session.fails.clear()
    run = session.run()
    rows = agf.stale(run.run_id, registry=session.registry)
    assert [row["state"] for row in rows] == ["reused"] * 4


def test_deleted_runs_take_their_values_with_them(path: Path) -> None:
    session = Session(KINDS["numpy"])
    session.fails.clear()
    first = session.run()
    shared = values_in(path)
    session.edit(lambda: np.arange(N) * 2.5)
    other = session.run()
    assert len(values_in(path)) == 2 * len(shared)
    past_runs.delete([other.run_id])
    assert values_in(path) == shared
    left_behind = path.parent / "values" / "99999999-0123456789ab-3.part"
    left_behind.write_bytes(b"a process was killed")
    before = past_runs.journal_bytes()
    number, size = past_runs.prune(days=1e-9)
    assert (number, values_in(path)) == (1, [])
    assert before - size > 15_000_000
    assert first.run_id not in {run.run_id for run in agf.runs()}


def test_the_oldest_runs_go_until_the_values_have_room(path: Path) -> None:
    session = Session(KINDS["numpy"])
    session.fails.clear()
    for factor in (1.0, 2.0, 3.0, 3.0):
        session.edit(lambda factor=factor: np.arange(N) * factor)  # type: ignore[misc]
        session.run()
    assert len(values_in(path)) == 3
    number, size = past_runs.prune(size=40_000_000)
    assert (number, len(values_in(path))) == (1, 2), "the last two runs share theirs"
    assert size <= 40_000_000
    assert past_runs.prune(size=20_000_000)[0] == 1
    assert len(list(agf.runs())) == 2


def test_a_running_run_keeps_its_values_while_others_are_deleted(path: Path) -> None:
    session = Session(KINDS["numpy"])
    session.fails.clear()
    old = session.run()

    def grow(data: Any) -> Any:
        past_runs.delete([old.run_id])  # deletes the only other run with these bytes
        return data

    session.edit(KINDS["numpy"], grow)
    run = session.run()
    assert np.array_equal(agf.runs(run.run_id).load("steps[0]"), KINDS["numpy"]())


def recorded_in(folder: Path, names: str = "frame") -> tuple[Path, agf.Registry]:
    """A recording of a run whose tool returns a value of 12 MB, a small table, or an object of the user's class."""
    registry, fit = agf.Registry(), Fit("fit", np.arange(N) * 1.5)
    returned = {"rows": KINDS["rows"](), "frame": KINDS["pandas"](), "small": pd.DataFrame({"a": [1]}), "fit": fit}
    for name, value in returned.items():
        agf.tool(lambda value=value: value, name=name, registry=registry)
    steps = "".join(f"- tool: {{name: {name}, args: {{}}, output: {name}}}\n" for name in names.split())
    agf.define(f"pipeline: recorded\nsteps:\n{steps}", registry=registry)
    folder.mkdir(exist_ok=True)
    recorded = agf.record(agf.run("recorded", registry=registry), folder / "run.agf")
    for name in returned:  # no tool is called again
        agf.tool(lambda: 1 / 0, name=name, registry=registry)
    return recorded, registry


def test_a_recording_has_objects_and_is_moved_with_its_folder(path: Path, tmp_path: Path) -> None:
    _, registry = recorded_in(tmp_path / "first", "rows frame small fit")
    assert len(list((tmp_path / "first" / "run.agf.values").iterdir())) == 2, "two columns, of which one is the array"
    shutil.move(tmp_path / "first", tmp_path / "moved")
    with agf.replay(tmp_path / "moved" / "run.agf"):
        stores = agf.run("recorded", registry=registry).stores
    for name, kind in {"rows": "rows", "frame": "pandas"}.items():
        assert same_value(stores[name], KINDS[kind]())
    assert stores["small"].equals(pd.DataFrame({"a": [1]}))
    assert same_value(stores["fit"], Fit("fit", np.arange(N) * 1.5))
    # A new recording has only the files that it needs.
    recorded_in(tmp_path / "moved", "small")
    assert not (tmp_path / "moved" / "run.agf.values").exists()


BAD_RECORDINGS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no folder": (lambda file: shutil.rmtree(folder_of(file)), "is missing"),
    "a part is cut": (lambda file: os.truncate(next(folder_of(file).iterdir()), 10), "not what was written"),
    "a part is a link": (lambda file: link(next(folder_of(file).iterdir())), "a part of it is not there"),
    "another's key": (lambda file: file.write_text(file.read_text().replace('"sign": "', '"sign": "00')), "signed"),
}


def link(file: Path) -> None:
    moved = file.rename(file.parent.parent / "elsewhere")
    file.symlink_to(moved)


@pytest.mark.parametrize("bad", BAD_RECORDINGS)
def test_a_recording_that_cannot_be_read_says_why_and_what_to_do(bad: str, path: Path, tmp_path: Path) -> None:
    recorded, registry = recorded_in(tmp_path / "bad")
    damage, why = BAD_RECORDINGS[bad]
    damage(recorded)
    with agf.replay(recorded):
        replayed = agf.run("recorded", registry=registry, raises=False)
    assert getattr(replayed.error, "code", "") == "replay.opaque"
    problem = replayed.error.diagnostic
    assert why in problem.message
    assert ("put the folder run.agf.values beside run.agf" in problem.hint) is (bad == "no folder")
    agf.tool(lambda: "made", name="frame", registry=registry)
    with agf.replay(recorded, missing="call"):
        assert agf.run("recorded", registry=registry).stores["frame"] == "made"


def test_a_recording_that_is_redacted_has_no_objects(path: Path, tmp_path: Path) -> None:
    registry = agf.Registry()
    agf.tool(KINDS["pandas"], name="frame", registry=registry)
    agf.define("pipeline: recorded\nsteps:\n- tool: {name: frame, args: {}, output: data}", registry=registry)
    recorded = agf.record(agf.run("recorded", registry=registry), tmp_path / "run.agf", redact=lambda line: line)
    assert "stored" not in recorded.read_text()
    assert not folder_of(recorded).exists()


def test_a_copy_of_a_run_has_no_values(path: Path, tmp_path: Path) -> None:
    session = Session(KINDS["numpy"])
    session.fails.clear()
    run = session.run()
    exported = agf.runs(run.run_id).export(tmp_path / "run.json")
    assert exported.stat().st_size < 100_000
    copy = agf.import_run(exported)
    with pytest.raises(agf.DefinitionError):
        copy.load("steps[0]")


def test_the_journal_is_moved_with_its_folder(path: Path, tmp_path: Path) -> None:
    session = Session(KINDS["pandas"])
    failed = session.run()
    kept.flush(path)
    Store.close_all()
    (tmp_path / "moved").mkdir()
    for name in ("runs.sqlite", "values"):
        shutil.move(tmp_path / name, tmp_path / "moved" / name)
    settings.current.settings = replace(settings.current.settings, journal=str(tmp_path / "moved" / "runs.sqlite"))
    assert session.resume(failed).output == "done"
    assert session.made == ["last"]
