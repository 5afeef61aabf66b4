"""The four languages of this package, described without importing them.

A notebook imports only the languages that it uses. Code that recognizes a language, or the codes of
its errors, must work without the import.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple


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

# Regular expressions for lines, or for the beginning of a JSON text, that only one language has.
_POLICY = r"(?:schema_version|execution_policy)\"?\s*+:|id\"?\s*+:\s*+[\"']?(?:agf\.|x-)"
_PLAN = (
    r'"?calls"?\s*+:|\{[^\n{]*,\s*+"?calls"?\s*+:'
    r'|(?:[ \t]*+-)?[\[{ \t]*+"?_(?:tool|delegate|outputPath)"?\s*+:'
)
_PIPELINE = r"\n[{ \t]*+\"?(?:pipeline|schema)\"?[ \t]*+:"
_GRAPH = r"(?:nodes|edges)[ \t]*+\"?[ \t]*+:"


@cache
def _beginnings() -> Mapping[str, tuple[re.Pattern[str], re.Pattern[str]]]:
    # A line begins with "\n", not with ``^``: the search for a pattern that begins with a letter is
    # four times as fast.
    return {
        "policy": (re.compile(rf"\n(?:{_POLICY})"), re.compile(rf"\A\s*+\{{\s*+\"?(?:{_POLICY})")),
        "plan": (re.compile(rf"\n(?:{_PLAN})"), re.compile(rf"\A\s*+\{{\s*+\"?(?:{_PLAN})")),
        "graph": (re.compile(rf"\n(?:{_GRAPH})"), re.compile(rf"\A\s*+\{{\s*+\"?(?:{_GRAPH})")),
        "pipeline": (re.compile(_PIPELINE), re.compile(r"(?!)")),
    }


def detect_language(text: str) -> str:
    """The name of the language of a text, by its own lines; ``pipeline`` if they do not decide."""
    return recognized_language(text) or next(iter(OURS))


def recognized_language(text: str) -> str | None:
    """The name of the language of a text, by its own lines; None if they do not decide."""
    lines = "\n" + text
    for name, (line, begins) in _beginnings().items():
        if line.search(lines) or begins.match(text):
            return name
    return None
