"""A server on this computer that answers as a language model would, from a script: no key, no network, no surprise.

It has the part of the OpenAI protocol that every client uses (`POST …/chat/completions`), so every client of such a
server can be tried and tested with it:

    with ScriptedServer([calls(("add", {"x": 2, "y": 3})), "It is 5."]) as server:
        server.url        # http://127.0.0.1:…/v1, the address for the client
        server.requests   # the bodies of the requests

A script is a list of answers, given one after another (the last one again and again), or a function from a request to
an answer. An answer is a text, `calls(...)`, a `Stream`, or a `Raw` reply for everything that can go wrong. A request
with `"stream": true` gets a text and calls in pieces, as such servers send them.
"""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass(frozen=True)
class Raw:
    """A reply as it is sent."""

    body: str | bytes = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    stalls: bool = False
    """Whether it never comes: the connection stays open and silent until the server is closed."""
    cut: bool = False
    """Whether the connection closes before the end that the headers announce."""


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
    """An error in the form of such servers."""
    body = {"error": {"message": message, "type": "scripted", "code": None}}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Raw(json.dumps(body), status, {"Content-Type": "application/json", **named})


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64  # concurrent sessions connect at once


class LocalServer(ABC):
    """A context: an HTTP server on this computer runs inside it, in threads of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @abstractmethod
    def reply(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Raw | Stream:
        """The reply to a request; the names of ``headers`` are in lower case. Called by a thread of its own."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class ScriptedServer(LocalServer):
    """Answers from a script, as described above."""

    def __init__(self, script: Script) -> None:
        super().__init__()
        self.requests: list[dict[str, Any]] = []
        """The bodies of the requests."""
        self.headers: list[dict[str, str]] = []
        self._script = script

    @property
    def url(self) -> str:
        return f"{self.address}/v1"

    def reply(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Raw | Stream:
        if not path.endswith("/chat/completions"):
            return failing(404, f"this server has no {path}")
        with self._lock:
            number = len(self.requests)
            self.requests.append(body)
            self.headers.append(dict(headers))
        script = self._script
        answer = script(body) if callable(script) else script[min(number, len(script) - 1)]
        if isinstance(answer, Raw | Stream):
            return answer
        if body.get("stream"):
            return Stream(_deltas(answer))
        return Raw(json.dumps(_completion(answer)), headers={"Content-Type": "application/json"})


def _completion(answer: str | dict[str, Any]) -> dict[str, Any]:
    message = {"role": "assistant", "content": answer} if isinstance(answer, str) else answer
    finish = "tool_calls" if message.get("tool_calls") else "stop"
    return {
        **_head("chat.completion"),
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }


def _deltas(answer: str | dict[str, Any]) -> Iterator[str | dict[str, Any]]:
    """An answer in pieces: the words of a text; the name of each call, then its arguments in two."""
    if isinstance(answer, str):
        *words, last = answer.split(" ")
        yield from (*(f"{word} " for word in words), last)
        return
    for index, call in enumerate(answer.get("tool_calls") or ()):
        name, given = call["function"]["name"], call["function"]["arguments"]
        yield {"tool_calls": [{**call, "index": index, "function": {"name": name, "arguments": ""}}]}
        for part in (given[: len(given) // 2], given[len(given) // 2 :]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": part}}]}


def _events(stream: Stream) -> Iterator[bytes]:
    """The lines of a stream, as they are sent."""
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


def _handler(owner: LocalServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
            reply = owner.reply(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            if isinstance(reply, Stream):
                self._stream(reply)
                return
            if reply.stalls:
                owner._over.wait()
            content = reply.body.encode() if isinstance(reply.body, str) else reply.body
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content) + 1000 * reply.cut))
            self.end_headers()
            self.wfile.write(content)
            self.close_connection = self.close_connection or reply.cut

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
                return  # the client has closed the connection

        def log_message(self, format: str, *args: object) -> None:
            """Nothing is printed."""

    return Handler
