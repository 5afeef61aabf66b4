"""The environment of every test: folders of its own for Jupyter and IPython, a terminal of fixed width, and property
tests without deadlines."""

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

os.environ["AGF_CHECK_VALUES"] = "1"  # the import of the package reads it; kernels and workers inherit it

from agf_magics.catalog import default
from agf_magics.schemas.json_schema import judge
from agf_magics.settings.settings import current
from agf_magics.text.hint_words import hint_words
from agf_magics.workers.started_backends import started

# A process that a script starts in the background ignores interrupts, and its children inherit that. The tests need
# interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Every test with `@given` is a law. `make test` tries the same few examples each time, with CI set or not: more of the
# same would show nothing new. `make laws` uses the profile `laws`, which tries other examples each time, and more of
# them unless a test sets its own number.
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

judge(True)(None)  # imports jsonschema in the way of the package, without a grammar whose import takes seconds

gc.disable()  # off until all tests are collected; else 16,000 lasting objects are visited again and again

PLACES = (
    *("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "XDG_DATA_HOME"),
    "XDG_CACHE_HOME",  # its cache is signed with a key in XDG_DATA_HOME: with another key everything is compiled again
)


def pytest_itemcollected(item: pytest.Item) -> None:
    if " at 0x" in item.nodeid:  # it differs in each process of a parallel run
        raise pytest.UsageError(f"{item.nodeid}: a test's name must not contain an address: choose other ids=")
    if is_hypothesis_test(getattr(item, "obj", None)):
        item.add_marker("law")


def pytest_collection_finish() -> None:
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for doctests only in files with examples. Few files have any, and the search takes longer than reading the
    text."""
    collectors = yield
    has_examples = file_path.suffix != ".py" or ">>> " in file_path.read_text(encoding="utf-8")
    return [collector for collector in collectors if has_examples or not isinstance(collector, DoctestModule)]


@pytest.fixture(scope="module", autouse=True)
def _collections_stay_short() -> None:
    """Hide the collected tests, and objects of earlier modules, from the garbage collector. Each reset of a shell makes
    a full collection, which then takes 10 ms instead of 750."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _no_settings_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep kernels and shells away from the user's profile and history."""
    with pytest.MonkeyPatch.context() as patch:
        home: Path = tmp_path_factory.mktemp("home")
        for place in PLACES:
            patch.setenv(place, str(home / place.lower()))
        patch.setenv("COLUMNS", "80")
        yield


@pytest.fixture(scope="session")
def thorough() -> bool:
    """Whether `make laws` runs the tests. A test of many cases then tries all of them; in `make test` it tries a
    sample."""
    return settings.get_current_profile_name().startswith("laws")


@pytest.fixture(autouse=True)
def _settings_are_reset() -> Iterator[None]:
    """Start each test with the default settings, without a journal and without a user."""
    before = vars(current).copy()
    chosen = default()._chosen
    current.settings = replace(before["settings"], journal=None)
    yield
    vars(current).update(before)
    hint_words.rows = ()
    default()._chosen = chosen


@pytest.fixture
def journaled(tmp_path: Path) -> Iterator[Path]:
    """Keep the runs of the test in a journal in its folder."""
    from tests.engine.kept import journal_in

    with journal_in(tmp_path) as path:
        yield path


@pytest.fixture(scope="module", autouse=True)
def _workers_are_closed() -> Iterator[None]:
    """Close the workers that a module has started, because ``%workers --restart`` of another test would restart
    them."""
    yield
    started.close()


@pytest.fixture(scope="module", autouse=True)
def complete_main() -> None:
    """Give ``__main__`` a ``__spec__``, which the processes of `multiprocessing` need. A shell of another test may have
    replaced ``__main__`` by a module without it."""
    vars(sys.modules["__main__"]).setdefault("__spec__", None)
