"""Exceptions of tools on workers arrive in the kernel with their class, their text and their attributes."""

from __future__ import annotations

import linecache
import pickle
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.workers.backends.processes import Processes
from agf_magics.workers.sending.tracebacks import RemoteTraceback, with_source
from tests.workers.in_process import InProcess
from tests.workers.test_chunk import run_bare


class NoSuch(Exception):
    """An exception whose ``__init__`` would take its own text as the name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no such {name}")
        self.name = name


class TwoParts(ValueError):
    def __init__(self, first: str, *, second: str) -> None:
        super().__init__(f"{first}, {second}")


class NotWritten(OSError):
    def __init__(self, number: int, text: str) -> None:
        super().__init__(number, text)


ONE_CALL = """
pipeline: main
steps:
  - for_each:
      over: ctx.xs
      on_error: continue
      do: {tool: {name: work, args: {x: !expr item}}}
      collect: {transform: {value: pipe}}
"""

BRANCHES = """
pipeline: main
steps:
  - parallel:
      on_error: continue
      branches:
        a: {tool: {name: work, args: {x: 1}}}
        b: {tool: {name: work, args: {x: 2}}}
      collect: {transform: {value: pipe}}
"""


def raised(x: int) -> Any:
    if x == 1:
        raise NoSuch("pear")
    if x == 2:
        raise TwoParts("fig", second="plum")
    if x == 3:
        raise NotWritten(2, "no file")
    return x


TEXTS = {1: (NoSuch, "no such pear"), 2: (TwoParts, "fig, plum"), 3: (NotWritten, "[Errno 2] no file")}


@pytest.mark.parametrize("text", [ONE_CALL, BRANCHES], ids=["elements", "calls"])
def test_an_exception_with_an_init_of_its_own_returns_as_it_was_raised(text: str) -> None:
    registry = agf.Registry()
    agf.tool(raised, name="work", registry=registry)
    run = agf.run(text, {"xs": [1, 2, 3]}, registry=registry, on=InProcess())
    failures = list(run.progress.failures)
    causes = [failure.error.__cause__ for failure in failures]
    expected = list(TEXTS.values())[: len(causes)]
    assert sorted((type(cause).__name__, str(cause)) for cause in causes) == sorted(
        (k.__name__, t) for k, t in expected
    )
    assert all(isinstance(cause, tuple(TEXTS[x][0] for x in TEXTS)) for cause in causes)
    named = [cause for cause in causes if isinstance(cause, NoSuch)]
    assert [cause.name for cause in named] == ["pear"]
    assert all(str(failure.error.__cause__) in failure.error.diagnostic.message for failure in failures)  # type: ignore[attr-defined]


@pytest.mark.parametrize("text", [ONE_CALL, BRANCHES], ids=["elements", "calls"])
def test_the_traceback_of_the_worker_has_the_frames_of_the_tool_alone(text: str) -> None:
    registry = agf.Registry()
    agf.tool(raised, name="work", registry=registry)
    run = agf.run(text, {"xs": [1, 2, 3]}, registry=registry, on=InProcess())
    causes = [failure.error.__cause__ for failure in run.progress.failures]
    assert causes
    for cause in causes:
        traceback_text = str(cause.__cause__)
        assert "in raised" in traceback_text
        assert traceback_text.count('File "') == 1


@pytest.mark.parametrize("text", [ONE_CALL, BRANCHES], ids=["elements", "calls"])
def test_a_module_that_only_the_kernel_has_is_named(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def needs_module(x: int) -> int:
        import agf_only_here  # type: ignore[import-not-found]

        return int(agf_only_here.VALUE)

    registry, workers = agf.Registry(), Processes(1)
    agf.tool(lambda x: x, name="work", registry=registry)
    try:
        assert (
            agf.run(text, {"xs": [1]}, registry=registry, on=workers).error is None
        )  # the worker has the old sys.path
        (tmp_path / "agf_only_here.py").write_text("VALUE = 3")
        monkeypatch.syspath_prepend(tmp_path)
        agf.tool(needs_module, name="work", registry=registry)
        run = agf.run(text, {"xs": [1]}, registry=registry, on=workers)
    finally:
        workers.close()
    error = run.progress.failures[0].error
    assert error.code == "step.worker-lacks"  # type: ignore[attr-defined]
    assert "needs the module 'agf_only_here', which a worker of 1 process lacks" in error.diagnostic.message  # type: ignore[attr-defined]
    assert "import 'agf_only_here' outside of the function" in str(error.diagnostic.hint)  # type: ignore[attr-defined]
    assert isinstance(error.__cause__, ModuleNotFoundError)
    assert error.diagnostic.span is not None  # type: ignore[attr-defined]


def test_the_traceback_of_a_worker_has_the_source_that_only_the_kernel_knows() -> None:
    file = "/tmp/of-a-cell/1.py"
    linecache.cache[file] = (20, None, ["def f():\n", "    raise KeyError\n"], file)
    text = f'Traceback (most recent call last):\n  File "{file}", line 2, in f\nKeyError\n'
    try:
        assert "line 2, in f\n    raise KeyError\nKeyError" in str(RemoteTraceback(text))
        assert "  Cell In[3], line 2, in f\n    raise" in with_source(text, lambda _: "Cell In[3]")
        has_source = text.replace("in f\n", "in f\n    raise KeyError\n")
        assert with_source(has_source) == has_source
    finally:
        del linecache.cache[file]


def test_a_result_that_is_an_exception_is_the_one_that_was_returned() -> None:
    def work(x: int) -> Any:
        return NoSuch("pear")

    marks, values, *_ = run_bare(work, [{"x": 1}])
    assert (marks, type(values[0]).__name__, str(values[0])) == ("v", "NoSuch", "no such pear")


def test_a_worker_without_this_package_sends_the_exception_that_was_raised() -> None:
    marks, values, *_ = run_bare(raised, [{"x": 1}, {"x": 2}, {"x": 3}])
    assert marks == "eee"
    exceptions = [pickle.loads(data) for data, _ in values]
    assert [(type(exception), str(exception)) for exception in exceptions] == list(TEXTS.values())
