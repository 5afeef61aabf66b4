"""Text in the columns of a terminal: its width, its lines, its safe characters.

JupyterLab breaks longer lines anywhere, also inside a word and between a word and its carets.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata

WIDTH = 78
LONGEST = 2_000
"""Characters of a message or a hint that are shown; the text of a foreign exception may be a
page."""
CONTINUED = "    "
"""The indentation of the second line of a message or a hint."""


def fitting(text: str, room: int) -> int:
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


def wrap(paragraph: str) -> str:
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


def readable(text: str) -> str:
    """A line as it can be printed, with a blank for every other character, also for a tab."""
    return "".join(c if c.isprintable() else " " for c in text)


def cells(text: str) -> int:
    """How many columns of a terminal ``text`` takes: two for a wide character."""
    return sum(map(_width, text))


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
