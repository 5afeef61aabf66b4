"""Tests that a failure which the package gives up on is in its log, and nowhere else."""

from __future__ import annotations

import ast
import logging
import subprocess
import sys
from pathlib import Path

import polars
import pytest

from agf_magics.pictures.values import value_text
from agf_magics.text.giving_up import giving_up
from agf_magics.workers.started_backends import StartedBackends

PACKAGE = Path(__file__).parents[2] / "agf_magics"

ROOM = "agf_magics.workers.started_backends"


def test_a_failure_is_logged_with_its_traceback_and_the_caller_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    with giving_up(ROOM, "nothing was shown"):
        raise KeyError("word")
    (record,) = caplog.records
    assert (record.name, record.levelname, record.getMessage()) == (ROOM, "WARNING", "nothing was shown")
    assert record.exc_text is None or "KeyError" in record.exc_text
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], KeyError)


def test_an_interrupt_is_not_given_up_on(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(KeyboardInterrupt), giving_up(ROOM, "nothing was shown"):
        raise KeyboardInterrupt
    assert caplog.records == []


def test_nothing_is_printed_until_a_person_asks_for_it() -> None:
    fails = f"from agf_magics.text.giving_up import giving_up\nwith giving_up({ROOM!r}, 'not shown'): 1 / 0\n"
    asks = "import logging\nlogging.basicConfig()\n"
    silent, logged = (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr
        for code in (fails, asks + fails)
    )
    assert silent == ""
    assert logged.startswith(f"WARNING:{ROOM}:not shown\nTraceback")
    assert "ZeroDivisionError" in logged


def test_workers_that_cannot_be_closed_are_logged_and_the_others_are_closed(caplog: pytest.LogCaptureFixture) -> None:
    closed = list[str]()

    class Pool:
        def __init__(self, name: str) -> None:
            self.name = name

        def close(self) -> None:
            if self.name == "first":
                raise OSError("it has ended")
            closed.append(self.name)

    backends = StartedBackends()
    for name in ("first", "second"):
        backends.get((name, None), lambda name=name: Pool(name))  # type: ignore[misc,arg-type,return-value]
    backends.close()
    assert closed == ["second"]
    assert [record.getMessage() for record in caplog.records] == ["workers could not be closed"]


def test_a_table_that_cannot_be_drawn_is_logged_for_whoever_looks_closely(caplog: pytest.LogCaptureFixture) -> None:
    table = polars.DataFrame({"a": ["x" * 200_000] * 20})
    assert "DataFrame" in value_text(table)
    assert caplog.records == []
    with caplog.at_level(logging.DEBUG, "agf_magics"):
        value_text(table)
    assert {record.getMessage() for record in caplog.records} == {"a table is shown by its size"}


SILENT = {"suppress(Exception)", "contextlib.suppress(Exception)"}


@pytest.mark.parametrize("room", ["notebook", "workers/backends"])
def test_what_a_person_would_want_to_know_is_not_suppressed_in_silence(room: str) -> None:
    """In these rooms an exception is that of a front end or of a cluster; elsewhere that of a user's object."""
    silent = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in sorted((PACKAGE / room).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.withitem) and ast.unparse(node.context_expr) in SILENT
        for node in [node.context_expr]
    ]
    assert silent == []
