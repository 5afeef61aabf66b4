"""A person signs in to a server in a browser; the browser and the server are played on loopback."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.parse
import urllib.request
import webbrowser
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

import agf_magics as agf
from agf_magics import DefinitionError
from agf_magics.mcp.client import oauth
from tests.mcp.servers import call

TOOLS = [{"name": "who", "inputSchema": {"type": "object"}}]


class Service(BaseHTTPRequestHandler):
    """A server of tools, and the service that gives tokens for it."""

    server: Any

    def do_GET(self) -> None:
        own, (path, _, query) = self.server.own, self.path.partition("?")
        if path.startswith("/.well-known/oauth-protected-resource"):
            self.send({"resource": f"{own}/mcp", "authorization_servers": [own]})
        elif path == "/.well-known/oauth-authorization-server":
            ends = {f"{name}_endpoint": f"{own}/{name}" for name in ("authorization", "token", "registration")}
            self.send({"issuer": own, **ends, "response_types_supported": ["code"],
                       "code_challenge_methods_supported": ["S256"]})  # fmt: skip
        elif path == "/authorization":
            asked = dict(urllib.parse.parse_qsl(query))
            back = urllib.parse.urlencode({"code": "c0de", "state": asked["state"]})
            self.send_response(302)
            self.send_header("location", f"{asked['redirect_uri']}?{back}")
            self.end_headers()
        else:
            self.send({}, 404)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        if self.path == "/registration":
            self.send({**json.loads(body), "client_id": "us"}, 201)
        elif self.path == "/token" and self.server.elsewhere:
            self.send_response(307)
            self.send_header("location", self.server.elsewhere)
            self.end_headers()
        elif self.path == "/token":
            form = dict(urllib.parse.parse_qsl(body))
            self.server.codes += [form["code"]] if "code" in form else []
            seconds = 3600 if form["grant_type"] == "refresh_token" else self.server.expires
            self.server.grants.append(form["grant_type"])
            self.server.token = f"t0ken-{len(self.server.grants)}"
            self.send({"access_token": self.server.token, "token_type": "Bearer", "expires_in": seconds,
                       "refresh_token": "re-fresh"})  # fmt: skip
        elif self.headers.get("authorization") != f"Bearer {self.server.token}":
            self.send({}, 401)
        else:
            self.answer(json.loads(body))

    def answer(self, ask: dict[str, Any]) -> None:
        if "id" not in ask:
            self.send({}, 202)
            return
        reply: dict[str, Any] = {"error": {"code": -32601, "message": "no"}}
        if ask["method"] == "initialize":
            info = {"name": "s", "version": "1"}
            reply = {"result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}}
        elif ask["method"] == "tools/list":
            reply = {"result": {"tools": TOOLS}}
        elif ask["method"] == "tools/call":
            reply = {"result": {"content": [{"type": "text", "text": "you"}]}}
        self.send({"jsonrpc": "2.0", "id": ask["id"], **reply})

    def send(self, body: Any, status: int = 200) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(oauth, "_MEMORY", {})
    monkeypatch.setitem(__import__("sys").modules, "keyring", None)  # tests leave no tokens in it
    for name in ("SSH_CONNECTION", "JUPYTERHUB_USER"):
        monkeypatch.delenv(name, raising=False)
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    server.own = f"http://127.0.0.1:{server.server_port}"
    server.token, server.grants, server.codes = "none", [], []
    server.expires, server.elsewhere = 3600, ""
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    agf.mcp.close_all()
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pages that a browser was told to open; it opens them."""
    pages: list[str] = []

    def browse(address: str) -> bool:
        pages.append(address)
        threading.Thread(target=lambda: urllib.request.urlopen(address).read()).start()
        return True

    monkeypatch.setattr(webbrowser, "open", browse)
    return pages


def test_a_person_signs_in_once_and_the_token_is_shown_nowhere(
    service: Any, opened: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    server = agf.mcp.connect("web", f"{service.own}/mcp", sign_in=True)
    assert call("web__who").output == "you"
    assert len(opened) == 1
    server.restart()
    assert len(opened) == 1
    assert service.grants == ["authorization_code"]
    told = capsys.readouterr()
    assert "t0ken" not in f"{told.out}{told.err}{server.log}{server!r}{server.problems}"


def test_a_token_that_expires_is_renewed_without_the_person(service: Any, opened: list[str]) -> None:
    service.expires = -1
    server = agf.mcp.connect("web", f"{service.own}/mcp", sign_in=True)
    assert call("web__who").output == "you"
    server.restart()
    assert len(opened) == 1
    assert service.grants == ["authorization_code", "refresh_token"]


def test_a_redirect_of_the_token_to_another_origin_is_not_followed(service: Any) -> None:
    service.elsewhere = "http://localhost:9/token"
    with pytest.raises(DefinitionError) as caught:
        agf.mcp.connect("web", f"{service.own}/mcp", sign_in=True)
    assert caught.value.diagnostics[0].code == "mcp.unreachable"


def test_a_token_that_the_server_forgets_fails_the_call_and_opens_no_browser(service: Any, opened: list[str]) -> None:
    server = agf.mcp.connect("web", f"{service.own}/mcp", sign_in=True)
    service.token = "another"  # the server forgets the token in the middle
    with pytest.raises(agf.StepError) as caught:
        call("web__who")
    assert len(opened) == 1, "no browser is opened in the middle of a run"
    assert "t0ken" not in str(caught.value)
    server.restart()
    assert call("web__who").output == "you"


FORGED = ["code=b4d&state=forged", "code=b4d", "error=access_denied", "error=access_denied&state=", "state=%FF", ""]


def test_an_answer_with_a_wrong_state_is_ignored_while_the_person_signs_in(
    service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages: list[str] = []

    def browse(address: str) -> bool:
        back = dict(urllib.parse.parse_qsl(address.partition("?")[2]))["redirect_uri"]
        for query in FORGED:
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(f"{back}?{query}")
        pages.append(urllib.request.urlopen(address).read().decode())
        return True

    monkeypatch.setattr(webbrowser, "open", browse)
    agf.mcp.connect("web", f"{service.own}/mcp", sign_in=True)
    assert call("web__who").output == "you"
    assert pages == ["You are signed in. Close this page."]
    assert service.codes == ["c0de"]


def test_a_pasted_address_with_a_wrong_state_is_refused(service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTERHUB_USER", "ann")
    monkeypatch.setattr("builtins.input", lambda prompt: "http://127.0.0.1/callback?code=b4d&state=forged")
    with pytest.raises(DefinitionError) as caught:
        agf.mcp.connect("web", f"{service.own}/mcp", sign_in=True)
    assert caught.value.diagnostics[0].code == "mcp.unreachable"
    assert service.grants == []


def test_a_person_who_refuses_is_told(service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def browse(address: str) -> bool:
        asked = dict(urllib.parse.parse_qsl(address.partition("?")[2]))
        back = urllib.parse.urlencode({"error": "access_denied", "state": asked["state"]})
        page = urllib.request.urlopen(f"{asked['redirect_uri']}?{back}").read()
        assert page == b"The sign-in was refused. Close this page."
        return True

    monkeypatch.setattr(webbrowser, "open", browse)
    with pytest.raises(DefinitionError, match="refused: access_denied"):
        agf.mcp.connect("web", f"{service.own}/mcp", sign_in=True)


def test_without_signing_in_the_error_says_how(service: Any, opened: list[str]) -> None:
    with pytest.raises(DefinitionError, match="--sign-in"):
        agf.mcp.connect("web", f"{service.own}/mcp")
    assert opened == []


def test_where_the_browser_is_elsewhere_the_person_pastes_the_address(
    service: Any, opened: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JUPYTERHUB_USER", "ann")

    def paste(prompt: str) -> str:
        page = capsys.readouterr().out.split("sign in: ")[1].split()[0]
        asked = dict(urllib.parse.parse_qsl(page.partition("?")[2]))
        return f"{asked['redirect_uri']}?code=c0de&state={asked['state']}"

    monkeypatch.setattr("builtins.input", paste)
    agf.mcp.connect("web", f"{service.own}/mcp", sign_in=True)
    assert call("web__who").output == "you"
    assert opened == []
