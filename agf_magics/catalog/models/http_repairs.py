"""Repairs common mistakes of servers in the form of a reply: numbers, names, indexes (decision
D130).

replies.py decides what a reply means.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

_WORDS = {
    "rate_limit": 429,
    "too_many_requests": 429,
    "resource_exhausted": 429,
    "insufficient_quota": 402,
    "billing": 402,
    "overloaded": 503,
    "unavailable": 503,
    "authentication": 401,
    "unauthenticated": 401,
    "invalid_api_key": 401,
    "permission": 403,
    "not_found": 404,
    "invalid_request": 400,
    "invalid_argument": 400,
    "context_length": 400,
}
"""The beginnings of names of errors, and the HTTP statuses that belong to them."""


def error_status(reply: Json) -> int:
    """The HTTP status of the error in an answer of status 200; 0: there is none.

    >>> error_status({"error": {"code": 502}}), error_status({"choices": [], "error": None})
    (502, 0)
    """
    error = reply.get("error")
    if not error and "error" not in (reply.get("type"), reply.get("object")):
        return 500 if reply.get("status") == "failed" else 0
    fields = [*_mapping(error).values(), reply.get("code"), reply.get("status")]
    return next(filter(None, map(_status, fields)), 500)


def _status(field: object) -> int:
    """The HTTP status that a field of an error means; 0: none."""
    if isinstance(field, int) and not isinstance(field, bool):
        return field if 400 <= field < 600 else 0
    if not isinstance(field, str):
        return 0
    if field.isdecimal() and len(field) == 3:
        return _status(int(field))
    name = field.lower().removesuffix("_error")
    return next((status for word, status in _WORDS.items() if name.startswith(word)), 0)


def is_reply(answer: Json) -> bool:
    """Whether an answer has a key of a known protocol, so that it may be a reply."""
    return not answer.keys().isdisjoint(
        ("choices", "output", "content", "candidates", "promptFeedback")
    )


def repair_reply(
    reply: Json, calls: CallNumbers, *, is_whole: bool, tokens: TokenNumbers | None = None
) -> bool:
    """Repair the form of ``reply``, a reply or a piece of one. Returns whether it was wrong.
    ``calls``: the numbers of the calls so far. ``is_whole``: whether it is a reply in one piece.
    ``tokens``: the numbers of tokens of the reply so far; None: they are not counted."""
    wrong = list[bool]()
    if reply.get("type") == "response.created":
        tokens = None  # the library does not count its numbers
    for holder in _holders(reply):
        wrong.append(_repair_usage(holder))
        usage = holder.get("usage")
        if tokens is not None and isinstance(usage, dict) and not _NEEDED.keys().isdisjoint(holder):
            wrong.append(tokens.subtract(usage))
    if is_whole and "choices" in reply:
        wrong.append(_repair_completion(reply))
    for choice in map(_mapping, _list_at(reply, "choices")):
        wrong += [
            _repair_call(_mapping(call)) for call in _list_at(choice.get("message"), "tool_calls")
        ]
        wrong += [
            calls.repair(_mapping(call)) for call in _list_at(choice.get("delta"), "tool_calls")
        ]
    wrong += [_repair_name(item) for item in _items(reply)]
    return any(wrong)


def _repair_completion(reply: Json) -> bool:
    """Repair a reply of the Chat protocol in one piece. Without a choice it becomes an empty
    reply."""
    missing = {name: value for name, value in _HEAD.items() if reply.get(name) is None}
    reply.update(missing)
    if reply["choices"]:
        return bool(missing)
    message = {"role": "assistant", "content": None}
    reply["choices"] = [{"index": 0, "message": message, "finish_reason": "stop"}]
    return True


_HEAD = {"id": "", "object": "chat.completion", "created": 0, "model": ""}
"""The fields that each reply of the Chat protocol has, and the values that a missing one gets."""


class CallNumbers:
    """The numbers of the calls of a streamed reply. Some servers send each call as number 0, with
    an id of its own (lens #49, litellm PR #11558)."""

    def __init__(self) -> None:
        self._ids: dict[int, str] = {}
        """The id of each call, by its number."""
        self._has_arguments: set[int] = set()
        """The numbers of the calls that have arguments."""
        self._now: dict[int, int] = {}
        """The repaired number of the current call, by the number that the server sends."""

    def repair(self, call: Json) -> bool:
        """Repair the number and the name in a piece of a call. Returns whether they were wrong."""
        sent = call.get("index")
        id = call.get("id")
        function = _mapping(call.get("function"))
        if not isinstance(sent, int):
            return False
        number = self._now.get(sent, sent)
        is_first = number not in self._ids
        if not is_first and self._is_another(number, id, function):
            with_id = next((n for n, known_id in self._ids.items() if id and known_id == id), None)
            is_first = with_id is None
            number = max(self._ids) + 1 if with_id is None else with_id
        self._now[sent] = number
        self._ids.setdefault(number, id if isinstance(id, str) else "")
        if function.get("arguments"):
            self._has_arguments.add(number)
        is_nameless = is_first and function.get("name") is None and "function" in call
        if is_nameless:
            call["function"] = {**function, "name": ""}
        call["index"] = number
        return number != sent or is_nameless

    def _is_another(self, number: int, id: object, function: Json) -> bool:
        """Whether this piece begins another call although it has the same number."""
        before = self._ids[number]
        if id and before:
            return id != before
        return bool(function.get("name")) and number in self._has_arguments and not before


class TokenNumbers:
    """The numbers of tokens of a reply. Some servers send with each piece of a stream the numbers up
    to this piece, and the library adds the numbers of all pieces."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}
        """The largest of each number so far, by the part of the usage and the name."""

    def subtract(self, usage: Json) -> bool:
        """Leave in ``usage`` what the earlier pieces did not count. Returns whether they had counted
        any of it."""
        has_counted = False
        for part, numbers in [("", usage), *((key, _mapping(usage[key])) for key in usage)]:
            for name, number in numbers.items():
                if type(number) is not int or number <= 0:
                    continue
                before = self._numbers.get((part, name), 0)
                self._numbers[part, name] = max(before, number)
                if before:
                    numbers[name] = max(number - before, 0)
                    has_counted = True
        return has_counted

    def used(self) -> tuple[int, int]:
        """The tokens of the input and of the output of the reply."""
        both = (("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens"))
        read, written = (max(self._numbers.get(("", name), 0) for name in names) for names in both)
        return read, written


def _repair_call(call: Json) -> bool:
    """Repair a call of the Chat protocol in one piece."""
    function = _mapping(call.get("function"))
    if call.get("type") not in (None, "function"):
        return False
    sent_id = call.get("id")
    # Numbers, and a missing id, are told apart later, as in a stream.
    id = sent_id if isinstance(sent_id, str) else "" if sent_id is None else json.dumps(sent_id)
    has_wrong_head = call.get("type") is None or id != sent_id
    call.update(type="function", id=id)
    name = function.get("name")
    arguments = function.get("arguments") or ""
    repaired = {
        "name": name if isinstance(name, str) else "",
        "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
    }
    if all(function.get(name) == value for name, value in repaired.items()):
        return has_wrong_head
    call["function"] = {**function, **repaired}
    return True


def _repair_name(item: Json) -> bool:
    """Repair a call of Anthropic's, Google's or the Responses protocol."""
    if item.get("type") in ("tool_use", "function_call"):
        call = item
    elif isinstance(item.get("functionCall"), dict):
        call = item["functionCall"]
        if "args" in call and not isinstance(call["args"], dict) and call["args"] in ("null", ""):
            del call["args"]
            call.setdefault("name", "")
            return True
    else:
        return False
    if isinstance(call.get("name"), str):
        return False
    call["name"] = ""
    return True


def _items(reply: Json) -> Iterator[Json]:
    """The parts of a reply or an event that may be calls."""
    inner = _mapping(reply.get("response"))
    listed = [*_list_at(reply, "output"), *_list_at(reply, "content"), *_list_at(inner, "output")]
    for candidate in _list_at(reply, "candidates"):
        listed += _list_at(_mapping(candidate).get("content"), "parts")
    for item in (*listed, reply.get("item"), reply.get("content_block")):
        if isinstance(item, dict):
            yield item


def _holders(reply: Json) -> Iterator[Json]:
    """The parts of a reply or an event that may have numbers of tokens."""
    yield reply
    yield _mapping(reply.get("response"))
    yield _mapping(reply.get("message"))


def _repair_usage(holder: Json) -> bool:
    """Remove wrong numbers of tokens, and add those that the protocol always has."""
    wrong = False
    for key in ("usage", "usageMetadata"):
        usage = holder.get(key)
        if usage is None:
            continue
        if not isinstance(usage, dict):
            holder[key] = None
            wrong = True
            continue
        for numbers in (usage, *filter(None, map(_mapping, usage.values()))):
            for name in [
                name for name in numbers if name.lower().endswith(("tokens", "tokencount"))
            ]:
                wrong |= _repair_number(numbers, name)
        needed = next((names for sign, names in _NEEDED.items() if sign in holder), ())
        if missing := [name for name in needed if usage.get(name) is None]:
            usage.update(dict.fromkeys(missing, 0))
            if "total_tokens" in missing:
                usage["total_tokens"] = sum(usage[name] for name in needed[:2])
            wrong = True
    return wrong


_NEEDED = {
    "choices": ("prompt_tokens", "completion_tokens", "total_tokens"),
    "output": ("input_tokens", "output_tokens", "total_tokens"),
}
"""The numbers that a protocol always has, by the key of its replies."""


def _repair_number(numbers: Json, name: str) -> bool:
    """Make a number of tokens an int, or remove it. Returns whether it was wrong."""
    value = numbers[name]
    if isinstance(value, int | dict | None):
        return False
    if isinstance(value, str) and value.isdecimal() and len(value) < 16:
        numbers[name] = int(value)
    elif isinstance(value, float) and math.isfinite(value):
        numbers[name] = round(value)
    else:
        del numbers[name]
    return True


def _mapping(value: object) -> Json:
    """``value`` if it is an object; otherwise an empty object."""
    return value if isinstance(value, dict) else {}


def _list_at(value: object, key: str) -> list[Any]:
    """The list at ``key`` of an object; otherwise an empty list."""
    listed = _mapping(value).get(key)
    return listed if isinstance(listed, list) else []
