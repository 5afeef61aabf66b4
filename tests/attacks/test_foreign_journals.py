"""A journal that somebody else wrote deletes no file, takes over no run and ends no process.

Such a file comes with a folder that was cloned or unpacked. Its content may be damaged (a cell changed after it was
written) or forged (wrong, with correct checksums). Or the file may not be a journal at all.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

import agf_magics as agf
from agf_magics.journal.database import locks as owners
from agf_magics.journal.database.file import APPLICATION, FORMAT
from agf_magics.journal.database.store import Store
from agf_magics.journal.records.failures import error_from
from agf_magics.journal.records.records import COLUMNS
from agf_magics.journal.runs import END
from agf_magics.lifecycle.past import past_runs as kept_runs
from agf_magics.text.source import Source
from tests.attacks.journals import (
    WANT,
    Answer,
    Runs,
    ask_everything,
    changed,
    looked_at,
    make_journal,
    open_journal,
    registry,
)
from tests.engine import kept
from tests.shells import only_shell

DEEP = "[" * 5_000 + "]" * 5_000
VICTIM = b"three years of work"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Runs]:
    """A correct journal: its folder, and the ids of its runs."""
    folder = tmp_path_factory.mktemp("whole")
    ids = make_journal(folder)
    return folder, ids


@pytest.fixture(scope="module")
def ip() -> Iterator[InteractiveShell]:
    config = Config({"HistoryManager": {"enabled": False}})
    with only_shell(lambda: InteractiveShell.instance(colors="nocolor", config=config)) as shell:
        yield shell


def load_extension(ip: InteractiveShell) -> str:
    """The output of ``%load_ext agf_magics`` and ``%runs --prune`` in a real shell in the current folder."""
    with capture_output() as captured:
        try:
            results = [ip.run_cell("%load_ext agf_magics"), ip.run_cell("%runs"), ip.run_cell("%runs --prune 36500")]
        finally:
            ip.run_cell("%unload_ext agf_magics")
    assert results[0].success, captured.stdout
    for result in results[1:]:
        error = result.error_in_exec or result.error_before_exec
        assert error is None or isinstance(error, agf.AgfError), repr(error)
    return str(captured.stdout)


# --- one run of the journal is damaged or forged ---

Cell = tuple[str, str, Any]
"""A table, a column, and a wrong value for it."""

CELLS: dict[str, Cell] = {
    "an owner that is a path": ("runs", "owner", "{victim}"),
    "an owner that goes up": ("runs", "owner", "../../victim"),
    "an owner that goes up behind a good name": ("runs", "owner", "1-0123456789ab/../../victim"),
    "an owner that is a blob": ("runs", "owner", b"\x00\xff"),
    "an empty owner": ("runs", "owner", ""),
    "an owner that is the folder": ("runs", "owner", "."),
    "an owner with a NUL": ("runs", "owner", "1-0123456789ab\0"),
    "an owner of 100,000 letters": ("runs", "owner", "1" * 100_000),
    "a start that is text": ("runs", "started", "yesterday"),
    "a start beyond all years": ("runs", "started", 1e300),
    "a start that is infinite": ("runs", "started", float("inf")),
    "a negative start": ("runs", "started", -1e18),
    "an end that is a blob": ("runs", "ended", b"x"),
    "an end that is text": ("runs", "ended", "x"),
    "a status of its own": ("runs", "status", "<script>alert(1)</script>"),
    "a name that is not UTF-8": ("runs", "name", b"\xff\xfe"),
    "a name with a NUL": ("runs", "name", "a\0b\x1b[2J"),
    "a language of its own": ("runs", "language", "basic"),
    "counts that are text": ("runs", "dropped", "x"),
    "pauses that are none": ("runs", "pauses", "[[1]]"),
    "pauses that are no JSON": ("runs", "pauses", "["),
    "tokens that are negative": ("runs", "tokens", -5),
    "a work order that is not JSON": ("runs", "work", "{"),
    "a work order that is a list": ("runs", "work", "[]"),
    "a work order that nests": ("runs", "work", DEEP),
    "a form of its own": ("runs", "form", "x"),
    "an output that is not JSON": ("runs", "output", "{"),
    "an output that is a blob": ("runs", "output", b"[1]"),
    "stores that are a list": ("runs", "stores", "[1]"),
    "stores that are not JSON": ("runs", "stores", "{"),
    "stores that nest": ("runs", "stores", DEEP),
    "an error that says nothing": ("runs", "error", '{"said": []}'),
    "an error that is not JSON": ("runs", "error", "{"),
    "an error of other types": ("runs", "error", '{"said": [["a.b", 5, null, null, "zzz"]], "at": 5}'),
    "a cause that ends the process": (
        "runs", "error", '{"said": [["a.b", "m", null, null, "error"]], "at": null, "cause": ["SystemExit", "x", [1]]}',
    ),
    "a tree that is a number": ("runs", "tree", "5"),
    "a tree of other rows": ("runs", "tree", "[[1, 2, 3]]"),
    "a tree that nests": ("runs", "tree", DEEP),
    "a tree with counts of text": ("runs", "tree", '[[["steps[0]"], ["a", 1, 1, 1, 1, 1, 1, 1, 1], [], null, null]]'),
    "a signature of the output that is text": ("runs", "sign", "x"),
    "a call of its own kind": ("records", "what", "x y"),
    "a place that is not JSON": ("records", "at", "["),
    "a place that is a number": ("records", "at", "5"),
    "a place without a step": ("records", "at", "[1, 2]"),
    "a place with a fraction": ("records", "at", '["steps[0]", 0.5]'),
    "a place with an object": ("records", "at", '["steps[0]", {}]'),
    "attempts that are not JSON": ("records", "tries", "x"),
    "attempts without a number": ("records", "tries", '["steps[0]"]'),
    "a call that starts with text": ("records", "started", "x"),
    "a call that ends beyond all years": ("records", "ended", 1e300),
    "arguments that are not JSON": ("records", "given", "{"),
    "arguments that nest": ("records", "given", DEEP),
    "a call in a form of its own": ("records", "form", "x"),
    "a value that is not JSON": ("records", "value", "{"),
    "a value that nests": ("records", "value", DEEP),
    "a value of another type": ("records", "value", 5),
    "a failure that is not JSON": ("records", "error", "{"),
    "a failure that nests": ("records", "error", DEEP),
    "a digest that is text": ("records", "digest", "x"),
    "a checksum of text": ("records", "crc", "x"),
}  # fmt: skip


def put(folder: Path, run_id: str, cell: Cell, seal: bool) -> None:
    """Write the wrong value into every row of the run. ``seal``: also write the checksums that fit this value."""
    table, column, value = cell
    if isinstance(value, str):
        value = value.replace("{victim}", str(folder / "victim"))
    with changed(folder / "runs.sqlite") as connection:
        (num,) = connection.execute("SELECT num FROM runs WHERE run=?", (run_id,)).fetchone()
        if table == "runs":
            connection.execute(f"UPDATE runs SET {column}=? WHERE num=?", (value, num))
        else:
            connection.execute(f"UPDATE records SET {column}=? WHERE line>? AND line<?", (value, num, num + (1 << 26)))
        if seal and column != "crc":
            kept.seal(connection)


@pytest.fixture
def project(tmp_path: Path, whole: tuple[Path, Runs], monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a copy of the journal and a file that must survive."""
    shutil.copytree(whole[0], tmp_path / "project")
    (tmp_path / "project" / "victim").write_bytes(VICTIM)
    (tmp_path / "project" / "pyproject.toml").write_text('[tool.agf-magics]\njournal = "runs.sqlite"\n')
    monkeypatch.chdir(tmp_path / "project")
    yield tmp_path / "project"
    Store.close_all()
    assert (tmp_path / "project" / "victim").read_bytes() == VICTIM


def by_name(answers: list[Answer]) -> dict[str, Answer]:
    return {answer.what: answer for answer in answers}


@pytest.mark.parametrize("seal", [False, True], ids=["damaged", "forged"])
@pytest.mark.parametrize("name", CELLS)
def test_a_row_that_is_damaged_or_forged_affects_its_own_run_only(
    name: str, seal: bool, project: Path, whole: tuple[Path, Runs], ip: InteractiveShell
) -> None:
    ids = whole[1]
    for run_id in (ids.failed, ids.cut):
        put(project, run_id, CELLS[name], seal)
    load_extension(ip)
    Store.close_all()
    with open_journal(project):
        answers = by_name(ask_everything(ids))
    assert answers["list"].code == answers["page of runs"].code == answers["begin"].code == "ok"
    assert answers["list"].value[ids.healthy] == "ok"
    assert answers["load healthy"].value == answers["run"].value == answers["reuse healthy"].value == WANT
    assert answers["show healthy"].value[:2] == ("ok", WANT)
    assert answers["prune"].code == answers["delete"].code == "ok"
    for question in ("resume failed", "resume cut"):  # each was refused, or has the right result
        assert answers[question].code != "ok" or answers[question].value in (WANT, None), answers[question]
    if not seal:
        table = CELLS[name][0]
        codes = [answers[f"show {run}"].code for run in ("failed", "cut")]
        assert table == "records" or codes == ["journal.damaged"] * 2, codes


def test_damage_is_reported_with_its_code_when_the_extension_is_loaded(
    project: Path, whole: tuple[Path, Runs], ip: InteractiveShell
) -> None:
    put(project, whole[1].failed, ("runs", "owner", b"\x00"), False)
    assert "1 run in the journal cannot be read [journal.damaged]" in load_extension(ip)
    with open_journal(project):
        (damaged,) = (run for run in agf.runs() if run.status == "damaged")
        assert (damaged.run_id, damaged.note) == (whole[1].failed, "journal.damaged: %runs --delete RUN")


def test_deleting_a_run_with_a_forged_number_deletes_nothing_of_another(
    project: Path, whole: tuple[Path, Runs]
) -> None:
    ids = whole[1]
    with changed(project / "runs.sqlite") as connection:
        (num,) = connection.execute("SELECT num FROM runs WHERE run=?", (ids.healthy,)).fetchone()
        connection.execute("UPDATE runs SET num=? WHERE run=?", (num + 1, ids.failed))
        kept.seal(connection)
    with open_journal(project):
        before = list(agf.runs(ids.healthy).calls)
        assert {run.run_id: run.status for run in agf.runs()}[ids.failed] == "damaged"
        assert kept_runs.delete([ids.failed]) == [ids.failed]
        assert list(agf.runs(ids.healthy).calls) == before
        assert len(before) == 4


@pytest.mark.parametrize(("start", "end"), [(-5, 1), (2, 1), (0, 4), (2**70, 2**70)])
def test_a_failure_has_no_place_outside_of_its_text(start: int, end: int) -> None:
    error = {"said": [["a.b", "m", None, ["t", start, end], "error"]], "at": None}
    assert error_from(json.dumps(error), [Source("t", "abc")]).diagnostic.span is None


def test_a_reader_sees_the_journal_of_one_moment(project: Path, whole: tuple[Path, Runs]) -> None:
    with open_journal(project) as path:
        with Store.at(path).reading() as connection:
            before = connection.execute("SELECT count(*) FROM runs").fetchone()
            agf.run("main", registry=registry())
            kept.flush(path)
            assert connection.execute("SELECT count(*) FROM runs").fetchone() == before == (3,)
        assert len(agf.runs()) == 4


# --- the file is not a journal ---


def _emptied(path: Path) -> None:
    path.write_bytes(b"")


def _short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _zeroed(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:4096] + bytes(4096) + data[8192:])


def _no_header(path: Path) -> None:
    path.write_bytes(bytes(4096) + path.read_bytes()[4096:])


def _junk(path: Path) -> None:
    path.write_bytes(b"something else " * 1_000)


def _other_tables(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE bookmarks (a); INSERT INTO bookmarks VALUES (1);")


def _other_runs(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE runs (run TEXT, name TEXT); INSERT INTO runs VALUES ('a', 'b');")


def _other_log(path: Path) -> None:
    """A database in WAL mode whose log is not yet in the file, as another program leaves it when it is killed."""
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("PRAGMA journal_mode=WAL; CREATE TABLE moz (a); INSERT INTO moz VALUES (1);")
        copies = {name: Path(f"{path}{name}").read_bytes() for name in ("", "-wal")}
    for name, data in copies.items():
        Path(f"{path}{name}").write_bytes(data)


def _more_tables(path: Path) -> None:
    with changed(path) as connection:
        connection.execute("CREATE TABLE more (a)")


def _trigger(path: Path) -> None:
    with changed(path) as connection:
        connection.execute("CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM records; END")


def _view(path: Path) -> None:
    with changed(path) as connection:
        connection.executescript("ALTER TABLE runs RENAME TO other; CREATE VIEW runs AS SELECT * FROM other;")


def _newer(path: Path) -> None:
    with changed(path) as connection:
        connection.execute(f"PRAGMA user_version={FORMAT + 1}")


def _older(path: Path) -> None:
    """A file of format 2, which has no application id and was never released."""
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE runs (num); CREATE TABLE records (line); PRAGMA user_version=2;")


def _application(path: Path) -> None:
    with changed(path) as connection:
        connection.execute(f"PRAGMA application_id={APPLICATION + 1}")


def _negative(path: Path) -> None:
    with changed(path) as connection:
        connection.execute("PRAGMA user_version=-5")


def _linked(path: Path) -> None:
    """A link to somebody's database."""
    path.unlink()
    _other_tables_at(path.parent / "app.sqlite")
    path.symlink_to(path.parent / "app.sqlite")


def _linked_journal(path: Path) -> None:
    """A link to a correct journal of the user's in another project."""
    path.rename(path.parent / "other.sqlite")
    path.symlink_to(path.parent / "other.sqlite")


def _linked_nowhere(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.parent / "bashrc")


def _linked_log(path: Path) -> None:
    Path(f"{path}-wal").unlink(missing_ok=True)
    Path(f"{path}-wal").symlink_to(path.parent / "victim")


def _linked_index(path: Path) -> None:
    Path(f"{path}-shm").unlink(missing_ok=True)
    Path(f"{path}-shm").symlink_to(path.parent / "victim")


def _linked_owners(path: Path) -> None:
    home = path.parent / "home"
    home.mkdir()
    (home / "1-0123456789ab").write_bytes(b"x")
    shutil.rmtree(path.parent / "owners", ignore_errors=True)
    (path.parent / "owners").symlink_to(home)


def _device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _other_tables_at(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE moz (a)")


FILES: dict[Callable[[Path], None], tuple[str, ...]] = {
    _emptied: ("ok",),  # SQLite takes an empty file for a new database, as the page says
    _short: ("journal.damaged",),
    _zeroed: ("journal.damaged", "ok"),
    _no_header: ("journal.damaged",),
    _junk: ("journal.damaged",),
    _other_tables: ("journal.foreign",),
    _other_runs: ("journal.foreign",),
    _other_log: ("journal.foreign",),
    _more_tables: ("journal.foreign",),
    _trigger: ("journal.foreign",),
    _view: ("journal.foreign",),
    _newer: ("journal.newer",),
    _older: ("journal.foreign",),
    _application: ("journal.foreign",),
    _negative: ("journal.older",),
    _linked: ("journal.foreign",),
    _linked_journal: ("journal.foreign",),
    _linked_nowhere: ("ok",),  # there is no journal to list, and none is made behind the link
    _linked_log: ("journal.foreign",),
    _linked_index: ("journal.foreign",),
    _linked_owners: ("journal.foreign",),
    _device: ("journal.foreign",),
    _pipe: ("journal.unwritable",),
    _folder: ("journal.unwritable",),
}
MAY_CHANGE = (_emptied, _zeroed, _short)
"""The files that are still journals of ours."""


def contents(folder: Path) -> dict[str, bytes]:
    """Every plain file below a folder, without following links."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


@pytest.mark.skipif(os.name != "posix", reason="links, pipes and devices")
@pytest.mark.parametrize("change", FILES, ids=lambda change: change.__name__.strip("_"))
def test_a_file_that_is_not_a_journal_is_refused_and_left_as_it_is(
    change: Callable[[Path], None], project: Path, whole: tuple[Path, Runs], ip: InteractiveShell
) -> None:
    change(project / "runs.sqlite")
    before = contents(project)
    printed = load_extension(ip)
    Store.close_all()
    with open_journal(project):
        answers = by_name(ask_everything(whole[1]))
    assert answers["list"].code in FILES[change], answers["list"]
    assert answers["run"].value == WANT  # the run continues without a journal
    assert answers["list"].code == "ok" or f"[{answers['list'].code}]" in printed
    after = contents(project)
    if change not in MAY_CHANGE:
        assert after == before, after.keys() ^ before.keys()
    assert not (project / "bashrc").exists()


@pytest.mark.skipif(os.name != "posix", reason="links")
def test_a_journal_folder_that_is_a_link_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / ".agf").symlink_to(tmp_path / "home")
    monkeypatch.chdir(tmp_path / "project")
    with kept.journal_in(Path(".agf")):
        run = agf.run("main", registry=registry())
    assert (run.output, [warning.code for warning in run.warnings]) == (WANT, ["journal.foreign"])
    assert list((tmp_path / "home").iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="links")
def test_no_file_is_made_behind_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".agf").mkdir()
    (tmp_path / ".agf" / ".gitignore").symlink_to(tmp_path / "bashrc")
    monkeypatch.chdir(tmp_path)
    with kept.journal_in(Path(".agf")):
        assert agf.run("main", registry=registry()).warnings == ()
    assert not (tmp_path / "bashrc").exists()


# --- the locks of living processes ---


def _two_bytes(path: Path) -> None:
    path.write_bytes(b"xy")


def _no_bytes(path: Path) -> None:
    path.write_bytes(b"")


def _link_to_a_byte(path: Path) -> None:
    (path.parent.parent / "byte").write_bytes(b".")
    path.symlink_to(path.parent.parent / "byte")


def _a_folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.skipif(os.name != "posix", reason="links")
@pytest.mark.parametrize("make", [_two_bytes, _no_bytes, _link_to_a_byte, _a_folder])
def test_only_a_plain_file_of_one_byte_is_a_lock(make: Callable[[Path], None], tmp_path: Path) -> None:
    (tmp_path / "owners").mkdir()
    path = tmp_path / "owners" / "1-0123456789ab"
    make(path)
    assert not owners.alive(tmp_path / "owners", path.name)
    assert os.path.lexists(path)


@pytest.mark.skipif(os.name != "posix", reason="links")
def test_the_lock_of_a_process_that_died_is_removed_but_not_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "owners").mkdir()
    path = tmp_path / "owners" / "1-0123456789ab"
    path.write_bytes(b".")
    (tmp_path / "link").symlink_to(tmp_path / "owners")
    assert not owners.alive(tmp_path / "link", path.name)
    assert path.exists()
    assert not owners.alive(tmp_path / "owners", path.name)
    assert not path.exists()


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../victim", "1-0123456789ab\n", "1-0123456789AB", "x-0123456789ab", "１-0123456789ab", "a/b"],
)
def test_a_name_that_no_lock_has_belongs_to_no_process(name: str, tmp_path: Path) -> None:
    (tmp_path / "owners").mkdir()
    (tmp_path / "victim").write_bytes(b".")
    assert not owners.alive(tmp_path / "owners", name)
    assert (tmp_path / "victim").exists()


def test_a_lock_of_this_process_is_not_given_back_by_looking_at_it(tmp_path: Path) -> None:
    owner = owners.ProcessLock(tmp_path / "owners")
    assert owners.alive(tmp_path / "owners", owner.name)
    child = os.fork()
    if child == 0:  # another process, which must see by the lock that its owner lives
        os._exit(0 if owners.alive(tmp_path / "owners", owner.name) else 1)
    assert os.waitpid(child, 0)[1] == 0
    owner.leave()
    assert not owners.alive(tmp_path / "owners", owner.name)


# --- a law ---

# The number of a line is left out. A line that moves to another run is a lost line, which no checksum of a row can
# show.
RUN_COLUMNS = sorted({*f"{kept.HEAD}, {kept.STATE}, {END}, work, work_sign, head_crc, state_crc".split(", ")})
ANY = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=20),
    st.binary(max_size=20),
    st.sampled_from(["ok", "error", "running", "json", "pickle", "null", "[]", "{}", "0", "1-0123456789ab", DEEP]),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    st.sampled_from(
        [("runs", name) for name in RUN_COLUMNS] + [("records", column_name) for column_name in COLUMNS.split(", ")[1:]]
    ),
    ANY,
    st.integers(0, 30),
)
@example(("runs", "owner"), "", 0)
@example(("runs", "status"), "ok", 1)
@example(("records", "started"), None, 0)
@example(("records", "given"), None, 0)
@example(("runs", "tokens"), 0, 0)
def test_any_cell_replaced_by_any_value_gives_a_coded_error_or_what_was_written(
    whole: tuple[Path, Runs],
    tmp_path: Path,
    truth: dict[str, Any],
    cell: tuple[str, str],
    value: Any,
    number: int,
) -> None:
    table, column = cell
    folder = tmp_path / "law"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(whole[0], folder)
    key = "num" if table == "runs" else "line"
    with changed(folder / "runs.sqlite") as connection:
        keys = [row[0] for row in connection.execute(f"SELECT {key} FROM {table} ORDER BY {key}")]
        try:
            sql = f"UPDATE {table} SET {column}=? WHERE {key}=?"
            connection.execute(sql, (value, keys[number % len(keys)]))
        except (sqlite3.Error, ValueError):  # SQLite itself refuses the value
            return
    with open_journal(folder):
        for run_id in whole[1]:
            for view, look in LOOKS.items():
                try:
                    seen_now = look(run_id)
                except agf.AgfError as error:
                    seen_now = error.code
                allowed = (truth[f"{view} {run_id}"], DAMAGED, "journal.damaged", "journal.unknown-run")
                assert seen_now in allowed, view


def _listed(run_id: str) -> Any:
    """The run as the list shows it, or that the list calls it damaged."""
    rows = {run.run_id: tuple(run) for run in agf.runs()}
    damaged = any(run.status == "damaged" for run in agf.runs())
    return rows[run_id] if run_id in rows and rows[run_id][2] != "damaged" else damaged and DAMAGED


DAMAGED = "a run is damaged"

LOOKS: dict[str, Callable[[str], Any]] = {
    "list": _listed,
    "show": lambda run_id: repr(looked_at(run_id)),
    "calls": lambda run_id: repr(list(agf.runs(run_id).calls)),
    "steps": lambda run_id: repr(agf.runs(run_id).trace),
}


@pytest.fixture(scope="module")
def truth(whole: tuple[Path, Runs], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The answers of the correct journal."""
    folder = tmp_path_factory.mktemp("truth") / "copy"
    shutil.copytree(whole[0], folder)
    with open_journal(folder):
        return {f"{view} {run_id}": look(run_id) for run_id in whole[1] for view, look in LOOKS.items()}


# --- a run that somebody else started ---


def test_a_run_that_somebody_else_began_is_resumed_only_where_that_is_trusted(
    project: Path, whole: tuple[Path, Runs], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "another person"))
    ids, plain = whole[1], "pipeline: plain\nsteps:\n- tool: {name: fetch}\n"
    called: list[str] = []
    their_registry = registry()
    agf.tool(lambda: called.append("theirs") or "done", name="fetch", registry=their_registry)  # type: ignore[func-returns-value]
    with open_journal(project):
        for run_id in (ids.failed, ids.cut):
            with pytest.raises(agf.DefinitionError) as caught:
                agf.resume(run_id, registry=their_registry)
            assert caught.value.code == "journal.unreadable"
            assert "--trust" in str(caught.value)
        assert agf.resume(ids.failed, registry=their_registry, trust=True).output == WANT
        assert agf.run(plain, registry=their_registry).output == "done"
    assert called == ["theirs"]


def test_a_work_order_that_was_changed_is_not_resumed(project: Path, whole: tuple[Path, Runs]) -> None:
    with changed(project / "runs.sqlite") as connection:
        connection.execute("UPDATE runs SET work=replace(work, 'grade', 'shell')")
        kept.seal(connection)
    with open_journal(project):
        for run_id in (whole[1].failed, whole[1].cut):
            with pytest.raises(agf.DefinitionError) as caught:
                agf.resume(run_id, registry=registry())
            assert caught.value.code == "journal.unreadable"
