"""``agf-magics mcp`` over stdin and stdout, with a client that does not use the SDK."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.definitions import write_definitions
from tests.mcp.hand_client import HandClient


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_definitions(tmp_path)


def served(folder: Path, **capabilities: Any) -> HandClient:
    return HandClient(folder, "*.yaml", "--tools", "tools.py", **capabilities)


@pytest.fixture
def client(folder: Path) -> Iterator[HandClient]:
    served_folder = served(folder)
    yield served_folder
    served_folder.kill()


def test_flows_are_typed_tools_and_no_print_reaches_the_client(client: HandClient, folder: Path) -> None:
    tools = {tool["name"]: tool for tool in client.ask("tools/list", {})["tools"]}
    assert {"hail", "long", "run_result", "check_definition"} <= tools.keys()
    assert tools["hail"]["description"] == "Greets."
    assert tools["hail"]["inputSchema"] == {"type": "object", "properties": {"word": {}}, "required": ["word"]}
    assert client.call("hail", word="pear")["structuredContent"] == {"result": "pear!"}
    assert client.told("printed by the import")
    assert client.told("printed by the tool")
    assert client.told("printed by a child")  # the child cannot read the client's messages
    lacking = client.call("hail")
    assert lacking["isError"]
    assert "[run.missing-input]" in lacking["content"][0]["text"]
    unknown = client.reply(client.begin("tools/call", {"name": "hale"}))["error"]
    assert unknown["message"].startswith("the server has no tool 'hale' [mcp.unknown-tool]\n  = did you mean hail?")
    assert client.leave() == 0
    assert (folder / "made").read_text() == "pear\n"


def test_a_cancelled_request_cancels_its_run_and_the_server_stays(client: HandClient) -> None:
    call = client.begin("tools/call", {"name": "long", "arguments": {"word": "fig"}})
    client.told("holding fig!")
    client.tell("notifications/cancelled", {"requestId": call})
    client.told("released fig!")
    assert client.call("hail", word="pear")["structuredContent"] == {"result": "pear!"}


def test_a_client_that_leaves_ends_the_server_and_the_run_that_it_waits_for(client: HandClient, folder: Path) -> None:
    client.begin("tools/call", {"name": "long", "arguments": {"word": "fig"}})
    client.told("holding fig!")
    assert client.leave() == 0
    with closing(sqlite3.connect(folder / ".agf" / "runs.sqlite")) as journal:
        assert journal.execute("SELECT status FROM runs").fetchall() == [("cancelled",)]


@pytest.mark.slow  # starts two servers one after the other
@pytest.mark.parametrize("end", [HandClient.kill, HandClient.leave], ids=["killed", "left"])
def test_a_launched_run_continues_in_the_next_server_and_no_call_is_made_twice(
    client: HandClient, folder: Path, end: object
) -> None:
    status, data = client.envelope("run_pipeline_async", name="long", input={"word": "fig"})
    run_id = data["run_id"]
    assert status == "started"
    client.told("holding fig!")
    assert client.envelope("run_result", run_id=run_id)[0] == "started"
    end(client)  # type: ignore[operator]
    (folder / "go").touch()
    again = served(folder)
    try:
        status, data = again.end_of(run_id)
        assert (status, data["question"]["choices"]) == ("waiting", ["red", "blue"])
        refused = again.call("run_answer", run_id=run_id, answer="green")
        assert refused["isError"]
        assert "[run.answer]" in refused["content"][0]["text"]
        assert again.envelope("run_answer", run_id=run_id, answer="blue")[0] == "started"
        status, data = again.end_of(run_id)
        assert (status, data["output"]) == ("ok", ["fig!?", "blue"])
        assert (folder / "made").read_text() == "fig\n"
        assert again.envelope("run_cancel", run_id=run_id)[0] == "ok"  # the run has ended
    finally:
        again.kill()


@pytest.mark.slow
def test_a_question_in_the_middle_survives_a_restart(client: HandClient, folder: Path) -> None:
    (folder / "go").touch()
    answer = client.call("long", word="fig")  # this client has no forms
    envelope = json.loads(answer["content"][0]["text"])
    assert answer["isError"]
    assert envelope["status"] == "waiting"
    run_id = envelope["data"]["run_id"]
    client.kill()
    again = served(folder)
    try:
        status, data = again.end_of(run_id)
        assert (status, data["question"]["text"]) == ("waiting", "Which colour?")
        again.envelope("run_answer", run_id=run_id, answer="red")
        assert again.end_of(run_id)[1]["output"] == ["fig!?", "red"]
    finally:
        again.kill()


def test_the_client_shows_the_question_as_a_form(folder: Path) -> None:
    (folder / "go").touch()
    client = served(folder, elicitation={})
    try:
        call = client.begin("tools/call", {"name": "long", "arguments": {"word": "fig"}, "_meta": {"progressToken": 7}})
        while "method" not in (form := client.next()) or form["method"] == "notifications/progress":
            pass
        assert form["method"] == "elicitation/create"
        assert form["params"]["requestedSchema"]["properties"]["answer"]["enum"] == ["red", "blue"]
        client.send({"id": form["id"], "result": {"action": "accept", "content": {"answer": "red"}}})
        assert client.reply(call)["result"]["structuredContent"] == {"result": ["fig!?", "red"]}
    finally:
        client.kill()


@pytest.mark.slow
@pytest.mark.parametrize("id_is_last", [False, True])
def test_a_message_of_100_mb_is_refused_and_the_server_continues(client: HandClient, id_is_last: bool) -> None:
    head, tail = (b"", b',"id":"big"') if id_is_last else (b'"id":"big",', b"")
    client.send_bytes(
        b'{"jsonrpc":"2.0",' + head + b'"method":"tools/call","params":{"name":"hail","arguments":{"word":"'
    )
    for _ in range(100):
        client.send_bytes(b"x" * 1_000_000)
    client.send_bytes(b'"}}' + tail + b"}\n")
    message = client.reply("big")["error"]["message"]  # type: ignore[arg-type]
    assert message.startswith("a message has 100,0")
    assert "[mcp.large-message]" in message
    assert client.call("hail", word="pear")["structuredContent"] == {"result": "pear!"}


@pytest.mark.parametrize("value", ["[" * 2_000 + "]" * 2_000, "9" * 6_000, "}"], ids=["deep", "digits", "broken"])
def test_a_request_that_cannot_be_read_is_refused_at_once(client: HandClient, value: str) -> None:
    arguments = f'"arguments": {{"word": {value}}}'
    client.send_bytes(f'{{"jsonrpc": "2.0", "id": 77, "method": "tools/call", {arguments}}}\n'.encode())
    refused = client.reply(77)["error"]
    assert (refused["code"], "[mcp.unreadable-message]" in refused["message"]) == (-32700, True)
    assert client.call("hail", word="pear")["structuredContent"] == {"result": "pear!"}


def test_half_of_a_character_is_replaced(client: HandClient) -> None:
    params = '{"name": "hail", "arguments": {"word": "fig \\ud83d"}}'
    client.send_bytes(f'{{"jsonrpc": "2.0", "id": 77, "method": "tools/call", "params": {params}}}\n'.encode())
    assert client.reply(77)["result"]["structuredContent"] == {"result": "fig \ufffd!"}
    assert client.call("cut", word="fig ")["structuredContent"] == {"result": "fig \ufffd"}
    assert client.call("hail", word="pear")["structuredContent"] == {"result": "pear!"}


def test_a_malformed_message_is_skipped(client: HandClient) -> None:
    for garbage in (b"\n", b"\xff\xfe\n", b"[" * 10_000 + b"\n", b'{"jsonrpc": "2.0"}\n', b'"text"\n'):
        client.send_bytes(garbage)
    assert client.call("hail", word="pear")["structuredContent"] == {"result": "pear!"}


def test_without_a_definition_nothing_is_served(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "agf_magics", "mcp", "*.yaml"]
    completed = subprocess.run(
        program, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )
    assert (completed.returncode, completed.stdout) == (2, "")
    assert "no file '*.yaml' [magic.file]" in completed.stderr
