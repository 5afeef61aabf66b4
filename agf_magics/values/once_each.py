"""Reads JSON whose objects have each key once: of two values of a key, one would be lost unseen."""

from __future__ import annotations

import json
from collections import Counter

from .value import Value


class DoubleKey(ValueError):
    """A JSON object has a key twice; the argument is the key."""


def read_once_each(text: str | bytes) -> Value:
    """The value of a JSON text. Raises DoubleKey, and as `json.loads` does.

    >>> read_once_each('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    agf_magics.values.once_each.DoubleKey: a
    """
    return json.loads(text, object_pairs_hook=_once_each)


def _once_each(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise DoubleKey(next(name for name, count in counts.items() if count > 1))
    return fields
