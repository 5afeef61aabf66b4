"""Splits a line into words, each with the place of its characters. Knows quotes, blanks and
comments.

The splitter of IPython keeps the quotes inside a value (``--set 'q=1'``) and refuses ``--set msg="a
b"``. It also loses the places of the words, which are needed for the caret of an error.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import NamedTuple

from ..text.characters import DASHES, QUOTES, describe, meant_by
from ..text.diagnostics import DefinitionError, Diagnostic
from ..text.source import Source, Span

BLANKS = " \t\r\n"
"""The characters that separate words."""

ESCAPES = os.sep != "\\"
"""Whether a backslash escapes the next character. On Windows it separates the parts of a path
instead."""


ESCAPED = ("", *BLANKS, "'", '"', "\\", ";", "#")
"""The characters that a backslash escapes outside of quotes. The empty text stands for the end of
the line."""


class Token(NamedTuple):
    """A word of the line without its quotes, with the place of each character. It conforms to the
    protocol `text.source.Text`."""

    text: str
    span: Span
    at: tuple[int, ...]
    """The offset in the source of each character of ``text``, and of its end."""

    def locate(self, start: int, end: int) -> Span:
        """The place in the source of the characters from ``start`` to ``end`` of ``text``."""
        return Span(
            self.span.source, self.at[min(start, len(self.text))], self.at[min(end, len(self.text))]
        )

    def part(self, start: int, end: int) -> Token:
        """These characters of ``text`` as a word."""
        return Token(self.text[start:end], self.locate(start, end), self.at[start : end + 1])


def line_error(
    what: str, message: str, place: Token | Span, hint: str | None = None
) -> DefinitionError:
    """The error ``magic.WHAT`` at a word of the line."""
    span = place.span if isinstance(place, Token) else place
    return DefinitionError(Diagnostic(f"magic.{what}", message, span, hint))


def split(source: Source, start: int = 0, escapes: bool = ESCAPES) -> list[Token]:
    """Split ``source`` into words as a POSIX shell does, from the offset ``start`` on. ``escapes``:
    whether a backslash outside of quotes escapes the next character.

    A # at the start of a word begins a comment. A semicolon at the end of the line is dropped,
    because in IPython it only hides the value of the cell. In quotes both are text.

    >>> [word.text for word in split(Source("", '''a "b c" 'q={"x": 1}' d="e f"; # g'''))]
    ['a', 'b c', 'q={"x": 1}', 'd=e f']
    >>> [word.text for word in split(Source("", "a '';"))]
    ['a', '']
    """
    words = list[Token]()
    text = source.text
    i = start
    while i < len(text) and text[i] != "#":
        if text[i] in BLANKS:
            i += 1
        else:
            words.append(_word(source, i, escapes))
            i = words[-1].span.end
    while words and (rest := _without_semicolon(words[-1], escapes)) is not None:
        words[-1:] = [rest] if rest.span.text else []  # '' is a word
    return words


class BegunLine(NamedTuple):
    """The words of a line that a person writes, up to the cursor."""

    before: list[str]
    word: Token
    """The last word, which is empty behind a blank."""
    quote: str
    """The quote that is open at the end; empty: none."""


def split_begun(text: str) -> BegunLine | None:
    """Split a line that is being written. None if no word is at its end: in a comment, or behind a
    character that no line may have.

    >>> line = split_begun("a 'b c")
    >>> line.before, line.word.text, line.quote
    (['a'], 'b c', "'")
    """
    if comment_at(text, 0) < len(text) or text.startswith("#"):
        return None
    for quote in ("", "'", '"'):
        source = Source("", text + quote)
        try:
            words = split(source)
        except DefinitionError:
            continue
        end = len(text) + len(quote)
        if words and words[-1].span.end == end:
            return BegunLine([word.text for word in words[:-1]], words[-1], quote)
        empty = Token("", Span(source, end, end), (end,))
        return BegunLine([word.text for word in words], empty, "")
    return None


def quoted(word: str) -> str:
    """A word as a line has it: in quotes, if it is no word without them.

    >>> quoted("two"), quoted("two words"), quoted("it's")
    ('two', "'two words'", '"it\\'s"')
    """
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    for written in (word, f"'{word}'"):
        with suppress(DefinitionError):
            if [read.text for read in split(Source("", written))] == [word]:
                return written
    return f'"{escaped}"'


def _without_semicolon(word: Token, escapes: bool) -> Token | None:
    """The word without the semicolon at its end. None if there is no such semicolon, or if it is
    quoted or escaped."""
    written = word.span.text
    if not written.endswith(";") or (escapes and written.endswith("\\;")):
        return None
    return Token(word.text[:-1], word.span._replace(end=word.span.end - 1), word.at[:-1])


def comment_at(text: str, start: int) -> int:
    """The offset at which the comment of a line begins, outside of quotes. Without a comment it is
    the end of the line."""
    quote = ""
    is_escaped = False
    for i in range(start, len(text)):
        if quote:
            quote = "" if text[i] == quote and not is_escaped else quote
            is_escaped = text[i] == "\\" and not is_escaped
        elif text[i] in "'\"":
            quote = text[i]
        elif text[i] == "#" and text[i - 1] in BLANKS:
            return i
    return len(text)


def _word(source: Source, start: int, escapes: bool) -> Token:
    """The word that begins at ``start``, without its quotes and without the backslashes that
    escape."""
    text = source.text
    i = start
    quote = ""
    opened = start
    offsets: list[int] = []  # of the characters that the word keeps
    while i < len(text) and (quote or text[i] not in BLANKS):
        char = text[i]
        if char == quote:
            quote = ""
        elif not quote and char in "'\"":
            quote = char
            opened = i
        else:
            if char == "\\" and text[i + 1 : i + 2] in _escaped(quote, escapes):
                i += 1
                if i == len(text):
                    raise _ends_in_backslash(Span(source, i - 1, i))
            elif not quote:
                _check_character(source, i, start)
            offsets.append(i)
        i += 1
    if quote:
        hint = f"close it with {quote}; around a quote use the other kind of quotes"
        raise line_error(
            "quote", f"the quote {quote} is not closed", Span(source, opened, opened + 1), hint
        )
    written = "".join(text[offset] for offset in offsets)
    return Token(written, Span(source, start, i), (*offsets, i))


def _escaped(quote: str, escapes: bool) -> tuple[str, ...]:
    """The characters that a backslash escapes inside of ``quote``. An empty ``quote`` means outside
    of quotes.

    In double quotes these are the quote and the backslash. Outside of quotes these are the
    characters with a meaning, so that the backslash in C:\\new is an ordinary character.
    """
    if quote == '"':
        return (quote, "\\")
    return ESCAPED if escapes and not quote else ()


def _ends_in_backslash(span: Span) -> DefinitionError:
    hint = "write \\\\ for a backslash"
    if span.source.text.startswith("%%"):
        hint = f"the line of a cell magic ends here: write all of it on one line; {hint}"
    return line_error("quote", "the line ends after a backslash", span, hint)


def _check_character(source: Source, i: int, start: int) -> None:
    """Refuse an invisible character, and a typographic dash or quote at the start of an option or a
    value. In quotes all of them are text."""
    char = source.text[i]
    if char.isascii():
        return
    is_first = i == start or source.text[i - 1] == "="
    meant = meant_by(char)
    if meant in ("", " ") or (is_first and char in QUOTES):
        kind = "a blank" if meant in ("", " ") else "a quote"
        message = f"{describe(char)} is not {kind} of a line"
        hint = "write an ordinary blank, or none" if kind == "a blank" else f"write {meant}"
        span = Span(source, i, i + 1)
        raise line_error("character", message, span, f"{hint}; quote a text that has it")
    if is_first and char in DASHES:
        word = _DASHED.match(source.text, i)
        assert word is not None, "it matches any text"
        rest = word[1]
        span = Span(source, i, word.end())
        message = f"{describe(char)} is not a hyphen"
        dashes = "-" if i > start or rest[:1].isdigit() else "--"
        raise line_error(
            "character", message, span, f"write {dashes}{rest}; quote a text that has it"
        )


_DASHED = re.compile(rf"[-{''.join(DASHES)}]*(\S*)")
