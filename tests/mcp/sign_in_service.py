"""A server of tools that requires a sign-in, and the service that gives tokens for it, on loopback."""

from __future__ import annotations

import json
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOOLS = [{"name": "who", "inputSchema": {"type": "object"}}]


class State:
    """The state that the server and the service share."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.own = self.authority = ""
        """The addresses of the server and of the service."""
        self.expires: int | None = 3600
        """The announced lifetime of the first token in seconds; None: no lifetime is announced."""
        self.uses = 0
        """The number of requests for which a token is valid; 0: any number."""
        self.left = 0
        self.elsewhere = ""
        """The address to which requests for tokens are redirected."""
        self.token = self.refresh = "none"
        """The valid tokens. Each renewal replaces both."""
        self.client, self.clients = "", 0
        self.grants: list[str] = []
        self.codes: list[str] = []
        self.thefts = 0
        """How often a refresh token was used twice. Afterwards no token is valid."""

    def forget(self) -> None:
        """End the rights of the user."""
        self.token = self.refresh = "forgotten"

    def grant(self, form: dict[str, str]) -> dict[str, Any] | None:
        """The answer to a request for a token; None if the request is refused."""
        with self.lock:
            kind = form["grant_type"]
            self.grants.append(kind)
            if kind == "refresh_token" and (form["refresh_token"], form["client_id"]) != (self.refresh, self.client):
                self.thefts += self.refresh != "forgotten"
                self.forget()
                return None
            self.codes += [form["code"]] if "code" in form else []
            self.client = form["client_id"]
            self.left = self.uses
            self.token, self.refresh = f"t0ken-{len(self.grants)}", f"re-fresh-{len(self.grants)}"
            answer: dict[str, Any] = {"access_token": self.token, "token_type": "Bearer", "refresh_token": self.refresh}
            if self.expires is not None:
                answer["expires_in"] = self.expires if kind != "refresh_token" else 3600
            return answer

    def is_valid(self, token: str) -> bool:
        with self.lock:
            self.left -= 1
            return token == self.token and (not self.uses or self.left >= 0)


class Service(BaseHTTPRequestHandler):
    server: Any

    def do_GET(self) -> None:
        state, (path, _, query) = self.server.state, self.path.partition("?")
        if path.startswith("/.well-known/oauth-protected-resource"):
            self.send({"resource": f"{state.own}/mcp", "authorization_servers": [state.authority]})
        elif path == "/.well-known/oauth-authorization-server":
            ends = {f"{name}_endpoint": f"{state.authority}/{name}" for name in ("authorization", "registration")}
            self.send({"issuer": state.authority, **ends, "token_endpoint": f"{state.authority}/tokens",
                       "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"]})  # fmt: skip
        elif path == "/authorization":
            query_fields = dict(urllib.parse.parse_qsl(query))
            back = urllib.parse.urlencode({"code": "c0de", "state": query_fields["state"]})
            self.redirect(302, f"{query_fields['redirect_uri']}?{back}")
        else:
            self.send({}, 404)

    def do_POST(self) -> None:
        state = self.server.state
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        if self.path == "/registration":
            state.clients += 1
            self.send({**json.loads(body), "client_id": f"us-{state.clients}"}, 201)
        elif self.path == "/tokens" and state.elsewhere:
            self.redirect(307, state.elsewhere)
        elif self.path == "/tokens":
            answer = state.grant(dict(urllib.parse.parse_qsl(body)))
            self.send(answer or {"error": "invalid_grant"}, 200 if answer else 400)
        elif not state.is_valid(self.headers.get("authorization", "").removeprefix("Bearer ")):
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

    def redirect(self, status: int, address: str) -> None:
        self.send_response(status)
        self.send_header("location", address)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def running() -> Iterator[State]:
    """Run the server and the service, each at its own port."""
    state, servers = State(), [ThreadingHTTPServer(("127.0.0.1", 0), Service) for _ in range(2)]
    state.own, state.authority = (f"http://127.0.0.1:{server.server_port}" for server in servers)
    for server in servers:
        server.state = state  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield state
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()
