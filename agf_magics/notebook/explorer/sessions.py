"""A model's session as a conversation, from the journaled requests and tool calls.

It has what the model was sent, what it replied, and each call of a reply with its own result.

The journal may come from anywhere, so every part of a message is checked before it is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from ...flow.progress.rows import Row
from ...flow.progress.usage import cost_of
from ...flow.step_path import StepPath, is_within
from ...journal.records.failures import error_from
from ...journal.records.records import Record
from ...journal.run_calls import RunCalls
from ...pictures.amounts import counted, duration, money
from ...pictures.call_words import REQUEST
from ...pictures.plain import line, plain
from ...pictures.value_line import value_line
from ...pictures.values import value_json
from ...values.value import Value
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
LONGEST_PROMPT = 300
"""The most characters of a system prompt that is not folded."""
MOST_IN_LINE = 80
"""The most characters of the arguments of a call that stand in one line beside its name."""
MOST_CALL = 200
"""The most characters of a call whose arguments have not arrived completely."""
MOST_TOOL_ERROR = 2_000
"""The most characters of the error of a request or a tool call."""
OUTCOMES = ("finished", "failed")
"""The records with the outcome of a call. Others tell of its begin, or of a person's answer."""

BROKEN_OFF = "the reply broke off here"
NOT_MADE = ", so none of its calls was made"

ANSWER = "answer"
"""The word for the call of a reply that is the structured answer: it has no tool."""

Turn = tuple[str | int, ...]
"""A request in its session: its path without the id of its step. A tool call of its reply has the same,
and one more number."""


def session_json(
    calls: RunCalls,
    row: Row,
    index: tuple[int, ...] = (),
    running: Sequence[Record] = (),
    told: str = "",
) -> Json:
    """What the model was sent and what it replied, in order, each call of a reply with its result.
    ``running``: a request that has no reply yet. ``told``: the error of the step, which stands above
    the conversation; a request that failed with it is marked ``told``."""
    records = calls.page(row, MOST_RECORDS + 1, index=index, in_flow=True)
    messages = list(_messages([*records[:MOST_RECORDS], *running], told))
    return {"messages": messages, "more": len(records) > MOST_RECORDS}


def _messages(records: list[Record], told: str) -> Iterator[Json]:
    """The conversation. A later request repeats the messages before it, so only what is new in it is
    shown."""
    requests = [record for record in records if record.kind == REQUEST]
    others = [record for record in records if record.kind != REQUEST]
    # Of several records of one call an outcome counts, and of several outcomes the last.
    others.sort(key=lambda record: record.what in OUTCOMES)
    results = {_turn(record.at): record for record in others}
    first_count = 0
    for number, request in enumerate(requests):
        if not number:
            sent = request.arguments_shown
            yield from _prompt(sent)
            first_count = len(_mappings(sent, "messages"))
        if request.what == "begun":
            continue
        if request.error is not None:
            yield _facts(request) | _failed(request.error, told)
            continue
        reply = request.value_shown
        calls = _calls(reply, _turn(request.at), results)
        later = requests[number + 1 : number + 3]
        new = list[Mapping[str, Any]]()
        # Each request has all messages of its session, so it is read only for what no record has.
        if later and (len(later) == 1 or not all("took" in call for call in calls) or not calls):
            new = _since_reply(later[0], first_count)
        sent_results = (message for message in new if message.get("role") == "tool")
        for call, message in zip(calls, sent_results, strict=False):
            if "took" not in call:
                text = plain(str(message.get("text") or ""), MOST_TEXT)
                call["error" if message.get("failed") is True else "text"] = text
        yield _facts(request) | _reply(reply, calls)
        # Beside the results: why its answer is not valid, or that it must answer now.
        yield from (_written(message) for message in new if message.get("role") == "user")


def _turn(path: StepPath) -> Turn:
    last = max((place for place, bit in enumerate(path) if isinstance(bit, str)), default=0)
    return (*path[:last], *path[last + 1 :])


def _since_reply(request: Record, first_count: int) -> list[Mapping[str, Any]]:
    """The messages of a later request after the last reply. ``first_count``: the number of messages of the
    first request."""
    later = _mappings(request.arguments_shown, "messages")[first_count:]
    return [*takewhile(lambda message: message.get("role") != "model", reversed(later))][::-1]


def _prompt(request: object) -> Iterator[Json]:
    """The system prompt, which each request has beside its messages, and the messages with which the
    session begins."""
    instructions = request.get("instructions") if isinstance(request, Mapping) else None
    if isinstance(instructions, str) and instructions:
        yield _written({"role": "instructions", "text": instructions})
    yield from map(_written, _mappings(request, "messages")[:MOST_MESSAGES])


def _written(message: Mapping[str, Any]) -> Json:
    """A message that the model was sent. A long system prompt is folded below its ``title``."""
    text = plain(str(message.get("text") or ""), MOST_TEXT)
    shown: Json = {"who": line(str(message.get("role", "")), 20), "text": text}
    if files := _mappings(message, "files")[:MOST_CALLS]:
        shown["name"] = line(", ".join(str(file.get("name")) for file in files), 200)
    if shown["who"] != "user" and len(text) > LONGEST_PROMPT:
        shown["title"] = counted(len(text), "character")
    return shown


def _mappings(value: object, name: str) -> list[Mapping[str, Any]]:
    """The mappings in the list with this name in ``value``."""
    listed = value.get(name) if isinstance(value, Mapping) else None
    parts = listed if isinstance(listed, list) else []
    return [part for part in parts if isinstance(part, Mapping)]


def _facts(record: Record) -> Json:
    return {"who": "model", "name": line(record.name, 60), "took": duration(record.seconds)}


def _reply(reply: object, calls: list[Json]) -> Json:
    """What a model replied, with the calls of it."""
    shown: Json = {"calls": calls[:MOST_CALLS]}
    if len(calls) > MOST_CALLS:
        shown["more"] = f"… and {counted(len(calls) - MOST_CALLS, 'more call')}: run.calls has all"
    if not isinstance(reply, Mapping):
        return shown | {"text": "the reply is not in the journal"}
    shown["text"] = plain(str(reply.get("text") or ""), MOST_TEXT)
    written = str(reply.get("thinking") or "")
    if thinking := _thinking(reply.get("kept")) or written:
        shown["thinking"] = plain(thinking, MOST_TEXT)
    return shown | {"used": _used(reply.get("usage"))}


def _failed(text: str, told: str) -> Json:
    """A request that failed: what had arrived of the reply, and the error."""
    error = error_from(text, ())
    shown: Json = {"error": plain(str(error), MOST_TOOL_ERROR)}
    if error.diagnostic.message == told:
        shown["told"] = True
    return shown | (broken_off(error.arrived) if error.arrived else {"end": "failed"})


def broken_off(arrived: Mapping[str, str]) -> Json:
    """What had arrived of a reply that broke off."""
    calls = arrived.get("call", "").split("\n")
    planned = [
        {"tool": line(call if call.endswith((")", "…")) else f"{call} …", MOST_CALL)}
        for call in calls
        if call
    ][:MOST_CALLS]
    shown: Json = {
        part: plain(arrived[part], MOST_TEXT) for part in ("thinking", "text") if arrived.get(part)
    }
    more = f"{BROKEN_OFF}{NOT_MADE if planned else ''}"
    return shown | {"calls": planned, "end": "broke off", "more": more}


def _calls(reply: object, turn: Turn, results: Mapping[Turn, Record]) -> list[Json]:
    """The calls of a reply in its order, each with the result that the journal has. The call of a flow
    has no record of its own."""
    shown = list[Json]()
    for number, call in enumerate(_mappings(reply, "calls")):
        name = str(call.get("tool")) or ANSWER
        shown.append({"tool": line(name, 60)} | _given(call.get("arguments")))
        if (record := results.get((*turn, number))) is not None:
            shown[-1] |= _result(record)
    return shown


def _thinking(kept: object) -> str:
    """The reasoning of a model, from the parts of a reply that its provider must get back unchanged."""
    return "\n".join(
        str(part.get("content") or "")
        for part in _mappings(kept, "parts")[:MOST_PARTS]
        if part.get("part_kind") == "thinking"
    )


def arriving_json(run: AnyRun, row: Row, index: tuple[int, ...]) -> list[Json]:
    """The replies that a session is receiving now, and those that broke off when the run was cancelled,
    of which the journal has nothing. ``index``: only of the session with these numbers."""
    shown = []
    for inner in list(run.progress.rows.values()):
        replies = inner.replies.values() if is_within(inner.key, row.key) else ()
        for reply in replies:
            numbers = tuple(part for part in reply.at if isinstance(part, int))
            if numbers[: len(index)] != index or reply.ended > reply.cancelled:
                continue
            arrived = {name: run.secrets.text(text) for name, text in reply.parts.copy().items()}
            if reply.ended:
                shown.append({"who": "model", **broken_off(arrived)})
                continue
            parts = {name: plain(text, MOST_TEXT) for name, text in arrived.items()}
            calls = [{"tool": line(parts["call"], MOST_CALL)}] if "call" in parts else []
            shown.append({**parts, "who": "model", "arriving": True, "calls": calls})
    return shown


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


def _given(arguments: Value) -> Json:
    """The arguments of a call, in one line if they fit into it."""
    in_line = value_line(arguments, MOST_IN_LINE + 1)
    return (
        {"given": in_line} if len(in_line) <= MOST_IN_LINE else {"arguments": value_json(arguments)}
    )


def _result(record: Record) -> Json:
    shown: Json = {"took": duration(record.seconds)}
    if record.error is not None:
        return shown | {"error": _error(record)}
    if record.result.form is None:
        return shown | {"text": line(record.what, 20)}
    return shown | {"result": value_json(record.value_shown)}


def _error(record: Record) -> str:
    return plain(str(error_from(record.error or "{}", ())), MOST_TOOL_ERROR)
