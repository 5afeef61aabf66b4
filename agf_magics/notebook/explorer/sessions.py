"""A model's session as a conversation, from the journaled requests and tool calls.

The journal may come from anywhere, so every part of a message is checked before it is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...flow.progress.rows import Row, cost_of
from ...flow.step_path import is_within
from ...journal.records.failures import error_from
from ...journal.records.records import Record
from ...journal.run_calls import RunCalls
from ...pictures.amounts import duration, money
from ...pictures.plain import line, plain
from ...pictures.values import value_json
from .request_types import AnyRun, Json

MOST_RECORDS = 400
"""The most requests and tool calls of a session that are shown."""
MOST_MESSAGES = 50
"""The most messages of the first request that are shown."""
MOST_CALLS = 20
"""The most tool calls of one reply that are shown."""
MOST_PARTS = 100
"""The most parts of a reply that are searched for the model's thinking."""
MOST_TEXT = 8_000
"""The most characters of a text in a message."""
MOST_TOOL_ERROR = 2_000
"""The most characters of the error of a request or a tool call."""


def session_json(
    calls: RunCalls, row: Row, index: tuple[int, ...] = (), running: Sequence[Record] = ()
) -> Json:
    """The messages of a session, the replies, and the results of their tool calls, in order.
    ``running``: a request that has no reply yet."""
    records = calls.page(row, MOST_RECORDS + 1, index=index)
    messages = list(_messages([*records[:MOST_RECORDS], *running]))
    return {"messages": messages, "more": len(records) > MOST_RECORDS}


def _messages(records: list[Record]) -> Iterator[Json]:
    """The conversation: a later request repeats the messages before it, so only the first has them."""
    is_first = True
    for record in records:
        if record.kind != "model":
            yield _result(record)
            continue
        if is_first:
            yield from _prompt(record.arguments_shown)
            is_first = False
        if record.what != "begun":
            yield _reply(record)


def _prompt(request: object) -> Iterator[Json]:
    """The messages with which the session begins."""
    for message in _mappings(request, "messages", MOST_MESSAGES):
        yield {
            "who": line(str(message.get("role", "")), 20),
            "text": plain(str(message.get("text") or ""), MOST_TEXT),
        }


def _mappings(value: object, name: str, most: int) -> list[Mapping[str, Any]]:
    """The mappings in the list with this name in ``value``."""
    listed = value.get(name) if isinstance(value, Mapping) else None
    parts = listed[:most] if isinstance(listed, list) else []
    return [part for part in parts if isinstance(part, Mapping)]


def _reply(record: Record) -> Json:
    shown_reply: Json = {
        "who": "model",
        "name": line(record.name, 60),
        "took": duration(record.seconds),
    }
    if record.error is not None:
        return shown_reply | {"error": _error(record)}
    reply = record.value_shown
    if not isinstance(reply, Mapping):
        return shown_reply | {"text": "the reply is not in the journal"}
    shown_reply["text"] = plain(str(reply.get("text") or ""), MOST_TEXT)
    written = str(reply.get("thinking") or "")
    if thinking := _thinking(reply.get("kept")) or written:
        shown_reply["thinking"] = plain(thinking, MOST_TEXT)
    shown_reply["calls"] = [
        {"tool": line(str(call.get("tool")), 60), "arguments": value_json(call.get("arguments"))}
        for call in _mappings(reply, "calls", MOST_CALLS)
    ]
    return shown_reply | {"used": _used(reply.get("usage"))}


def _thinking(kept: object) -> str:
    """The reasoning of a model, from the parts of a reply that its provider must get back unchanged."""
    return "\n".join(
        str(part.get("content") or "")
        for part in _mappings(kept, "parts", MOST_PARTS)
        if part.get("part_kind") == "thinking"
    )


def arriving_json(run: AnyRun, row: Row, index: tuple[int, ...]) -> list[Json]:
    """The replies that a session is receiving now. ``index``: only of the session with these numbers."""
    replies = []
    for inner in list(run.progress.rows.values()):
        arriving = inner.arriving
        if arriving is None or arriving.ended or not is_within(inner.key, row.key):
            continue
        numbers = tuple(part for part in arriving.at if isinstance(part, int))
        if numbers[: len(index)] != index:
            continue
        parts = {
            name: plain(run.secrets.text(text), MOST_TEXT)
            for name, text in arriving.parts.copy().items()
        }
        calls = [{"tool": line(parts["call"], 200)}] if "call" in parts else []
        replies.append({**parts, "who": "model", "arriving": True, "calls": calls})
    return replies


def _used(usage: object) -> str:
    """``512 + 40 tokens · ≈ $0.0015``: the tokens of the request and of the reply, and their cost."""
    if not isinstance(usage, Mapping):
        return ""
    counts = [usage.get(name) for name in ("input", "output")]
    if not any(counts):
        return ""
    cost = cost_of(usage)
    tokens = " + ".join(f"{count:,}" for count in counts if type(count) is int)
    return f"{tokens} tokens" + (f" · {money(cost)}" if cost is not None else "")


def _result(record: Record) -> Json:
    shown_result: Json = {
        "who": "tool",
        "name": line(record.name, 60),
        "took": duration(record.seconds),
    }
    if record.error is not None:
        return shown_result | {"error": _error(record)}
    if record.result.form is None:
        return shown_result | {"text": line(record.what, 20)}
    return shown_result | {"result": value_json(record.value_shown)}


def _error(record: Record) -> str:
    return plain(str(error_from(record.error or "{}", ())), MOST_TOOL_ERROR)
