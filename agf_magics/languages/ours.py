"""The four languages of this package, described without importing them.

A notebook imports only the languages that it uses. Code that recognizes a language, or the codes of
its errors, must work without the import.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from ..text.suggestions import nearest

LOOKED_AT = 20_000
"""Characters of a text in which a misspelt key is looked for."""


class Known(NamedTuple):
    """A language of this package, by its name."""

    keys: tuple[frozenset[str], ...]
    """Sets of keys: a text that has all keys of one set is meant as a definition, also if it cannot
    be read as YAML."""
    layers: tuple[str, ...] = ()
    """The first words of the codes of the language's errors, besides the name of the language."""


def _keys(*sets: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(words.split()) for words in sets)


OURS: Mapping[str, Known] = {
    "pipeline": Known(_keys("pipeline steps"), layers=("r1",)),
    "policy": Known(_keys("schema_version execution_policy", "id config")),
    "plan": Known(_keys("calls", "_tool _outputPath")),
    "graph": Known(_keys("nodes edges")),
}
"""The four languages by name. Each has a package in this room with its `Language`. A text whose
lines do not decide is in the first language."""

# Regular expressions for the lines of the outermost keys, as `_outermost` gives them.
_POLICY = (
    r"\"?(?:schema_version|execution_policy)\"?\s*+:"
    r"|\"?id\"?\s*+:\s*+[\"']?(?:agf\.|x-)"
)
_PLAN = r'"?calls"?\s*+:|(?:[ \t]*+-)?[\[{ \t]*+"?_(?:tool|delegate|outputPath)"?\s*+:'
_GRAPH = r"\"?(?:nodes|edges)[ \t]*+\"?[ \t]*+:"
_PIPELINE = r"[{ \t]*+\"?(?:pipeline|schema)\"?[ \t]*+:"

_SLIPS: Mapping[str, str] = {
    "schema_version": "policy",
    "execution_policy": "policy",
    "action_space": "policy",
    "calls": "plan",
    "nodes": "graph",
    "edges": "graph",
    "loop_limits": "graph",
    "pipeline": "pipeline",
    "steps": "pipeline",
    "schema": "pipeline",
}
"""The languages of keys that may be misspelt, for a text that has none of the keys above."""

_LINE = re.compile(r"(?P<indentation>[ \t]*+)(?P<rest>[^\n]*+)\n?")
"""A line."""
_IN_BRACES = re.compile(r'"(?:[^"\\]|\\(?s:.))*"?|\'[^\']*+\'?|[\[\]{},]|[^"\'\[\]{},]++')
"""The pieces of a mapping in braces: texts, signs, and what stands between them."""


@cache
def _beginnings() -> Mapping[str, re.Pattern[str]]:
    # A line begins with "\n", not with ``^``: the search for a pattern that begins with a letter is
    # four times as fast.
    return {
        "policy": re.compile(rf"\n(?:{_POLICY})"),
        "plan": re.compile(rf"\n(?:{_PLAN})"),
        "graph": re.compile(rf"\n(?:{_GRAPH})"),
        "pipeline": re.compile(rf"\n(?:{_PIPELINE})"),
    }


def _outermost(text: str) -> str:
    """The text with each outermost key at the beginning of a line: without the indentation of its
    first line, and with a line for each key of a mapping in braces."""
    written = (line for line in _LINE.finditer(text) if line["rest"] and line["rest"][0] != "#")
    first = next(written, None)
    indentation, start = (first["indentation"], first.start("rest")) if first else ("", 0)
    if text.startswith("{", start):
        return "".join(_lines_of_braces(text, start))
    return f"\n{text}".replace(f"\n{indentation}", "\n") if indentation else f"\n{text}"


def _lines_of_braces(text: str, start: int) -> Iterator[str]:
    depth = 0
    for match in _IN_BRACES.finditer(text, start):
        piece = match[0]
        depth += (piece in "{[") - (piece in "}]")
        if depth == 1:
            yield "\n" if piece in "{," else piece.strip()


def detect_language(text: str) -> str:
    """The name of the language of a text, by its own lines, else by a key that is nearly one of a
    language; ``pipeline`` if neither decides."""
    if (name := recognized_language(text)) is not None:
        return name
    keys = re.findall(r"\n\"?(\w{3,40})\"?[ \t]*+:", _outermost(text)[:LOOKED_AT])
    near = (nearest(key.lower(), list(_SLIPS), 0.75) for key in keys)
    return next((_SLIPS[key] for key in near if key is not None), next(iter(OURS)))


def recognized_language(text: str) -> str | None:
    """The name of the language of a text, by its own lines; None if they do not decide."""
    lines = _outermost(text)
    for name, line in _beginnings().items():
        if line.search(lines):
            return name
    return None
