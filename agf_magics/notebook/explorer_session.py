"""A model's session as a conversation, from the journaled requests and tool calls.

The journal may come from anywhere, so every part of a message is checked before it is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..journal.records import Record, error_from
from ..lifecycle.run_calls import RunCalls
from ..pictures.plain import duration, line, plain
from ..pictures.value_json import value_json
from ..progress.progress import Row

Json = dict[str, Any]

MOST_RECORDS = 400
"""Requests and tool calls of a session."""
MOST_MESSAGES = 50
"""Messages before the first request."""
MOST_CALLS = 20
"""Tool calls of one reply."""
MOST_TEXT = 8_000
MOST_TOOL_ERROR = 2_000


def session_json(calls: RunCalls, row: Row, index: tuple[int, ...] = ()) -> Json:
    """The messages of a session, the replies, and the results of their tool calls, in order."""
    found = calls.page(row, MOST_RECORDS + 1, index=index)
    messages = list(_messages(found[:MOST_RECORDS]))
    return {"messages": messages, "more": len(found) > MOST_RECORDS}


def _messages(found: list[Record]) -> Iterator[Json]:
    is_first = True
    for record in found:
        if record.kind != "model":
            yield _result(record)
            continue
        if is_first:
            yield from _prompt(record.given_shown)
            is_first = False
        yield _reply(record)


def _prompt(given: object) -> Iterator[Json]:
    """The messages with which the session begins."""
    messages = given.get("messages") if isinstance(given, Mapping) else None
    for message in (messages if isinstance(messages, list) else [])[:MOST_MESSAGES]:
        if isinstance(message, Mapping):
            text = message.get("text")
            yield {
                "who": line(str(message.get("role", "")), 20),
                "text": plain(str(text or ""), MOST_TEXT),
            }


def _reply(record: Record) -> Json:
    found: Json = {"who": "model", "name": line(record.name, 60), "took": duration(record.seconds)}
    if record.error is not None:
        return found | {"error": _error(record)}
    reply = record.value_shown
    if not isinstance(reply, Mapping):
        return found | {"text": "the reply is not in the journal"}
    found["text"] = plain(str(reply.get("text") or ""), MOST_TEXT)
    wanted = reply.get("calls")
    found["calls"] = [
        {"tool": line(str(one.get("tool")), 60), "arguments": value_json(one.get("arguments"))}
        for one in (wanted if isinstance(wanted, list) else [])[:MOST_CALLS]
        if isinstance(one, Mapping)
    ]
    return found | {"used": _used(reply.get("usage"))}


def _used(usage: object) -> str:
    """``512 + 40 tokens``: of the request and of the reply."""
    if not isinstance(usage, Mapping):
        return ""
    counts = [usage.get(name) for name in ("input", "output")]
    return (
        " + ".join(f"{count:,}" for count in counts if type(count) is int) + " tokens"
        if any(counts)
        else ""
    )


def _result(record: Record) -> Json:
    found: Json = {"who": "tool", "name": line(record.name, 60), "took": duration(record.seconds)}
    if record.error is not None:
        return found | {"error": _error(record)}
    if record.form is None:
        return found | {"text": line(record.what, 20)}
    return found | {"result": value_json(record.value_shown)}


def _error(record: Record) -> str:
    return plain(str(error_from(record.error or "{}", ())), MOST_TOOL_ERROR)
