"""Writes JSON in plain ASCII, NaN and lone surrogates included, from which `json.loads` reads the
same.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ...values.value import Value


def _encoder() -> Callable[[Any], str]:
    """One encoder in C for all texts. `JSONEncoder` creates one for each text, which takes 1 µs: a
    journaled element of a fan-out would take 42 µs instead of 33."""
    plain = json.JSONEncoder(check_circular=False, separators=(",", ":"))
    make, quoted = json.encoder.c_make_encoder, json.encoder.c_encode_basestring_ascii  # type: ignore[attr-defined]
    # In this order: markers of a check for cycles, default, encoder of texts, indent, separators of
    # keys and items, sort_keys, skipkeys, allow_nan.
    chunks = make(None, plain.default, quoted, None, ":", ",", False, False, True)
    return lambda value: "".join(chunks(value, 0))


encode = _encoder()


LONG = 5_000
"""The number of characters from which on it pays to check whether JSON escapes any of them."""

FEW = 8
"""The largest number of parts of a value that are checked."""

ESCAPED = '\n"\\' + "".join(chr(code) for code in (*range(32), 127) if code != 10)
"""The ASCII characters that `encode` escapes, the most frequent ones first."""


def encode_large(value: Value) -> str:
    """`encode` for a value of more than `LONG` characters. A character takes 1.4 to 2.5 ns, and 0.3
    ns in a long text in which nothing is escaped (base64, numbers, a line): that is copied."""
    kind = type(value)
    if kind is str:
        return _quoted(value)
    if kind is dict and len(value) <= FEW:
        return (
            "{" + ",".join([f"{encode(key)}:{_quoted(part)}" for key, part in value.items()]) + "}"
        )
    if kind is list and len(value) <= FEW:
        return "[" + ",".join([_quoted(part) for part in value]) + "]"
    return encode(value)


def _quoted(value: Value) -> str:
    # Each `in` below is a search in C. So many searches pay only for a long text.
    if type(value) is not str or len(value) < LONG or not value.isascii():
        return encode(value)
    for char in ESCAPED:
        if char in value:
            return encode(value)
    return f'"{value}"'
