"""Reasoning that a model writes into its text: the first characters are ``<think>`` or ``<thinking>``.

Such a block is no part of the answer (decision D130), whichever pieces it arrives in. Elsewhere in a
text the tags are text: a model may write about them.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

_TAGS = (("<thinking>", "</thinking>"), ("<think>", "</think>"))
TAGS = frozenset(tag for pair in _TAGS for tag in pair)
LONGEST_TAG = len("<thinking>")
LONGEST_START = 10_000
"""Characters, most of them blanks, in which a tag is waited for."""
_LETTER = re.compile(r"\S")


class Piece(NamedTuple):
    """A piece of a text: reasoning or answer."""

    part: Literal["thinking", "text"]
    text: str


class ReasoningSplitter:
    """Tells the reasoning at the beginning of a text from the answer, while the text arrives."""

    def __init__(self) -> None:
        self._waiting = ""
        """Characters that may be the beginning of a tag."""
        self._state: Literal["start", "thinking", "answer"] = "start"
        self._closing = ""
        """The tag that ends the reasoning; empty: there was no reasoning yet."""

    def feed(self, text: str) -> list[Piece]:
        """The pieces that are certain now."""
        text = self._waiting + text
        self._waiting = ""
        pieces: list[Piece] = []
        place = 0
        while place < len(text):
            start = place
            place = len(text)
            match self._state:
                case "answer":
                    pieces.append(Piece("text", text[start:]))
                case "start":
                    place = self._begin(text, start)
                case "thinking":
                    place = self._reason(text, start, pieces)
        return pieces

    def end(self) -> list[Piece]:
        """The pieces that waited for the end of the text. A block that never closes is reasoning:
        the model was stopped before it answered."""
        text = self._waiting
        self._waiting = ""
        if self._state == "start" and self._closing:
            text = text.lstrip()
        return [Piece("thinking" if self._state == "thinking" else "text", text)] if text else []

    def _begin(self, text: str, start: int) -> int:
        """The place after what can be decided of ``text`` from ``start``: a tag, or none."""
        letter = _LETTER.search(text, start)
        first = letter.start() if letter else len(text)
        for opening, closing in _TAGS:
            if text.startswith(opening, first):
                self._state = "thinking"
                self._closing = closing
                return first + len(opening)
        is_open = any(opening.startswith(text[first : first + LONGEST_TAG]) for opening, _ in _TAGS)
        if is_open and len(text) - start < LONGEST_START:
            self._waiting = text[start:]
            return len(text)
        self._state = "answer"
        # The blanks between the reasoning and the answer belong to neither.
        return first if self._closing else start

    def _reason(self, text: str, start: int, pieces: list[Piece]) -> int:
        """The place after the reasoning in ``text``, as far as it has arrived."""
        place = text.find(self._closing, start)
        end, after = (place, place + len(self._closing)) if place >= 0 else (len(text), len(text))
        if place >= 0:
            self._state = "start"  # the answer follows, or another block
        else:
            tail = text[max(start, end - len(self._closing)) :]
            waits = next(n for n in range(len(tail) + 1) if self._closing.startswith(tail[n:]))
            end -= len(tail) - waits
            self._waiting = text[end:]
        if end > start:
            pieces.append(Piece("thinking", text[start:end]))
        return after


def split_reasoning(text: str) -> tuple[str, str]:
    """The reasoning at the beginning of a text, and the answer after it.

    >>> split_reasoning("<think>2+3</think>5"), split_reasoning("a <think>b</think>")
    (('2+3', '5'), ('', 'a <think>b</think>'))
    """
    splitter = ReasoningSplitter()
    pieces = [*splitter.feed(text), *splitter.end()]
    reasoning, answer = (
        "".join(piece.text for piece in pieces if piece.part == part)
        for part in ("thinking", "text")
    )
    return reasoning, answer
