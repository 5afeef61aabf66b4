"""Separates the reasoning that a model writes at the beginning of its text from the answer.

A block that begins with ``<think>`` or ``<thinking>`` does not belong to the answer (decision
D130), in whatever pieces it arrives. Later in the text these tags are plain text: a model may write
about them.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

_TAGS = (("<thinking>", "</thinking>"), ("<think>", "</think>"))
TAGS = frozenset(tag for pair in _TAGS for tag in pair)
LONGEST_TAG = len("<thinking>")
LONGEST_START = 10_000
"""The number of characters, mostly blanks, in which the splitter waits for a tag."""
_LETTER = re.compile(r"\S")


class Piece(NamedTuple):
    """A piece of the text, either reasoning or answer."""

    part: Literal["thinking", "text"]
    text: str


class ReasoningSplitter:
    """Splits a text into reasoning and answer while it arrives."""

    def __init__(self) -> None:
        self._waiting = ""
        """The last characters, which may be the beginning of a tag."""
        self._state: Literal["start", "thinking", "answer"] = "start"
        self._closing = ""
        """The tag that ends the reasoning; empty: there was no reasoning yet."""

    def feed(self, text: str) -> list[Piece]:
        """The pieces that are certain after ``text`` has arrived."""
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
        """The pieces that remain at the end of the text. An unclosed block is reasoning: the model
        was stopped before it answered."""
        text = self._waiting
        self._waiting = ""
        if self._state == "start" and self._closing:
            text = text.lstrip()
        return [Piece("thinking" if self._state == "thinking" else "text", text)] if text else []

    def _begin(self, text: str, start: int) -> int:
        """Decide whether ``text`` has a tag at ``start``. Returns the offset after the decided
        part."""
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
        # The blanks between reasoning and answer belong to neither of them.
        return first if self._closing else start

    def _reason(self, text: str, start: int, pieces: list[Piece]) -> int:
        """Add the reasoning in ``text`` from ``start`` to ``pieces``. Returns the offset after
        it."""
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
