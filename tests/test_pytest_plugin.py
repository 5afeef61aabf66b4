"""The pytest plugin records and replays the runs of another project, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
INSTALLED = {entry.name for entry in entry_points(group="pytest11")}
LEFT_OUT = [word for name in sorted(INSTALLED - {"agf_magics"} | {"cacheprovider"}) for word in ("-p", f"no:{name}")]
"""Plugins that the project does not need. They are off, because each start would import them."""
PRICE, REAL = "tests/test_prices.py::test_price", "tests/test_prices.py::test_real"

TEST = """
import agf_magics as agf
from pathlib import Path

@agf.tool
def price(fruit: str) -> float:
    with open("asked", "a") as file:
        file.write(fruit)
    return 2.5

FLOW = "pipeline: p\\nsteps:\\n- tool: {name: price, args: {fruit: !expr ctx.fruit}}"

def test_price(agf_replay):
    with agf_replay("prices.agf"):
        assert agf.run(FLOW, {"fruit": "fig"}).output == 2.5

def test_real():
    assert agf.run(FLOW, {"fruit": "pear"}).output == 2.5
"""


def run(project: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    plugin = [] if "agf_magics" in INSTALLED else ["-p", "agf_magics_pytest"]
    inherited = {name: text for name, text in os.environ.items() if name not in ("CI", "AGF_MAGICS_JOURNAL")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", *LEFT_OUT, *plugin, *options],
        cwd=project,
        env={**inherited, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n", encoding="utf-8")
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "test_prices.py").write_text(TEST, encoding="utf-8")
    return tmp_path


def test_a_project_records_and_replays(project: Path) -> None:
    missing = run(project, PRICE)
    assert missing.returncode == 1
    assert "replay.file" in missing.stdout
    refused = run(project, "--agf-record", CI="true")
    assert refused.returncode == 4
    assert "--agf-record records on your computer" in refused.stderr
    assert not (project / "asked").exists()
    recorded = run(project, "--agf-record", PRICE)
    assert recorded.returncode == 0, recorded.stdout
    assert (project / "tests" / "prices.agf").exists()
    assert (project / "asked").read_text("utf-8") == "fig"
    replayed = run(project, PRICE, CI="true")
    assert replayed.returncode == 0, replayed.stdout
    assert (project / "asked").read_text("utf-8") == "fig"


def test_the_journal_is_off_by_an_option_and_by_a_variable(project: Path) -> None:
    for options, environment in ((["--agf-no-journal"], {}), ([], {"AGF_MAGICS_JOURNAL": "off"})):
        completed = run(project, *options, REAL, **environment)
        assert completed.returncode == 0, completed.stdout
        assert not (project / ".agf").exists()
    assert run(project, REAL).returncode == 0
    assert (project / ".agf" / "runs.sqlite").exists()


def test_the_plugin_imports_nothing_of_the_package() -> None:
    code = "import sys, agf_magics_pytest; print([name for name in sys.modules if name.startswith('agf_magics.')])"
    completed = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert completed.stdout.strip() == "[]"
