"""Why a model's server cannot be reached: the message names the cause, and never a key (fault N8)."""

from __future__ import annotations

import os
import socket
import socketserver
import struct
import threading
from collections.abc import Iterator, Mapping

import pytest

import agf_magics as agf
from notebooks.scripted_server import Raw
from tests.borders.protocols import Chat, ProtocolServer, Said

KEY = "sk-abcdefghijklmnop"
ASK = "{pipeline: p, steps: [{agent: {prompt: Hi}}]}"
PROXIES = [f"{scheme}_proxy" for scheme in ("http", "https", "all", "no")]


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the proxies, certificates and addresses of this computer's environment."""
    for name in list(os.environ):
        if name.lower() in PROXIES or name.startswith(("SSL_CERT", "OPENAI_", "OLLAMA_", "ANTHROPIC_", "GOOGLE_")):
            monkeypatch.delenv(name)


@pytest.fixture
def dead() -> Iterator[str]:
    """A port on which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield str(taken.getsockname()[1])


CASES: Mapping[str, tuple[dict[str, str], str | None, str, str, str]] = {
    "a key with a line break": (
        {"OPENAI_API_KEY": f"{KEY}\n"},
        None,
        "model.key",
        "OPENAI_API_KEY has a line break at its end",
        ".strip()",
    ),
    "a key of Windows": (
        {"OPENAI_API_KEY": f"{KEY}\r\n"},
        None,
        "model.key",
        "OPENAI_API_KEY has a line break at its end",
        ".strip()",
    ),
    "a key with a break inside": (
        {"OPENAI_API_KEY": f"{KEY[:6]}\n{KEY[6:]}"},
        None,
        "model.key",
        "a line break in it",
        "copy it again",
    ),
    "a key of blanks": ({"OPENAI_API_KEY": "  "}, None, "model.key", "has blanks only", "copy it again"),
    "a key in typographic quotes": (
        {"OPENAI_API_KEY": f"“{KEY}”"},
        None,
        "model.key",
        "U+201C (left double quotation mark)",
        "copy it again",
    ),
    "a key with what is not seen": (
        {"OPENAI_API_KEY": f"{KEY}\u200b"},
        None,
        "model.key",
        "U+200B (zero width space)",
        "copy it again",
    ),
    "an organization with a line break": (
        {"OPENAI_ORG_ID": "x\ny"},
        None,
        "model.key",
        "OPENAI_ORG_ID has a line break",
        "",
    ),
    "an organization, and a server of one's own": (
        {"OPENAI_ORG_ID": "x\n"},
        "http://127.0.0.1:PORT/v1",
        "model.key",
        "OPENAI_ORG_ID",
        ".strip()",
    ),
    "a proxy": (
        {"HTTP_PROXY": "http://127.0.0.1:DEAD"},
        None,
        "model.proxy",
        "of HTTP_PROXY",
        'os.environ["NO_PROXY"] = "127.0.0.1"',
    ),
    "a proxy with a password": (
        {"http_proxy": f"http://me:{KEY}@127.0.0.1:DEAD"},
        None,
        "model.proxy",
        "of http_proxy",
        "NO_PROXY",
    ),
    "a proxy for all": ({"ALL_PROXY": "http://127.0.0.1:DEAD"}, None, "model.proxy", "of ALL_PROXY", "NO_PROXY"),
    "a proxy, and another exception": (
        {"HTTP_PROXY": "http://127.0.0.1:DEAD", "NO_PROXY": "a.b"},
        None,
        "model.proxy",
        "HTTP_PROXY",
        '"a.b,127.0.0.1"',
    ),
    "a proxy for another server": (
        {"HTTPS_PROXY": "http://127.0.0.1:DEAD", "OPENAI_BASE_URL": "https://models.example/v1"},
        None,
        "model.proxy",
        "of HTTPS_PROXY",
        '"models.example"',
    ),
    "certificates that are not there": (
        {"SSL_CERT_FILE": "/no/such.pem"},
        None,
        "model.certificate",
        "SSL_CERT_FILE names '/no/such.pem'",
        "del os.environ",
    ),
    "no certificate": (
        {"OPENAI_BASE_URL": "https://127.0.0.1:PORT/v1"},
        None,
        "model.certificate",
        "does not speak TLS",
        "http://",
    ),
    "an address without a scheme": (
        {},
        "127.0.0.1:PORT/v1",
        "model.address",
        "does not begin with http://",
        "write http://127.0.0.1:PORT/v1",
    ),
    "a name without a scheme": (
        {},
        "models.example/v1",
        "model.address",
        "does not begin with http://",
        "write https://models.example/v1",
    ),
    "a blank before an address": (
        {},
        " http://127.0.0.1:PORT/v1",
        "model.address",
        "has a blank",
        "write http://127.0.0.1:PORT/v1",
    ),
    "a line break after an address": (
        {},
        "http://127.0.0.1:PORT/v1\n",
        "model.address",
        "has a line break",
        "write http://127.0.0.1:PORT/v1",
    ),
    "an address in quotes": (
        {"OPENAI_BASE_URL": "“http://127.0.0.1:PORT/v1”"},
        None,
        "model.address",
        "OPENAI_BASE_URL",
        "write http://127.0.0.1:PORT/v1",
    ),
    "a port out of range": ({}, "http://127.0.0.1:99999/v1", "model.address", "has a port", "127.0.0.1:8000"),
    "a port that is none": (
        {"OPENAI_BASE_URL": "http://127.0.0.1:x/v1"},
        None,
        "model.address",
        "OPENAI_BASE_URL",
        "127.0.0.1:8000",
    ),
    "another scheme": ({}, "ftp://127.0.0.1/v1", "model.address", "begins with ftp://", "127.0.0.1:8000"),
    "no host": ({}, "http://", "model.address", "names no server", "127.0.0.1:8000"),
    "no server": ({}, "http://127.0.0.1:DEAD/v1", "model.no-server", "the connection was refused", "model_base_url"),
    "no server of a variable": (
        {"OPENAI_BASE_URL": "http://127.0.0.1:DEAD/v1"},
        None,
        "model.no-server",
        "refused",
        "OPENAI_BASE_URL",
    ),
    "a key in an address": (
        {},
        f"http://127.0.0.1:DEAD/v1?api_key={KEY}",
        "model.address",
        "/v1?api_key=•••'",
        "leave out the '?'",
    ),
    "a key in an address of a wrong form": (
        {},
        f"127.0.0.1:DEAD/v1?x=1&access_token={KEY}",
        "model.address",
        "access_token=•••'",
        "",
    ),
}
"""The environment and the ``base_url``, and the code, the words and the hint of the error."""


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("case", CASES)
def test_a_connection_that_fails_says_why(case: str, stream: bool, dead: str, monkeypatch: pytest.MonkeyPatch) -> None:
    environment, base_url, code, words, hint = CASES[case]
    with ProtocolServer(Chat(), [Said(text="fine")]) as server:
        port = server.address.rpartition(":")[2]
        variables = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "http://127.0.0.1:PORT/v1", **environment}
        if base_url is not None:
            del variables["OPENAI_BASE_URL"]
        for name, value in variables.items():
            monkeypatch.setenv(name, value.replace("PORT", port).replace("DEAD", dead))
        registry = agf.Registry()
        address = (base_url or "").replace("PORT", port).replace("DEAD", dead)
        registry.choose("openai-chat:m" if base_url is None else "openai:m", address)
        try:
            run = agf.run(ASK, registry=registry, raises=False, stream=stream, on_event=lambda event: None)
            assert run.error is not None
            (*_, diagnostic) = run.error.diagnostics
        except agf.DefinitionError as error:
            (*_, diagnostic) = error.diagnostics
    assert (diagnostic.code, words in diagnostic.message) == (code, True), diagnostic
    assert hint.replace("PORT", port) in (diagnostic.hint or ""), diagnostic
    assert KEY not in f"{diagnostic} {diagnostic!r}"
    assert diagnostic.span is not None
    assert server.requests == []


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "localhost,127.0.0.1"},
        {"HTTPS_PROXY": "http://127.0.0.1:9"},
    ],
    ids=["plain", "with an exception", "a proxy for https"],
)
def test_a_server_that_is_reached_is_asked(environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    with ProtocolServer(Chat(), [Said(text="fine")]) as server:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        registry = agf.Registry()
        registry.choose("openai:m", server.url)
        assert agf.run(ASK, registry=registry).output == "fine"


@pytest.mark.parametrize("status", [200, 403, 502])
def test_the_page_of_a_proxy_instead_of_a_local_server_is_reported(
    status: int, dead: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No proxy reaches a server on this computer."""
    page = Raw("<html>blocked</html>", status, {"Content-Type": "text/html"})
    with ProtocolServer(Chat(), [page]) as server:
        monkeypatch.setenv("HTTP_PROXY", server.address)
        registry = agf.Registry()
        registry.choose("openai:m", f"http://127.0.0.1:{dead}/v1")
        run = agf.run(ASK, registry=registry, raises=False)
    assert (run.error.code, len(server.requests)) == ("model.proxy", 1)


ENDS: dict[str, tuple[bytes, bool, str]] = {
    # what the server sends, whether it breaks the connection, and the words of the error
    "it hangs up": (b"", False, "the server of openai:m at {} closed the connection without an answer"),
    "it breaks the connection": (b"", True, "the server of openai:m at {} closed the connection without an answer"),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_server_that_ends_the_connection_is_reported_as_reachable(end: str) -> None:
    sent, breaks, message = ENDS[end]

    class Ending(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65_536)
            self.request.sendall(sent)
            if breaks:
                self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.request.close()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Ending) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/v1"
        registry = agf.Registry()
        registry.choose("openai:m", address)
        run = agf.run(ASK, registry=registry, raises=False)
        server.shutdown()
    assert run.error is not None
    assert (run.error.code, run.error.diagnostic.message) == ("model.no-server", message.format(f"{address}/"))
