"""In a page, JSON that is nested too deeply is refused before the parser ends the page."""

from __future__ import annotations

import json
import re
from typing import Any

DEEPEST_JSON = 1_000


_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[{]|[\]}]', re.DOTALL)


def bound_json(decoder: type[json.JSONDecoder] = json.JSONDecoder) -> None:
    """Refuse JSON that nests too deeply with a RecursionError, as Python does elsewhere.

    In a page its decoder goes on until the stack of the browser ends, which no Python can catch:
    the session is lost, with all that it holds. So the bound is that of the whole process.
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
