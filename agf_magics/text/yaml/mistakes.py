"""Rewrites the errors of the YAML parser in the author's words, with the place and the cure.

The parser's own messages describe its state (``did not find expected key``). `MISTAKES` maps each
of these messages to the mistake that usually causes it. The parsers in C and in Python use nearly
the same words; each pattern matches both.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from ..diagnostics import Diagnostic
from ..shorten import shorten
from ..source import Source, Span

LONGEST_KEY = 1024
"""The number of characters of the longest key without '? ' before it, by YAML's rule."""

_BLANKS = " \t\r"
_SLASHES = re.compile(r"(?<![^\s,{\[])//(?=\s|$)", re.MULTILINE)
"""``//`` as a word of its own, which begins a comment of JavaScript."""
_IN_FLOW = re.compile(
    r"""[:,\[{]\s*([^\s,:"'\[\]{}][^,:"'\[\]{}]*(?:(?<=\S)|(?<=[|&+*/=<>-]\s))\[[^][]*\][^,\[\]{}]*)[,}\]]"""
)
"""An unquoted text with brackets that is a value between braces."""
_FORMATTED = re.compile(r"""\b[fF](?:"[^"'{}]*\{[^"']*"|'[^"'{}]*\{[^"']*')""")
"""Python's f"{x}" that is a value between braces."""
_OPERATORS = frozenset("+-*/%=<>!|&")


class ParserStop(NamedTuple):
    """The place where the parser stopped, and its reason."""

    source: Source
    text: str
    """The text of the source, with each line end as \\n."""
    problem: str
    """The parser's message about the place."""
    offset: int
    """The offset at which the parser stopped."""
    context: str
    """The parser's words for the construct."""
    context_start: int
    """The offset where the construct begins in which the parser stopped."""

    @property
    def letter(self) -> str:
        """The character at which the parser stopped; empty: the end of the text."""
        return self.text[self.offset : self.offset + 1]

    def line(self, offset: int) -> tuple[int, str]:
        """The line around ``offset`` without its indentation, and the offset where it
        begins."""
        begin = self.text.rfind("\n", 0, offset) + 1
        line = self.text[begin:].partition("\n")[0].rstrip(_BLANKS)
        return begin + len(line) - len(line.lstrip(_BLANKS)), line.lstrip(_BLANKS)

    def above(self, offset: int) -> tuple[int, str]:
        """The nearest line with text above the line of ``offset``, as `line` returns it."""
        begin = self.text.rfind("\n", 0, offset) + 1
        return self.line(len(self.text[:begin].rstrip()))

    def column(self, offset: int) -> int:
        """The number of characters before ``offset`` on its line."""
        return offset - (self.text.rfind("\n", 0, offset) + 1)

    def error(self, start: int, end: int, message: str, hint: str | None = None) -> Diagnostic:
        """The diagnostic for the text between two offsets."""
        start = min(start, len(self.text))
        return Diagnostic(
            "yaml.syntax",
            message,
            Span(self.source, start, max(start, min(end, len(self.text)))),
            hint,
        )

    def error_here(self, message: str, hint: str | None = None) -> Diagnostic:
        """The diagnostic for the character at which the parser stopped."""
        return self.error(self.offset, self.offset + 1, message, hint)


def explain(
    source: Source, problem: str, offset: int, context: str, context_start: int
) -> Diagnostic:
    """The diagnostic for a parser's ``problem`` at ``offset``, found in a ``context`` that began
    at ``context_start``."""
    stop = ParserStop(
        source, re.sub("\r(?!\n)", "\n", source.text), problem, offset, context, context_start
    )
    begin = _key_begin(stop)
    if stop.letter == ":" and offset - begin > LONGEST_KEY:
        return stop.error(
            begin, offset, f"a key is longer than {LONGEST_KEY:,} characters", "shorten it"
        )
    if fence := _fence(stop):
        return fence
    if assignment := _assignment(stop):
        return assignment
    if comment := _comment(stop):
        return comment
    for pattern, describe in MISTAKES:
        if pattern.search(f"{context}; {problem}"):
            return describe(stop)
    return stop.error_here(f"this is not valid YAML: {problem}")


_FENCE = re.compile(r"[ \t]*(```|~~~)[\w-]*(?=[ \t]*$)", re.MULTILINE)
"""A fence, the line around code in Markdown, which is often pasted with the code."""


def _fence(stop: ParserStop) -> Diagnostic | None:
    """A fence where the parser stopped, or on the first line. Elsewhere a fence may belong to a
    text of several lines."""
    first = len(stop.text) - len(stop.text.lstrip())
    for offset in (first, stop.offset):
        if fence := _FENCE.match(stop.text, stop.text.rfind("\n", 0, offset) + 1):
            hint = f"delete the lines that begin with {fence[1]}"
            return stop.error(*fence.span(), "a line cannot be a fence of Markdown", hint)
    return None


_ASSIGNED = re.compile(r"([A-Za-z_]\w*) ?= ?(\S.*)")


def _assignment(stop: ParserStop) -> Diagnostic | None:
    """``key = value`` at the begin of a line: one where the parser stopped or its context began."""
    for offset in (stop.offset, stop.context_start):
        begin, line = stop.line(offset)
        if assigned := _ASSIGNED.fullmatch(line):
            key, value = assigned.groups()
            place = begin + line.index("=")
            message = f"expected ':' after {key!r}, got '='"
            return stop.error(place, place + 1, message, f"write {key}: {shorten(value)}")
    return None


def _comment(stop: ParserStop) -> Diagnostic | None:
    """A comment of JavaScript on the line of the error, on the line above, or earlier in the same
    brackets."""
    above, _ = stop.above(stop.offset)
    start = min(stop.context_start, above) if "flow" in stop.context else above
    begin, line = stop.line(stop.offset)
    match = _SLASHES.search(stop.text, stop.text.rfind("\n", 0, start) + 1, begin + len(line))
    if match is None:
        return None
    return stop.error(
        match.start(),
        match.end(),
        "a comment cannot begin with '//'",
        "begin it with #, or delete it",
    )


def _key_begin(stop: ParserStop) -> int:
    """The offset where the key before a ':' begins."""
    before = stop.text[: stop.offset].rstrip(_BLANKS)
    if before.endswith(("'", '"')):
        return max(0, before.rfind(before[-1], 0, -1))
    return max(before.rfind(letter) for letter in "\n,{[") + 1


def _token(stop: ParserStop) -> Diagnostic:
    """A character with which no token begins."""
    if stop.letter == "\t" or " tab " in stop.problem:
        return stop.error_here("expected spaces, got a tab", "indent with spaces")
    return stop.error_here(f"an unquoted text cannot begin with {stop.letter!r}", "quote the text")


def _second_colon(stop: ParserStop) -> Diagnostic:
    """A ':' after which the parser takes the rest of a text for a key."""
    begin, line = stop.line(stop.offset)
    first = re.search(r":(?:\s|$)", line)
    if first and begin + first.start() < stop.offset:
        return _colon_in_value(
            stop, line[: first.start()], line[first.end() : stop.offset - begin].strip()
        )
    above, over = stop.above(stop.offset)
    if stop.column(begin) > stop.column(above) or over.startswith("- "):
        key = _key(over)
        return stop.error(
            begin,
            stop.offset,
            "unexpected indentation",
            f"begin this line in the column of {key!r}",
        )
    return _colon_missing(stop, above, over)


def _colon_in_value(stop: ParserStop, key: str, value: str) -> Diagnostic:
    """``key: value: …`` on one line: either two keys, or a text that needs quotes."""
    key = key.removeprefix("- ").strip()
    if value.isidentifier() and value.islower():
        hint = (
            f"put {value!r} on the next line, indented below {key!r}; quote a text that "
            f"contains ': '"
        )
        return stop.error_here("unexpected second ':' on this line", hint)
    return stop.error_here("unexpected second ':' on this line", "quote a text that contains ': '")


def _simple_key(stop: ParserStop) -> Diagnostic:
    """A key without its ':'."""
    begin, line = stop.line(stop.context_start)
    return _colon_missing(stop, stop.context_start, line[stop.context_start - begin :])


def _colon_missing(stop: ParserStop, begin: int, line: str) -> Diagnostic:
    """A key without its ':' in ``line``, which begins at ``begin``."""
    glued = re.match(r"([^\s:'\"]+):([^\s:/].*)", line)
    if glued:
        key, value = glued.groups()
        return stop.error(
            begin,
            begin + len(key) + 1,
            "expected a space after ':'",
            f"write {key}: {shorten(value)}",
        )
    hint = "options stand in the first line" if line.startswith("--") else "a key ends with ':'"
    return stop.error(begin, begin + len(line), f"expected ':' after {shorten(line)!r}", hint)


def _block(stop: ParserStop) -> Diagnostic:
    """A line in a block that is neither the next key nor the next list item."""
    begin, line = stop.line(stop.offset)
    before = stop.text[begin : stop.offset].rstrip()
    if stop.letter in ("}", "]"):
        return stop.error_here(
            f"unmatched {stop.letter!r}", "delete it, or quote the text that it belongs to"
        )
    if before.endswith(("'", '"')):
        return _text_after_quote(stop, begin, before)
    if stop.letter == ":" and not before:
        return stop.error_here("expected a key before ':'")
    if before:
        return stop.error_here(
            f"unexpected {shorten(line[stop.offset - begin :])!r}",
            "quote it if it belongs to a text",
        )
    if stop.column(stop.offset) != stop.column(stop.context_start):
        hint = "lines of the same level begin in the same column"
        return stop.error(
            begin, begin + len(line), "the indentation of this line matches no line above", hint
        )
    if line.startswith("-"):
        hint = "write the key of the list on the line above, for example 'steps:'"
        return stop.error_here("expected a key, got a list item", hint)
    hint = "begin the line with '- ', or indent it below the list item that it belongs to"
    return stop.error(begin, begin + len(line), "expected a list item, got a key", hint)


def _text_after_quote(stop: ParserStop, begin: int, before: str) -> Diagnostic:
    """Text after a closing quote. ``before``: the line up to there, which begins at ``begin``."""
    quote = before[-1]
    opened = stop.text.rfind(quote, 0, begin) if before.count(quote) % 2 else -1
    if opened >= 0:  # the mistake is an open quote on a line above
        message = f"this quote is closed only by the {quote} of a later line"
        return stop.error(opened, opened + 1, message, f"close it with {quote} on its own line")
    return _operator(stop) or _quote_inside(stop, quote)


def _quote_inside(stop: ParserStop, quote: str) -> Diagnostic:
    """A quote inside a text in the same quotes."""
    escaped = "''" if quote == "'" else r"\""
    hint = f"quote the whole text; inside {quote}…{quote} write {escaped} for {quote}"
    return stop.error_here("unexpected text after the closing quote", hint)


def _operator(stop: ParserStop) -> Diagnostic | None:
    """An operator after a quoted text, as in ``'n is ' + n``. YAML takes only the quoted part as
    the value."""
    before = stop.text[: stop.offset].rstrip(_BLANKS)
    if not before.endswith(("'", '"')):
        return None
    # A letter directly after the quote: an apostrophe in single quotes, as in 'it's'.
    if stop.letter.isalnum() and before == stop.text[: stop.offset]:
        return _quote_inside(stop, before[-1])
    if stop.letter not in _OPERATORS:
        return None
    begin = before.rfind(before[-1], 0, -1)
    rest_of_value = re.compile(r"[^,\[\]{}\n]*").match(stop.text, stop.offset)
    whole = stop.text[begin : rest_of_value.end() if rest_of_value else None].rstrip()
    has_both_quotes = {"'", '"'} <= set(whole)
    hint = "quote the whole value" + ("" if has_both_quotes else f": {_quote_text(whole)}")
    return stop.error_here("unexpected operator after the closing quote", hint)


_CLOSE = {"{": "}", "[": "]"}
_BRACKET_OR_COMMENT = re.compile(
    r"""[\[\]{}]|(?<!\S)\#[^\n]*|(?<![^\s\[{,:])(?:"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
)
"""A bracket, or a comment or a quoted text with its brackets."""


def _flow(stop: ParserStop) -> Diagnostic:
    """A list in [] or a mapping in {} that is not closed where the parser expects it."""
    opening = stop.text[stop.context_start : stop.context_start + 1]
    closing = _CLOSE.get(opening, opening)
    if stop.letter in ("]", "}"):
        hint = f"close the {opening!r} with {closing!r} first"
        return stop.error_here(f"{stop.letter!r} cannot close a {opening!r}", hint)
    if stop.context_start in _open_brackets(stop):
        return _never_closed(stop, stop.context_start)
    if unquoted := _operator(stop) or _needs_quotes(stop, stop.offset):
        return unquoted
    if stop.letter == ":":
        begin, line = stop.line(stop.offset)
        begin_of_opening, _ = stop.line(stop.context_start)
        if begin_of_opening != begin and not re.search(r":\s", line[: stop.offset - begin]):
            return stop.error(
                begin, stop.offset, "expected ',' before this", "end the line above with ','"
            )
        word = re.search(r"\s(\w+)$", line[: stop.offset - begin])
        comma = f", or put a comma before {word[1]!r}" if word else ""
        hint = f"quote a text that contains ': '{comma}"
        return stop.error_here("unexpected second ':'", hint)
    return stop.error_here(
        "expected ',' before this", f"separate the entries of {opening}{closing} with ','"
    )


def _open_brackets(stop: ParserStop) -> list[int]:
    """The offsets of the brackets that are never closed, outer brackets first."""
    opened: list[int] = []
    for match in _BRACKET_OR_COMMENT.finditer(stop.text):
        if match[0] in _CLOSE:
            opened.append(match.start())
        elif opened and match[0] in "]}":
            opened.pop()
    return opened


def _never_closed(stop: ParserStop, begin: int) -> Diagnostic:
    """The bracket at ``begin``, which is never closed."""
    opening = stop.text[begin]
    for match in _BRACKET_OR_COMMENT.finditer(stop.text, begin):
        if match[0].startswith("#") and _CLOSE[opening] in match[0]:
            message = f"' #' begins a comment, in which a {_CLOSE[opening]!r} closes nothing"
            hint = "quote the text that contains ' #'"
            return stop.error(match.start(), match.end(), message, hint)
    return stop.error(
        begin, begin + 1, f"this {opening!r} is never closed", f"close it with {_CLOSE[opening]!r}"
    )


def _needs_quotes(stop: ParserStop, stopped: int) -> Diagnostic | None:
    """A text between { } or [ ] that needs quotes because it has a bracket or a brace: {a:
    rows[0]}."""
    begin, line = stop.line(stopped)
    for pattern, bracket, group in ((_IN_FLOW, "[", 1), (_FORMATTED, "{", 0)):
        for match in pattern.finditer(line):
            text = match[group].rstrip(_BLANKS)
            start = begin + match.start(group)
            if start <= stopped <= start + len(text) and not _in_quotes(line, start - begin):
                message = f"a text that contains {bracket!r} needs quotes between {{ }} and [ ]"
                hint = f"quote the text: {_quote_text(text)}"
                hint += (
                    "; an expression has no f-strings: join texts with +" if bracket == "{" else ""
                )
                return stop.error(start, start + len(text), message, hint)
    return None


def _in_quotes(line: str, offset: int) -> bool:
    return line.count('"', 0, offset) % 2 == 1 or line.count("'", 0, offset) % 2 == 1


def _quote_text(text: str) -> str:
    return f"'{text}'" if "'" not in text else f'"{text}"'


def _content(stop: ParserStop) -> Diagnostic:
    """A sign where a value must stand."""
    if stop.letter in ("]", "}"):
        return stop.error_here(f"unmatched {stop.letter!r}", "quote it if it belongs to a text")
    if stop.letter:
        message = f"expected a value before {stop.letter!r}"
        hint = "delete it, or quote the text that it belongs to"
        return stop.error_here(message, hint)
    opened = _open_brackets(stop)
    return _never_closed(stop, opened[-1]) if opened else stop.error_here("expected a value")


def _quote(stop: ParserStop) -> Diagnostic:
    """A quote that is never closed."""
    quote = stop.text[stop.context_start : stop.context_start + 1]
    if unquoted := _needs_quotes(stop, stop.context_start):
        return unquoted
    return stop.error(
        stop.context_start,
        stop.context_start + 1,
        "this quote is never closed",
        f"close it with {quote}",
    )


def _escape(stop: ParserStop) -> Diagnostic:
    """An unknown escape in double quotes."""
    begin = stop.text.rfind("\\", stop.context_start, stop.offset + 1)
    begin = stop.offset if begin < 0 else begin
    if "Unicode" in stop.problem:
        message = f"{stop.text[begin : begin + 6]} is not a character"
        return stop.error(
            begin, begin + 6, message, r"\u must be followed by the four digits of a character"
        )
    if "hex" in stop.problem:
        kind = stop.text[begin + 1 : begin + 2]
        digits = {"x": 2, "u": 4, "U": 8}.get(kind, 0)
        message = rf"\{kind} must be followed by {digits} hexadecimal digits"
        return stop.error(begin, stop.offset + 1, message, r"write \\ for a backslash")
    hint = r"write \\ for a backslash, or put the text in single quotes"
    return stop.error(begin, begin + 2, f"unknown escape {stop.text[begin : begin + 2]}", hint)


def _sigil(stop: ParserStop) -> Diagnostic:
    """A text that begins with a sign of YAML: ``*`` or ``&``."""
    letter = stop.text[stop.context_start : stop.context_start + 1]
    if unquoted := _needs_quotes(stop, stop.context_start):
        return unquoted
    hint = "quote the text" + ("; list items begin with '- '" if letter == "*" else "")
    return stop.error(
        stop.context_start,
        stop.context_start + 1,
        f"an unquoted text cannot begin with {letter!r}",
        hint,
    )


def _header(stop: ParserStop) -> Diagnostic:
    """A text on the line of the ``|`` or ``>`` before it."""
    sign = stop.text[stop.context_start : stop.context_start + 1]
    return stop.error_here(
        f"unexpected text after {sign!r}", "put the text on the next lines, indented"
    )


def _item(stop: ParserStop) -> Diagnostic:
    """A list item on the line of its key."""
    hint = "put it on the next line, or write [a, b]"
    return stop.error_here("a list item cannot begin on the line of its key", hint)


def _outside(stop: ParserStop) -> Diagnostic:
    """Text after the end of the document."""
    begin, line = stop.line(stop.offset)
    hint = "begin another document with a line '---'"
    return stop.error(
        stop.offset, begin + len(line), "unexpected text after the end of the document", hint
    )


def _tag(stop: ParserStop) -> Diagnostic:
    """An unknown tag."""
    match = re.compile(r"![^\s,\[\]{}]*").match(stop.text, stop.context_start)
    span = (
        Span(stop.source, *match.span())
        if match
        else Span(stop.source, stop.context_start, stop.context_start + 1)
    )
    hint = "the only tag is !expr; quote a text that begins with '!'"
    return Diagnostic("yaml.tag", f"unknown tag {span.text!r}", span, hint)


def _directive(stop: ParserStop) -> Diagnostic:
    """A line that begins with ``%``."""
    begin, line = stop.line(stop.offset)
    hint = "delete the line; quote a text that begins with '%'"
    return stop.error(begin, begin + len(line), "a line cannot begin with '%'", hint)


def _key(line: str) -> str:
    return line.removeprefix("- ").split(":")[0]


MISTAKES: tuple[tuple[re.Pattern[str], Callable[[ParserStop], Diagnostic]], ...] = (
    (re.compile(r"cannot start any token|a tab character|mapping keys are not allowed"), _token),
    (re.compile(r"mapping values are not allowed"), _second_colon),
    (re.compile(r"could not find expected ':'"), _simple_key),
    (re.compile(r"sequence entries are not allowed"), _item),
    (re.compile(r"flow (mapping|sequence); .*expected ',' or"), _flow),
    (re.compile(r"node content"), _content),
    (re.compile(r"quoted scalar; found unexpected (end|document)"), _quote),
    (re.compile(r"quoted scalar; "), _escape),
    (re.compile(r"scanning an (alias|anchor)"), _sigil),
    (re.compile(r"scanning a block scalar"), _header),
    (re.compile(r"tag handle|(scanning|parsing) a tag"), _tag),
    (re.compile(r"directive|incompatible YAML"), _directive),
    (re.compile(r"<document start>"), _outside),
    (re.compile(r"block (mapping|collection); "), _block),
)
"""The function for each message of the parser, ``context`` and ``problem``; the first match
counts."""
