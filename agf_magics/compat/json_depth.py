"""In a browser, refuses JSON that is nested too deeply, before the parser crashes the page."""

from __future__ import annotations

import json
import re
from typing import Any

DEEPEST_JSON = 1_000
"""The largest number of levels of JSON that a browser parses."""


_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[{]|[\]}]', re.DOTALL)
"""A bracket, or a text with its brackets, which do not count."""


def bound_json(decoder: type[json.JSONDecoder] = json.JSONDecoder) -> None:
    """Refuse JSON that nests too deeply with a RecursionError, as Python does elsewhere.

    In a browser, Python's decoder overflows the browser's stack, and no Python code can catch that:
    the whole session is lost. So ``decoder`` is changed for the whole process.
    """
    decode = decoder.decode

    def bounded(self: json.JSONDecoder, text: str, *rest: Any) -> Any:
        if text.count("[") + text.count("{") > DEEPEST_JSON and _depth(text) > DEEPEST_JSON:
            raise RecursionError(f"JSON nests deeper than {DEEPEST_JSON:,} levels")
        return decode(self, text, *rest)

    decoder.decode = bounded  # type: ignore[method-assign,assignment]


def _depth(text: str) -> int:
    depth = deepest = 0
    for match in _BRACKET.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(match[0], 0)
        deepest = max(deepest, depth)
    return deepest
