"""The tools of a connected server are ordinary tools, in both protocols: checked, journaled, cancelled, asked for."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics import StepError
from agf_magics.mcp import Server
from agf_magics.text.folder import notebook_folder
from tests.mcp.servers import call, is_alive, marks, program, until


@pytest.fixture(scope="module", params=["auto", "old"])
def good(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    mark = tmp_path_factory.mktemp("good") / "marks"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GOOD_TOKEN", "tok-en-12345")
        patch.setenv("PRIVATE", "nobody's")
        env = {"TOKEN": "$GOOD_TOKEN", "MARK": str(mark)}
        server = agf.mcp.connect("good", command=program("good"), env=env, protocol=request.param, wait=60)
        server.mark = mark  # type: ignore[attr-defined]
        yield server
        server.close()


def test_the_tools_of_a_server_are_registered_with_their_schemas(good: Server) -> None:
    tool = agf.registry.tools["good__add"]
    assert tool.takes == "a (whole number), b (whole number)"
    assert tool.description == "Add two numbers."
    assert (tool.gives or {})["required"] == ["total"]
    assert good.instructions == "Numbers and waiting."
    assert good.problems == ()
    assert good.protocol >= ("2026" if good._mode == "auto" else "2025")


def test_a_structured_result_is_the_value_and_a_wrapped_text_the_text(good: Server) -> None:
    assert call("good__add", args={"a": 1, "b": 2}).output == {"total": 3}
    assert call("good__plain", args={"text": "hi"}).output == "hi"


def test_half_of_a_character_in_an_argument_is_replaced(good: Server) -> None:
    agf.define("pipeline: halves\nsteps:\n- tool: {name: good__plain, args: {text: !expr ctx.text}}\n")
    assert agf.run("halves", {"text": "fig \ud83c"}).output == "fig \ufffd"
    assert call("good__plain", args={"text": "hi"}).output == "hi"


def test_a_list_of_parts_has_texts_media_and_links(good: Server) -> None:
    text, image, link = call("good__picture").output
    assert text == "here it is"
    assert (image["type"], image["mime"]) == ("image", "image/png")
    assert link == {"type": "link", "uri": "memo://today", "name": "today"}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"a": 1}, "needs 'b'"),
        ({"a": 1, "b": 2, "c": 3}, "has no argument 'c'"),
    ],
)
def test_wrong_names_are_found_before_the_run(good: Server, args: dict[str, object], message: str) -> None:
    with pytest.raises(agf.DefinitionError, match=message):
        call("good__add", args=args)


def test_a_wrong_value_is_refused_at_its_place_before_the_server_sees_it(good: Server) -> None:
    with pytest.raises(agf.DefinitionError) as caught:
        call("good__add", args={"a": 1, "b": "two"})
    diagnostic = caught.value.diagnostic
    assert diagnostic.code == "tool.arguments"
    assert "b: needs a whole number" in diagnostic.message
    assert diagnostic.span is not None
    assert diagnostic.span.text == '"two"'
    with pytest.raises(agf.DefinitionError, match=r"text that matches \^\[a-z\]\+\$"):
        call("good__drop", args={"table": "A1"})


def test_a_failure_is_the_failure_of_the_step(good: Server) -> None:
    with pytest.raises(StepError) as caught:
        call("good__fail", args={"why": "no figs"})
    assert caught.value.diagnostic.code == "mcp.tool-failed"


def test_a_server_gets_only_its_environment_and_what_it_got_is_masked(good: Server) -> None:
    assert call("good__env", args={"name": "PRIVATE"}).output == "(not set)"
    assert call("good__env", args={"name": "TOKEN"}).output == "tok-en-12345"
    assert until(lambda: "TOKEN is •••" in good.log)
    assert "tok-en" not in f"{good.log}{good!r}{good.target}"


def test_a_cancelled_run_cancels_the_call_and_the_server_continues(good: Server) -> None:
    before = marks(good.mark).count("cancelled")  # type: ignore[attr-defined]
    run = agf.start("pipeline: main\nsteps: [{tool: {name: good__slow, args: {seconds: 60}}}]")
    assert until(lambda: any(row.text.startswith("tick") for row in rows(run)))
    run.cancel()
    run.wait(10)
    assert until(lambda: marks(good.mark).count("cancelled") > before)  # type: ignore[attr-defined]
    assert call("good__plain", args={"text": "still"}).output == "still"


def rows(run: agf.Run) -> list[Any]:
    return [report for row in run.progress.rows.values() for report in row.reports.values()]


def test_a_question_goes_to_the_person_who_runs_the_call(good: Server) -> None:
    questions: list[str] = []

    def ask(question: agf.Question) -> str:
        questions.append(question.text)
        return "{colour: red}"

    assert call("good__choose", ask=ask).output == "accept: red"
    assert "Choose a colour" in questions[0]
    assert "colour (string): Which colour?" in questions[0]
    assert call("good__choose").output.startswith("decline")


def test_a_tool_that_comes_later_is_registered(good: Server) -> None:
    assert call("good__grow").output == "grown"
    assert until(lambda: "good__late" in agf.registry.tools)
    assert call("good__late").output == "late"


def test_a_call_during_which_the_server_dies_fails_and_the_next_one_starts_it(good: Server) -> None:
    with pytest.raises(StepError) as caught:
        call("good__die")
    diagnostic = caught.value.diagnostic
    assert diagnostic.code == "step.unknown-outcome"
    assert diagnostic.message == "the outcome of 'good__die' is unknown: MCP server 'good' ended during the call"
    assert until(lambda: good.state == "closed")
    assert call("good__plain", args={"text": "back"}).output == "back"
    assert good.state == "open"


def test_calls_of_two_threads_run_concurrently(good: Server) -> None:
    outputs: list[object] = []
    threads = [
        threading.Thread(target=lambda: outputs.append(call("good__slow", args={"seconds": 0.2}).output))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert outputs == ["done", "done"]


def test_closing_ends_the_process_and_removes_the_tools(tmp_path: Path) -> None:
    mark = tmp_path / "marks"
    server = agf.mcp.connect("brief", command=program("good"), env={"MARK": str(mark)}, wait=60)
    pid = int(marks(mark)[0].split()[1])
    assert is_alive(pid)
    server.close()
    assert not is_alive(pid)
    assert not [name for name in agf.registry.tools if name.startswith("brief__")]
    assert "brief" not in agf.mcp.servers


def test_a_name_that_is_connected_again_replaces_the_server() -> None:
    first = agf.mcp.connect("quick", command=program("quick"))
    second = agf.mcp.connect("quick", command=program("quick"), tools=["add"])
    assert (first.state, second.state) == ("closed", "open")
    assert [name for name in agf.registry.tools if name.startswith("quick__")] == ["quick__add"]
    agf.mcp.close_all()
    assert not agf.mcp.servers


def test_the_error_of_a_call_to_a_closed_server_says_how_to_connect_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUICK_TOKEN", "tok-en-67890")
    env = {"TOKEN": "$QUICK_TOKEN", "MODE": "written out"}
    agf.mcp.connect("quick", command=program("quick"), env=env).close()
    with pytest.raises(agf.DefinitionError) as caught:
        call("quick__add", args={"a": 1})
    (diagnostic,) = (diagnostic for diagnostic in caught.value.diagnostics if diagnostic.severity == "error")
    assert diagnostic.code == "flow.unknown-tool"
    assert diagnostic.message == "no tool 'quick__add' is registered: MCP server 'quick' was closed"
    words = shlex.join(program("quick"))
    line = f"%mcp connect quick --env 'TOKEN=$QUICK_TOKEN' --env 'MODE=…' -- {words}"
    assert diagnostic.hint == f"connect it again: {line}"
    agf.mcp.connect("quick", command=program("quick"), tools=["drop"])
    with pytest.raises(agf.DefinitionError) as caught:
        call("quick__add", args={"a": 1})
    assert "closed" not in str(caught.value)
    agf.mcp.close_all()


@pytest.mark.parametrize(("limits", "most"), [({"at_once": 1}, 1), ({"rate": "1/h"}, 0), ({}, 4)])
def test_the_calls_of_all_tools_of_a_server_have_one_limit(limits: dict[str, Any], most: int) -> None:
    """``most``: the largest number of concurrent calls in the server; 0: the second call does not start."""
    server = agf.mcp.connect("good", command=program("good"), wait=60, **limits)
    text = """
pipeline: crowd
steps:
- for_each:
    items: [1, 2, 3, 4]
    on_error: abort
    do: {tool: {name: good__crowd, args: {together: !expr ctx.most}}}
    collect: {transform: {value: pipe}}
"""
    try:
        if most:
            assert agf.run(text, {"most": most}).output == [most] * 4
        else:
            with pytest.raises(StepError) as caught:
                agf.run(text, {"most": 1}, limits=agf.Limits(timeout=2))
            assert caught.value.diagnostic.code == "limit.timeout"
    finally:
        server.close()


@pytest.mark.parametrize("limits", [{"rate": "often"}, {"rate": 5}, {"at_once": 0}, {"at_once": "two"}])
def test_a_wrong_limit_is_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(agf.DefinitionError) as caught:
        agf.mcp.connect("quick", command=program("quick"), **limits)
    assert caught.value.diagnostics[0].code == "mcp.config"
    assert "quick" not in agf.mcp.servers


FILE = """{
    "mcpServers": {
        // ours

        "quick": {"command": "python"},
        "web": {"url": "https://127.0.0.1:9/mcp"},
        "other": {"url": "ftp://user:pw@example.org/x"}
    }
}"""


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("quick", {"command": program("quick"), "headers": {"A": "b"}}, "is a command"),
        ("quick", {"command": program("quick"), "sign_in": True}, "is a command"),
        ("quick", {"file": "mcp.json", "headers": {"A": "b"}}, "is a command"),
        ("web", {"address": "https://127.0.0.1:9/mcp", "env": {"A": "b"}}, "is an address"),
        ("web", {"file": "mcp.json", "env": {"A": "b"}}, "is an address"),
        ("other", {"file": "mcp.json"}, "is no address"),
    ],
)
def test_an_option_that_does_not_fit_is_refused(
    name: str, options: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebook_folder, "fixed", tmp_path)
    (tmp_path / "mcp.json").write_text(FILE)
    with pytest.raises(agf.DefinitionError, match=message) as caught:
        agf.mcp.connect(name, **options)
    assert caught.value.code == "mcp.config"
    assert "pw" not in str(caught.value)


def test_a_comment_in_a_file_moves_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook_folder, "fixed", tmp_path)
    (tmp_path / "mcp.json").write_text(FILE.replace('"python"', '"python", "cwd": "x"'))
    with pytest.raises(agf.DefinitionError) as caught:
        agf.mcp.connect("quick", file="mcp.json")
    assert caught.value.diagnostic.span is not None
    assert caught.value.diagnostic.span.place[0] == 5


def test_a_tool_of_another_name_is_not_replaced() -> None:
    registry = agf.Registry()

    @agf.tool(name="quick__add", registry=registry)
    def mine() -> str:
        return "mine"

    server = agf.mcp.connect("quick", command=program("quick"), registry=registry)
    assert registry.tools["quick__add"].description == ""
    assert [problem.code for problem in server.problems] == ["mcp.tool-left-out"]
    server.close()
    assert "quick__add" in registry.tools
