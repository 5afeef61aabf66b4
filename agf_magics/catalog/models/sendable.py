"""Makes a request readable for every provider: texts in valid UTF-8, arguments in valid JSON.

Half of a surrogate pair comes from the name of a file that is not UTF-8, or from a reply that was
cut within a character. No request can have it, so it becomes U+FFFD. Arguments that a model wrote
with NaN are not JSON; like other unreadable arguments, they are sent back as a text in an object.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from ...text.whole_text import whole_text
from .messages import Message, Offered, Request

UNREADABLE = "INVALID_JSON"
"""The key under which pydantic-ai sends arguments that are not JSON."""


def sendable(request: Request) -> Request:
    """``request`` with the repairs; the same object if it needs none."""
    return request._replace(
        messages=[_message(message) for message in request.messages],
        instructions=whole_text(request.instructions),
        tools=tuple(Offered(*map(_sendable, tool)) for tool in request.tools),
        schema=_sendable(request.schema),
    )


def _message(message: Message) -> Any:
    """A message with the repairs. Only the arguments of a call as a whole may be the text of JSON:
    an argument of the name ``args`` is a value."""
    repaired = _sendable(message)
    kept = repaired.get("kept", {}).get("parts", ())
    calls = (("arguments", repaired.get("calls", ())), ("args", kept))
    for name, parts in calls:
        for part in parts:
            if isinstance(part.get(name), str) and not _is_json(part[name]):
                part[name] = {UNREADABLE: part[name]}
    return repaired


def _sendable(value: Any) -> Any:
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, list):
        return [_sendable(part) for part in value]
    if isinstance(value, dict):
        return {_sendable(name): _sendable(part) for name, part in value.items()}
    return value


def _is_json(text: str) -> bool:
    """Whether a text has none of the constants that JSON lacks. pydantic-ai handles other
    faults."""
    try:
        json.loads(text, parse_constant=_refuse)
    except _NoConstant:
        return False
    except (ValueError, RecursionError):
        return True
    return True


class _NoConstant(ValueError):
    pass


def _refuse(name: str) -> NoReturn:
    raise _NoConstant(name)
