"""The vectors of the languages in Pyodide: the program that kernel.mjs runs for `make test-lite`.

pytest collects them as ever. What drives a run there is a loop of this file: the one of the tests has a selector,
which a page does not have.
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Coroutine
from typing import Any

import pytest

from agf_magics.engine.single import OwnLoop

sys.path.insert(0, "/drive")

SUITES = (
    *(
        "graph_expressions",
        "graph_load",
        "graph_runs",
        "pipeline_load",
        "pipeline_runs",
        "plan_load",
        "plan_reads",
    ),
    *("plan_runs", "policy_conditions", "policy_documents", "policy_paths", "policy_runs", "r1"),
)
NEEDS_COMPUTER = ("pattern", "turns", "prompt-with-fields", "repeat-in-repeat")
"""Words of rows that may fail: patterns of their own are refused (decision D59), scripted models need pydantic_ai."""


class VirtualLoop(OwnLoop):
    """Its clock jumps to the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def time(self) -> float:
        return self.now

    def select(self, timeout: float | None) -> list[Any]:
        assert timeout is not None, "nothing is ready: this would wait for ever"
        self.now += max(0.0, timeout)
        return []


def run_virtual(main: Coroutine[Any, Any, Any]) -> Any:
    loop = VirtualLoop()
    try:
        return loop.drive(main)
    finally:
        loop.close()


class Count:
    def __init__(self) -> None:
        self.passed = self.refused = 0
        self.failed: list[str] = []
        self.computer: set[str] = set()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """The rows of vectors; what else the suites hold is the same everywhere, and slow here."""
        for item in items:
            with contextlib.suppress(ValueError):  # a number of 5,000 digits, which is no text
                row = str(getattr(item, "callspec", item).__dict__)
                if any(word in row for word in NEEDS_COMPUTER):
                    self.computer.add(item.nodeid)
        items[:] = [
            item
            for item in items
            if "row" in getattr(getattr(item, "callspec", None), "params", ())
        ]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed.append(f"{report.nodeid}: {str(report.longrepr).strip()[-600:]}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        text = str(report.longrepr) if report.failed else ""
        needs_model = "No module named 'pydantic_ai'" in text
        if text and (needs_model or report.nodeid in self.computer):
            self.refused += 1
            return
        if text:
            self.failed.append(f"{report.nodeid}: {text.strip().splitlines()[-1][:200]}")
        elif report.when == "call" and report.passed:
            self.passed += 1


class Anything:
    """In the place of hypothesis, which has no wheel for a browser. Laws are not run here."""

    def __getattr__(self, name: str) -> Any:
        return Anything()

    def __call__(self, *given: Any, **named: Any) -> Any:
        return Anything()

    def __getitem__(self, key: Any) -> Any:
        return self

    def __or__(self, other: Any) -> Any:
        return self


hypothesis: Any = types.ModuleType("hypothesis")
hypothesis.strategies = hypothesis.st = Anything()
hypothesis.given = lambda *strategies, **named: pytest.mark.skip(reason="a law")
hypothesis.example = hypothesis.settings = hypothesis.seed = lambda *given, **named: (
    lambda test: test
)
hypothesis.assume, hypothesis.HealthCheck, hypothesis.note = Anything(), Anything(), Anything()
sys.modules["hypothesis"] = hypothesis
sys.modules["hypothesis.strategies"] = hypothesis.strategies
virtual_time: Any = types.ModuleType("tests.engine.virtual_time")
virtual_time.run_virtual, virtual_time.VirtualLoop = run_virtual, VirtualLoop
sys.modules["tests.engine.virtual_time"] = virtual_time

count = Count()
options = [
    "-q",
    "-q",
    "--noconftest",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:faulthandler",
    "-c",
    "/dev/null",
    "-m",
    "not law",
]
options += [
    "--rootdir=/drive",
    "--import-mode=importlib",
    "--show-capture=no",
    "--tb=short",
    "--disable-warnings",
    "--continue-on-collection-errors",
]
pytest.main(
    [*options, *(f"/drive/tests/languages/test_{suite}.py" for suite in SUITES)], plugins=[count]
)
print()
print(*count.failed[:20], sep="\n")
if not count.passed:
    count.failed.append("no vector was run")
print(f"{count.passed} passed, {count.refused} need a computer, {len(count.failed)} failed")
