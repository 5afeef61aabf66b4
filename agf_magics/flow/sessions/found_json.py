"""Finds the JSON in a model's reply: the whole text, a fenced block, or the first object or list.

Only complete JSON counts (decision P27). Brackets around something else (``[note]``) are skipped.
At a bracket that never closes, the reply broke off: JSON inside it is only a part of the answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from ...values.extent import TooDeep
from ...values.value import Value, is_json, isolate

_FENCE = re.compile(r"^[ \t]*(?P<ticks>`{3,})(?P<word>[^`\n]*)$", re.MULTILINE)

_OPENING = re.compile(r"[\[{]")

_TOKEN = re.compile(r'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*"?|[\[{]|[\]}]')
"""A quoted text, which ends with its line at the latest, or a bracket."""


class NoJson(ValueError):
    """A reply has no JSON. The message tells why."""


def find_json(text: str) -> Value:
    """The JSON in ``text``, the reply of a model. Raises NoJson.

    >>> find_json('{"a": [1]} is it.'), find_json('As [noted]: {"b": 2}, {"c": 3}')
    ({'a': [1]}, {'b': 2})
    >>> find_json('{"items": [{"a": 1}, {"a": 2}')
    Traceback (most recent call last):
    agf_magics.flow.sessions.found_json.NoJson: the JSON never ends
    """
    if (json_value := _read(text)) is not None:
        return json_value[0]
    for block in _code_blocks(text):
        if (json_value := _read(block)) is not None and _is_answer(json_value[0], text):
            return json_value[0]
    start = 0
    reason = None
    while (opening := _OPENING.search(text, start)) is not None:
        end = _end(text, opening.start())
        if end is None:
            reason = reason or _why_unreadable(text[opening.start() :])
            raise NoJson(reason or "the JSON never ends")
        if (json_value := _read(text[opening.start() : end])) is not None:
            return json_value[0]
        reason = reason or _why_unreadable(text[opening.start() : end])
        start = end
    raise NoJson(reason or "there is no JSON")


def _read(text: str) -> tuple[Value] | None:
    """The value of ``text``, in a tuple, because it may be None. None: ``text`` is not JSON."""
    try:
        read = json.loads(text)
        return (isolate(read),) if is_json(read) else None
    except (ValueError, RecursionError, TooDeep):
        return None


def _why_unreadable(text: str) -> str | None:
    """The mistake that models make most in the JSON at the beginning of ``text``; None: another
    one.

    >>> _why_unreadable('{"a": "b\\nc"}'), _why_unreadable('{"a": 1')
    ('a text in the JSON contains a line break or a tab; JSON writes them \\\\n and \\\\t', None)
    """
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        if error.msg.startswith("Invalid control character"):
            return "a text in the JSON contains a line break or a tab; JSON writes them \\n and \\t"
    except (ValueError, RecursionError):
        pass
    return None


def _is_answer(value: Value, text: str) -> bool:
    """Whether the JSON of a code block is the answer. A lone number in a text may mean anything."""
    return type(value) in (dict, list) or text.strip().startswith("```")


def _code_blocks(text: str) -> Iterator[str]:
    """The texts of the code blocks, from a fence to the next fence without a word behind it."""
    opening: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        if opening is None:
            opening = fence
        elif not fence["word"].strip() and len(fence["ticks"]) >= len(opening["ticks"]):
            yield text[opening.end() : fence.start()]
            opening = None
    if opening is not None and text.rstrip().endswith("```"):  # the last fence ends a line: [1]```
        yield text[opening.end() : text.rstrip().rindex("```")]


def _end(text: str, start: int) -> int | None:
    """The offset after the bracket that closes the one at ``start``; None: it is never closed."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        if depth == 0:
            return token.end()
    return None
