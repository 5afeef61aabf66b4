"""Handles a line that is no valid message of the protocol: repairs it, or finds the id of its
request.

A call must not wait for ever because the other side wrote something that cannot be read: a number
of 5,000 digits, a value nested too deep, half of a character. With the id, the call gets an error.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

from mcp_types import jsonrpc_message_adapter

ENDS = 4_096
"""Bytes at either end of a line that are searched for the id."""

_ID = re.compile(rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,200}")')
_HALF = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
"""The escape of one half of a surrogate pair. JavaScript may cut a text between the halves, and
writes the half as an escape that other languages refuse."""


def read_line(line: bytes) -> tuple[bytes, Any]:
    """A line and its message. Halves of characters are replaced in both. Raises ValueError if the
    line is no message."""
    with suppress(ValueError):
        return line, jsonrpc_message_adapter.validate_json(line, by_name=False)
    mended = _HALF.sub(rb"\\ufffd", line)
    return mended, jsonrpc_message_adapter.validate_json(mended, by_name=False)


def id_of(start: bytes, end: bytes) -> int | str | None:
    """The id of the request or answer with this beginning and end; None: no id is found."""
    match = _ID.search(start) or next(reversed([*_ID.finditer(end)]), None)
    return json.loads(match[1]) if match is not None else None
