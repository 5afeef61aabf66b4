"""A call over HTTP has failed only if the server says so: an answer that is none leaves its effect unknown."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

import agf_magics as agf
from agf_magics import StepError
from tests.mcp.servers import call

TOKEN = "sup3rs3cret-tok"

Answer = tuple[int, Any, dict[str, str]]
"""The status, the body and the headers of an answer."""


class Answers(BaseHTTPRequestHandler):
    """A server by hand whose answers to a call are given by the test."""

    def do_POST(self) -> None:
        self.server: Service
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        number = message.get("id")
        if message["method"] == "tools/call":
            self.server.sessions.append(self.headers.get("Mcp-Session-Id", ""))
            self.answer_call(number, self.server.answers.pop(0))
            return
        info = {"serverInfo": {"name": "x", "version": "1"}, "capabilities": {"tools": {}}}
        results: dict[str, Any] = {
            "initialize": {"protocolVersion": "2025-06-18", **info},
            "tools/list": {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]},
        }
        result = results.get(message["method"])
        answer = {"result": result} if result else {"error": {"code": -32601, "message": "no"}}
        session = {}
        if message["method"] == "initialize":
            self.server.opened += 1
            session = {"Mcp-Session-Id": f"s{self.server.opened}"}
        self.send(200 if number is not None else 202, {"jsonrpc": "2.0", "id": number, **answer}, session)

    def do_GET(self) -> None:
        self.send(self.server.without_a_stream, b"Cannot GET /mcp", PAGE)
        self.server.has_refused_a_stream.set()

    def answer_call(self, number: object, answer: Answer) -> None:
        status, body, headers = answer
        if isinstance(body, dict):
            body = {"jsonrpc": "2.0", "id": number, **body}
        self.send(status, body, headers)

    def send(self, status: int, body: Any, headers: dict[str, str]) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content) + (9 if "X-Cut" in headers else 0)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        pass


class Service(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.answers = list[Answer]()
        self.sessions = list[str]()
        self.opened = 0
        self.without_a_stream = 405
        """The status where the client asks for a stream of messages that belong to no call."""
        self.has_refused_a_stream = threading.Event()


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setenv("SHOP_TOKEN", TOKEN)
    served = Service()
    threading.Thread(target=served.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{served.server_port}/mcp"
    agf.mcp.connect("shop", address, headers={"Authorization": "Bearer $SHOP_TOKEN"}, protocol="old")
    yield served
    agf.mcp.close_all()
    served.shutdown()
    served.server_close()


DONE: Answer = (200, {"result": {"content": [{"type": "text", "text": "done"}]}}, {})
PAGE = {"Content-Type": "text/html"}
STREAM = {"Content-Type": "text/event-stream"}
UNKNOWN, READ, REFUSED = "step.unknown-outcome", "mcp.result", "mcp.refused"
FAILED: dict[str, tuple[Answer, str, str]] = {
    "an error of the protocol": ((200, {"error": {"code": -32000, "message": "sold out"}}, {}), REFUSED, "sold out"),
    "the same with 400": ((400, {"error": {"code": -32602, "message": "sold out"}}, {}), REFUSED, "sold out"),
    "the same with 500": ((500, {"error": {"code": -32603, "message": "sold out"}}, {}), REFUSED, "sold out"),
    "403": ((403, b"no", PAGE), REFUSED, "HTTP 403 Forbidden"),
    "429": ((429, b"{}", {}), REFUSED, "HTTP 429 Too Many Requests"),
    "500": ((500, b"", PAGE), UNKNOWN, "HTTP 500"),
    "502 of a gateway": ((502, b"<h1>Bad Gateway</h1>", PAGE), UNKNOWN, "HTTP 502 Bad Gateway"),
    "503 with JSON": ((503, b'{"error": "busy"}', {}), UNKNOWN, "HTTP 503"),
    "202": ((202, b"", {}), UNKNOWN, "202 Accepted"),
    "a stream that ends": ((200, b": nothing\n\n", STREAM), UNKNOWN, "ended without a response"),
    "no JSON": ((200, f"no access with Bearer {TOKEN}".encode(), {}), READ, "no message of the protocol"),
    "no message": ((200, b'{"a": 1}', {}), READ, "no message of the protocol"),
    "a page": ((200, b"<p>hello</p>", PAGE), READ, "no message of the protocol"),
    "compressed": ((200, b"", {"Content-Encoding": "gzip"}), UNKNOWN, "compressed (gzip)"),
    "cut": ((200, b'{"jsonrpc"', {"X-Cut": "1"}), UNKNOWN, "ended during the call: "),
    "too long": ((200, b" " * 16_000_001, {}), UNKNOWN, "more than 16,000,000 bytes"),
}


@pytest.mark.parametrize("case", FAILED)
def test_an_answer_says_whether_the_call_had_an_effect(
    case: str, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    answer, code, words = FAILED[case]
    service.answers = [answer]
    with pytest.raises(StepError) as caught:
        call("shop__t")
    assert (caught.value.diagnostic.code, len(service.sessions)) == (code, 1)
    shown = str(caught.value)
    assert words in shown
    assert "pydantic" not in shown
    for text in (shown, caplog.text, agf.mcp.servers["shop"].log):
        assert TOKEN not in text
    service.answers = [DONE]
    assert call("shop__t").output == "done"


def test_a_call_of_a_session_that_the_server_forgot_is_sent_in_a_new_one(service: Service) -> None:
    service.answers = [DONE, (404, b"", PAGE), DONE, (404, {"error": {"code": -32600, "message": "?"}}, {}), DONE]
    assert [call("shop__t").output for _ in range(3)] == ["done"] * 3
    assert service.sessions == ["s1", "s1", "s2", "s2", "s3"]


def test_a_call_that_a_server_never_takes_is_not_sent_for_ever(service: Service) -> None:
    service.answers = [(404, b"", PAGE), (404, b"", PAGE)]
    with pytest.raises(StepError, match="does not know the session any more") as caught:
        call("shop__t")
    assert (caught.value.diagnostic.code, len(service.sessions)) == (REFUSED, 2)


@pytest.mark.parametrize("status", [401, 404, 405, 500])
def test_a_server_without_a_stream_of_its_own_answers_calls(status: int, service: Service) -> None:
    service.without_a_stream = status
    service.has_refused_a_stream.clear()
    agf.mcp.servers["shop"].restart()
    assert service.has_refused_a_stream.wait(20)
    service.answers = [DONE] * 5
    assert [call("shop__t").output for _ in range(5)] == ["done"] * 5
    assert service.sessions == ["s2"] * 5


def test_a_call_that_needs_a_token_had_no_effect(service: Service) -> None:
    service.answers = [(401, b"", PAGE), (401, b"", PAGE)]
    with pytest.raises(StepError, match="asks who you are") as caught:
        call("shop__t")
    assert caught.value.diagnostic.code == REFUSED
