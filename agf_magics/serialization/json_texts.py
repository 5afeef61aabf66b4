"""JSON texts in plain ASCII, also for NaN and lone surrogates; `json.loads` reads back the same
value."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ..flow.values import Value


def _encoder() -> Callable[[Any], str]:
    """One encoder in C for all texts. `JSONEncoder` creates one for each text, 1 µs; a journaled
    element of a fan-out takes 42 µs with it and 33 without."""
    plain = json.JSONEncoder(check_circular=False, separators=(",", ":"))
    make, quoted = json.encoder.c_make_encoder, json.encoder.c_encode_basestring_ascii  # type: ignore[attr-defined]
    if make is None or quoted is None:  # a Python without C
        return plain.encode
    chunks = make(None, plain.default, quoted, None, ":", ",", False, False, True)
    return lambda value: "".join(chunks(value, 0))


encode = _encoder()

LONG = 5_000
"""Characters of a text from which on it is worth a look whether JSON escapes any."""

FEW = 8
"""Parts of a value that are looked at."""

ESCAPED = (*map(chr, (10, 34, 92)), *[chr(code) for code in (*range(32), 127) if code != 10])
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
    if type(value) is not str or len(value) < LONG or not value.isascii():
        return encode(value)
    for char in ESCAPED:
        if char in value:
            return encode(value)
    return f'"{value}"'


def _decoder() -> Callable[[str | bytes], Any]:
    """`json.loads` in less than half of the time, for a text that `encode` has written."""
    decoder: Any = json.JSONDecoder()
    scan = decoder.scan_once

    def decode(text: str | bytes) -> Any:
        if type(text) is str:
            try:
                value, end = scan(text, 0)
            except StopIteration:  # spaces before it, or no JSON
                return json.loads(text)
            if end == len(text):
                return value
        return json.loads(text)

    return decode


decode = _decoder()
