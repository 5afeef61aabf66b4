"""The tokens of an expression, and the part of an expression around a token."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple


class Token(NamedTuple):
    """A token of an expression."""

    kind: int
    text: str
    offset: int
    """The offset of the token."""


CLOSING = {"(": ")", "[": "]", "{": "}"}


def outer(tokens: Sequence[Token], start: int, step: int) -> Iterator[int]:
    """The numbers of the tokens from ``start`` on that are in no inner brackets, up to the bracket
    around ``start`` or the end. ``step``: 1 to the right, -1 to the left."""
    opening, closing = (CLOSING.keys(), CLOSING.values())[::step]
    depth = 0
    index = start
    while 0 <= index < len(tokens) and tokens[index].text:
        depth -= tokens[index].text in closing
        if depth < 0:
            return
        if depth == 0:
            yield index
        depth += tokens[index].text in opening
        index += step


def part_around(
    tokens: Sequence[Token], index: int, before: Collection[str], after: Collection[str]
) -> tuple[int, int]:
    """The numbers of the first token of the part with the token ``index``, and of the token behind
    it. A part is inside the brackets around it, behind a word of ``before`` and before one of
    ``after``."""
    first = index
    for number in outer(tokens, index - 1, -1):
        if tokens[number].text in before:
            break
        first = number
    last = index
    for last in outer(tokens, index, 1):
        if last > index and tokens[last].text in after:
            return first, last
    return first, last + 1
