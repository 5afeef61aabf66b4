"""A server on this computer that replays replies in the protocol of a provider, and records what it was sent.

``replies.json`` has, for each protocol, the path of a request, the header of the key, and the bodies of the replies as
the provider documents them: a text, a call of a tool, a structured answer, the errors.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PROTOCOLS: Mapping[str, Any] = json.loads(Path(__file__).with_name("replies.json").read_text("utf-8"))


@dataclass(frozen=True)
class Sent:
    """A request that the server received."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]


STALL = "stall"
"""A reply that never comes: the connection stays open until the server is closed."""


class ReplayServer:
    """A context: gives the named replies of a protocol one after another, the last one again and again."""

    def __init__(self, protocol: str, names: Sequence[str], values: Mapping[str, Any] | None = None) -> None:
        """``values``: texts to put into the replies, by their placeholders."""
        self.protocol, self.names, self.values = PROTOCOLS[protocol], names, values or {}
        self.received: list[Sent] = []
        self._lock, self._over = threading.Lock(), threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}{self.protocol['prefix']}"

    def __enter__(self) -> ReplayServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def reply(self, sent: Sent) -> tuple[int, Mapping[str, str], str]:
        with self._lock:
            name = self.names[min(len(self.received), len(self.names) - 1)]
            self.received.append(sent)
        if name == STALL:
            self._over.wait()
            return 500, {}, ""
        found = self.protocol["replies"][name]
        text = self._filled(found["body"])
        if found["status"] == 200 and sent.body.get("stream"):
            return 200, {"Content-Type": "text/event-stream"}, message_events(json.loads(text))
        return found["status"], found.get("headers", {}), text

    def _filled(self, body: Any) -> str:
        """The body as JSON. ``"$name"`` is the value of that name, ``"$json:name"`` its JSON as a text."""
        if isinstance(body, str):
            if body.startswith("$json:"):
                return json.dumps(json.dumps(self.values[body[6:]]))
            return json.dumps(self.values[body[1:]] if body.startswith("$") else body)
        if isinstance(body, list):
            return f"[{', '.join(map(self._filled, body))}]"
        if isinstance(body, dict):
            return "{" + ", ".join(f"{json.dumps(key)}: {self._filled(value)}" for key, value in body.items()) + "}"
        return json.dumps(body)


def message_events(message: dict[str, Any]) -> str:
    """A message of Anthropic as the events of a stream: each part of the content in two pieces."""
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
    ]
    for index, part in enumerate(message["content"]):
        whole = part["text"] if part["type"] == "text" else json.dumps(part["input"])
        kind, field = ("text_delta", "text") if part["type"] == "text" else ("input_json_delta", "partial_json")
        empty = {**part, "text": ""} if part["type"] == "text" else {**part, "input": {}}
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        for piece in (whole[:3], whole[3:]):
            events.append({"type": "content_block_delta", "index": index, "delta": {"type": kind, field: piece}})
        events.append({"type": "content_block_stop", "index": index})
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    tokens = {"output_tokens": message["usage"]["output_tokens"]}
    events += [{"type": "message_delta", "delta": end, "usage": tokens}, {"type": "message_stop"}]
    return "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events)


def _handler(owner: ReplayServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, extra, text = owner.reply(Sent(self.path, headers, body))
            content = text.encode()
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **extra}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def handle(self) -> None:
            try:
                super().handle()
            except OSError:
                return  # the client has closed the connection

        def log_message(self, format: str, *args: object) -> None:
            """Nothing is printed."""

    return Handler
