"""Tests of the repair of replies whose form is wrong."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from agf_magics.catalog.models.http_repairs import (
    CallNumbers,
    TokenNumbers,
    error_status,
    is_reply,
    repair_reply,
)

Json = dict[str, Any]

STATUSES: list[tuple[Json, int]] = [
    ({"choices": []}, 0),
    ({"error": None, "status": "completed"}, 0),
    ({"status": "failed"}, 500),
    ({"error": "odd"}, 500),
    ({"error": {"code": 502}}, 502),
    ({"error": {"code": "429"}}, 429),
    ({"error": {"code": 200}}, 500),
    ({"error": {"code": 600}}, 500),
    ({"error": {"code": True, "status": 400}}, 400),
    ({"error": {"code": "4290"}}, 500),
    ({"error": {"code": "odd"}}, 500),
    ({"error": {"code": "200", "type": "overloaded_error"}}, 503),
    ({"error": {"type": "RATE_LIMIT_EXCEEDED"}}, 429),
    ({"error": {"message": "no", "status": "RESOURCE_EXHAUSTED"}}, 429),
    ({"error": {"type": "insufficient_quota", "code": 429}}, 402),
    ({"error": {"code": 1.5, "type": "authentication_error"}}, 401),
    ({"type": "error", "code": 503}, 503),
    ({"object": "error", "code": "context_length_exceeded"}, 400),
    ({"object": "error", "status": 404}, 404),
    ({"object": "error"}, 500),
]


@pytest.mark.parametrize(("reply", "status"), STATUSES, ids=repr)
def test_an_answer_of_status_200_may_be_an_error(reply: Json, status: int) -> None:
    assert error_status(reply) == status


def test_a_reply_has_the_key_of_its_protocol() -> None:
    keys = ("choices", "output", "content", "candidates", "promptFeedback", "error", "id")
    assert [is_reply({key: None, "model": "m"}) for key in keys] == [True] * 5 + [False] * 2


HEAD = {"id": "1", "object": "chat.completion", "created": 5, "model": "m"}
TEXT = [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]
EMPTY = [{"index": 0, "message": {"role": "assistant", "content": None}, "finish_reason": "stop"}]
NO_HEAD = {"id": "", "object": "chat.completion", "created": 0, "model": ""}


def reply_with(*functions: Json, index: str = "message") -> Json:
    """A reply in one piece, or a piece of one, of the Chat protocol that has these calls."""
    calls = [{"id": "c", "type": "function", "function": function} for function in functions]
    return {"choices": [{index: {"tool_calls": calls}}]}


REPLIES: dict[str, tuple[Json, Json]] = {
    "right": ({**HEAD, "choices": TEXT}, {}),
    "right, with numbers": (
        {**HEAD, "choices": TEXT, "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}},
        {},
    ),
    "no head": ({"choices": TEXT}, NO_HEAD),
    "a part of the head": ({"id": "1", "model": None, "choices": TEXT}, {**NO_HEAD, "id": "1"}),
    "no choice": ({**HEAD, "choices": []}, {"choices": EMPTY}),
    "no choice at all": ({**HEAD, "choices": None}, {"choices": EMPTY}),
    "another protocol": ({"output": []}, {}),
    "no numbers of tokens": ({"output": [], "usage": None}, {}),
    "numbers that are a text": ({"output": [], "usage": "12"}, {"usage": None}),
    "a number that is a text": ({"content": [], "usage": {"input_tokens": "12"}}, {"usage": {"input_tokens": 12}}),
    "a number of too many digits": ({"content": [], "usage": {"input_tokens": "1" * 16}}, {"usage": {}}),
    "a number with a fraction": ({"content": [], "usage": {"input_tokens": 11.6}}, {"usage": {"input_tokens": 12}}),
    "a number that is none": (
        {"content": [], "usage": {"input_tokens": float("inf"), "n": "x"}},
        {"usage": {"n": "x"}},
    ),
    "a list of numbers": ({"content": [], "usage": {"input_tokens": [1]}}, {"usage": {}}),
    "another text": ({"content": [], "usage": {"service": "1"}}, {}),
    "a number in a part": (
        {"content": [], "usage": {"input_tokens": 3, "details": {"cached_tokens": "2"}}},
        {"usage": {"input_tokens": 3, "details": {"cached_tokens": 2}}},
    ),
    "Google's numbers": (
        {"candidates": [], "usageMetadata": {"promptTokenCount": "7"}},
        {"usageMetadata": {"promptTokenCount": 7}},
    ),
    "Chat has all three": (
        {**HEAD, "choices": TEXT, "usage": {"prompt_tokens": 4, "completion_tokens": 3}},
        {"usage": {"prompt_tokens": 4, "completion_tokens": 3, "total_tokens": 7}},
    ),
    "and keeps its sum": (
        {**HEAD, "choices": TEXT, "usage": {"prompt_tokens": 4, "total_tokens": 9}},
        {"usage": {"prompt_tokens": 4, "total_tokens": 9, "completion_tokens": 0}},
    ),
    "Responses has all three": (
        {"output": [], "usage": {"input_tokens": 4}},
        {"usage": {"input_tokens": 4, "output_tokens": 0, "total_tokens": 4}},
    ),
    "the response of an event": (
        {"response": {"output": [], "usage": {"input_tokens": "1", "output_tokens": 2, "total_tokens": 3}}},
        {"response": {"output": [], "usage": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}}},
    ),
    "the message of an event": (
        {"message": {"usage": {"input_tokens": "1"}}},
        {"message": {"usage": {"input_tokens": 1}}},
    ),
    "Google's numbers, beside others that are none": (
        {"candidates": [], "usage": None, "usageMetadata": {"promptTokenCount": "7"}},
        {"usageMetadata": {"promptTokenCount": 7}},
    ),
    "no call": ({"output": [{"type": "message"}]}, {}),
    "a call of Responses": (
        {"output": [{"type": "function_call", "name": None}, {"type": "message"}, "odd"]},
        {"output": [{"type": "function_call", "name": ""}, {"type": "message"}, "odd"]},
    ),
    "a call that is right": ({"output": [{"type": "function_call", "name": "f"}]}, {}),
    "a call of Anthropic": ({"content": [{"type": "tool_use"}]}, {"content": [{"type": "tool_use", "name": ""}]}),
    "a call of Google": (
        {"candidates": [{"content": {"parts": [{"functionCall": {"args": {}}}]}}]},
        {"candidates": [{"content": {"parts": [{"functionCall": {"args": {}, "name": ""}}]}}]},
    ),
    "arguments of Google that are null": (
        {"candidates": [{"content": {"parts": [{"functionCall": {"args": "null", "name": "f"}}]}}, None]},
        {"candidates": [{"content": {"parts": [{"functionCall": {"name": "f"}}]}}, None]},
    ),
    "arguments of Google that are empty": (
        {"candidates": [{"content": {"parts": [{"functionCall": {"args": ""}}, {"text": "a"}]}}]},
        {"candidates": [{"content": {"parts": [{"functionCall": {"name": ""}}, {"text": "a"}]}}]},
    ),
    "other arguments of Google": (
        {"candidates": [{"content": {"parts": [{"functionCall": {"args": "x", "name": "f"}}]}}]},
        {},
    ),
    "a call in an event": (
        {"item": {"type": "function_call"}, "content_block": {"type": "tool_use"}},
        {"item": {"type": "function_call", "name": ""}, "content_block": {"type": "tool_use", "name": ""}},
    ),
    "a call in the response of an event": (
        {"response": {"output": [{"type": "function_call"}]}},
        {"response": {"output": [{"type": "function_call", "name": ""}]}},
    ),
}


@pytest.mark.parametrize("case", REPLIES)
def test_the_form_of_a_reply_is_put_right(case: str) -> None:
    reply, changed = REPLIES[case]
    sent_reply = copy.deepcopy(reply)
    was_wrong = repair_reply(sent_reply, CallNumbers(), is_whole=True)
    assert (sent_reply, was_wrong) == ({**reply, **changed}, bool(changed))


def test_a_piece_of_a_reply_need_not_be_whole() -> None:
    piece: Json = {"choices": []}
    assert not repair_reply(piece, CallNumbers(), is_whole=False)
    assert piece == {"choices": []}


FUNCTIONS: list[tuple[Json, Json]] = [
    ({"name": "f", "arguments": "{}"}, {"name": "f", "arguments": "{}"}),
    ({"name": None, "arguments": "{}"}, {"name": "", "arguments": "{}"}),
    ({"arguments": {"x": 1}}, {"name": "", "arguments": '{"x": 1}'}),
    ({"name": "f", "arguments": None}, {"name": "f", "arguments": ""}),
    ({"name": "f"}, {"name": "f", "arguments": ""}),
    ({"name": 7, "arguments": "", "more": 1}, {"name": "", "arguments": "", "more": 1}),
]


@pytest.mark.parametrize(("sent", "expected"), FUNCTIONS, ids=repr)
def test_a_call_in_one_piece_has_a_name_and_arguments_as_a_text(sent: Json, expected: Json) -> None:
    reply = reply_with(copy.deepcopy(sent)) | HEAD
    assert repair_reply(reply, CallNumbers(), is_whole=True) == (sent != expected)
    assert reply == reply_with(expected) | HEAD


def test_another_kind_of_call_stays_as_it_is() -> None:
    reply = {**HEAD, "choices": [{"message": {"tool_calls": [{"type": "custom", "function": {}}]}}, None]}
    before = copy.deepcopy(reply)
    assert not repair_reply(reply, CallNumbers(), is_whole=True)
    assert reply == before


Piece = tuple[int | None, str | None, str | None, str]
"""The number, the id, the name and the arguments of a piece of a call."""

STREAMS: dict[str, tuple[list[Piece], list[int | None]]] = {
    "one call": ([(0, "a", "f", ""), (0, None, None, "{"), (0, None, None, "}")], [0, 0, 0]),
    "one call, whose id comes each time": ([(0, "a", "f", ""), (0, "a", None, "{}")], [0, 0]),
    "two calls": ([(0, "a", "f", "{}"), (1, "b", "g", "{}"), (1, None, None, "x")], [0, 1, 1]),
    "two calls with one number": ([(0, "a", "f", "{}"), (0, "b", "g", "{"), (0, None, None, "}")], [0, 1, 1]),
    "and a third, and the second again": (
        [(0, "a", "f", "{}"), (0, "b", "g", "{}"), (0, "c", "g", "{"), (0, "b", None, "x"), (0, None, None, "y")],
        [0, 1, 2, 1, 1],
    ),
    "two calls without ids": ([(0, None, "f", "{}"), (0, None, "g", "{}"), (0, None, None, "x")], [0, 1, 1]),
    "a name in two pieces": ([(0, None, "f", ""), (0, None, "oo", ""), (0, None, None, "{}")], [0, 0, 0]),
    "a name that comes again with an id": ([(0, "a", "f", "{"), (0, None, "f", "}")], [0, 0]),
    "an id that comes later": ([(0, None, "f", "{"), (0, "a", None, "}")], [0, 0]),
    "no number": ([(None, "a", "f", "{}")], [None]),
    "numbers with a gap": ([(3, "a", "f", "{}"), (3, "b", "f", "{}")], [3, 4]),
}


@pytest.mark.parametrize("case", STREAMS)
def test_each_call_of_a_stream_has_a_number_of_its_own(case: str) -> None:
    pieces, expected = STREAMS[case]
    numbers, assigned = CallNumbers(), list[int | None]()
    for sent, id, name, arguments in pieces:
        call = {"index": sent, "id": id, "function": {"name": name, "arguments": arguments}}
        piece = {"choices": [{"delta": {"tool_calls": [call]}}]}
        was_wrong = repair_reply(piece, numbers, is_whole=False)
        assigned.append(call["index"])  # type: ignore[arg-type]
        assert was_wrong == (call["index"] != sent), "a number was changed"
    assert assigned == expected


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ({"arguments": "{}"}, {"arguments": "{}", "name": ""}),
        ({"name": None}, {"name": ""}),
        ({"name": "f"}, {"name": "f"}),
    ],
)
def test_a_call_that_begins_without_a_name_has_an_empty_one(function: Json, expected: Json) -> None:
    numbers = CallNumbers()
    calls = [{"index": 0, "function": dict(function)}, {"index": 0, "function": {"arguments": "x"}}, {"index": 1}]
    was_wrong = [
        repair_reply({"choices": [{"delta": {"tool_calls": [call]}}]}, numbers, is_whole=False) for call in calls
    ]
    assert calls == [{"index": 0, "function": expected}, {"index": 0, "function": {"arguments": "x"}}, {"index": 1}]
    assert was_wrong == [function != expected, False, False]


def test_a_second_call_with_the_same_number_begins_without_a_name_too() -> None:
    numbers = CallNumbers()
    calls: list[Json] = [
        {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}},
        {"index": 0, "id": "b", "function": {"arguments": "x"}},
        {"index": 0, "id": "a", "function": {"arguments": "y"}},
    ]
    for call in calls:
        repair_reply({"choices": [{"delta": {"tool_calls": [call]}}]}, numbers, is_whole=False)
    assert [call["index"] for call in calls] == [0, 1, 0]
    assert [call["function"].get("name") for call in calls] == ["f", "", None]


HEADS: list[tuple[Json, Json]] = [
    ({"id": "c", "type": "function"}, {"id": "c", "type": "function"}),
    ({"id": "c"}, {"id": "c", "type": "function"}),
    ({"id": "c", "type": None}, {"id": "c", "type": "function"}),
    ({"type": "function"}, {"id": "", "type": "function"}),
    ({"id": None, "type": "function"}, {"id": "", "type": "function"}),
    ({"id": 7, "type": "function"}, {"id": "7", "type": "function"}),
    ({}, {"id": "", "type": "function"}),
]


@pytest.mark.parametrize(("sent", "expected"), HEADS, ids=repr)
def test_a_call_in_one_piece_has_an_id_and_a_type(sent: Json, expected: Json) -> None:
    function = {"name": "f", "arguments": "{}"}
    reply = {**HEAD, "choices": [{"message": {"tool_calls": [{**sent, "function": function}]}}]}
    assert repair_reply(reply, CallNumbers(), is_whole=True) == (sent != expected)
    assert reply == {**HEAD, "choices": [{"message": {"tool_calls": [{**expected, "function": function}]}}]}


def chat(read: int, written: int, **more: Any) -> Json:
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written, **more}


USAGES: dict[str, tuple[list[Json | None], tuple[int, int]]] = {
    "only at the end": ([None, None, chat(5, 2)], (5, 2)),
    "with each piece, up to it": ([chat(5, 1), chat(5, 2), chat(5, 4)], (5, 4)),
    "the same with each piece": ([chat(5, 2)] * 3, (5, 2)),
    "up to a piece, and the end": ([chat(5, 1), None, chat(5, 3), chat(5, 3)], (5, 3)),
    "zeros before the end": ([chat(0, 0), chat(0, 0), chat(5, 2)], (5, 2)),
    "the input first": ([chat(5, 0), chat(0, 2)], (5, 2)),
}


@pytest.mark.parametrize("holder", ["choices", "output"])
@pytest.mark.parametrize(("usages", "expected"), USAGES.values(), ids=USAGES.keys())
def test_the_tokens_of_a_stream_are_counted_once(
    usages: list[Json | None], expected: tuple[int, int], holder: str
) -> None:
    names = ("prompt_tokens", "completion_tokens")
    tokens, counted = TokenNumbers(), [0, 0]
    for usage in usages:
        event: Json = {"choices": [], "usage": copy.deepcopy(usage)}
        if holder == "output":
            other = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}
            inner = {other.get(name, name): number for name, number in (usage or {}).items()}
            event = {"response": {"output": [], "usage": inner or None}}
            names = ("input_tokens", "output_tokens")
        repair_reply(event, CallNumbers(), is_whole=False, tokens=tokens)
        left = event.get("response", event)["usage"] or {}
        counted = [sum_so_far + left.get(name, 0) for sum_so_far, name in zip(counted, names, strict=True)]
    assert tuple(counted) == expected == tokens.used()


def test_the_parts_of_the_tokens_are_counted_once_too() -> None:
    tokens, cached = TokenNumbers(), 0
    for written in (1, 2, 3):
        event = {"choices": [], "usage": chat(5, written, prompt_tokens_details={"cached_tokens": 4})}
        repair_reply(event, CallNumbers(), is_whole=False, tokens=tokens)
        cached += event["usage"]["prompt_tokens_details"]["cached_tokens"]  # type: ignore[index, call-overload]
    assert cached == 4


def test_numbers_that_the_library_does_not_add_stay() -> None:
    tokens = TokenNumbers()
    for event in (
        {"type": "message_delta", "usage": {"output_tokens": 3}},
        {"type": "message_start", "message": {"usage": {"input_tokens": 3}}},
        {"candidates": [], "usageMetadata": {"promptTokenCount": 7}},
    ):
        for _ in range(2):
            sent = copy.deepcopy(event)
            assert not repair_reply(sent, CallNumbers(), is_whole=False, tokens=tokens)
            assert sent == event
