"""Two notebooks share one sign-in: each uses the tokens that the other has renewed, and no token is lost."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mcp.servers import PROGRAMS, marks
from tests.mcp.sign_in_service import State, running

pytest.importorskip("keyring")

ROOT = Path(__file__).parents[2]


@pytest.fixture
def service() -> Iterator[State]:
    with running() as state:
        yield state


class Notebook:
    """A process with a notebook that is signed in."""

    def __init__(self, folder: Path, service: State, calls: int = 1) -> None:
        browser = shlex.join([sys.executable, str(PROGRAMS / "browser.py"), str(folder / "pages")])
        hidden = ("JUPYTERHUB_USER", "SSH_CONNECTION", "COLAB_RELEASE_TAG")
        environment = {
            **{name: value for name, value in os.environ.items() if name not in hidden},
            "HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config"), "BROWSER": f"{browser} %s",
            "PYTHON_KEYRING_BACKEND": "file_keyring.FileKeyring", "FILE_KEYRING": str(folder / "keyring"),
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(PROGRAMS)]),
        }  # fmt: skip
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAMS / "signs_in.py"), f"{service.own}/mcp", str(calls)],
            cwd=folder, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip

    def signed_in(self) -> bool:
        assert self.process.stdout is not None
        return any("signed in" in line for line in iter(self.process.stdout.readline, ""))

    def begin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def successes(self) -> int:
        out, err = self.process.communicate(timeout=120)
        assert self.process.returncode == 0, err
        return int(out.split()[-1])


@pytest.mark.slow
def test_the_second_notebook_needs_no_browser_and_both_use_a_renewed_token(service: State, tmp_path: Path) -> None:
    service.expires = -1
    notebooks = [Notebook(tmp_path, service)]
    assert notebooks[0].signed_in()
    notebooks.append(Notebook(tmp_path, service))
    assert notebooks[1].signed_in()
    for notebook in notebooks:
        notebook.begin()
        assert notebook.successes() == 1
    assert len(marks(tmp_path / "pages")) == 1
    assert (service.grants.count("authorization_code"), service.thefts) == (1, 0)
    (entry,) = json.loads((tmp_path / "keyring").read_text()).values()
    assert json.loads(entry)["tokens"]["refresh_token"] == service.refresh


@pytest.mark.slow
def test_two_notebooks_that_renew_all_the_time_use_no_refresh_token_twice(service: State, tmp_path: Path) -> None:
    first = Notebook(tmp_path, service, 100)
    assert first.signed_in()
    second = Notebook(tmp_path, service, 100)
    assert second.signed_in()
    service.uses = service.left = 20
    for notebook in (first, second):
        notebook.begin()
    assert [notebook.successes() for notebook in (first, second)] == [100, 100]
    assert len(marks(tmp_path / "pages")) == 1
    assert service.grants.count("refresh_token") >= 9
    assert service.thefts == 0
    assert list((tmp_path / "config").rglob("*.lock")), "the turn is a file of the person's own folder"
