"""Provides the executors and the processes that the tests of workers share."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor

import pytest

from agf_magics.workers.backends.processes import Processes


@pytest.fixture(scope="module", params=["threads", "processes"])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    pool: Executor = ThreadPoolExecutor(2)
    if request.param == "processes":
        pool = ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn"))
    with pool:
        yield pool


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    workers = Processes(2)
    yield workers
    workers.close()
