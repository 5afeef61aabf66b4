"""Fits text into the columns of a terminal: its width, its line breaks, its safe characters.

JupyterLab breaks lines longer than WIDTH anywhere, even between a word and the carets below it.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata

WIDTH = 78
"""The largest number of columns of a line."""
LONGEST = 2_000
"""The number of characters of a message or a hint that are shown. The text of a foreign exception
may be a page."""
CONTINUED = "    "
"""The indentation of the second line of a message or a hint."""


def fitting(text: str, room: int) -> int:
    """The number of characters of ``text`` that fit into ``room`` columns."""
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
"""The beginning of a line of an excerpt of source."""


def wrap(paragraph: str) -> str:
    """``paragraph`` with its long lines broken at blanks. No word is split; the lines of an excerpt
    of source remain whole."""
    return "\n".join(
        line if _EXCERPT.match(line) else _WRAPPER.fill(line) for line in paragraph.split("\n")
    )


def safe(text: str) -> str:
    """``text`` made safe for a terminal: characters that move the cursor or reverse text are
    replaced by their names."""
    shown = text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text):,} characters)"
    return "".join(
        c if c.isprintable() or c in "\n\t\xa0" else c.encode("unicode_escape").decode()
        for c in shown
    )


def readable(text: str) -> str:
    """``text`` with a blank in place of each character that cannot be printed, tabs included."""
    return "".join(c if c.isprintable() else " " for c in text)


def cells(text: str) -> int:
    """The number of columns that ``text`` takes in a terminal: a wide character takes two."""
    return sum(map(_width, text))


def _width(character: str) -> int:
    # Not every mark that is written over the character before it is `combining`: many in Thai and
    # Hindi are not.
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
