"""The pytest plugin: tests that replay recordings.

A module beside the package: pytest imports its plugins at each start, in every project of the
environment, and the package takes long to import. It is imported when a test uses the fixture.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

OFF = "AGF_MAGICS_JOURNAL"
FALSE = ("", "0", "false", "no", "off")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("agf-magics", "agf-magics")
    about = "make the calls that a recording does not have, and add them to it; not where CI=true"
    group.addoption("--agf-record", action="store_true", help=about)
    about = "keep no journal: the runs of the tests leave nothing in the project"
    group.addoption("--agf-no-journal", action="store_true", help=about)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--agf-record") and os.environ.get("CI", "").lower() not in FALSE:
        raise pytest.UsageError("--agf-record records on your computer, not where CI is set")
    if config.getoption("--agf-no-journal"):
        os.environ[OFF] = "off"  # also for the processes that the tests start
        settings: Any = sys.modules.get("agf_magics.settings.settings")
        if settings is not None:
            settings.current.settings = replace(settings.current.settings, journal="")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Each test finds the notebook's folder for itself: it may work in a folder of its own."""
    folder: Any = sys.modules.get("agf_magics.text.folder")
    if folder is not None:
        folder.notebook_folder.change(None)


@pytest.fixture
def agf_replay(request: pytest.FixtureRequest) -> Callable[..., AbstractContextManager[Any]]:
    """``with agf_replay("prices.agf"): agf.run(…)``: runs take their calls from the file, which is
    relative to the folder of the test. The options are those of `agf_magics.replay`."""
    records, folder = request.config.getoption("--agf-record"), Path(request.path).parent

    def replay(path: str | Path, **options: Any) -> AbstractContextManager[Any]:
        import agf_magics as agf

        if records:
            options["missing"] = "record"
        return agf.replay(folder / path, **options)

    return replay
