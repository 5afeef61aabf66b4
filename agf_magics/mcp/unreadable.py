"""A line that is no message of the protocol: what of it can be mended, and which request it belongs to.

Whoever waits for an answer must not wait for ever because the other side wrote something that cannot
be read: a number of 5,000 digits, a value nested too deep, half of a character.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

from mcp_types import jsonrpc_message_adapter

ENDS = 4_096
"""Bytes at either end of a line, where the id is looked for."""

_ID = re.compile(rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,200}")')
_HALF = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
"""One half of a character in two parts. JavaScript cuts texts there, and writes the half as an escape,
which is no text elsewhere."""


def read_line(line: bytes) -> tuple[bytes, Any]:
    """A line and its message. If it has halves of characters, they are replaced in both. Raises
    ValueError if it is no message."""
    with suppress(ValueError):
        return line, jsonrpc_message_adapter.validate_json(line, by_name=False)
    mended = _HALF.sub(rb"\\ufffd", line)
    return mended, jsonrpc_message_adapter.validate_json(mended, by_name=False)


def id_of(start: bytes, end: bytes) -> int | str | None:
    """The id of the request or answer with this beginning and end; None: none is found."""
    match = _ID.search(start) or next(reversed([*_ID.finditer(end)]), None)
    return json.loads(match[1]) if match is not None else None
