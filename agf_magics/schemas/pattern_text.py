"""A text that a pattern matches, for samples: a guess, which whoever asks for it must check."""

from __future__ import annotations

import re

_MOST_DEEP = 40
"""Groups within groups; a pattern with more has no guess."""
_MOST_LONG = 10_000
"""Characters of a guess, at most about twice as many."""
_PART = re.compile(
    r"\\(?P<escape>.)|\[(?P<not>\^?)(?P<set>(?:\\.|[^\\])(?:\\.|[^\]\\])*)\]"
    r"|(?P<open>\((?:\?(?:P?<\w+>|[a-zA-Z]*:))?)|(?P<other>.)",
    re.DOTALL,
)
_TIMES = re.compile(r"(?:(?P<sign>[*+?])|\{(?P<least>[0-9]{1,4})(?P<open>,?)[0-9]*\})\??")
_ESCAPED = {
    **dict(zip("dwsDWSntr", "1a a-a\n\t\r", strict=True)),
    **dict.fromkeys("AzZbB", ""),
}
_OF_NOT = "a1A- _.0b"
"""What may be outside of a set."""


def text_of_pattern(pattern: str, more: int = 0) -> str | None:
    """A text that ``pattern`` probably matches; None: no guess. ``more``: how often a part stands that
    may stand any number of times.

    >>> text_of_pattern(r"^[A-Z]{3}-\\d+$"), text_of_pattern("(?:ab|c)*", more=2)
    ('AAA-1', 'abab')
    """
    try:
        return _alternative(pattern, 0, more, 0)[0]
    except RecursionError:
        return None


def _alternative(pattern: str, at: int, more: int, depth: int) -> tuple[str, int]:
    """The text of the first alternative from ``at`` on, and the offset behind its group."""
    if depth > _MOST_DEEP:
        raise RecursionError
    parts = list[str]()
    while at < len(pattern):
        part = _PART.match(pattern, at)
        assert part is not None, "it matches any character"
        at = part.end()
        if part["other"] == ")":
            break
        if part["other"] == "|":
            _, at = _alternative(pattern, at, more, depth)
            break
        if part["open"]:
            text, at = _alternative(pattern, at, more, depth + 1)
        else:
            text = _of_part(part)
        count = 1
        if times := _TIMES.match(pattern, at):
            at = times.end()
            count = int(times["least"] or times["sign"] == "+")
            if times["open"] or times["sign"] in ("*", "+"):
                count = max(count, more)
        parts.append(text * min(count, _MOST_LONG // max(len(text), 1)))
    return "".join(parts)[:_MOST_LONG], at


def _of_part(part: re.Match[str]) -> str:
    """A character of a part of a pattern; empty for an anchor."""
    if part["escape"]:
        return _ESCAPED.get(part["escape"], part["escape"])
    if part["set"] is None:
        return {"^": "", "$": "", ".": "a"}.get(part["other"], part["other"])
    if not part["not"]:
        first = part["set"]
        return _ESCAPED.get(first[1], first[1]) if first[0] == "\\" else first[0]
    return next((char for char in _OF_NOT if char not in part["set"]), "~")
