"""A call as a task in the protocol of 2025-11-25: answered at once, followed by its id, and fetched later."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.definitions import write_definitions
from tests.mcp.hand_client import HandClient

VERSION = "2025-11-25"
RELATED = "io.modelcontextprotocol/related-task"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_definitions(tmp_path)


def served(folder: Path, protocol: str = VERSION, **capabilities: Any) -> HandClient:
    return HandClient(folder, "*.yaml", "--tools", "tools.py", protocol=protocol, **capabilities)


@pytest.fixture
def client(folder: Path) -> Iterator[HandClient]:
    served_folder = served(folder, elicitation={})
    yield served_folder
    served_folder.kill()


def begin(client: HandClient, tool: str, **arguments: Any) -> str:
    """Start a call as a task. Returns the id of the task."""
    task = client.ask("tools/call", {"name": tool, "arguments": arguments, "task": {"ttl": 60_000}})["task"]
    assert (task["status"], task["ttl"], task["pollInterval"]) == ("working", None, 1_000)
    return str(task["taskId"])


def status(client: HandClient, task: str) -> str:
    return str(client.ask("tasks/get", {"taskId": task})["status"])


def settled(client: HandClient, task: str) -> str:
    """The status of a task that no longer works."""
    while (now := status(client, task)) == "working":
        pass
    return now


def error(client: HandClient, method: str, params: Any) -> tuple[int, str]:
    reply_error = client.reply(client.begin(method, params))["error"]
    return reply_error["code"], reply_error["message"]


def test_a_call_is_answered_at_once_and_its_result_is_that_of_a_call(client: HandClient, folder: Path) -> None:
    assert client.greeting["capabilities"]["tasks"] == {"cancel": {}, "requests": {"tools": {"call": {}}}}
    tools = {tool["name"]: tool.get("execution") for tool in client.ask("tools/list", {})["tools"]}
    assert (tools["hail"], tools["run_result"]) == ({"taskSupport": "optional"}, None)
    task = begin(client, "hail", word="pear")
    assert settled(client, task) == "completed"
    fetched, called = client.ask("tasks/result", {"taskId": task}), client.call("hail", word="pear")
    assert fetched["_meta"].pop(RELATED) == {"taskId": task}
    assert (fetched.pop("_meta").keys(), fetched) == (called.pop("_meta").keys(), called)
    assert (folder / "made").read_text() == "pear\npear\n"


def test_the_question_of_a_task_is_asked_where_its_result_is_fetched(client: HandClient, folder: Path) -> None:
    (folder / "go").touch()
    task = begin(client, "long", word="fig")
    assert settled(client, task) == "input_required"
    call = client.begin("tasks/result", {"taskId": task})
    while (form := client.next()).get("method") != "elicitation/create":
        pass
    client.send({"id": form["id"], "result": {"action": "accept", "content": {"answer": "red"}}})
    assert client.reply(call)["result"]["structuredContent"] == {"result": ["fig!?", "red"]}
    assert status(client, task) == "completed"


def test_a_running_task_can_be_cancelled_and_an_ended_task_cannot(client: HandClient) -> None:
    task = begin(client, "long", word="fig")
    client.told("holding fig!")
    assert client.ask("tasks/cancel", {"taskId": task})["status"] == "cancelled"
    client.told("released fig!")
    assert status(client, task) == "cancelled"
    assert client.ask("tasks/result", {"taskId": task})["isError"]
    assert error(client, "tasks/cancel", {"taskId": task})[0] == -32602
    times = [client.ask("tasks/get", {"taskId": task}) for _ in range(2)]
    assert times[0] == times[1], "an ended task does not change"


def test_a_failure_is_the_result_of_the_task(client: HandClient) -> None:
    code, message = error(client, "tools/call", {"name": "hail", "arguments": {}, "task": {}})
    assert (code, "[run.missing-input]" in message) == (-32602, True)
    task = begin(client, "hail", word=["no", "text"])
    assert settled(client, task) == "failed"
    result = client.ask("tasks/result", {"taskId": task})
    assert result["isError"]
    assert "[tool.arguments]" in result["content"][0]["text"]


def test_a_client_that_no_longer_waits_for_a_task_does_not_end_it(client: HandClient) -> None:
    task = begin(client, "long", word="fig")
    client.told("holding fig!")
    waiting = client.begin("tasks/result", {"taskId": task})
    client.tell("notifications/cancelled", {"requestId": waiting})
    assert status(client, task) == "working"


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("tools/call", {"name": "hale", "task": {}}, -32601),
        ("tools/call", {"name": "explain", "arguments": {"code": "x"}, "task": {}}, -32601),
        ("tools/call", {"name": "hail", "arguments": {"word": "x"}, "task": 5}, -32602),
        ("tools/call", {"name": 5, "task": {}}, -32602),
        *((f"tasks/{act}", {"taskId": "long-1-000000"}, -32602) for act in ("get", "result", "cancel")),
        ("tasks/get", {"taskId": "../../etc/passwd"}, -32602),
        ("tasks/get", {}, -32602),
        ("tasks/list", {}, -32601),
    ],
)
def test_an_unknown_task_is_refused(client: HandClient, method: str, params: Any, code: int) -> None:
    assert error(client, method, params)[0] == code
    assert client.call("hail", word="pear")["structuredContent"] == {"result": "pear!"}


def test_no_task_is_accepted_before_the_greeting(folder: Path) -> None:
    client = HandClient(folder, "*.yaml", "--tools", "tools.py", protocol=VERSION, greets=False)
    try:
        params = {"name": "hail", "arguments": {"word": "pear"}, "task": {}}
        assert error(client, "tools/call", params)[0] == -32602
        assert not (folder / "made").exists()
    finally:
        client.kill()


def test_an_older_protocol_has_no_tasks(folder: Path) -> None:
    client = served(folder, "2025-06-18")
    try:
        result = client.ask("tools/call", {"name": "hail", "arguments": {"word": "pear"}, "task": {"ttl": 1}})
        assert result["structuredContent"] == {"result": "pear!"}
    finally:
        client.kill()


@pytest.mark.slow
def test_a_task_that_the_end_of_a_server_interrupted_is_cancelled_without_going_on(
    client: HandClient, folder: Path
) -> None:
    task = begin(client, "long", word="fig")
    client.told("holding fig!")
    client.kill()
    (folder / "go").touch()
    again = served(folder)
    try:
        cancelled = again.ask("tasks/cancel", {"taskId": task})
        assert cancelled["status"] == "cancelled"
        assert again.ask("tasks/get", {"taskId": task}) == cancelled
        assert again.envelope("run_cancel", run_id=task)[0] == "cancelled"
        assert (folder / "made").read_text() == "fig\n"
    finally:
        again.kill()


@pytest.mark.slow
def test_a_task_continues_in_the_next_server_and_no_call_is_made_twice(client: HandClient, folder: Path) -> None:
    task = begin(client, "long", word="fig")
    client.told("holding fig!")
    client.kill()
    (folder / "go").touch()
    again = served(folder)
    try:
        assert settled(again, task) == "input_required"
        again.envelope("run_answer", run_id=task, answer="blue")
        assert settled(again, task) == "completed"
        result = again.ask("tasks/result", {"taskId": task})
        assert result["structuredContent"] == {"result": ["fig!?", "blue"]}
        assert (folder / "made").read_text() == "fig\n"
    finally:
        again.kill()
