"""What must not lie on a disk: the values of arguments that a tool takes as secret, wherever else they turn up.

Known before a run begins is which fields of its input and which steps feed such an argument; known when a tool is
called is the value itself. What is only shown is masked; an outcome that holds a secret is not kept, because a run
that is taken up must not go on with a masked one: its step runs again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..flow.values import Value
from ..registry import MASK
from .pickles import Packed, encode

SHORTEST = 6
"""Letters below which a secret is not looked for in other texts: it would be found everywhere."""

TOKENS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*')
"""The texts and numbers in a JSON."""

MOST = 1_000
"""Texts that steps gave which are looked for; of a run with more its end shows no values."""


class Secrets:
    """The secrets of one run."""

    def __init__(self) -> None:
        self.names: frozenset[str] = frozenset()
        """Inputs and stores that feed secret arguments."""
        self.steps: frozenset[tuple[int, str]] = frozenset()
        """The steps that give them, by the identity of their flow and their id."""
        self._words: set[str] = set()
        self._given = set[str]()

    def learn(self, value: Value) -> None:
        """``value`` is a secret."""
        _add(value, self._words)

    def given(self, value: Value) -> None:
        """A step gave ``value``, which feeds a secret argument: whether or not that call comes, it is not shown at the
        end. Not before: what else is in it stands in the outcomes of other calls, and those are kept."""
        if not self.too_many:
            _add(value, self._given)

    @property
    def too_many(self) -> bool:
        return len(self._given) > MOST

    def end(self) -> None:
        """What is kept from now on is how the run ended."""
        if not self.too_many:
            self._words |= self._given

    def masked(self, text: str) -> str:
        """JSON to show, without them: it stays JSON, whatever they are."""
        words = sorted((word for word in self._words if word in text), key=len, reverse=True)
        return TOKENS.sub(lambda found: _masked(found[0], words), text) if words else text

    def packed(self, packed: Packed, secret: bool = False) -> Packed:
        """A kept value, unless one of them is in it, or it is one itself."""
        if not self._words and not secret:
            return packed
        data = packed.data or ""
        text = data if isinstance(data, str) else data.decode("utf-8", "replace")
        if not secret and not any(word in text for word in self._words):
            return packed._replace(shown=self.masked(packed.shown)) if packed.shown is not None else packed
        return Packed("again", None, encode(MASK), "it is secret")


def _masked(token: str, words: Sequence[str]) -> str:
    """A text or a number of a JSON; a number is one of them or it is none, for their digits may stand in any other."""
    if token[0] != '"':
        return encode(MASK) if token.lstrip("-") in words else token
    for word in words:
        token = token.replace(word, encode(MASK)[1:-1])
    return token


def _add(value: Value, words: set[str]) -> None:
    parts = [value]
    while parts:
        part = parts.pop()
        if isinstance(part, (list, dict)):
            parts += part.values() if isinstance(part, dict) else part
        elif isinstance(part, str) and len(part) >= SHORTEST:
            words.add(encode(part)[1:-1])
        elif isinstance(part, int) and len(str(part)) >= SHORTEST:
            words.add(str(abs(part)))
