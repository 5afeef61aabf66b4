"""JSON texts in plain ASCII, also for NaN and lone surrogates; `json.loads` reads back the same
value.
"""

from __future__ import annotations

import hashlib
import json
import operator
from collections.abc import Callable
from functools import cache
from itertools import repeat
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from ...values.value import Value


def _encoder() -> Callable[[Any], str]:
    """One encoder in C for all texts. `JSONEncoder` creates one for each text, 1 µs; a journaled
    element of a fan-out takes 42 µs with it and 33 without."""
    plain = json.JSONEncoder(check_circular=False, separators=(",", ":"))
    make, quoted = json.encoder.c_make_encoder, json.encoder.c_encode_basestring_ascii  # type: ignore[attr-defined]
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
    # Each `in` below is a search in C: only a long text is worth so many of them.
    if type(value) is not str or len(value) < LONG or not value.isascii():
        return encode(value)
    for char in ESCAPED:
        if char in value:
            return encode(value)
    return f'"{value}"'


@cache
def checker(kind: Any) -> Callable[[Any], bool]:
    """Whether a value that anybody may have written has the type ``kind``: a class (exactly it: a
    boolean is no int), ``object``, a union, a ``Literal``, ``list[…]``, ``dict[str, …]``, ``tuple[…]``
    for a list of so many parts, a TypedDict, or ``Annotated[kind, condition]``.

    >>> is_place = checker(tuple[str, Annotated[int, lambda line: line > 0]])
    >>> is_place(["a", 1]), is_place(["a", True]), is_place(["a", 0])
    (True, False, False)
    """
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return lambda value: isinstance(value, str) and value in parts
    if origin is Annotated:
        is_kind, condition = checker(parts[0]), parts[1]
        return lambda value: is_kind(value) and bool(condition(value))
    if is_typeddict(kind):
        fields, required = get_type_hints(kind, include_extras=True), kind.__required_keys__
        named = {name: checker(part) for name, part in fields.items()}
        return lambda value: (
            type(value) is dict
            and required <= value.keys()
            and all(named[name](value[name]) for name in value.keys() & named.keys())
        )
    if origin in (Union, UnionType):
        # The classes at once: this is done for each row of a run that is resumed.
        classes = frozenset(part for part in parts if isinstance(part, type))
        others = [checker(part) for part in parts if part not in classes]
        return lambda value: (
            type(value) in classes or any(map(operator.call, others, repeat(value)))
        )
    tests = tuple(checker(part) for part in parts)
    if origin is tuple:
        return lambda value: (
            type(value) in (list, tuple)
            and len(value) == len(tests)
            and all(map(operator.call, tests, value))
        )
    if origin is not None:  # a list or a dict
        return lambda value: (
            type(value) is origin
            and all(map(tests[-1], value.values() if origin is dict else value))
        )
    return (lambda value: True) if kind is object else (lambda value: type(value) is kind)


def part_digest(before: bytes, text: str) -> bytes:
    """The name of a part, a text that is stored once, after the part ``before`` (empty: the first);
    so the last digest names a whole sequence of texts."""
    return hashlib.sha256(before + text.encode()).digest()
