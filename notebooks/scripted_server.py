"""A server on this computer that answers as a language model would, from a script: no key, no network, no surprise.

It speaks the part of the OpenAI protocol that every client knows (`POST …/chat/completions`), so whatever can be
pointed at such a server can be tried and tested with it:

    with ScriptedServer([calls(("add", {"x": 2, "y": 3})), "It is 5."]) as server:
        server.url        # http://127.0.0.1:…/v1: what to point a client at
        server.requests   # what it was asked, as JSON

A script is a list of answers, given one after another (the last one again and again), or a function from a request to
an answer. An answer is a text, `calls(...)`, a `Stream`, or a `Raw` reply for everything that can go wrong. A request
with `"stream": true` gets a text and calls in pieces, as such servers send them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Raw:
    """A reply as it goes over the wire."""

    body: str = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    stalls: bool = False
    """It never comes: the connection stays open and silent until the server is closed."""


@dataclass(frozen=True)
class Stream:
    """A reply in pieces, each sent when the iterable gives it: a text, a delta of the protocol, or raw bytes."""

    pieces: Iterable[str | dict[str, Any] | bytes]
    ends: bool = True
    """False: the server closes the connection after the pieces, in the middle of its reply."""


Answer = str | dict[str, Any] | Raw | Stream
Script = Sequence[Answer] | Callable[[dict[str, Any]], Answer]


def calls(*wanted: tuple[str, Mapping[str, Any] | str]) -> dict[str, Any]:
    """An answer that asks for tools: ``calls(("add", {"x": 2, "y": 3}))``; arguments given as text go as they are."""
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": f"call_{number}_{name}",
                "type": "function",
                "function": {"name": name, "arguments": given if isinstance(given, str) else json.dumps(given)},
            }
            for number, (name, given) in enumerate(wanted)
        ],
    }


def streamed(text: str) -> Raw:
    """The answer of a server that streams whether it is asked to or not."""
    parts = [{"role": "assistant", "content": text[:3]}, {"content": text[3:]}]
    chunks = [{**_head("chat.completion.chunk"), "choices": [{"index": 0, "delta": part}]} for part in parts]
    chunks.append({**_head("chat.completion.chunk"), "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return Raw("".join([*lines, "data: [DONE]\n\n"]), headers={"Content-Type": "text/event-stream"})


def failing(status: int, message: str, **headers: str) -> Raw:
    """An error as such servers tell it."""
    body = {"error": {"message": message, "type": "scripted", "code": None}}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Raw(json.dumps(body), status, {"Content-Type": "application/json", **named})


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64  # sessions side by side connect at once


class ScriptedServer:
    """A context: the server runs inside it, in threads of its own."""

    def __init__(self, script: Script) -> None:
        self.requests: list[dict[str, Any]] = []
        """The bodies of what it was asked."""
        self.headers: list[dict[str, str]] = []
        self._script = script
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> ScriptedServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, request: dict[str, Any], headers: Mapping[str, str]) -> Raw | Stream:
        """What comes back for a request; blocks for one that stalls."""
        with self._lock:
            number = len(self.requests)
            self.requests.append(request)
            self.headers.append({name.lower(): value for name, value in headers.items()})
        script = self._script
        said = script(request) if callable(script) else script[min(number, len(script) - 1)]
        if isinstance(said, Stream):
            return said
        if isinstance(said, Raw):
            if said.stalls:
                self._over.wait()
            return said
        if request.get("stream"):
            return Stream(_deltas(said))
        return Raw(json.dumps(_completion(said)), headers={"Content-Type": "application/json"})


def _completion(said: str | dict[str, Any]) -> dict[str, Any]:
    message = {"role": "assistant", "content": said} if isinstance(said, str) else said
    finish = "tool_calls" if message.get("tool_calls") else "stop"
    return {
        **_head("chat.completion"),
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }


def _deltas(said: str | dict[str, Any]) -> Iterator[str | dict[str, Any]]:
    """An answer in pieces: the words of a text; the name of each call, then its arguments in two."""
    if isinstance(said, str):
        *words, last = said.split(" ")
        yield from (*(f"{word} " for word in words), last)
        return
    for index, call in enumerate(said.get("tool_calls") or ()):
        name, given = call["function"]["name"], call["function"]["arguments"]
        yield {"tool_calls": [{**call, "index": index, "function": {"name": name, "arguments": ""}}]}
        for part in (given[: len(given) // 2], given[len(given) // 2 :]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": part}}]}


def _events(stream: Stream) -> Iterator[bytes]:
    """The lines of a stream, as they go over the wire."""
    called = False
    for piece in stream.pieces:
        if isinstance(piece, bytes):
            yield piece
            continue
        delta = {"content": piece} if isinstance(piece, str) else piece
        called = called or "tool_calls" in delta
        yield _event({"choices": [{"index": 0, "delta": {"role": "assistant", **delta}}]})
    if stream.ends:
        finish = "tool_calls" if called else "stop"
        yield _event({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        yield _event({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}})
        yield b"data: [DONE]\n\n"


def _event(chunk: dict[str, Any]) -> bytes:
    return f"data: {json.dumps({**_head('chat.completion.chunk'), **chunk})}\n\n".encode()


def _head(kind: str) -> dict[str, Any]:
    return {"id": "scripted", "object": kind, "created": 0, "model": "scripted"}


def _handler(owner: ScriptedServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if not self.path.endswith("/chat/completions"):
                self._reply(failing(404, f"nothing is served at {self.path}"))
            else:
                self._reply(owner.answer(json.loads(body), self.headers))

        def _reply(self, reply: Raw | Stream) -> None:
            if isinstance(reply, Stream):
                self._stream(reply)
                return
            content = reply.body.encode()
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _stream(self, reply: Stream) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for line in _events(reply):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                self.wfile.flush()
            if reply.ends:
                self.wfile.write(b"0\r\n\r\n")
            else:
                self.close_connection = True

        def handle(self) -> None:
            try:
                super().handle()
            except OSError:
                return  # the client has gone: it was cut off, or did not want to wait

        def log_message(self, format: str, *args: object) -> None:
            """Nothing is printed."""

    return Handler
