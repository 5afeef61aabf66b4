"""A server on this computer that replays replies in the protocol of a provider, and records what it was sent.

``replies.json`` has, for each protocol, the path of a request, the header of the key, and the bodies of the replies as
the provider documents them: a text, a call of a tool, a structured answer, the errors.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from notebooks.scripted_server import LocalServer, Raw

PROTOCOLS: Mapping[str, Any] = json.loads(Path(__file__).with_name("replies.json").read_text("utf-8"))


@dataclass(frozen=True)
class Sent:
    """A request that the server received."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]


STALL = "stall"
"""A reply that never comes: the connection stays open until the server is closed."""


class ReplayServer(LocalServer):
    """Gives the named replies of a protocol one after another, the last one again and again."""

    def __init__(self, protocol: str, names: Sequence[str], values: Mapping[str, Any] | None = None) -> None:
        """``values``: texts to put into the replies, by their placeholders."""
        super().__init__()
        self.protocol, self.names, self.values = PROTOCOLS[protocol], names, values or {}
        self.received: list[Sent] = []

    @property
    def url(self) -> str:
        return f"{self.address}{self.protocol['prefix']}"

    def reply(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Raw:
        with self._lock:
            name = self.names[min(len(self.received), len(self.names) - 1)]
            self.received.append(Sent(path, headers, body))
        if name == STALL:
            return Raw(stalls=True)
        found = self.protocol["replies"][name]
        text = self._filled(found["body"])
        if found["status"] == 200 and body.get("stream"):
            return Raw(message_events(json.loads(text)), headers={"Content-Type": "text/event-stream"})
        return Raw(text, found["status"], {"Content-Type": "application/json", **found.get("headers", {})})

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
