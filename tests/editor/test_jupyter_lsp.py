"""Tests that jupyter-lsp, the proxy for editors in a page, starts the language server and passes its messages on."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from tornado.httpclient import AsyncHTTPClient
from tornado.websocket import WebSocketClientConnection, websocket_connect

ROOT = Path(__file__).parents[2]
GROUP = "jupyter_lsp_spec_v1"
PATIENCE = 90.0
TOKEN = "of-a-test"

WRONG = "pipeline: p\nsteps:\n- tool: {name: fetsh}\n"


def spec() -> Any:
    """What the entry point of the distribution names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [(name, value)] = project["entry-points"][GROUP].items()
    return EntryPoint(name, value, GROUP).load()


def test_without_pygls_jupyter_lsp_skips_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    assert spec().is_installed(None)
    monkeypatch.setitem(sys.modules, "pygls", None)
    assert not spec().is_installed(None)


def test_the_entry_point_imports_nothing_of_the_package() -> None:
    names = "[name for name in sys.modules if name.startswith('agf_magics.')]"
    code = f"import sys, agf_magics_jupyter_lsp as ours; ours.spec(None); print({names})"
    completed = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert completed.stdout == "[]\n"


@pytest.mark.slow
def test_a_client_of_the_websocket_gets_the_problems_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    settings = {
        "ServerApp": {
            "jpserver_extensions": {"jupyter_lsp": True},
            "open_browser": False,
            "ip": "127.0.0.1",
            "port": 0,
            "allow_root": True,
        },
        "IdentityProvider": {"token": TOKEN},
        "LanguageServerManager": {"autodetect": False, "language_servers": spec()(None)},
    }
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    places = {f"JUPYTER_{name}_DIR": str(tmp_path / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
    program = [sys.executable, "-m", "jupyter_server", "--config", str(tmp_path / "settings.json")]
    server = subprocess.Popen(
        program, cwd=tmp_path, env={**os.environ, **places}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert server.stdout is not None
        address = next(
            match[1] for line in server.stdout if (match := re.search(r"http://(127\.0\.0\.1:\d+)/.*token=", line))
        )
        [problem] = asyncio.run(asyncio.wait_for(problems(address, tmp_path), PATIENCE))
    finally:
        server.terminate()
        server.communicate(timeout=PATIENCE)
    assert (problem["code"], problem["severity"]) == ("flow.unknown-tool", 1)
    assert problem["range"]["start"] == {"line": 2, "character": 15}


async def problems(address: str, folder: Path) -> list[dict[str, Any]]:
    """What jupyter-lsp passes on about a file."""
    status = await listening(f"http://{address}/lsp/status?token={TOKEN}")
    assert status["specs"]["agf-magics"]["languages"] == ["yaml"]
    socket = await websocket_connect(f"ws://{address}/lsp/ws/agf-magics?token={TOKEN}")
    params = {"processId": None, "rootUri": folder.as_uri(), "capabilities": {}}
    await say(socket, method="initialize", id=1, params=params)
    while "result" not in await heard(socket):
        pass
    await say(socket, method="initialized", params={})
    text = {"uri": (folder / "p.yaml").as_uri(), "languageId": "yaml", "version": 1, "text": WRONG}
    await say(socket, method="textDocument/didOpen", params={"textDocument": text})
    while True:
        message = await heard(socket)
        if message.get("method") == "textDocument/publishDiagnostics":
            socket.close()
            return list(message["params"]["diagnostics"])


async def listening(url: str) -> Any:
    """The first answer of a server, which says where it will listen before it does."""
    while True:
        try:
            return json.loads((await AsyncHTTPClient().fetch(url)).body)
        except ConnectionRefusedError:
            await asyncio.sleep(0.05)


async def say(socket: WebSocketClientConnection, **message: Any) -> None:
    await socket.write_message(json.dumps({"jsonrpc": "2.0", **message}))


async def heard(socket: WebSocketClientConnection) -> dict[str, Any]:
    text = await socket.read_message()
    assert text is not None, "jupyter-lsp has closed the connection"
    return dict(json.loads(text))
