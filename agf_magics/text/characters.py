"""Hints for characters that look like signs of a language but are others, as in copied texts.

No-break spaces, zero-width characters, full-width and typographic signs are right in prose. In
place of a blank, a quote, a dash or a sign of the syntax they cause an error that seems to be about
something else, because nobody sees the difference. So an error at or near such a character gets a
hint that names the character. A text without an error gets no hint.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from .source import Source, Span

LONGEST_TOKEN = 200
"""The number of characters of a token or a line in which such a character is searched."""

MOST_LINES = 1_000
"""The number of lines above a line that are searched for the beginning of its block text."""

LOOK_ALIKES = {
    **dict.fromkeys("\N{LEFT SINGLE QUOTATION MARK}\N{RIGHT SINGLE QUOTATION MARK}‚‛′", "'"),
    **dict.fromkeys("“”„‟«»″", '"'),
    **dict.fromkeys(
        "\N{HYPHEN}\N{NON-BREAKING HYPHEN}\N{FIGURE DASH}\N{EN DASH}\N{EM DASH}"
        "\N{HORIZONTAL BAR}\N{MINUS SIGN}",
        "-",
    ),
    "…": "...",
    "\N{MULTIPLICATION SIGN}": "*",
    "÷": "/",
    "≤": "<=",
    "≥": ">=",
    "≠": "!=",
    "→": "->",
}
"""The sign that a language uses, by the typographic character that looks like it. `meant_by` adds
the full-width characters."""

DASHES = frozenset(char for char, sign in LOOK_ALIKES.items() if sign == "-") | {"－"}
QUOTES = frozenset(char for char, sign in LOOK_ALIKES.items() if sign in ("'", '"'))


def meant_by(char: str) -> str | None:
    """The character to write in place of ``char``: a blank, a sign, or the empty text for a
    zero-width character; None if ``char`` looks like no other character.

    >>> meant_by("\\u00a0"), meant_by("\\u200b"), meant_by("："), meant_by("é")
    (' ', '', ':', None)
    """
    if char.isascii():
        return None
    if char in LOOK_ALIKES:
        return LOOK_ALIKES[char]
    category = unicodedata.category(char)
    if category == "Zs":
        return " "
    if category == "Cf":
        return ""
    if "！" <= char <= "～" and not char.isalnum():
        return chr(ord(char) - 0xFEE0)  # the full-width signs have the order of ASCII
    return None


def describe(char: str) -> str:
    """A character with its name and number.

    >>> describe("–"), describe("\u00a0")
    ("'–' (U+2013, en dash)", "'\\\\xa0' (U+00A0, no-break space)")
    """
    return f"{char!r} (U+{ord(char):04X}, {unicodedata.name(char, 'without a name').lower()})"


def character_hint(char: str, line: int) -> str:
    """The hint for the character ``char`` of ``line``."""
    sign = meant_by(char)
    described = describe(char)
    if sign == " ":
        return f"line {line} has {described}: write an ordinary blank"
    if not sign:
        return f"line {line} has {described}, which is not shown: delete it"
    return f"line {line} has {described}: write {sign}"


def hint_in(span: Span) -> str | None:
    """The hint for such a character in ``span``, the token of an error; None if the token has
    none."""
    token = span.text[:LONGEST_TOKEN]
    if " " in token.strip():
        return None
    index = next((i for i, char in enumerate(token) if meant_by(char) is not None), None)
    if index is None:
        return None
    line, _ = span.source.place(span.start + index)
    return character_hint(token[index], line)


def hint_near(span: Span) -> str | None:
    """The hint for such a character on the line of the error at ``span`` or on a neighbouring
    line."""
    number, _ = span.place
    for line in (number, number + 1, number - 1):
        char = next(_of_syntax(span.source.line(line)[:LONGEST_TOKEN]), None)
        if char is not None and not _in_block_text(span.source, line):
            return character_hint(char, line)
    return None


_BLOCK = re.compile(r"(?:^|[\s:])[|>][-+0-9]*\s*(?:#.*)?$")
"""The end of a line below which a block text begins."""


def _in_block_text(source: Source, line: int) -> bool:
    """Whether a line belongs to the text below a ``|`` or ``>``."""
    indent = _indent(source.line(line))
    for above in range(line - 1, max(source.first_line, line - MOST_LINES) - 1, -1):
        text = source.line(above)
        if text.strip() and _indent(text) < indent:
            if _BLOCK.search(text):
                return True
            indent = _indent(text)
    return False


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


_KEY = re.compile(r"(?:^|[,{\[｛［，])\s*(?:- )*[\w.\-$]+ ?$")
"""A key at the end of the text before a colon: first on its line, or after a comma or a bracket."""
_BEFORE_VALUE = (":", "-", ",", "{", "[", "(", "=", "：", "｛", "［", "，")
"""The signs after which a value may begin, full-width ones included."""


def _of_syntax(line: str) -> Iterator[str]:
    """The characters of a line of YAML that may be syntax: not those in quotes, in a comment or in
    the middle of a text."""
    quote = ""
    for index, char in enumerate(line):
        before = line[:index]
        if char == quote:
            quote = ""
        elif quote:
            continue
        elif char in "'\"":
            opens = not before.strip() or before.rstrip().endswith(_BEFORE_VALUE)
            quote = char if opens else ""
        elif char == "#" and before[-1:] in ("", " ", "\t"):
            return
        elif char.isascii() or (sign := meant_by(char)) is None:
            continue
        elif _is_syntax(before, line[index + 1 :], sign):
            yield char


def _is_syntax(before: str, after: str, sign: str) -> bool:
    """Whether a character between ``before`` and ``after`` stands where the sign ``sign`` may
    stand."""
    text_before = before.strip()
    opens = not text_before.strip("-") or text_before.endswith(_BEFORE_VALUE)
    if sign in ("", " "):
        is_last = not after.strip()
        return opens or is_last or (":" not in before and after.lstrip().startswith(":"))
    if sign == ":":
        return _KEY.search(before) is not None
    if sign in (",", "]", "}", ")"):
        return any(bracket in before for bracket in "[{([｛")
    return opens
