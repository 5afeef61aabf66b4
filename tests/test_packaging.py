"""The wheel works as a user gets it, in an environment without access to the checkout.

Nothing is downloaded. The build runs without isolation, and the new environment borrows the dependencies of the
environment in which the tests run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import agf_magics

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
EXTENSION = ROOT / "agf_magics" / "labextension"
BESIDE = ("agf_magics_jupyter_lsp.py", "agf_magics_jupyter_mcp.py", "agf_magics_pytest.py")
"""Modules beside the package, which other programs import at each start."""


def run(*command: str | Path, cwd: Path) -> str:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # it could name the checkout
    completed = subprocess.run([*map(str, command)], cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stdout + completed.stderr
    return completed.stdout + completed.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    run(*pip, "wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", into, ROOT, cwd=into)
    (built,) = into.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the wheel. A .pth line gives it access to the dependencies, but not to the
    editable install."""
    place = tmp_path_factory.mktemp("environment")
    venv.create(place, with_pip=False, symlinks=True)
    python = place / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", python]
    run(*pip, "install", "--no-deps", "--no-index", wheel, cwd=place)  # type: ignore[arg-type]
    where = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=place).strip()
    Path(where, "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def test_the_wheel_holds_the_package_the_error_pages_the_quickstart_and_the_extension_and_nothing_else(
    wheel: Path,
) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    our_files = {path.relative_to(ROOT).as_posix() for path in (ROOT / "agf_magics").rglob("*") if path.is_file()}
    our_files = {
        name for name in our_files if "__pycache__" not in name and not name.startswith("agf_magics/labextension")
    }
    shared = f"agf_magics-{PROJECT['version']}.data/data/share/jupyter/labextensions/agf-magics/"
    extension = {shared + path.relative_to(EXTENSION).as_posix() for path in EXTENSION.rglob("*") if path.is_file()}
    assert "agf_magics/py.typed" in our_files
    errors = {f"agf_magics/notebook/errors/{page.name}" for page in ROOT.glob("docs/reference/errors/*.md")}
    assert {name for name in names if ".dist-info/" not in name} == {
        *(*our_files, *errors, *extension, "agf_magics/quickstart.ipynb", *BESIDE)
    }


def test_the_sdist_holds_what_building_testing_and_documenting_need_and_no_rubbish(tmp_path: Path) -> None:
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path, cwd=ROOT)
    (built,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(built) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    included = PYPROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["only-include"]
    assert all(path in names or any(name.startswith(f"{path}/") for name in names) for path in included)
    assert {"docs/conf.py", "tests/conftest.py", "notebooks/execute.py", ".ci/run", "agf_magics/py.typed"} <= names
    parts = {part for name in names for part in name.split("/")}
    assert not parts & {"__pycache__", ".agf", ".git", ".venv", "build", "dist", ".ipynb_checkpoints", ".pytest_cache"}
    assert not [name for name in names if name.startswith("docs/notebooks/") or name.endswith((".pyc", ".sqlite"))]


def test_the_version_is_the_same_everywhere() -> None:
    """The name of the extension's file contains the version, too. Otherwise a browser would keep the file of the last
    version."""
    assert agf_magics.__version__ == PROJECT["version"]
    package = json.loads((EXTENSION / "package.json").read_text(encoding="utf-8"))
    entry = f"static/remoteEntry.{PROJECT['version']}.js"
    assert (package["version"], package["jupyterlab"]["_build"]["load"]) == (PROJECT["version"], entry)
    assert [path.relative_to(EXTENSION).as_posix() for path in (EXTENSION / "static").iterdir()] == [entry]


@pytest.mark.slow
def test_jupyterlab_finds_the_extension_of_an_installed_wheel(python: Path) -> None:
    listed = run(python, "-m", "jupyterlab.labextensions", "list", cwd=python.parent)
    (line,) = [line for line in listed.splitlines() if "agf-magics v" in line]
    assert f"v{PROJECT['version']}" in line
    assert "enabled" in line
    assert "OK" in line


SESSION = """
%load_ext agf_magics
get_ipython().run_cell_magic("pipeline", "", "pipeline: sum\\nsteps: [{transform: {value: '20 + 1'}}]")
run = %run_pipeline sum
import agf_magics
print(run.output, agf_magics.__file__)
"""


def test_an_installed_wheel_runs_a_pipeline_in_ipython(python: Path) -> None:
    printed = run(python, "-m", "IPython", "--no-banner", "--colors=NoColor", "-c", SESSION, cwd=python.parent)
    assert f"21 {python.parent.parent}" in printed


def test_an_installed_wheel_explains_errors(python: Path) -> None:
    cell = "%load_ext agf_magics\n%explain pipeline.step-kind"
    printed = run(python, "-m", "IPython", "--no-banner", "--colors=NoColor", "-c", cell, cwd=python.parent)
    assert "### pipeline.step-kind" in printed


def test_an_installed_wheel_brings_its_command(python: Path) -> None:
    assert "draw" in run(python.with_name("agf-magics"), "--help", cwd=python.parent)
