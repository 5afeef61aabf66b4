"""The built-in file tools refuse files that run code or open something later, and files outside of their folder
(decision D3).

The tests also try other names of the same files, links, and races.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.catalog import Registry, install
from agf_magics.catalog.builtin import notebook_files
from agf_magics.settings.settings import current

posix = pytest.mark.skipif(os.name != "posix", reason="links of POSIX")

NEVER = (
    ".env",
    ".git",
    ".agf",
    ".ipython",
    "pyproject.toml",
    "setup.cfg",
    "a.pth",
    "distutils-precedence.pth",
    "sitecustomize.py",
    "sitecustomize.pyc",
    "sitecustomize.cpython-311-x86_64-linux-gnu.so",
    "sitecustomize",
    "usercustomize.py",
    "conftest.py",
    "Makefile",
    "GNUmakefile",
)
DISGUISES: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "upper": str.upper,
    "swapped": str.swapcase,
    "dot behind": lambda name: f"{name}.",
    "dots and blanks behind": lambda name: f"{name} . .",
    "blank before": lambda name: f" {name}",
    "fullwidth": lambda name: "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in name),
    "one dot leader": lambda name: name.replace(".", "\u2024"),
    "zero width": lambda name: f"{name[:2]}\u200c{name[2:]}",
    "soft hyphen": lambda name: f"\u00ad{name}",
    "ligature": lambda name: name.replace("fi", "\ufb01"),
    "long s": lambda name: name.replace("s", "\u017f"),
    "kelvin": lambda name: name.replace("k", "\u212a"),
    "stream": lambda name: f"{name}::$DATA",
    "another stream": lambda name: f"{name}:x",
}
PLACES = ("{}", "sub/{}", "{}/config", "sub/{}/hooks/post-checkout", "./{}", "sub//{}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "notebook"
    place.mkdir()
    return place


class Files:
    def __init__(self, folder: Path, journal: tuple[Path, ...] = ()) -> None:
        self.registry = Registry()
        install(self.registry, folder=lambda: folder, allow_shell=lambda: False, protected=lambda: journal)

    def refused(self, path: str) -> list[str]:
        """The error codes of reading and of writing the file; an empty text where that succeeded."""
        return [self.said("file__read", path=path), self.said("file__write", path=path, content="x")]

    def said(self, name: str, **arguments: Any) -> str:
        tool = self.registry.tools[name]
        try:
            return str(tool.function(**tool.check(arguments)))
        except agf.StepError as error:
            return error.code


@pytest.mark.parametrize("disguise", DISGUISES)
@pytest.mark.parametrize("name", NEVER)
def test_a_file_that_runs_code_or_opens_something_is_never_touched(folder: Path, name: str, disguise: str) -> None:
    files, disguised = Files(folder), DISGUISES[disguise](name)
    for place in PLACES:
        assert files.refused(place.format(disguised)) == ["tool.file-path"] * 2, place
    assert list(folder.iterdir()) == []


FINE = (
    "a.txt",
    "a.b.c",
    "my_conftest.txt",
    "pyproject.toml.md",
    "pyproject",
    "makefile.md",
    "path.pth.txt",
    "setup.py.txt",
    "sitecustomized",
    "git",
    "größe.txt",
    "می‌خواهم.txt",  # with a zero-width non-joiner, which Persian needs
    "a b.txt",
    "10:30.txt",
)


@posix
@pytest.mark.parametrize("name", FINE)
def test_a_file_with_a_similar_name_is_a_file_like_any_other(folder: Path, name: str) -> None:
    files = Files(folder)
    for place in ("{}", "sub/{}"):
        assert "bytes" in files.said("file__write", path=place.format(name), content="x")
        assert files.said("file__read", path=place.format(name)) == "x"
    assert sorted(path.name for path in folder.iterdir()) == sorted([name, "sub"])


@pytest.mark.parametrize("path", ["..\\x", "a\\..\\x", ".git\\config", "sub\\pyproject.toml", "C:\\x"])
def test_a_backslash_hides_nothing(folder: Path, path: str) -> None:
    assert Files(folder).refused(path) == ["tool.file-path"] * 2
    assert list(folder.iterdir()) == []


# --- the journal ---


@pytest.mark.parametrize("where", ["runs.sqlite", "kept/Runs.DB"])
def test_the_journal_is_never_touched_wherever_it_is(folder: Path, where: str) -> None:
    journal = folder / where
    journal.parent.mkdir(exist_ok=True)
    journal.write_text("runs")
    files = Files(folder, (journal, journal.with_name("owners")))
    below = str(journal.parent.relative_to(folder) / "owners" / "1-2")
    for path in (where, where.upper(), f"{where}.", f"./{where}", below, below.upper()):
        assert files.refused(path) == ["tool.file-path"] * 2, path
    assert journal.read_text() == "runs"


@posix
def test_the_journal_is_never_touched_by_another_name(folder: Path) -> None:
    journal = folder / "runs.sqlite"
    journal.write_text("runs")
    os.link(journal, folder / "notes.txt")
    assert Files(folder, (journal,)).refused("notes.txt") == ["tool.file-path"] * 2
    assert journal.read_text() == "runs"


def test_the_settings_say_where_the_journal_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(current, "settings", replace(current.settings, journal="kept.sqlite"))
    agf.run("pipeline: p\nsteps:\n- transform: {value: '1'}\n")
    assert (folder / "kept.sqlite").is_file()
    for name in ("kept.sqlite", "kept.sqlite-wal", "kept.sqlite-shm", "owners/x", "KEPT.sqlite"):
        run = agf.run(f"pipeline: p\nsteps:\n- tool: {{name: file__read, args: {{path: {name}}}}}\n", raises=False)
        assert run.error.code == "tool.file-path", name
    assert len(agf.runs()) > 5


# --- links that appear while a file is opened ---


class Race:
    """Does something at the moment before the system opens a file."""

    def __init__(self) -> None:
        self.at = ""
        self.do: Callable[[], None] | None = None
        sys.addaudithook(self)

    def __call__(self, event: str, arguments: Any) -> None:
        if event == "open" and self.do is not None and arguments and str(arguments[0]).endswith(self.at):
            do, self.do = self.do, None
            do()


RACE = Race()


@pytest.fixture
def race() -> Iterator[Race]:
    yield RACE
    RACE.do = None


@posix
@pytest.mark.parametrize("opened", ["sub", "x.txt"])
@pytest.mark.parametrize("replaced", ["folder", "file"])
@pytest.mark.parametrize("name", ["file__read", "file__write"])
def test_a_link_that_appears_between_looking_and_opening_is_not_followed(
    folder: Path, tmp_path: Path, race: Race, name: str, replaced: str, opened: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.txt").write_text("secret")
    (folder / "sub").mkdir()
    (folder / "sub" / "x.txt").write_text("mine")
    swapped: list[bool] = []

    def swap() -> None:
        swapped.append(True)
        if replaced == "folder":
            (folder / "sub").rename(folder / "moved")
            (folder / "sub").symlink_to(outside)
        else:
            (folder / "sub" / "x.txt").unlink()
            (folder / "sub" / "x.txt").symlink_to(outside / "x.txt")

    race.at, race.do = opened, swap
    content = {"content": "x"} if name == "file__write" else {}
    answer = Files(folder).said(name, path="sub/x.txt", **content)
    assert swapped
    assert "secret" not in answer
    assert (outside / "x.txt").read_text() == "secret"
    assert sorted(path.name for path in outside.iterdir()) == ["x.txt"]


@posix
def test_a_system_without_dir_fd_refuses_links_too(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebook_files, "ANCHORED", False)
    (tmp_path / "x.txt").write_text("secret")
    (folder / "up").symlink_to(tmp_path)
    (folder / "x.txt").symlink_to(tmp_path / "x.txt")
    files = Files(folder)
    for path in ("up/x.txt", "x.txt", "up/new.txt", "up/notebook/y.txt"):
        assert files.refused(path) == ["tool.file-path"] * 2, path
    assert files.said("file__read", path="none.txt") == "tool.file-read"
    assert "bytes" in files.said("file__write", path="a/b.txt", content="x")
    assert files.said("file__read", path="a/b.txt") == "x"
    assert files.refused("a") == ["tool.file-read", "tool.file-write"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notebook", "x.txt"]


@posix
def test_no_descriptor_is_left_open(folder: Path) -> None:
    files = Files(folder)
    (folder / "link").symlink_to(folder)
    os.mkfifo(folder / "pipe")
    before = len(os.listdir("/dev/fd"))
    for path in ("a/b/c.txt", "link/x", "pipe", ".", "a", "a/b/c.txt/d", ".env", "n" * 300, "none/x"):
        for name in ("file__read", "file__write"):
            with contextlib.suppress(agf.StepError):
                files.said(name, path=path, **({"content": "x"} if name == "file__write" else {}))
    assert len(os.listdir("/dev/fd")) == before


def test_a_hint_names_no_protected_file(folder: Path) -> None:
    (folder / ".envs").write_text("x")
    (folder / "conftest.py").write_text("x")
    tool = Files(folder).registry.tools["file__read"]
    for path in ("envs", "conftests.py"):
        with pytest.raises(agf.StepError) as caught:
            tool.function(path=path)
        assert caught.value.diagnostic.hint is None


@pytest.mark.parametrize("name", ["./.env", "./.git/config", "keys.txt"])
def test_an_error_about_a_file_that_a_definition_names_shows_no_line_of_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(folder)
    place = folder / name
    place.parent.mkdir(exist_ok=True)
    place.write_text("OPENAI_API_KEY=sk-verysecret12345\n")
    with pytest.raises(agf.DefinitionError) as raised:
        agf.run(NAMES_A_FILE % name)
    assert {diagnostic.code for diagnostic in raised.value.diagnostics} & {"file.protected", "file.not-a-definition"}
    assert "verysecret" not in str(raised.value)


NAMES_A_FILE = """schema_version: "1.0.0"
metadata: {id: e, name: E, version: "1.0.0", description: d}
interface: {input: {}, output: {}}
action_space: {local_agents: [{alias: w, source: %s}]}
execution_policy: {id: agf.sequential, config: {steps: [{agent: w}]}}
"""
