"""Whatever writes a file for a person: a file that cannot be written is one error, with the reason and what helps."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.__main__ import main
from agf_magics.text.replaced_file import not_written
from tests.engine import kept

PIPELINE = "pipeline: p\nsteps:\n- transform: {value: 'ctx.n + 1'}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text(PIPELINE)
    with kept.journal_in(tmp_path / "kept"):
        yield tmp_path


def a_run(**options: Any) -> agf.Run:
    return agf.run(agf.load(PIPELINE), None if options else {"n": 1}, **options)


def context() -> agf.NamedContext:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def price() -> int:
        return 1

    agf.define("name: c\ncalls: [{_tool: price, _outputPath: †state.price}]\n", "plan", registry=registry)
    agf.run("c", registry=registry)
    return agf.context("c", registry=registry)


PYTHON: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a report": ("run.html", lambda path: agf.report(a_run(), path)),
    "a recording": ("run.agf", lambda path: agf.record(a_run(), path)),
    "an exported run": ("run.json", lambda path: agf.runs(a_run().run_id).export(path)),
    "rows as CSV": ("rows.csv", lambda path: a_run(over=[{"n": 1}]).table.save(path)),
    "rows as JSON lines": ("rows.jsonl", lambda path: a_run(over=[{"n": 1}]).table.save(path)),
    "rows as Parquet": ("rows.parquet", lambda path: a_run(over=[{"n": 1}]).table.save(path)),
    "a picture": ("p.svg", lambda path: agf.draw(agf.load(PIPELINE)).save(path)),
    "a picture of points": ("p.png", lambda path: agf.draw(agf.load(PIPELINE)).save(path)),
    "a context": ("c.jsonl", lambda path: context().save(path)),
}
"""What writes a file, by words: a name, and the call."""


def no_folder(path: Path) -> Path:
    return path.parent / "missing" / path.name


def a_folder(path: Path) -> Path:
    path.mkdir()
    return path


def no_rights(path: Path) -> Path:
    if os.name != "posix" or os.geteuid() == 0:
        pytest.skip("this user may write everywhere")
    path.parent.joinpath("closed").mkdir(mode=0o500)
    return path.parent / "closed" / path.name


def full(path: Path) -> Path:
    if not Path("/dev/full").exists():
        pytest.skip("there is no full device")
    path.symlink_to("/dev/full")
    return path


def below_a_file(path: Path) -> Path:
    path.parent.joinpath("file").touch()
    return path.parent / "file" / path.name


FAULTS: dict[str, tuple[Callable[[Path], Path], str, str | None]] = {
    "a folder that is not there": (no_folder, "there is no folder", "make the folder first"),
    "a folder of that name": (a_folder, "it is a folder", "name a file in the folder"),
    "a folder without rights": (no_rights, "Permission denied", "choose a folder in which you may write"),
    "a full disk": (full, "No space left on device", "make room on the disk"),
    "a file where a folder should be": (below_a_file, "there is no folder", "make the folder first"),
    "a name that is too long": (lambda path: path.with_name("x" * 300 + path.suffix), "File name too long", None),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("what", PYTHON)
def test_a_file_that_cannot_be_written_is_one_error(what: str, fault: str, folder: Path) -> None:
    name, write = PYTHON[what]
    spoilt, reason, hint = FAULTS[fault]
    if name.endswith((".png", ".parquet")):
        pytest.importorskip("cairosvg" if name.endswith(".png") else "pyarrow")
    path = spoilt(folder / name)
    with pytest.raises(agf.DefinitionError) as refused:
        write(path)
    diagnostic = refused.value.diagnostic
    assert diagnostic.code == "file.not-written"
    assert f"cannot be written: {reason}" in diagnostic.message
    assert (diagnostic.hint or "").startswith(hint or "")
    assert bool(diagnostic.hint) is bool(hint)
    assert not list(folder.rglob("*.part"))


COMMANDS: dict[str, tuple[str, str]] = {
    "a report": ("run p.yaml --set n=1 --report", "run.html"),
    "a recording": ("run p.yaml --set n=1 --record", "run.agf"),
    "rows": ("run p.yaml --over rows.jsonl --save", "rows.csv"),
    "a picture": ("draw p.yaml --save", "p.svg"),
}


@pytest.mark.parametrize("fault", ["a folder that is not there", "a folder of that name"])
@pytest.mark.parametrize("what", COMMANDS)
def test_a_command_points_at_the_file_that_it_cannot_write(
    what: str, fault: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, name = COMMANDS[what]
    Path("rows.jsonl").write_text('{"n": 1}\n')
    path = FAULTS[fault][0](Path(name))
    assert main([*words.split(), str(path)]) == 2
    told = capsys.readouterr().err
    assert "[file.not-written]" in told
    assert f" {'^' * len(str(path))}\n" in told


def test_a_file_with_an_unknown_suffix_is_refused_with_the_suffixes(folder: Path) -> None:
    with pytest.raises(agf.DefinitionError, match=r"no picture can be saved as '\.xyz'") as refused:
        agf.draw(agf.load(PIPELINE)).save("p.xyz")
    assert ".svg" in (refused.value.diagnostic.hint or "")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT])
def test_what_the_system_refuses_has_a_hint(number: int) -> None:
    refused = not_written(Path("run.html"), OSError(number, os.strerror(number))).diagnostic
    assert refused.message == f"'run.html' cannot be written: {os.strerror(number)}"
    assert refused.hint
