"""Calls of servers in the journal, which are resumed, reused, replayed or left out in a dry run, and links in
results."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics import StepError
from agf_magics.mcp.client.connecting import Address, Command
from agf_magics.mcp.client.results import links
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


OTHER_TARGETS = {
    "other words": {"words": ("other",)},
    "another variable": {"env": {"PLACE": "b"}},
    "another value of a named variable": {"env": {"PLACE": "$PLACE_OF_TEST"}},
    "no variable": {"env": {}},
}


@pytest.mark.parametrize("other", OTHER_TARGETS.values(), ids=OTHER_TARGETS.keys())
def test_a_result_of_another_server_with_the_same_name_is_not_reused(
    mark: Path, other: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect_to(words: tuple[str, ...] = (), env: Mapping[str, str] | None = None) -> None:
        variables = {"PLACE": "a", "MARK": str(mark)} if env is None else {"MARK": str(mark), **env}
        agf.mcp.connect("quick", command=program("quick", *words), env=variables, trust=True)

    monkeypatch.setenv("PLACE_OF_TEST", "c")
    connect_to()
    agf.run(ADD)
    connect_to(**other)
    assert agf.run(ADD, reuse=True).output == "3"
    assert marks(mark) == ["add", "add"]
    connect_to(**other)
    assert agf.run(ADD, reuse=True).output == "3"
    assert marks(mark) == ["add", "add"]


ADDRESSES: list[Address | Command] = [
    Address("https://a.example/mcp"),
    Address("https://b.example/mcp"),
    Address("https://a.example/mcp", {"X-Tenant": "one"}),
    Address("https://a.example/mcp", {"X-Tenant": "$TENANT_OF_TEST"}),
    Address("https://a.example/mcp", signs_in=True),
    Command(["python", "server.py"]),
    Command(["python", "server.py"], {"X-Tenant": "one"}),
    Command(["python", "server.py", "x"]),
]


def test_each_target_has_a_digest_of_its_own_that_shows_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENANT_OF_TEST", "two")
    digests = [target.prepare("s", print).digest for target in ADDRESSES]
    monkeypatch.setenv("TENANT_OF_TEST", "three")
    digests.append(ADDRESSES[3].prepare("s", print).digest)
    assert len(set(digests)) == len(digests)
    assert all(digest is not None and len(digest) == 64 for digest in digests)
    # Made with the key of this user: nobody else can compare a guess with it.
    assert digests[0] != hashlib.sha256(json.dumps(["https://a.example/mcp", {}, False]).encode()).hexdigest()


def test_without_a_key_of_the_user_no_result_of_a_server_is_reused(
    mark: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    connect(mark, trust=True)
    agf.run(ADD)
    assert agf.run(ADD, reuse=True).output == "3"
    assert marks(mark) == ["add", "add"]


ODD_PARTS: list[Any] = [
    {"type": "link", "text": "Home"},
    {"type": "link", "uri": None},
    {"type": "link", "uri": 5},
    {"type": "link", "uri": ["memo://a"]},
    {"type": ["link"], "uri": "memo://b"},
    {"uri": "memo://c"},
    {},
    [{"type": "link", "uri": "memo://d"}],
    "link",
    None,
]


@pytest.mark.parametrize("value", [ODD_PARTS, *ODD_PARTS, {"type": "link", "uri": "memo://e"}], ids=str)
def test_an_object_that_only_looks_like_a_link_links_to_nothing(value: Any) -> None:
    assert links(value) == [] or value == [{"type": "link", "uri": "memo://d"}]
    assert links([*ODD_PARTS, {"type": "link", "uri": "memo://f"}]) == ["memo://f"]
