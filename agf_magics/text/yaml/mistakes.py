"""Errors of the YAML parser in the author's words: one sentence, the place of the mistake, what to
write.

The parser's own messages describe its state (``did not find expected key``). `MISTAKES` maps each
of them to the mistake that usually causes it. The C parser and the one in Python use nearly the
same words; each pattern matches both.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from ..diagnostics import Diagnostic
from ..shorten import shorten
from ..source import Source, Span

LONGEST_KEY = 1024
"""The longest key without '? ' before it; a rule of YAML's."""

_BLANKS = " \t\r"
_SLASHES = re.compile(r"(?<![^\s,{\[])//(?=\s|$)", re.MULTILINE)
_IN_FLOW = re.compile(
    r"""[:,\[{]\s*([^\s,:"'\[\]{}][^,:"'\[\]{}]*(?:(?<=\S)|(?<=[|&+*/=<>-]\s))\[[^][]*\][^,\[\]{}]*)[,}\]]"""
)
"""An unquoted text with brackets, as a value between braces."""
_FORMATTED = re.compile(r"""\b[fF](?:"[^"'{}]*\{[^"']*"|'[^"'{}]*\{[^"']*')""")
"""Python's f"{x}", as a value between braces."""
_OPERATORS = frozenset("+-*/%=<>!|&")


class ParserStop(NamedTuple):
    """Where and why the parser stopped."""

    source: Source
    text: str
    """The source with all line ends as \\n."""
    problem: str
    at: int
    """Where the parser stopped."""
    context: str
    since: int
    """Where the construct begins inside which it stopped."""

    @property
    def letter(self) -> str:
        return self.text[self.at : self.at + 1]

    def line(self, at: int) -> tuple[int, str]:
        """The line of ``at`` without its indentation, and where it begins."""
        begin = self.text.rfind("\n", 0, at) + 1
        line = self.text[begin:].partition("\n")[0].rstrip(_BLANKS)
        return begin + len(line) - len(line.lstrip(_BLANKS)), line.lstrip(_BLANKS)

    def above(self, at: int) -> tuple[int, str]:
        """The nearest line with text above the line of ``at``."""
        begin = self.text.rfind("\n", 0, at) + 1
        return self.line(len(self.text[:begin].rstrip()))

    def column(self, at: int) -> int:
        return at - (self.text.rfind("\n", 0, at) + 1)

    def error(self, start: int, end: int, message: str, hint: str | None = None) -> Diagnostic:
        start = min(start, len(self.text))
        return Diagnostic(
            "yaml.syntax",
            message,
            Span(self.source, start, max(start, min(end, len(self.text)))),
            hint,
        )

    def error_here(self, message: str, hint: str | None = None) -> Diagnostic:
        return self.error(self.at, self.at + 1, message, hint)


def explain(source: Source, problem: str, at: int, context: str, since: int) -> Diagnostic:
    """The diagnostic for a parser's ``problem`` at offset ``at``, found in a ``context`` that began
    at ``since``."""
    found = ParserStop(source, re.sub("\r(?!\n)", "\n", source.text), problem, at, context, since)
    begin = _key_begin(found)
    if found.letter == ":" and at - begin > LONGEST_KEY:
        return found.error(
            begin, at, f"a key is longer than {LONGEST_KEY:,} characters", "shorten it"
        )
    if fence := _fence(found):
        return fence
    if comment := _comment(found):
        return comment
    for pattern, describe in MISTAKES:
        if pattern.search(f"{context}; {problem}"):
            return describe(found)
    return found.error_here(f"this is not valid YAML: {problem}")


_FENCE = re.compile(r"[ \t]*(```|~~~)[\w-]*(?=[ \t]*$)", re.MULTILINE)
"""The line around code in a page or in the answer of a chat, from which the text was pasted."""


def _fence(found: ParserStop) -> Diagnostic | None:
    """Where the parser stopped, or the first line: elsewhere a fence may be in a text of several
    lines."""
    first = len(found.text) - len(found.text.lstrip())
    for at in (first, found.at):
        if fence := _FENCE.match(found.text, found.text.rfind("\n", 0, at) + 1):
            hint = f"delete the lines that begin with {fence[1]}"
            return found.error(*fence.span(), "a line cannot be a fence of Markdown", hint)
    return None


def _comment(found: ParserStop) -> Diagnostic | None:
    """A comment as in JavaScript: on the line of the error, on the one above, or earlier in the
    same brackets."""
    above, _ = found.above(found.at)
    start = min(found.since, above) if "flow" in found.context else above
    begin, line = found.line(found.at)
    match = _SLASHES.search(found.text, found.text.rfind("\n", 0, start) + 1, begin + len(line))
    if match is None:
        return None
    return found.error(
        match.start(),
        match.end(),
        "a comment cannot begin with '//'",
        "begin it with #, or delete it",
    )


def _key_begin(found: ParserStop) -> int:
    """Where the key before a ':' begins."""
    before = found.text[: found.at].rstrip(_BLANKS)
    if before.endswith(("'", '"')):
        return max(0, before.rfind(before[-1], 0, -1))
    return max(before.rfind(letter) for letter in "\n,{[") + 1


def _token(found: ParserStop) -> Diagnostic:
    if found.letter == "\t" or " tab " in found.problem:
        return found.error_here("expected spaces, got a tab", "indent with spaces")
    return found.error_here(
        f"an unquoted text cannot begin with {found.letter!r}", "quote the text"
    )


def _second_colon(found: ParserStop) -> Diagnostic:
    """A ':' that makes a key of what the parser reads as the rest of a text."""
    begin, line = found.line(found.at)
    first = re.search(r":(?:\s|$)", line)
    if first and begin + first.start() < found.at:
        return _colon_in_value(
            found, line[: first.start()], line[first.end() : found.at - begin].strip()
        )
    above, over = found.above(found.at)
    if found.column(begin) > found.column(above) or over.startswith("- "):
        key = _key(over)
        return found.error(
            begin, found.at, "unexpected indentation", f"begin this line in the column of {key!r}"
        )
    return _colon_missing(found, above, over)


def _colon_in_value(found: ParserStop, key: str, value: str) -> Diagnostic:
    """``key: value: …`` on one line: two keys, or a text that needs quotes."""
    key = key.removeprefix("- ").strip()
    if value.isidentifier() and value.islower():
        hint = (
            f"put {value!r} on the next line, indented below {key!r}; quote a text that "
            f"contains ': '"
        )
        return found.error_here("unexpected second ':' on this line", hint)
    return found.error_here("unexpected second ':' on this line", "quote a text that contains ': '")


def _simple_key(found: ParserStop) -> Diagnostic:
    begin, line = found.line(found.since)
    return _colon_missing(found, found.since, line[found.since - begin :])


def _colon_missing(found: ParserStop, at: int, line: str) -> Diagnostic:
    glued = re.match(r"([^\s:'\"]+):([^\s:/].*)", line)
    if glued:
        key, value = glued.groups()
        return found.error(
            at, at + len(key) + 1, "expected a space after ':'", f"write {key}: {shorten(value)}"
        )
    hint = "options stand in the first line" if line.startswith("--") else "a key ends with ':'"
    return found.error(at, at + len(line), f"expected ':' after {shorten(line)!r}", hint)


def _block(found: ParserStop) -> Diagnostic:
    """Something in a block that is neither its next key nor its next list item."""
    begin, line = found.line(found.at)
    before = found.text[begin : found.at].rstrip()
    if found.letter in ("}", "]"):
        return found.error_here(
            f"unmatched {found.letter!r}", "delete it, or quote the text that it belongs to"
        )
    if before.endswith(("'", '"')):
        return _text_after_quote(found, begin, before)
    if found.letter == ":" and not before:
        return found.error_here("expected a key before ':'")
    if before:
        return found.error_here(
            f"unexpected {shorten(line[found.at - begin :])!r}", "quote it if it belongs to a text"
        )
    if found.column(found.at) != found.column(found.since):
        hint = "lines of the same level begin in the same column"
        return found.error(
            begin, begin + len(line), "the indentation of this line matches no line above", hint
        )
    if line.startswith("-"):
        hint = "write the key of the list on the line above, for example 'steps:'"
        return found.error_here("expected a key, got a list item", hint)
    hint = "begin the line with '- ', or indent it below the list item that it belongs to"
    return found.error(begin, begin + len(line), "expected a list item, got a key", hint)


def _text_after_quote(found: ParserStop, begin: int, before: str) -> Diagnostic:
    quote = before[-1]
    opened = found.text.rfind(quote, 0, begin) if before.count(quote) % 2 else -1
    if opened >= 0:  # a quote on a line above: the mistake is there
        message = f"this quote is closed only by the {quote} of a later line"
        return found.error(opened, opened + 1, message, f"close it with {quote} on its own line")
    return _operator(found) or _quote_inside(found, quote)


def _quote_inside(found: ParserStop, quote: str) -> Diagnostic:
    escaped = "''" if quote == "'" else r"\""
    hint = f"quote the whole text; inside {quote}…{quote} write {escaped} for {quote}"
    return found.error_here("unexpected text after the closing quote", hint)


def _operator(found: ParserStop) -> Diagnostic | None:
    """An operator after a quoted text, as in ``'n is ' + n``: YAML takes only the first part for
    the value."""
    before = found.text[: found.at].rstrip(_BLANKS)
    if not before.endswith(("'", '"')):
        return None
    if found.letter.isalnum() and before == found.text[: found.at]:  # 'it's'
        return _quote_inside(found, before[-1])
    if found.letter not in _OPERATORS:
        return None
    begin = before.rfind(before[-1], 0, -1)
    rest = re.compile(r"[^,\[\]{}\n]*").match(found.text, found.at)
    whole = found.text[begin : rest.end() if rest else None].rstrip()
    hint = "quote the whole value" + (f": {_quoted(whole)}" if not {"'", '"'} <= set(whole) else "")
    return found.error_here("unexpected operator after the closing quote", hint)


_CLOSE = {"{": "}", "[": "]"}


def _flow(found: ParserStop) -> Diagnostic:
    """A list in [] or a mapping in {} that is not closed where the parser expects it."""
    opening = found.text[found.since : found.since + 1]
    closing = _CLOSE.get(opening, opening)
    if found.letter in ("]", "}"):
        hint = f"close the {opening!r} with {closing!r} first"
        return found.error_here(f"{found.letter!r} cannot close a {opening!r}", hint)
    if found.since in _unclosed(found):
        return _never_closed(found, found.since)
    if unquoted := _operator(found) or _unquoted(found, found.at):
        return unquoted
    if found.letter == ":":
        begin, line = found.line(found.at)
        if found.line(found.since)[0] != begin and not re.search(r":\s", line[: found.at - begin]):
            return found.error(
                begin, found.at, "expected ',' before this", "end the line above with ','"
            )
        return found.error_here("unexpected second ':'", "quote a text that contains ': '")
    return found.error_here(
        "expected ',' before this", f"separate the entries of {opening}{closing} with ','"
    )


def _unclosed(found: ParserStop) -> list[int]:
    """Where the brackets are that are never closed, outer ones first."""
    opened: list[int] = []
    for match in re.finditer(r"[\[\]{}]", found.text):
        if match[0] in _CLOSE:
            opened.append(match.start())
        elif opened:
            opened.pop()
    return opened


def _never_closed(found: ParserStop, at: int) -> Diagnostic:
    opening = found.text[at]
    return found.error(
        at, at + 1, f"this {opening!r} is never closed", f"close it with {_CLOSE[opening]!r}"
    )


def _unquoted(found: ParserStop, stopped: int) -> Diagnostic | None:
    """A text between { } or [ ] that needs quotes for a bracket, as in {a: rows[0]}, or for a
    brace."""
    begin, line = found.line(stopped)
    for pattern, bracket, group in ((_IN_FLOW, "[", 1), (_FORMATTED, "{", 0)):
        for match in pattern.finditer(line):
            text = match[group].rstrip(_BLANKS)
            start = begin + match.start(group)
            if start <= stopped <= start + len(text) and not _in_quotes(line, start - begin):
                message = f"a text that contains {bracket!r} needs quotes between {{ }} and [ ]"
                hint = f"quote the text: {_quoted(text)}"
                hint += (
                    "; an expression has no f-strings: join texts with +" if bracket == "{" else ""
                )
                return found.error(start, start + len(text), message, hint)
    return None


def _in_quotes(line: str, at: int) -> bool:
    return line.count('"', 0, at) % 2 == 1 or line.count("'", 0, at) % 2 == 1


def _quoted(text: str) -> str:
    return f"'{text}'" if "'" not in text else f'"{text}"'


def _content(found: ParserStop) -> Diagnostic:
    if found.letter in ("]", "}"):
        return found.error_here(f"unmatched {found.letter!r}", "quote it if it belongs to a text")
    if found.letter:
        message, hint = (
            f"expected a value before {found.letter!r}",
            "delete it, or quote the text that it belongs to",
        )
        return found.error_here(message, hint)
    opened = _unclosed(found)
    return _never_closed(found, opened[-1]) if opened else found.error_here("expected a value")


def _quote(found: ParserStop) -> Diagnostic:
    quote = found.text[found.since : found.since + 1]
    if unquoted := _unquoted(found, found.since):
        return unquoted
    return found.error(
        found.since, found.since + 1, "this quote is never closed", f"close it with {quote}"
    )


def _escape(found: ParserStop) -> Diagnostic:
    begin = found.text.rfind("\\", found.since, found.at + 1)
    begin = found.at if begin < 0 else begin
    if "Unicode" in found.problem:
        message = f"{found.text[begin : begin + 6]} is not a character"
        return found.error(
            begin, begin + 6, message, r"\u must be followed by the four digits of a character"
        )
    if "hex" in found.problem:
        kind = found.text[begin + 1 : begin + 2]
        digits = {"x": 2, "u": 4, "U": 8}.get(kind, 0)
        message = rf"\{kind} must be followed by {digits} hexadecimal digits"
        return found.error(begin, found.at + 1, message, r"write \\ for a backslash")
    hint = r"write \\ for a backslash, or put the text in single quotes"
    return found.error(begin, begin + 2, f"unknown escape {found.text[begin : begin + 2]}", hint)


def _sigil(found: ParserStop) -> Diagnostic:
    letter = found.text[found.since : found.since + 1]
    if unquoted := _unquoted(found, found.since):
        return unquoted
    hint = "quote the text" + ("; list items begin with '- '" if letter == "*" else "")
    return found.error(
        found.since, found.since + 1, f"an unquoted text cannot begin with {letter!r}", hint
    )


def _header(found: ParserStop) -> Diagnostic:
    sign = found.text[found.since : found.since + 1]
    return found.error_here(
        f"unexpected text after {sign!r}", "put the text on the next lines, indented"
    )


def _item(found: ParserStop) -> Diagnostic:
    hint = "put it on the next line, or write [a, b]"
    return found.error_here("a list item cannot begin on the line of its key", hint)


def _outside(found: ParserStop) -> Diagnostic:
    begin, line = found.line(found.at)
    hint = "begin another document with a line '---'"
    return found.error(
        found.at, begin + len(line), "unexpected text after the end of the document", hint
    )


def _tag(found: ParserStop) -> Diagnostic:
    match = re.compile(r"![^\s,\[\]{}]*").match(found.text, found.since)
    span = (
        Span(found.source, *match.span())
        if match
        else Span(found.source, found.since, found.since + 1)
    )
    hint = "the only tag is !expr; quote a text that begins with '!'"
    return Diagnostic("yaml.tag", f"unknown tag {span.text!r}", span, hint)


def _directive(found: ParserStop) -> Diagnostic:
    begin, line = found.line(found.at)
    hint = "delete the line; quote a text that begins with '%'"
    return found.error(begin, begin + len(line), "a line cannot begin with '%'", hint)


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
"""By context and problem; the first match counts."""
