"""A project that somebody else wrote (decision D4): its files can set nothing that allows code to run.

That holds for every content and every place of these files, and for a definition that writes such a file.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.settings.folders import journal_file
from agf_magics.settings.settings import (
    OPENING,
    Settings,
    current,
    read,
    user_file,
    variable,
    without_files,
)
from agf_magics.text.diagnostics import DefinitionError
from tests.processes import command_line
from tests.slow import slow_but

VALUES: Mapping[type, tuple[str, ...]] = {bool: ("true", "false"), str: ('"http://192.0.2.1/v1"', '""')}
WRITTEN = (
    "[tool.agf-magics]\n{} = {}\n",
    "[tool.agf-magics]\ntimeout = 3.5\n  {}={} # on\n",
    '[tool.agf-magics]\n"{}" = {}\n',
    "[tool]\nagf-magics = {{ {} = {} }}\n",
    "[tool]\nagf-magics.{} = {}\n",
    "tool.agf-magics.{} = {}\n",
    "tool = {{ agf-magics = {{ timeout = 1, {} = {} }} }}\n",
    "['tool'.\"agf-magics\"]\n{} = {}\n",
)


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test in a new project, for a user without settings."""
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "APPDATA", "LOCALAPPDATA", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    for name in OPENING:
        monkeypatch.delenv(variable(name), raising=False)


def write_user_file(text: str) -> None:
    path = user_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize("written", WRITTEN)
@pytest.mark.parametrize("name", OPENING)
def test_a_project_opens_nothing(name: str, written: str) -> None:
    for key in (name, name.replace("_", "-")):
        for value in VALUES[OPENING[name]]:
            Path("pyproject.toml").write_text(written.format(key, value))
            with pytest.raises(DefinitionError) as caught:
                read(Path.cwd())
            diagnostic = caught.value.diagnostic
            assert diagnostic.code == "settings.person-only"
            assert key in diagnostic.message
            assert f"%config AgfMagics.{name}" in str(diagnostic.hint)
            assert variable(name) in str(diagnostic.hint)
            assert diagnostic.span is not None
            if "[tool.agf-magics]" in written:
                assert diagnostic.span.text == key


@pytest.mark.parametrize("name", OPENING)
def test_a_project_further_up_opens_nothing(name: str) -> None:
    Path("../pyproject.toml").write_text(WRITTEN[0].format(name, VALUES[OPENING[name]][0]))
    with pytest.raises(DefinitionError) as caught:
        read(Path.cwd())
    assert caught.value.code == "settings.person-only"


@pytest.mark.parametrize(
    "text",
    [
        "[tool.agf-magics]\nallow-shell = true\nallow-shell = true\n",  # not TOML
        "[tool.agf_magics]\nallow-shell = true\n",  # another table
        "[tool.agf-magics.allow]\nshell = true\n",
        "[agf-magics]\nallow-shell = true\n",
        "tool = 1\n",
        "[tool]\nagf-magics = 1\n",
        "[[tool.agf-magics]]\nallow-shell = true\n",
        "[tool.agf-magics]\n\"allow\u2010shell\" = true\n",
        "[tool.agf-magics]\nALLOW_SHELL = true\n",
        "x = " + "[" * 20_000 + "]" * 20_000 + "\n",
        "[tool.agf-magics]\nmax-text = " + "9" * 5_000 + "\n",
        "[tool.agf-magics]\ntimeout = nan\n",
        "[tool.agf-magics]\ntimeout = -inf\n",
        "[tool.agf-magics]\nallow-shell = {}\n",
    ],
)  # fmt: skip
def test_no_content_of_a_project_file_opens_something_or_crashes(text: str) -> None:
    Path("pyproject.toml").write_text(text, encoding="utf-8")
    settings = Settings()
    with contextlib.suppress(DefinitionError):
        settings = read(Path.cwd())
    assert [getattr(settings, name) for name in OPENING] == [False, False, "", False]


OUTSIDE = ("/tmp/x.sqlite", "../x.sqlite", "a/../../x.sqlite", "~/x.sqlite", "~root/x", "//host/share/x", "..")


@pytest.mark.parametrize("journal", OUTSIDE)
def test_a_project_keeps_its_runs_in_its_own_folder(journal: str) -> None:
    Path("pyproject.toml").write_text(f"[tool.agf-magics]\njournal = {json.dumps(journal)}\n")
    with pytest.raises(DefinitionError, match="outside its folder") as caught:
        read(Path.cwd())
    assert caught.value.code == "settings.person-only"
    write_user_file(f"journal = {json.dumps(journal)}\n")  # the user may
    Path("pyproject.toml").unlink()
    assert read(Path.cwd()).journal == journal


def test_a_project_may_still_limit_and_move_its_journal_below() -> None:
    text = '[tool.agf-magics]\njournal = "kept/runs.sqlite"\ntimeout = 3.5\nmodel = "ollama:x"\nmax-text = 10\n'
    Path("pyproject.toml").write_text(text)
    settings = read(Path.cwd())
    assert (settings.journal, settings.timeout, settings.model, settings.max_text) == (
        "kept/runs.sqlite",
        3.5,
        "ollama:x",
        10,
    )
    Path("pyproject.toml").write_text('[tool.agf-magics]\njournal = ""\n')
    assert read(Path.cwd()).journal == ""


# --- what the user sets ---


def test_the_users_own_file_sets_everything_and_a_project_what_it_may() -> None:
    write_user_file(
        'allow-shell = true\nallow_import = true\nmodel-base-url = "http://127.0.0.1:1"\ntimeout = 7\nmax-text = 5\n'
    )
    Path("pyproject.toml").write_text("[tool.agf-magics]\ntimeout = 6\n")
    settings = read(Path.cwd())
    assert (settings.allow_shell, settings.allow_import, settings.model_base_url) == (True, True, "http://127.0.0.1:1")
    assert (settings.timeout, settings.max_text) == (6, 5)


@pytest.mark.parametrize(
    "text", ["allow-shell = 1\n", "allow-shel = true\n", "=", "[a\n", "\udc80", "x = " + "[" * 9999]
)
def test_a_wrong_file_of_the_user_is_reported(text: str) -> None:
    write_user_file("")
    path = user_file()
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(DefinitionError) as caught:
        read(Path.cwd())
    assert caught.value.code == "settings.user-file"


@pytest.mark.parametrize(
    ("text", "means"),
    [("1", True), ("true", True), ("YES", True), (" on ", True), ("0", False), ("off", False), ("", False)],
)
def test_the_environment_sets_what_opens_something(monkeypatch: pytest.MonkeyPatch, text: str, means: bool) -> None:
    for name in ("allow_shell", "allow_import"):
        monkeypatch.setenv(variable(name), text)
        assert getattr(read(Path.cwd()), name) is means
        assert getattr(without_files(), name) is means
    monkeypatch.setenv("AGF_MAGICS_MODEL_BASE_URL", "http://127.0.0.1:1")
    assert read(Path.cwd()).model_base_url == "http://127.0.0.1:1"


def test_the_environment_overrides_the_file_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    write_user_file("allow-shell = true\n")
    monkeypatch.setenv("AGF_MAGICS_ALLOW_SHELL", "no")
    assert not read(Path.cwd()).allow_shell


def test_a_word_that_is_neither_on_nor_off_is_reported_and_opens_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGF_MAGICS_ALLOW_SHELL", "maybe")
    with pytest.raises(DefinitionError, match="AGF_MAGICS_ALLOW_SHELL must be one of") as caught:
        read(Path.cwd())
    assert caught.value.code == "settings.environment"
    assert not without_files().allow_shell


def test_every_switch_is_listed_as_what_opens_something() -> None:
    """The author of a new switch must decide here."""
    switches = {
        field.name for field in fields(Settings) if re.match("allow|tracing", field.name) or "url" in field.name
    }
    assert switches == set(OPENING)


# --- on the command line, and from a definition ---

STEP = f"pipeline: p\nsteps:\n- shell: {{command: ['{sys.executable}', -c, 'print(40 + 2)']}}\n"
NAMES_A_FILE = "name: g\nstate: {x: any}\ntools: {f: {type: python, path: code.py, function: f}}\n"
NAMES_A_FILE += "nodes: {n: {type: python, tool: f, state_key: x}}\nedges: [{from: START, to: n}]\n"


def command(*words: str, **environment: str) -> tuple[int, str]:
    """Run ``agf-magics`` in the project. Returns the exit code and the output."""
    ran = command_line(Path.cwd(), *words, **environment)
    return ran.returncode, ran.stdout + ran.stderr


def test_the_shell_is_allowed_by_the_one_who_types_the_command() -> None:
    Path("p.yaml").write_text(STEP)
    assert "[tool.shell-off]" in command("run", "p.yaml")[1]
    assert command("run", "p.yaml", "--allow-shell", "--quiet")[0] == 0
    assert command("run", "p.yaml", "--quiet", AGF_MAGICS_ALLOW_SHELL="1")[0] == 0
    write_user_file("allow-shell = true\n")
    assert command("run", "p.yaml", "--quiet")[0] == 0
    assert "[tool.shell-off]" in command("run", "p.yaml", AGF_MAGICS_ALLOW_SHELL="0")[1]
    Path("pyproject.toml").write_text("[tool.agf-magics]\nallow-shell = true\n")
    assert "[settings.person-only]" in command("run", "p.yaml")[1]


@pytest.mark.parametrize("act", slow_but(["run"], ["run", "check", "draw"]))
def test_imports_are_allowed_by_the_one_who_types_the_command(act: str) -> None:
    Path("g.yaml").write_text(NAMES_A_FILE)
    Path("code.py").write_text("open('imported', 'w').close()\ndef f(): return 1\n")
    command(act, "g.yaml")
    assert not Path("imported").exists()
    command(act, "g.yaml", "--allow-import")
    assert Path("imported").exists()


def test_a_definition_cannot_write_what_opens_something_later() -> None:
    """Each of these files once ran code, or allowed the shell, at the next start of a kernel."""

    def said(path: str) -> Any:
        step = {
            "tool": {"name": "file__write", "args": {"path": path, "content": "[tool.agf-magics]\nallow-shell=1\n"}}
        }
        reply = agf.agent_tools.run_pipeline_inline(json.dumps({"pipeline": "p", "steps": [step]}))
        return reply["data"].get("error", "")

    for path in (
        "pyproject.toml",
        "PyProject.toml",
        "./pyproject.toml",
        ".agf/runs.sqlite",
        ".agf/owners/1-0123456789ab",
        ".ipython/profile_default/startup/a.py",
        ".config/agf-magics/config.toml",
        ".git/hooks/post-checkout",
        ".vscode/settings.json",
        ".env",
        "sitecustomize.py",
        "usercustomize/__init__.py",
        "venv/lib/site-packages/a.pth",
        "tests/conftest.py",
        "setup.cfg",
        "Makefile",
    ):
        assert "[tool.file-path]" in said(path), path
    assert list(Path.cwd().iterdir()) == []


def test_the_users_own_files_are_protected_where_the_notebook_is_in_the_home_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path / "home")
    write_user_file("timeout = 3\n")
    path = user_file()
    below = path.relative_to(Path.cwd()).as_posix()  # without a dot in front, which would protect the file
    assert not below.startswith(".")
    for name in (below, below.upper(), below.replace("config.toml", "signing.key")):
        run = agf.run(
            f"pipeline: p\nsteps:\n- tool: {{name: file__write, args: {{path: {name}, content: x}}}}\n", raises=False
        )
        assert run.error.code == "tool.file-path"
    assert path.read_text() == "timeout = 3\n"


def test_a_cloned_project_is_only_data(tmp_path: Path) -> None:
    """Loading the extension in a cloned repository runs, imports and believes nothing of the repository."""
    hit = tmp_path / "hit"
    code = f"import pathlib; pathlib.Path({str(hit)!r}).touch()\ndef f(): return 1\n"
    for name in ("code.py", "conftest.py", "agf_magics_plugin.py", "ipython_config.py", "startup.py", "tools.py"):
        Path(name).write_text(code)
    Path(".agf").mkdir()
    for name in (".agf/config.toml", ".agf/agf-magics.toml", "config.toml", "agf-magics/config.toml"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("allow-shell = true\nallow-import = true\n")
    Path("g.yaml").write_text(NAMES_A_FILE)
    Path("p.yaml").write_text(STEP)
    script = (
        "from IPython.testing.globalipapp import start_ipython\n"
        "ip = start_ipython(); ip.run_line_magic('load_ext', 'agf_magics')\n"
        "import agf_magics as agf, pathlib\n"
        "from agf_magics.settings.settings import current\n"
        "print(current.settings.allow_shell, current.settings.allow_import)\n"
        "for name in ('g.yaml', 'p.yaml'):\n"
        "    try: print(agf.run(pathlib.Path(name)).status)\n"
        "    except agf.AgfError as error: print(error.diagnostic.code)\n"
    )
    Path("../script.py").write_text(script)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    ran = subprocess.run([sys.executable, "../script.py"], capture_output=True, text=True, env=environment)
    assert ran.stdout.split()[-4:] == ["False", "False", "file.import-off", "tool.shell-off"], ran.stdout + ran.stderr
    assert not hit.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="rights of folders")
def test_a_journal_above_a_folder_that_others_can_write_to_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(current, "settings", Settings())
    shared = tmp_path / "shared"
    (shared / ".agf").mkdir(parents=True)
    (shared / "mine").mkdir()
    monkeypatch.chdir(shared / "mine")
    assert journal_file() == shared / ".agf" / "runs.sqlite"
    shared.chmod(0o777)
    assert journal_file() == shared / "mine" / ".agf" / "runs.sqlite"
    monkeypatch.setenv("HOME", str(shared / "mine"))
    shared.chmod(0o755)
    assert journal_file() == shared / "mine" / ".agf" / "runs.sqlite"


@pytest.mark.skipif(sys.platform == "win32", reason="rights of folders")
def test_a_journal_that_others_can_write_to_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current, "settings", Settings())
    folder = tmp_path / ".agf"
    folder.mkdir()
    folder.chmod(0o777)
    monkeypatch.chdir(tmp_path)
    run = agf.run("pipeline: p\nsteps: [{transform: {value: '1'}}]")
    assert [warning.code for warning in run.warnings] == ["journal.foreign"]
    assert list(folder.iterdir()) == []
