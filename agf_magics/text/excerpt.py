"""The lines of an error: an excerpt of the source with carets, and paragraphs, all at most WIDTH
columns wide.

JupyterLab breaks longer lines anywhere, also inside a word and between a word and its carets.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata

from .source import Span

WIDTH = 78
CONTINUED = "    "
"""The indentation of the second line of a message or a hint."""
AFTER = 12
"""Characters of a long source line that are shown after the marked ones."""
LONGEST = 2_000
"""Characters of a message or a hint that are shown; the text of a foreign exception may be a
page."""


def excerpt(span: Span) -> list[str]:
    """The place of ``span``, its line and the carets below it."""
    line, column = span.place
    gutter = f"{line:>4}"
    shown, lead, carets = _window(
        span.source.line(line), column - 1, span.end - span.start, WIDTH - len(gutter) - 3
    )
    return [
        f"  --> {span.source.name}, line {line}, column {column}",
        f"{gutter} | {shown}",
        f"{' ' * len(gutter)} | {' ' * lead}{'^' * carets}",
    ]


def _window(text: str, at: int, size: int, room: int) -> tuple[str, int, int]:
    """The part of a line that fits into ``room`` cells, the cells before the marked characters, and
    the cells of these.

    Only the characters near the mark are looked at: a line may be a megabyte.
    """
    begin, end = 0, len(text)
    if _fitting(text[: 2 * room], room) < len(text):
        end = min(len(text), at + min(size, room // 2) + AFTER)
        begin = end - _fitting(text[max(0, end - room) : end][::-1], room - 2)
        end = begin + _fitting(text[begin : begin + 2 * room], room - 2)
    cut = "…" * (begin > 0)
    carets = cells(text[at : min(at + size, end)])
    return (
        cut + _readable(text[begin:end]) + "…" * (end < len(text)),
        cells(cut + text[begin:at]),
        max(1, carets),
    )


def _fitting(text: str, room: int) -> int:
    """How many characters of ``text`` fit into ``room`` cells."""
    for count, character in enumerate(text):
        room -= cells(character)
        if room < 0:
            return count
    return len(text)


_WRAPPER = textwrap.TextWrapper(
    WIDTH,
    subsequent_indent=CONTINUED,
    expand_tabs=False,
    replace_whitespace=False,
    break_long_words=False,
    break_on_hyphens=False,
)
_EXCERPT = re.compile(r"  -->| *[0-9]* \| ")


def wrapped(paragraph: str) -> str:
    """``paragraph`` with its long lines broken at blanks. No word is split; the lines of an excerpt
    remain whole."""
    return "\n".join(
        line if _EXCERPT.match(line) else _WRAPPER.fill(line) for line in paragraph.split("\n")
    )


def safe(text: str) -> str:
    """A text of a definition or a tool for a terminal: characters that move its cursor or reverse
    text are named."""
    shown = text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text):,} characters)"
    return "".join(
        c if c.isprintable() or c in "\n\t\xa0" else c.encode("unicode_escape").decode()
        for c in shown
    )


def _readable(text: str) -> str:
    """A line as it can be printed, with a blank for every other character, also for a tab."""
    return "".join(c if c.isprintable() else " " for c in text)


def cells(text: str) -> int:
    """How many columns of a terminal ``text`` takes: two for a wide character."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )
