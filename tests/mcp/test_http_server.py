"""`agf.mcp.serve`: flows over HTTP on the loopback, with a token, until the end of the kernel."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

import agf_magics as agf
from agf_magics import DefinitionError, Registry
from agf_magics.mcp import FlowsServed, serve
from tests.processes import script

DOUBLE = "pipeline: double\nsteps:\n- transform: {value: '[ctx.n, ctx.n]'}\n"


@pytest.fixture
def registry() -> Registry:
    registry = Registry()
    agf.define(DOUBLE, registry=registry)
    return registry


@pytest.fixture
def served(registry: Registry) -> Iterator[FlowsServed]:
    with serve(registry=registry) as server:
        yield server
    assert not server.is_open


@asynccontextmanager
async def connected(served: FlowsServed, mode: str = "auto") -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers=dict(served.headers)) as http,
        Client(streamable_http_client(served.url, http_client=http), mode=mode) as client,
    ):
        yield client


def post(served: FlowsServed, body: Any = None, **headers: str) -> httpx2.Response:
    accept = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    content = body if isinstance(body, bytes) else json.dumps(body or PING).encode()
    return httpx2.post(served.url, content=content, headers={**accept, **headers}, timeout=60)


PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_flows_are_called_over_http(served: FlowsServed, mode: str) -> None:
    async def main() -> object:
        async with connected(served, mode) as client:
            return (await client.call_tool("double", {"n": 2})).structured_content

    assert asyncio.run(main()) == {"result": [2, 2]}


def test_only_clients_with_the_token_are_served(served: FlowsServed) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": served.headers["Authorization"] + "x"}):
        refused = post(served, **headers)
        assert (refused.status_code, refused.text[-11:]) == (401, "[mcp.token]")
    assert served.headers["Authorization"].split()[1] not in repr(served)
    assert served.config["mcpServers"]["agf-magics"]["url"] == served.url


def test_a_page_of_another_origin_is_refused(served: FlowsServed) -> None:
    assert post(served, **served.headers, Origin="http://elsewhere.example").status_code == 403
    assert post(served, **served.headers, Host="elsewhere.example").status_code == 421


def test_a_message_that_is_too_large_is_refused(served: FlowsServed) -> None:
    assert post(served, b" " * 17_000_000, **served.headers).status_code == 413
    assert post(served, b"no json", **served.headers).status_code == 400


def define_held(registry: Registry) -> tuple[threading.Event, threading.Event]:
    """Define the flow `held`, which waits until it is cancelled. The first event is set when it runs, the second when
    it is cancelled."""
    running, cancelled = threading.Event(), threading.Event()

    @agf.tool(registry=registry)
    async def hold() -> None:
        running.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    agf.define("pipeline: held\nsteps:\n- tool: {name: hold}\n", registry=registry)
    return running, cancelled


def test_a_client_that_leaves_ends_the_run_that_it_waits_for(registry: Registry) -> None:
    running, cancelled = define_held(registry)

    async def main(served: FlowsServed) -> None:
        async with connected(served) as client:
            call = asyncio.ensure_future(client.call_tool("held", {}))
            await asyncio.to_thread(running.wait, 60)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)

    with serve(registry=registry) as served:
        asyncio.run(main(served))
        assert cancelled.wait(60)


def lost(served: FlowsServed, body: Any, **headers: str) -> socket.socket:
    """The connection of a request whose answer nobody has read."""
    host, port = served.url.split("/")[2].split(":")
    data = json.dumps({"jsonrpc": "2.0", **body}).encode()
    head = {
        "Host": f"{host}:{port}", "Content-Type": "application/json", "Content-Length": str(len(data)),
        "Accept": "application/json, text/event-stream", **served.headers, **headers,
    }  # fmt: skip
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    connection = socket.create_connection((host, int(port)))
    connection.sendall(f"POST /mcp HTTP/1.1\r\n{lines}\r\n".encode() + data)
    return connection


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", "2026-07-28"])
def test_a_connection_that_is_lost_ends_the_run_that_waits_on_it(registry: Registry, version: str) -> None:
    running, cancelled = define_held(registry)
    info, about = {"name": "lost", "version": "1"}, "io.modelcontextprotocol"
    headers = {"MCP-Protocol-Version": version}
    params: dict[str, Any] = {"name": "held", "arguments": {}}
    with serve(registry=registry) as served:
        if version < "2026":
            hello = {"protocolVersion": version, "capabilities": {}, "clientInfo": info}
            answer = post(served, {**PING, "method": "initialize", "params": hello}, **served.headers)
            headers["Mcp-Session-Id"] = answer.headers["mcp-session-id"]
            post(served, {"jsonrpc": "2.0", "method": "notifications/initialized"}, **served.headers, **headers)
        else:
            headers |= {"Mcp-Method": "tools/call", "Mcp-Name": "held"}
            about_client = {"protocolVersion": version, "clientInfo": info, "clientCapabilities": {}}
            params["_meta"] = {f"{about}/{name}": value for name, value in about_client.items()}
        connection = lost(served, {"id": 2, "method": "tools/call", "params": params}, **headers)
        assert running.wait(60)
        connection.close()
        assert cancelled.wait(60)


def test_closing_the_server_ends_its_thread_and_frees_the_port(registry: Registry) -> None:
    for _ in range(3):
        with serve("double", registry=registry) as served:
            port = int(served.url.split(":")[2].split("/")[0])
            assert post(served, **served.headers).status_code == 400  # a ping without a session
        with socket.socket() as free:
            assert free.connect_ex(("127.0.0.1", port)) != 0
    assert not [thread for thread in threading.enumerate() if thread.name == "agf-mcp-server"]


def test_a_port_in_use_is_reported(registry: Registry) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(DefinitionError) as caught:
            serve(registry=registry, port=taken.getsockname()[1])
    assert caught.value.code == "mcp.port"


@pytest.mark.parametrize("port", [-1, 65_536, "8000", 80.5, True, None])
def test_what_is_no_port_is_reported(registry: Registry, port: Any) -> None:
    with pytest.raises(DefinitionError, match="a port is a whole number from 0 to 65535, not") as caught:
        serve(registry=registry, port=port)
    assert caught.value.code == "mcp.port"


@pytest.mark.parametrize(
    ("argument", "wrong", "message"),
    [
        ("at_once", "2", "at_once must be a whole number, got '2'"),
        ("at_once", 1.5, "at_once must be a whole number, got 1.5"),
        ("at_once", True, "at_once must be a whole number, got True"),
        ("at_once", 0, "at_once must be at least 1, got 0"),
        ("limits", {"timeout": 1}, r"limits takes an agf.Limits: write limits=agf.Limits\(timeout=1\)"),
        ("registry", {}, "registry takes an agf.Registry, not dict"),
    ],
)
def test_an_argument_of_a_wrong_type_is_told_before_the_server_starts(
    registry: Registry, argument: str, wrong: Any, message: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        serve(**{"registry": registry, argument: wrong})


@pytest.mark.parametrize("token", ["", "short", "with a blank in it", "ümlautümlautümlaut", 5, b"bytes-of-a-token-16"])
def test_a_weak_token_is_refused(registry: Registry, token: Any) -> None:
    with pytest.raises(DefinitionError) as caught:
        serve(registry=registry, token=token)
    assert caught.value.code == "mcp.token"


def test_an_unknown_flow_is_reported(registry: Registry) -> None:
    with pytest.raises(DefinitionError) as caught:
        serve("dubble", registry=registry)
    assert (caught.value.code, caught.value.diagnostic.hint) == ("flow.unknown-flow", "did you mean double?")


@pytest.mark.slow
def test_the_server_ends_with_its_process(tmp_path: Path) -> None:
    text = f"import agf_magics as agf\nagf.define({DOUBLE!r})\nprint(agf.mcp.serve().is_open)"
    completed = script(text, tmp_path)
    assert (completed.returncode, completed.stdout) == (0, "True\n"), completed.stderr


@pytest.mark.slow
@pytest.mark.parametrize("token", ["", "a-token-of-the-environment"])
def test_the_command_line_serves_until_an_interrupt(tmp_path: Path, token: str) -> None:
    (tmp_path / "double.yaml").write_text(DOUBLE)
    words = [sys.executable, "-m", "agf_magics", "mcp", "double.yaml", "--http", "0"]
    env = {**os.environ, "AGF_MAGICS_MCP_TOKEN": token}
    with subprocess.Popen(words, cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            first_line = "" if token else process.stderr.readline()
            token = token or first_line.split()[-1]
            url = process.stderr.readline().strip()
            assert url.startswith("http://127.0.0.1:")
            headers = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
            assert httpx2.post(url, json=PING, headers=headers).status_code == 400  # a ping without a session
            assert httpx2.post(url, json=PING).status_code == 401
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
        finally:
            process.kill()
