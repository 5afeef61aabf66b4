"""Servers that are connected by their address, and entries in the configuration files of other programs."""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics import DefinitionError
from agf_magics.mcp.client.config_files import read_entry
from agf_magics.mcp.client.connecting import Address, Command
from agf_magics.mcp.client.environment import read_values
from agf_magics.text.folder import notebook_folder
from tests.mcp.servers import PROGRAMS, call, program, until


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def start(port: int) -> subprocess.Popen[bytes]:
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(program("good", "http", str(port)), stdout=quiet, stderr=quiet)
    assert until(lambda: answers(port), 60)
    return process


@pytest.fixture(autouse=True)
def _all_are_closed() -> Iterator[None]:
    yield
    agf.mcp.close_all()


@pytest.mark.parametrize("protocol", ["auto", "old"])
def test_a_server_at_an_address_is_called_and_found_again_after_a_restart(protocol: Any) -> None:
    port = free_port()
    process = start(port)
    try:
        server = agf.mcp.connect("good", f"http://127.0.0.1:{port}/mcp", protocol=protocol)
        assert call("good__add", args={"a": 1, "b": 2}).output == {"total": 3}
        process.kill()
        process.wait()
        with pytest.raises(agf.StepError):
            call("good__plain", args={"text": "hi"})
        process = start(port)
        assert call("good__plain", args={"text": "hi"}).output == "hi"
        assert server.state == "open"
    finally:
        process.kill()
        process.wait()


class Hostile(BaseHTTPRequestHandler):
    """A server whose answer depends on the path."""

    seen: list[dict[str, str]]

    def do_POST(self) -> None:
        self.server.seen.append(dict(self.headers))  # type: ignore[attr-defined]
        self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/elsewhere":
            self.send_response(307)
            self.send_header("location", "http://localhost:9/mcp")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("content-type", "application/json")
        if self.path == "/bomb":
            self.send_header("content-encoding", "gzip")
        self.end_headers()
        if self.path == "/long":
            try:
                for _ in range(40):
                    self.wfile.write(b" " * 1_000_000)
            except OSError:
                return

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def hostile() -> Iterator[HTTPServer]:
    server = HTTPServer(("127.0.0.1", 0), Hostile)
    server.seen = []  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("path", "reason"),
    [("long", "more than 16,000,000 bytes"), ("bomb", "compressed"), ("elsewhere", "not followed")],
)
def test_a_hostile_answer_makes_the_server_unreachable(hostile: HTTPServer, path: str, reason: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        agf.mcp.connect("bad", f"http://127.0.0.1:{hostile.server_port}/{path}", wait=10)
    diagnostic = caught.value.diagnostics[0]
    assert diagnostic.code == "mcp.unreachable"
    assert reason in f"{diagnostic.message}"


def test_a_header_is_read_of_the_environment_and_masked(hostile: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "tok-98765")
    headers = {"Authorization": "Bearer $SHOP_TOKEN"}
    with pytest.raises(DefinitionError) as caught:
        agf.mcp.connect("bad", f"http://127.0.0.1:{hostile.server_port}/bomb", headers=headers)
    authorizations = [request.get("Authorization") for request in hostile.seen]  # type: ignore[attr-defined]
    assert set(authorizations) == {"Bearer tok-98765"}
    assert "tok-98765" not in str(caught.value)


@pytest.mark.parametrize("key", ["mcpServers", "servers"])
def test_an_entry_of_a_file_of_another_program_is_connected(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebook_folder, "fixed", tmp_path)
    monkeypatch.setenv("FILE_TOKEN", "tok-55555")
    env = {"TOKEN": "${env:FILE_TOKEN}"}
    entry = {"type": "stdio", "command": "python", "args": [str(PROGRAMS / "quick.py")], "env": env}
    text = json.dumps({key: {"quick": entry, "web": {"url": "https://example.org/mcp"}}}, indent=1)
    (tmp_path / "mcp.json").write_text("// a comment of VS Code\n" + text, encoding="utf-8")
    server = agf.mcp.connect("quick", file="mcp.json")
    assert call("quick__add", args={"a": 4}).output == "5"
    assert server.target == f"python {PROGRAMS / 'quick.py'}"


def test_a_value_of_a_file_is_written_as_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{"servers": {"q": {"command": "x", "args": [true, 1, "a"], "env": {"A": false, "B": 1.5}}}}')
    entry = read_entry(file, "q")
    assert isinstance(entry, Command)
    assert (entry.words, entry.environment) == (["x", "true", "1", "a"], {"A": "false", "B": "1.5"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read"),
        ("[]", "no object"),
        ('{"other": {}}', "lists no MCP servers"),
        ('{"mcpServers": {"quik": {}}}', "has no MCP server 'quick'"),
        ('{"mcpServers": {"quick": {}}}', "neither a command nor a url"),
        ('{"mcpServers": {"quick": {"command": "x", "cwd": "/"}}}', "'cwd' of 'quick' is not supported"),
        ('{"servers": {"quick": {"command": "x", "env": {"T": "${input:t}"}}}}', "only VS Code fills"),
        ('{"servers": {"quick": {"command": "x", "args": "-v"}}}', "args of 'quick' must be a list"),
        ('{"servers": {"quick": {"command": "x", "args": [null]}}}', "an argument of 'quick' must be a text"),
        ('{"servers": {"quick": {"command": "x", "env": {"T": null}}}}', "T of env of 'quick' must be a text"),
        ('{"servers": {"quick": {"command": "${HOME}/x"}}}', r"command of 'quick' has the variable \${HOME}"),
        (
            '{"servers": {"quick": {"command": "x", "args": ["${HOME}/y"]}}}',
            r"args of 'quick' has the variable \${HOME}",
        ),
        ('{"servers": {"quick": {"url": "https://h/${X:-y}"}}}', r"url of 'quick' has the variable \${X:-y}"),
        (None, "cannot be read"),
    ],
)
def test_a_wrong_file_is_refused_and_starts_nothing(
    text: str | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebook_folder, "fixed", tmp_path)
    if text is not None:
        (tmp_path / "mcp.json").write_text(text, encoding="utf-8")
    with pytest.raises(DefinitionError, match=message) as caught:
        agf.mcp.connect("quick", file="mcp.json")
    assert caught.value.diagnostics[0].code == "mcp.config"


@pytest.mark.parametrize("address", ["ftp://example.org", "https://user:pass@example.org/mcp", "example.org"])
def test_a_wrong_address_is_refused(address: str) -> None:
    with pytest.raises(DefinitionError, match="is no address") as caught:
        agf.mcp.connect("web", address)
    assert "user:pass" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("https://example.org/mcp", "https://example.org/mcp"),
        ("https://example.org/mcp?space=a&api_key=s3cret", "https://example.org/mcp?space=a&api_key=•••"),
        ("https://user:pass@example.org/mcp", "https://•••example.org/mcp"),
    ],
)
def test_an_address_is_shown_without_its_keys(address: str, expected: str) -> None:
    target = Address(address)
    assert (target.text, target.line) == (expected, shlex.quote(expected))


FILLED = [
    ("${TOK:-none}", None, "none"),
    ("${TOK:-none}", "", "none"),
    ("${TOK:-none}", "set", "set"),
    ("${TOK:-}", None, ""),
    ("Bearer ${env:TOK:-a-b}!", None, "Bearer a-b!"),
    ("${TOK}", "set", "set"),
    ("$TOK", "set", "set"),
    ("${TOK:+x}", "set", "${TOK:+x}"),
]


@pytest.mark.parametrize(("written", "value", "filled"), FILLED)
def test_a_variable_may_have_a_default(
    written: str, value: str | None, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TOK", raising=False)
    if value is not None:
        monkeypatch.setenv("TOK", value)
    read, secrets = read_values("s", {"T": written})
    assert read == {"T": filled}
    assert secrets == (["set"] if filled == "set" else [])
