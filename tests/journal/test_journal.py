"""The content of the journal on the disk, and runs whose journal fails: no lost result, no traceback, no stored
secret."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
import tracemalloc
from array import array
from collections.abc import Callable
from contextlib import closing
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import agf_magics as agf
from agf_magics.flow.progress.events import Warned
from agf_magics.journal import claims, deletion
from agf_magics.journal import runs as queries
from agf_magics.journal.codec.encoding import decode_value, encode_value, json_text, to_show
from agf_magics.journal.codec.pickles import NotPicklable, pickled
from agf_magics.journal.codec.signatures import row_crc
from agf_magics.journal.database.store import ROOM, Store
from agf_magics.lifecycle.past import past_runs
from agf_magics.lifecycle.storage.old_runs import NEWEST_KEPT, forget_old
from agf_magics.pictures.pages.past_page import past_html, past_text
from agf_magics.settings import settings
from agf_magics.text.length import weigh
from tests.engine import kept

TWO = """\
pipeline: main
steps:
- tool: {name: first, args: {}, output: one}
- tool: {name: second, args: {value: !expr one}, output: two}
"""


def registry_of(first: Any, second: Any = lambda value: "seen") -> agf.Registry:
    registry = agf.Registry()
    agf.tool(first, name="first", registry=registry)
    agf.tool(second, name="second", registry=registry)
    agf.define(TWO, registry=registry)
    return registry


def codes(run: agf.Run) -> list[str]:
    return [warning.code for warning in run.warnings]


# --- values ---


@pytest.mark.parametrize(
    "value",
    [None, True, 1, -0.0, 10**30, float("inf"), "", "\ud800 \x00 é", [], {}, {"a": [1, {"b": None}]}, [1.0, 1, True]],
    ids=repr,
)
def test_json_is_read_as_it_was_written(value: Any) -> None:
    packed = encode_value(value, 1_000)
    assert packed.form == "json"
    assert repr(decode_value(packed.form, packed.data)) == repr(value)


@pytest.mark.parametrize("char", [*map(chr, range(128)), "é", "\ud800", "😀"], ids=ascii)
def test_a_long_text_has_the_same_json_as_a_short_one(char: str) -> None:
    text = "long" * 2_000 + char
    for value in (text, {char: text, "n": [text, 1.5]}, [text, {"inner": text}, None], [text] * 20):
        whole = json.dumps(value, separators=(",", ":"))
        assert encode_value(value, 1_000_000).data == json_text(value, 1_000_000) == whole
        assert to_show(value, 1_000_000) == (whole, True)


def test_a_mapping_whose_keys_are_no_texts_is_not_taken_for_json() -> None:
    packed = encode_value({1: "a", None: "b"}, 1_000)
    assert packed.form == "pickle"
    assert decode_value(packed.form, packed.data) == {1: "a", None: "b"}


def test_a_value_that_shares_its_parts_is_weighed_before_it_is_written() -> None:
    text = "x" * 1_000_000
    assert weigh([text] * 1_000) > 10**9
    assert encode_value([text] * 1_000, 10_000_000).form == "again"


def test_what_python_cannot_pickle_cloudpickle_can() -> None:
    def adding(n: int) -> Any:
        return lambda x: x + n

    packed = encode_value(adding(2), 10_000)
    assert packed.form == "pickle"
    assert decode_value(packed.form, packed.data)(40) == 42


@pytest.mark.parametrize(
    "make",
    [
        lambda: memoryview(b"abc"),
        lambda: memoryview(array("i", [1, 2, 3])),
        lambda: {"view": [memoryview(b"abc")]},
        lambda: open(__file__, encoding="utf-8"),  # noqa: SIM115 - a run has it
    ],
    ids=["bytes", "numbers", "within", "file"],
)
def test_what_would_come_back_as_another_type_is_not_stored(
    make: Callable[[], Any], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    registry, calls, types = agf.Registry(), list[Any](), list[type]()

    @agf.tool(registry=registry)
    def get() -> Any:
        calls.append(make())
        return calls[-1]

    @agf.tool(registry=registry)
    def use(value: Any) -> str:
        types.append(type(value))
        return "used" if len(types) > 1 else str(1 / 0)

    text = "pipeline: p\nsteps:\n- tool: {name: get, output: got}\n- tool: {name: use, args: {value: !expr got}}\n"
    with kept.journal_in(tmp_path):
        failed = agf.run(text, registry=registry, raises=False)
        assert [warning.code for warning in failed.warnings] == ["journal.unkept"]
        assert agf.resume(failed.run_id, registry=registry).output == "used"
    assert types[0] is types[1]
    assert len(calls) == 2
    for value in calls if request.node.callspec.id == "file" else ():
        value.close()


def test_a_large_opaque_value_is_not_pickled_to_its_end() -> None:
    packed = encode_value({1: "x" * 100_000}, 10_000)
    assert (packed.form, packed.data) == ("again", None)
    assert packed.why == "it has more than 10,000 bytes"


LARGE: dict[str, Callable[[], Any]] = {
    "array": lambda: np.zeros(1_000_000),
    "columns": lambda: pd.DataFrame({"a": np.zeros(500_000), "b": np.zeros(500_000)}),
    "text": lambda: pd.DataFrame({"a": ["some words of a text"] * 400_000}),
    "arrow": lambda: pa.table({"a": np.zeros(1_000_000)}),
    "polars": lambda: pl.DataFrame({"a": np.zeros(1_000_000)}),
    "series of polars": lambda: pl.Series(np.zeros(1_000_000)),
}
"""Data of 8 MB."""
PLACES: dict[str, Callable[[Any], Any]] = {
    "alone": lambda data: data,
    "in a mapping": lambda data: {"rows": [data], 1: 2},
    "beside a lambda": lambda data: (lambda: 1, data),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", LARGE)
def test_large_data_is_not_copied_to_find_out_that_it_is_too_large(kind: str, place: str) -> None:
    value = PLACES[place](LARGE[kind]())
    encode_value(value, 1_000)  # imports the modules that it needs
    tracemalloc.start()
    try:
        packed = encode_value(value, 1_000_000)
        copied = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (packed.form, packed.why) == ("again", "it has more than 1 MB")
    assert copied < 2_000_000


@pytest.mark.parametrize("value", [date(2026, 11, 23), {"a": Fraction(1, 3), "b": (Decimal("0.1"),)}, re.compile("a+")])
def test_values_are_pickled_where_polars_is_loaded(value: object) -> None:
    assert pl.__name__ in sys.modules
    assert pickle.loads(pickled(value, 10_000)) == value
    with pytest.raises(NotPicklable, match="cannot pickle '_thread"):
        pickled({"value": value, "lock": threading.Lock()}, 10_000)


@pytest.mark.parametrize("kind", LARGE)
def test_data_that_is_not_too_large_is_stored_once(kind: str) -> None:
    value = LARGE[kind]()
    packed = encode_value([value, value], 20_000_000)
    first, second = decode_value(packed.form, packed.data)
    assert first is second
    assert (type(first), str(first)) == (type(value), str(value))


def test_a_number_too_long_for_a_text_is_kept(tmp_path: Path) -> None:
    fails = [True]

    def second(value: int) -> str:
        return "seen" if not fails[0] else str(1 / 0)

    with kept.journal_in(tmp_path):
        registry = registry_of(lambda: 7**9_000, second)
        failed = agf.run("main", {"n": 3**9_000}, registry=registry, raises=False)
        assert failed.error.code == "step.tool-failed"
        assert "bits" in past_text(agf.runs(failed.run_id))
        fails[0] = False
        run = agf.resume(failed.run_id, registry=registry)
    assert (run.output, run.stores["one"], run.input["n"], run.warnings) == ("seen", 7**9_000, 3**9_000, ())


class Point:
    """A class that can be imported by its name."""

    def __init__(self, x: int) -> None:
        self.x = x


def test_an_opaque_value_is_available_in_a_resumed_run(tmp_path: Path) -> None:
    received: list[Any] = []

    def second(value: Any) -> str:
        received.append(value)
        if len(received) < 2:
            raise LookupError("not yet")
        return "seen"

    with kept.journal_in(tmp_path):
        registry = registry_of(lambda: Point(3), second)
        failed = agf.run("main", registry=registry, raises=False)
        assert agf.resume(failed.run_id, registry=registry).output == "seen"
    assert (type(received[1]), received[1].x, received[1] is received[0]) == (Point, 3, False)


def test_a_call_whose_result_cannot_be_stored_is_repeated_with_a_warning(tmp_path: Path) -> None:
    calls: list[int] = []

    def second(value: Any) -> str:
        if len(calls) < 2:
            raise LookupError("not yet")
        return "seen"

    def first() -> Any:
        calls.append(1)
        return threading.Lock()

    with kept.journal_in(tmp_path):
        registry = registry_of(first, second)
        failed = agf.run("main", registry=registry, raises=False)
        assert codes(failed) == ["journal.unkept"]
        assert agf.resume(failed.run_id, registry=registry).output == "seen"


class Bomb:
    """An object that creates a file when it is unpickled."""

    def __reduce__(self) -> Any:
        return Path.touch, (Path("exploded"),)


def test_nothing_is_unpickled_to_list_show_compare_or_export_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with kept.journal_in(tmp_path):
        agf.run("main", registry=registry_of(Bomb, lambda value: value))
        (listed,) = agf.runs()
        run = agf.runs(listed.run_id)
        texts = [repr(agf.runs()), past_text(run), past_html(run), repr(run.trace), repr(run.calls)]
        texts += [repr(run.shown_output), repr(run.compare(run)), run.export("run.json").read_text()]
        assert all("Bomb" in text for text in (texts[1], texts[4], texts[5], texts[7]))
        assert not Path("exploded").exists()
        run.load()
        assert Path("exploded").exists()


def test_a_value_that_somebody_else_has_signed_is_refused_unless_it_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails = [True]

    def second(value: Any) -> str:
        if fails[0]:
            raise LookupError("not yet")
        return "seen"

    registry = registry_of(lambda: Point(3), second)
    with kept.journal_in(tmp_path):
        failed = agf.run("main", registry=registry, raises=False)
        fails[0] = False
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "somebody else"))
        with pytest.raises(agf.DefinitionError) as caught:
            agf.resume(failed.run_id, registry=registry)
        assert caught.value.code == "journal.unreadable"
        assert "not signed with your key" in caught.value.diagnostic.message
        assert agf.resume(failed.run_id, registry=registry, trust=True).output == "seen"


def test_a_signed_value_cannot_be_moved_to_another_call(tmp_path: Path) -> None:
    with kept.journal_in(tmp_path) as path:
        registry = registry_of(lambda: Point(3), lambda value: 1 / 0)
        failed = agf.run("main", registry=registry, raises=False)
        kept.flush(path)
        foreign = pickle.dumps(Point(4))
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("UPDATE records SET value=? WHERE form='pickle'", (foreign,))
            connection.commit()
        with pytest.raises(agf.DefinitionError) as caught:
            agf.resume(failed.run_id, registry=registry)
    assert caught.value.code in ("journal.damaged", "journal.unreadable")


# --- secrets ---

SECRET = """\
pipeline: main
steps:
- tool: {name: key, args: {}, output: made}
- tool: {name: fetch, args: {path: notes, token: !expr ctx.token, other: !expr made}, output: got}
- tool: {name: fail, args: {}}
"""


@pytest.mark.parametrize(
    ("words", "names", "message", "hint"),
    [
        (settings.Phrases(), "a", "needs a, which is secret", "give it again: --set a=… (in Python: input={'a': …})"),
        (
            settings.Phrases(),
            "ab",
            "needs a, b, which are secret",
            "give them again: --set a=… --set b=… (in Python: input={'a': …, 'b': …})",
        ),
        (
            settings.COMMAND_LINE,
            "ab",
            "needs a, b, which are secret",
            'give them again: --input FILE.json, with {"a": …, "b": …}',
        ),
        (settings.MCP_CLIENT, "ab", "needs a, b, which are secret", "give them again: as 'a' and 'b' of the arguments"),
    ],
)
def test_all_secrets_that_must_be_given_again_are_named(
    words: settings.Phrases, names: str, message: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = agf.Registry()
    for name in names:
        agf.tool(lambda value: 1 / 0, name=f"use_{name}", secret=["value"], registry=registry)
    uses = "\n".join(
        f"      {name}: {{tool: {{name: use_{name}, args: {{value: !expr ctx.{name}}}}}}}" for name in names
    )
    text = f"pipeline: p\nsteps:\n- parallel:\n    branches:\n{uses}\n    collect: {{transform: {{value: pipe}}}}"
    flow = agf.define(text, registry=registry)
    with kept.journal_in(tmp_path):
        failed = agf.run(flow, {name: f"s3cret-{name}-long" for name in names}, registry=registry, raises=False)
        monkeypatch.setattr(settings.current, "words", words)
        with pytest.raises(agf.DefinitionError) as caught:
            agf.resume(failed.run_id, registry=registry)
    diagnostic = caught.value.diagnostics[0]
    assert message in diagnostic.message
    assert diagnostic.hint == hint


def test_no_secret_is_stored_and_a_resumed_run_uses_the_real_ones(tmp_path: Path) -> None:
    registry, received, fails = agf.Registry(), list[tuple[str, str]](), [True]

    @agf.tool(registry=registry)
    def key() -> str:
        return "m4de-by-a-tool"

    @agf.tool(registry=registry, secret=["token", "other"])
    def fetch(path: str, token: str, other: str) -> str:
        received.append((token, other))
        return f"{path} by {token}"

    @agf.tool(registry=registry)
    def fail() -> str:
        if fails[0]:
            raise LookupError(f"{received}")
        return "done"

    agf.define(SECRET, registry=registry)
    with kept.journal_in(tmp_path) as path:
        failed = agf.run("main", {"token": "s3cret-t0ken", "doc": "shown"}, registry=registry, raises=False)
        disk = kept.on_disk(path)
        assert b"shown" in disk
        assert b"s3cret-t0ken" not in disk
        assert b"m4de-by-a-tool" not in disk
        fails[0] = False
        with pytest.raises(agf.DefinitionError) as caught:
            agf.resume(failed.run_id, registry=registry)
        assert caught.value.code == "journal.secret"
        run = agf.resume(failed.run_id, registry=registry, input={"token": "s3cret-t0ken"})
    assert run.output == "done"
    assert run.stores["got"] == "notes by s3cret-t0ken"
    assert received == [("s3cret-t0ken", "m4de-by-a-tool")] * 2


def test_a_secret_argument_of_a_plan_is_not_stored(tmp_path: Path) -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry, secret=["token"])
    def fetch(path: str, token: str) -> str:
        return f"{path} by somebody"

    text = "- {_tool: fetch, path: †input.path, token: †input.token, _outputPath: †state.got}\n"
    with kept.journal_in(tmp_path) as path:
        flow = agf.load(text, "plan", registry=registry)
        agf.run(flow, {"token": "s3cret-t0ken", "path": "shown"}, registry=registry)
        disk = kept.on_disk(path)
    assert b"shown" in disk
    assert b"s3cret-t0ken" not in disk


def test_a_secret_that_a_node_of_a_graph_makes_is_not_stored(tmp_path: Path) -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def key() -> str:
        return "m4de-by-a-tool"

    @agf.tool(registry=registry, secret=["token"])
    def fetch(path: str, token: str) -> str:
        return f"{path} by somebody"

    text = """\
name: g
state: {path: str, token: str, got: str}
nodes:
  k: {type: tool, tool: key, state_key: token}
  a: {type: tool, tool: fetch, state_key: got, variables: {path: "{state.path}", token: "{state.token}"}}
edges: [{from: START, to: k}, {from: k, to: a}, {from: a, to: END}]
"""
    with kept.journal_in(tmp_path) as path:
        run = agf.run(agf.load(text, registry=registry), {"path": "shown"}, registry=registry)
        disk = kept.on_disk(path)
    assert run.output["got"] == "shown by somebody"
    assert b"m4de-by-a-tool" not in disk


# --- the file ---


def test_the_folder_is_private_and_ignored_by_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    with kept.journal_in(tmp_path):
        settings.current.settings = settings.Settings()
        agf.run("main", registry=registry_of(lambda: 1))
    folder = tmp_path / ".agf"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "runs.sqlite").stat().st_mode & 0o777 == 0o600
    assert (folder / ".gitignore").read_text() == "*\n"
    assert not any((folder / "owners").iterdir()), "a process that ended holds nothing"


def test_a_run_continues_where_no_file_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a file where a folder should be")
    with kept.journal_in(tmp_path / "a"):
        for _ in range(2):
            run = agf.run("main", registry=registry_of(lambda: 1))
            assert (run.output, codes(run)) == ("seen", ["journal.unwritable"])


FULL = """
import json, os, resource, sys
from dataclasses import replace
import agf_magics as agf
from agf_magics.settings.settings import current

current.settings = replace(current.settings, journal=os.path.abspath("runs.sqlite"))
agf.tool(lambda number: [number] * 100, name="many", where="loop")
agf.define('''pipeline: main
steps:
- for_each: {over: ctx.numbers, on_error: abort, do: {tool: {name: many, args: {number: !expr item}}},
             collect: {transform: {value: "count(pipe)"}}}
''')
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
run = agf.run("main", {"numbers": list(range(500))})
print(json.dumps([run.status, run.output, [found.code for found in run.warnings]]))
"""


@pytest.mark.parametrize("room", [0, 5_000, 60_000, 150_000])
def test_a_full_disk_ends_the_journal_and_not_the_run(room: int, tmp_path: Path) -> None:
    # Coverage is not measured, because that would need disk space of its own.
    alone = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    completed = subprocess.run(
        [sys.executable, "-c", FULL, str(room)], cwd=tmp_path, env=alone, capture_output=True, text=True, check=True
    )
    assert json.loads(completed.stdout) == ["ok", 500, ["journal.full"]]
    assert completed.stderr == ""
    with kept.journal_in(tmp_path):  # the records until then are complete
        if room > 50_000:
            agf.tool(lambda number: [number] * 100, name="many", registry=(again := agf.Registry()))
            assert agf.resume("main", registry=again).output == 500


@pytest.mark.skipif(os.name != "posix", reason="a file that is open cannot be removed elsewhere")
def test_a_removed_file_is_reported_and_the_next_run_is_kept(tmp_path: Path) -> None:
    registry = agf.Registry()
    removed: list[str] = []

    @agf.tool(registry=registry)
    def clean() -> str:
        if not removed:
            shutil.rmtree(folder)
            removed.append("it")
        return "clean"

    agf.define("pipeline: main\nsteps:\n- tool: {name: clean}\n- tool: {name: clean}", registry=registry)
    with kept.journal_in(folder := tmp_path / "kept"):
        lost = agf.run("main", registry=registry)
        assert (lost.output, [warning.code for warning in lost.warnings]) == ("clean", ["journal.unwritable"])
        again = agf.run("main", registry=registry)
        assert (again.warnings, len(agf.runs(again.run_id).calls)) == ((), 2)


@pytest.mark.skipif(os.name != "posix", reason="a file that is open cannot be removed elsewhere")
@pytest.mark.parametrize(
    "cut",
    [
        lambda path: Path(f"{path}-wal").unlink(),
        lambda path: Path(f"{path}-shm").unlink(),
        lambda path: os.truncate(path, 0),
    ],
    ids=["its log", "the index of its log", "all that is in it"],
)
def test_a_file_that_loses_a_part_is_reported_by_every_run_until_the_process_ends(
    cut: Callable[[Path], object], tmp_path: Path
) -> None:
    registry = registry_of(lambda: 1)
    with kept.journal_in(tmp_path) as path:
        agf.run("main", registry=registry)
        kept.flush(path)
        cut(path)
        for _ in range(2):
            run = agf.run("main", registry=registry)
            assert (run.output, codes(run)) == ("seen", ["journal.cut"])
            assert run.warnings[0].hint == "restart the kernel: until then no run is journaled"
        with pytest.raises(agf.DefinitionError) as caught:
            agf.runs()
        assert caught.value.code == "journal.cut"
    with kept.journal_in(tmp_path / "elsewhere"):
        assert agf.run("main", registry=registry).warnings == ()


@pytest.mark.parametrize(
    "change", ["DELETE FROM runs", "UPDATE runs SET owner='1-0123456789ab'"], ids=["deleted", "taken over"]
)
def test_a_run_that_is_deleted_or_taken_over_while_it_runs_says_so(change: str, tmp_path: Path) -> None:
    with kept.journal_in(tmp_path) as path:

        def meddle() -> int:
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute(change)
            return 1

        events: list[Any] = []
        run = agf.run("main", registry=registry_of(meddle), on_event=events.append)
        kept.flush(path)
        assert (run.output, codes(run)) == ("seen", ["journal.gone"])
        assert [event.diagnostic.code for event in events if isinstance(event, Warned)] == ["journal.gone"]


def test_a_damaged_file_is_reported_and_never_believed(tmp_path: Path) -> None:
    registry = registry_of(lambda: {"text": "pears and figs"})
    with kept.journal_in(tmp_path / "whole") as whole:
        expected = agf.run("main", registry=registry)
        path = kept.cut(whole, 2, tmp_path / "cut")
    content = path.read_bytes()
    ends: set[str] = set()
    for place in range(0, len(content), 509):
        folder = tmp_path / f"at{place}"
        folder.mkdir()
        bad = content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :]
        (folder / "runs.sqlite").write_bytes(bad)
        with kept.journal_in(folder):
            try:
                run = agf.resume("main", registry=registry)
                assert (run.output, dict(run.stores)) == (expected.output, dict(expected.stores)), f"byte {place}"
                ends.add("taken up")
            except agf.DefinitionError as error:
                ends.add(error.code)
            again = agf.run("main", registry=registry)
            assert again.output == "seen"
        shutil.rmtree(folder)
    assert ends <= {"taken up", "journal.damaged", "journal.unknown-run", "journal.unreadable", "journal.newer",
                    "journal.finished", "journal.unwritable", "journal.full", "journal.foreign"}  # fmt: skip


@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.9])
def test_a_file_that_was_cut_short_is_reported(part: float, tmp_path: Path) -> None:
    registry = registry_of(lambda: 1)
    with kept.journal_in(tmp_path) as path:
        agf.run("main", registry=registry)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * part)])
    with kept.journal_in(tmp_path):
        run = agf.run("main", registry=registry)
        assert run.output == "seen"
        assert codes(run) in ([], ["journal.damaged"], ["journal.full"])
        code = ""
        try:
            statuses = [run.status for run in agf.runs()]  # at the cut there may have been nothing
        except agf.DefinitionError as error:
            statuses, code = [], error.code
        assert set(statuses) <= {"ok"}
        assert code in ("", "journal.damaged")


OTHER = """
import os, sys
from dataclasses import replace
import agf_magics as agf
from agf_magics.settings.settings import current

current.settings = replace(current.settings, journal=os.path.abspath("runs.sqlite"))
agf.tool(lambda number: number, name="same", where="loop")
agf.define('''pipeline: main
steps:
- for_each: {over: ctx.numbers, on_error: abort, do: {tool: {name: same, args: {number: !expr item}}},
             collect: {transform: {value: "count(pipe)"}}}
''')
for _ in range(5):
    run = agf.run("main", {"numbers": list(range(100))})
    assert run.output == 100 and not run.warnings, run.warnings
"""


def test_two_processes_keep_their_runs_in_one_file(tmp_path: Path) -> None:
    both = [subprocess.Popen([sys.executable, "-c", OTHER], cwd=tmp_path) for _ in range(2)]
    assert [process.wait(120) for process in both] == [0, 0]
    with closing(sqlite3.connect(tmp_path / "runs.sqlite")) as connection:
        assert connection.execute("SELECT count(*), min(status), max(status) FROM runs").fetchone() == (10, "ok", "ok")
        assert connection.execute("SELECT count(*) FROM records").fetchone() == (1000,)


def test_a_process_that_is_killed_while_it_creates_the_journal_leaves_a_file_that_the_next_one_uses(
    tmp_path: Path,
) -> None:
    path = tmp_path / "runs.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # our first statement that writes
    assert path.stat().st_size > 0
    registry = agf.Registry()
    agf.tool(lambda: 1, name="one", registry=registry)
    with kept.journal_in(tmp_path):
        run = agf.run("pipeline: main\nsteps:\n- tool: {name: one}\n", registry=registry)
    assert not run.warnings
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM records").fetchone() == (1,)


HOLDS = """
import os, sys, time
from dataclasses import replace
import agf_magics as agf
from agf_magics.settings.settings import current

current.settings = replace(current.settings, journal=os.path.abspath("runs.sqlite"))

@agf.tool
def hold() -> str:
    print("held", flush=True)
    return sys.stdin.readline()

@agf.tool
def say(word: str) -> str:
    return word

do = "do: {tool: {name: say, args: {word: !expr item}}}"
each = f"for_each: {{items: [a, b], on_error: abort, max_parallel: 1, {do}, collect: {{tool: {{name: hold}}}}}}"
first = "tool: {name: say, args: {word: one}}"
agf.define(f"pipeline: main\\nsteps: [{{{first}}}, {{{each}}}, {{tool: {{name: hold}}}}]")
agf.run("main")
"""


def test_a_run_belongs_to_its_process_until_that_is_killed(tmp_path: Path) -> None:
    other = subprocess.Popen([sys.executable, "-c", HOLDS], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout.readline() == b"held\n"
    registry = agf.Registry()
    agf.tool(lambda: "mine", name="hold", registry=registry)
    agf.tool(lambda word: word, name="say", registry=registry)
    with kept.journal_in(tmp_path):
        assert [run.status for run in agf.runs()] == ["running"]
        past = agf.runs(agf.runs()[0].run_id)
        states = {id: step.state for id, step in past.steps.items()}
        begun = {"steps[0]": "ok", "steps[1]": "running", "steps[1].do": "ok"}
        assert states == begun | dict.fromkeys(("steps[1].collect", "steps[2]"), "pending")
        shown = str(past._repr_mimebundle_())
        assert "did not run" not in shown
        assert past.note == "it runs in another process, and only what has ended is known"
        with pytest.raises(agf.DefinitionError) as caught:
            agf.resume("main", registry=registry)
        assert caught.value.code == "journal.running"
        other.kill()
        other.wait()
        assert [run.status for run in agf.runs()] == ["interrupted"]
        assert agf.resume("main", registry=registry).output == "mine"
        assert [run.status for run in agf.runs()] == ["ok"]
    other.stdout.close()
    other.stdin.close()


def test_only_one_of_two_processes_can_resume_a_run(tmp_path: Path) -> None:
    with kept.journal_in(tmp_path) as path:
        agf.run("main", registry=registry_of(lambda: 1, lambda value: 1 / 0), raises=False)
        (listed,) = queries.list_runs(Store.at(path))
        assert [claims.claim(Store.at(path), listed), claims.claim(Store.at(path), listed)] == [True, False]


def test_a_forked_child_leaves_its_parents_file_alone_and_runs(tmp_path: Path) -> None:
    with kept.journal_in(tmp_path) as path:
        registry = registry_of(lambda: 1)
        agf.run("main", registry=registry)
        kept.flush(path)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                run = agf.run("main", registry=registry)
                code = 0 if (run.output, codes(run)) == ("seen", ["journal.unwritable"]) else 2
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        assert agf.run("main", registry=registry).output == "seen"
        assert [run.status for run in agf.runs()] == ["ok"] * 2


def test_a_forked_child_does_not_wait_for_a_thread_of_its_parent(tmp_path: Path) -> None:
    with kept.journal_in(tmp_path) as path:
        run = agf.run("main", registry=registry_of(lambda: 1))
        kept.flush(path)  # a fork during a write would leave SQLite's locks in the child
        child = os.fork()
        if child == 0:
            code = 2
            try:
                code = 0 if 0 < len(run.trace) <= len(run.steps) else 3
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0


def test_old_runs_are_deleted_and_waiting_runs_are_not(tmp_path: Path) -> None:
    registry = registry_of(lambda: "x" * 50_000)
    with kept.journal_in(tmp_path) as path:
        for _ in range(4):
            agf.run("main", registry=registry)
        kept.flush(path)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(
                "UPDATE runs SET ended = ended - 5 * 86400 WHERE rowid IN (SELECT rowid FROM runs LIMIT 2)"
            )
            connection.execute("UPDATE runs SET status = 'waiting' WHERE rowid IN (SELECT rowid FROM runs LIMIT 1)")
            kept.seal(connection)
            connection.commit()
        from agf_magics.lifecycle.past.past_runs import prune

        assert prune(days=2)[0] == 1
        assert sorted(run.status for run in agf.runs()) == ["ok", "ok", "waiting"]
        gone, size = prune(size=60_000)
        assert gone == 2
        assert size < 200_000


def test_a_clock_that_is_days_ahead_deletes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry, day = registry_of(lambda: 1), 86_400.0
    with kept.journal_in(tmp_path) as path:
        runs = [agf.run("main", registry=registry) for _ in range(12)]
        kept.flush(path)
        store = Store.at(path)
        now = time.time()
        with monkeypatch.context() as clock:
            clock.setattr(time, "time", lambda: now + 40 * day)
            agf.run("main", registry=registry)
            assert forget_old(store, 30, 0, automatic=True) == 0
            for _ in range(NEWEST_KEPT - 1):
                agf.run("main", registry=registry)
            assert forget_old(store, 30, 0, automatic=True) == len(runs)
        assert len(agf.runs()) == NEWEST_KEPT


def test_a_run_that_was_resumed_since_it_was_listed_is_not_deleted(tmp_path: Path) -> None:
    registry, fails = registry_of(lambda: 1 // (not fails)), [True]  # type: ignore[has-type]
    with kept.journal_in(tmp_path) as path:
        broken = agf.run("main", registry=registry, raises=False)
        kept.flush(path)
        listed = queries.list_runs(Store.at(path))
        assert [head.status for head in listed] == ["error"]
        fails.clear()
        assert agf.resume(broken.run_id, registry=registry).status == "ok"
        kept.flush(path)
        assert deletion.forget(Store.at(path), listed) == 0
        assert agf.runs(broken.run_id).status == "ok"
        other = agf.run("main", registry=registry)
        kept.flush(path)
        newer = [head for head in queries.list_runs(Store.at(path)) if head.run_id == other.run_id]
        assert deletion.forget(Store.at(path), [*listed, *newer]) == 1
        assert [run.run_id for run in agf.runs()] == [broken.run_id]
        assert deletion.forget(Store.at(path), queries.list_runs(Store.at(path))) == 1
        assert list(agf.runs()) == []


def test_a_hostile_run_is_shown_safely(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>\x1b[2J\u202e" + "x" * 100_000
    with kept.journal_in(tmp_path):
        agf.run("main", registry=registry_of(lambda: {evil: evil}, lambda value: value))
        run = agf.runs(agf.runs()[0].run_id)
        for page in (
            past_html(run),
            past_text(run),
            run.calls._repr_html_(),
            repr(run.trace),
            agf.runs()._repr_html_(),
        ):
            assert "\x1b" not in page
            assert "\u202e" not in page
            assert len(page) < 100_000
        assert "<script" not in past_html(run) + run.calls._repr_html_()


def test_the_checksum_of_a_row_is_the_same_in_every_python() -> None:
    cells = (1 << 40, "finished", '["steps[0].do",3]', "", "tool", "t", 1.5, 2.25, '{"x":1}', 1, "json", '"é"')
    row = (*cells, None, None, b"\x00\x01", b"\xff")
    assert row_crc(row) == CRC
    assert row_crc((*row[:9], True, *row[10:])) != CRC
    assert row_crc((*row[:12], "None", *row[13:])) != CRC
    assert row_crc(("".join(["1"]), *row[1:])) != CRC
    again = (row[0], "".join(["fin", "ished"]), *row[2:])  # an equal text in another object
    assert row_crc(again) == CRC


CRC = 2736826006


def test_a_run_whose_deletion_was_cut_short_is_damaged_and_can_be_deleted_again(tmp_path: Path) -> None:
    registry = agf.Registry()
    agf.tool(lambda x: x, name="same", registry=registry)
    text = (
        "pipeline: p\nsteps:\n- for_each: {over: ctx.xs, on_error: abort, "
        "do: {tool: {name: same, args: {x: !expr item}}}, collect: {transform: {value: pipe}}}"
    )
    with kept.journal_in(tmp_path) as path:
        run = agf.run(text, {"xs": list(range(2 * deletion.SLICE))}, registry=registry)
        kept.flush(path)
        store = Store.at(path)
        (head,) = queries.list_runs(store)
        assert claims.claim(store, head)
        assert deletion._delete_slice(store, head.num, head.num + ROOM) == deletion.SLICE  # then its process died
        assert [listed.status for listed in queries.list_runs(store)] == ["damaged"]
        with pytest.raises(agf.DefinitionError):
            agf.resume(run.run_id, registry=registry)
        assert past_runs.delete([run.run_id]) == [run.run_id]
        assert list(agf.runs()) == []
