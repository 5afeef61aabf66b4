"""Calls of servers in the journal, which are resumed, reused, replayed or left out in a dry run, and links in
results."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import agf_magics as agf
from agf_magics import StepError
from agf_magics.settings.settings import current
from tests.mcp.servers import call, marks, program

TWO = """
pipeline: two
steps:
- {tool: {name: quick__drop, output: dropped}}
- {tool: {name: fails}}
"""
ADD = "pipeline: add\nsteps: [{tool: {name: quick__add, args: {a: 2}}}]"


@pytest.fixture(autouse=True)
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    from dataclasses import replace

    monkeypatch.setattr(current, "settings", replace(current.settings, journal=str(tmp_path / "runs.db")))
    yield tmp_path / "mark"
    agf.mcp.close_all()


def connect(mark: Path, **options: object) -> None:
    agf.mcp.connect("quick", command=program("quick"), env={"MARK": str(mark)}, **options)  # type: ignore[arg-type]


def test_a_resumed_run_makes_no_call_twice(mark: Path) -> None:
    connect(mark)

    @agf.tool(name="fails")
    def fails() -> str:
        raise ValueError("once")

    run = agf.run(TWO, raises=False)
    assert run.status == "error"

    @agf.tool(name="fails")
    def works() -> str:
        return "done"

    connect(mark)  # as in another session
    assert agf.resume(run.run_id).output == "done"
    assert marks(mark) == ["drop"]
    agf.registry.tools.remove("fails")


def test_a_trusted_read_only_call_is_reused_and_another_one_is_made_again(mark: Path) -> None:
    connect(mark, trust=True)
    agf.run(ADD)
    assert agf.run(ADD, reuse=True).output == "3"
    assert marks(mark) == ["add"]
    connect(mark)
    assert agf.run(ADD, reuse=True).output == "3"
    assert marks(mark) == ["add", "add"]


def test_a_dry_run_calls_no_server(mark: Path) -> None:
    connect(mark)
    agf.run(ADD, dry=True)
    assert marks(mark) == []


def test_a_recorded_run_is_replayed_without_a_call(mark: Path, tmp_path: Path) -> None:
    connect(mark)
    agf.record(agf.run(ADD), str(tmp_path / "run.agf"))
    with agf.replay(str(tmp_path / "run.agf")):
        assert agf.run(ADD).output == "3"
    assert marks(mark) == ["add"]


def test_only_linked_resources_of_a_result_are_read(mark: Path) -> None:
    agf.mcp.connect("good", command=program("good"), wait=60)
    with pytest.raises(StepError) as caught:
        call("good__read_resource", args={"uri": "memo://today"})
    assert caught.value.diagnostic.code == "mcp.not-linked"
    (link,) = (part for part in call("good__picture").output if isinstance(part, dict) and part["type"] == "link")
    assert call("good__read_resource", args={"uri": link["uri"]}).output == "Buy figs."
    with pytest.raises(StepError, match="has linked to 'memo://hidden'"):
        call("good__read_resource", args={"uri": "memo://hidden"})


def test_a_call_during_which_the_server_ended_is_asked_for(mark: Path) -> None:
    """Nobody knows whether it had its effect (decisions D7, D216)."""
    agf.mcp.connect("good", command=program("good"))
    flow = "pipeline: dies\nsteps: [{tool: {name: good__die, on_error: retry(2)}}]"
    for run in (agf.run(flow, raises=False), agf.resume("dies", raises=False)):
        assert (run.status, run.error.code) == ("waiting", "step.unknown-outcome")
    assert agf.resume("dies", answer={"result": "it died"}).output == "it died"
