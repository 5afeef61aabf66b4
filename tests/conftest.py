"""Sets the environment of each test: separate folders for Jupyter and IPython, a fixed terminal width, no deadlines."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, is_hypothesis_test, settings

os.environ["AGF_CHECK_VALUES"] = "1"  # before the package, which reads it once; kernels and workers inherit it

from agf_magics.catalog import default
from agf_magics.schemas.json_schema import judge
from agf_magics.settings.settings import current
from agf_magics.workers.started_backends import started

# Whoever starts the tests in the background of a script has them ignore interrupts, and all that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Every test with `@given` is a law. `make test` runs the same examples each time, with CI set or not: what they show
# they have shown, so they are few. `make laws` runs the profile `laws`: other examples each time, and more of them
# where a test does not set its own number.
settings.register_profile(
    "fixed",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("laws", settings.get_profile("fixed"), derandomize=False, max_examples=400, print_blob=True)
settings.load_profile("fixed")

judge(True)(None)  # imports jsonschema as the package does, without a grammar that takes seconds

gc.disable()  # until all tests are collected: 16,000 objects that stay are visited again and again

PLACES = (
    *("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "XDG_DATA_HOME"),
    "XDG_CACHE_HOME",  # what is there is signed with a key in the one before: a process that has another compiles again
)


def pytest_itemcollected(item: pytest.Item) -> None:
    if " at 0x" in item.nodeid:  # the processes of a parallel run must find the same tests
        raise pytest.UsageError(f"{item.nodeid}: a test's name must not contain an address: choose other ids=")
    if is_hypothesis_test(getattr(item, "obj", None)):
        item.add_marker("law")


def pytest_collection_finish() -> None:
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Few tests have examples in docstrings, and looking for them takes longer than reading the text."""
    collectors = yield
    has_examples = file_path.suffix != ".py" or ">>> " in file_path.read_text(encoding="utf-8")
    return [one for one in collectors if has_examples or not isinstance(one, DoctestModule)]


@pytest.fixture(scope="module", autouse=True)
def _collections_stay_short() -> None:
    """Take the collected tests, and what the modules before left, out of what the collector of garbage visits: a full
    collection, which each reset of a shell makes, then takes 10 ms instead of 750."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _no_settings_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Kernels and shells read no profile and write no history of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        home: Path = tmp_path_factory.mktemp("home")
        for place in PLACES:
            patch.setenv(place, str(home / place.lower()))
        patch.setenv("COLUMNS", "80")
        yield


@pytest.fixture(scope="session")
def thorough() -> bool:
    """Whether this is `make laws`: a test of many cases then tries all of them, and in `make test` a sample."""
    return settings.get_current_profile_name().startswith("laws")


@pytest.fixture(autouse=True)
def _settings_are_reset() -> Iterator[None]:
    """Each test starts with the default settings, without a journal and without a user."""
    before = vars(current).copy()
    chosen = default()._chosen
    current.settings = replace(before["settings"], journal=None)
    yield
    vars(current).update(before)
    default()._chosen = chosen


@pytest.fixture
def journaled(tmp_path: Path) -> Iterator[Path]:
    """Runs are kept in the folder of the test."""
    from tests.engine.kept import journal_in

    with journal_in(tmp_path) as path:
        yield path


@pytest.fixture(scope="module", autouse=True)
def _workers_are_closed() -> Iterator[None]:
    """Workers that a module has started end with it: ``%workers --restart`` of another test would restart them too."""
    yield
    started.close()


@pytest.fixture(scope="module", autouse=True)
def complete_main() -> None:
    """A shell of another test may have replaced ``__main__`` by a module without ``__spec__``, which the processes of
    `multiprocessing` need."""
    vars(sys.modules["__main__"]).setdefault("__spec__", None)
