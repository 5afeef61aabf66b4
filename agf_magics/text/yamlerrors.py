"""What a YAML parser says is wrong, as its author would be told: a sentence, the very place, what would be right.

The parser's own words tell its state (``did not find expected key``); here each becomes the slip that usually is behind
it. Two parsers say nearly the same in different words, the C one and the one in Python: a pattern fits both.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from .diagnostics import Diagnostic
from .source import Source, Span

LONGEST_KEY = 1024
"""Of a key without '? ' before it; a rule of YAML's."""

_BLANKS = " \t\r"
_SLASHES = re.compile(r"(?<![^\s,{\[])//(?=\s|$)", re.MULTILINE)
_IN_FLOW = re.compile(r"""[:,\[{]\s*([^\s,:"'\[\]{}][^,:"'\[\]{}]*(?<=\S)\[[^][]*\][^,\[\]{}]*)[,}\]]""")
"""A text with brackets in it, as a value between braces."""
_BRACED = re.compile(r"""[:,\[{]\s*([^\s,:\[\]{}][^,:\[\]{}]*\{[^{}]*\}[^,\[\]{}]*)""")
"""The same with braces in it."""


class Slip(NamedTuple):
    """What a parser told."""

    source: Source
    text: str
    """Of the source, every line's end with a \\n."""
    problem: str
    at: int
    """Where it stopped."""
    context: str
    since: int
    """Where that began inside which it stopped."""

    @property
    def letter(self) -> str:
        return self.text[self.at : self.at + 1]

    def line(self, at: int) -> tuple[int, str]:
        """The line of ``at`` without its indentation, and where it begins."""
        begin = self.text.rfind("\n", 0, at) + 1
        end = self.text.find("\n", at)
        line = self.text[begin : len(self.text) if end < 0 else end].rstrip(_BLANKS)
        return begin + len(line) - len(line.lstrip(_BLANKS)), line.lstrip(_BLANKS)

    def above(self, at: int) -> tuple[int, str]:
        """The nearest line with text above that of ``at``."""
        begin = self.text.rfind("\n", 0, at) + 1
        return self.line(len(self.text[:begin].rstrip()))

    def column(self, at: int) -> int:
        return at - (self.text.rfind("\n", 0, at) + 1)

    def told(self, start: int, end: int, message: str, hint: str | None = None) -> Diagnostic:
        start = min(start, len(self.text))
        return Diagnostic("yaml.syntax", message, Span(self.source, start, max(start, min(end, len(self.text)))), hint)

    def here(self, message: str, hint: str | None = None) -> Diagnostic:
        return self.told(self.at, self.at + 1, message, hint)


def explain(source: Source, problem: str, at: int, context: str, since: int) -> Diagnostic:
    """The diagnostic for a parser's ``problem`` at offset ``at``, found in a ``context`` that began at ``since``."""
    slip = Slip(source, re.sub("\r(?!\n)", "\n", source.text), problem, at, context, since)
    if comment := _comment(slip):
        return comment
    begin = _key_begin(slip)
    if slip.letter == ":" and at - begin > LONGEST_KEY:
        return slip.told(begin, at, f"a key is longer than {LONGEST_KEY:,} characters", "YAML reads no longer one")
    for pattern, tell in SLIPS:
        if pattern.search(f"{context}; {problem}"):
            return tell(slip)
    return slip.here(f"this is not valid YAML: {problem}")


def _comment(slip: Slip) -> Diagnostic | None:
    """A comment as in JavaScript: on the line of the error, on the one above, or earlier in the same brackets."""
    above, _ = slip.above(slip.at)
    start = min(slip.since, above) if "flow" in slip.context else above
    begin, line = slip.line(slip.at)
    found = _SLASHES.search(slip.text, slip.text.rfind("\n", 0, start) + 1, begin + len(line))
    if found is None:
        return None
    return slip.told(found.start(), found.end(), "a comment cannot begin with '//'", "begin it with #, or delete it")


def _key_begin(slip: Slip) -> int:
    """Where the key before a ':' begins."""
    before = slip.text[: slip.at].rstrip(_BLANKS)
    if before.endswith(("'", '"')):
        return max(0, before.rfind(before[-1], 0, -1))
    return max(before.rfind(letter) for letter in "\n,{[") + 1


def _token(slip: Slip) -> Diagnostic:
    if slip.letter == "\t" or " tab " in slip.problem:
        return slip.here("a tab where blanks belong", "indent with blanks")
    return slip.here(f"a text cannot begin with {slip.letter!r}", "quote the text")


def _second_colon(slip: Slip) -> Diagnostic:
    """A ':' that makes a key of what the parser takes for the rest of a text."""
    begin, line = slip.line(slip.at)
    first = re.search(r":(?:\s|$)", line)
    if first and begin + first.start() < slip.at:
        nested = re.match(r"(?:- )?([\w-]+):\s+([a-z_]+):\s+(\S.*)", line)
        hint = "quote a text that holds ': '"
        if nested:
            key, inner, rest = nested.groups()
            hint = f"write {key}: {{{inner}: {_cut(rest)}}}, or {inner}: on a line of its own; {hint}"
        return slip.here("a second ':' makes a key of what should be one text", hint)
    above, over = slip.above(slip.at)
    if slip.column(begin) > slip.column(above) or over.startswith("- "):
        message = "this line is indented as if it went on with the one above"
        return slip.told(begin, slip.at, message, f"put it below the beginning of {_key(over)!r}")
    return _colon_missing(slip, above, over)


def _simple_key(slip: Slip) -> Diagnostic:
    begin, line = slip.line(slip.since)
    return _colon_missing(slip, slip.since, line[slip.since - begin :])


def _colon_missing(slip: Slip, at: int, line: str) -> Diagnostic:
    glued = re.match(r"([^\s:'\"]+):([^\s:/].*)", line)
    if glued:
        key, value = glued.groups()
        return slip.told(at, at + len(key) + 1, "a blank is missing after ':'", f"write {key}: {_cut(value)}")
    return slip.told(at, at + len(line), f"a ':' is missing after {_cut(line)!r}", "a key ends with ':'")


def _block(slip: Slip) -> Diagnostic:
    """Something in a block that is neither its next key nor its next entry."""
    begin, line = slip.line(slip.at)
    before = slip.text[begin : slip.at].rstrip()
    if slip.letter in ("}", "]"):
        return slip.here(f"this {slip.letter!r} closes nothing", "delete it, or quote the text it belongs to")
    if before.endswith(("'", '"')):
        quote = before[-1]
        opened = slip.text.rfind(quote, 0, begin) if before.count(quote) % 2 else -1
        if opened >= 0:  # further up: that line's slip, most likely
            message = f"this quote is closed only by the {quote} of a later line"
            return slip.told(opened, opened + 1, message, f"close it with {quote} on its own line")
        inside = "''" if quote == "'" else r"\""
        hint = f"quote the whole text; {quote} between {quote} is written {inside}"
        return slip.here("text goes on after its closing quote", hint)
    if slip.letter == ":" and not before:
        return slip.here("a key is missing before ':'")
    if before:
        return slip.here(f"{_cut(line[slip.at - begin :])!r} cannot stand here", "quote the text if it is one")
    if slip.column(slip.at) != slip.column(slip.since):
        hint = f"begin {'each - ' if line.startswith('-') else 'lines that belong together '}in the same column"
        return slip.told(begin, begin + len(line), "the indentation of this line fits no line above", hint)
    if line.startswith("-"):
        hint = "write the key of the list on the line above (for example steps:), or indent it below its key"
        return slip.here("a list entry needs a key above it", hint)
    return slip.told(begin, begin + len(line), "a key among list entries", "begin it with '- ', or indent it")


_CLOSE = {"{": "}", "[": "]"}


def _flow(slip: Slip) -> Diagnostic:
    """A list in [] or a mapping in {} that is not closed where the parser expects it."""
    opening = slip.text[slip.since : slip.since + 1]
    closing = _CLOSE.get(opening, opening)
    if slip.letter and slip.letter in "]}":
        hint = f"close the {opening!r} with {closing!r} first"
        return slip.here(f"{slip.letter!r} cannot close a {opening!r}", hint)
    depth = 0
    for letter in slip.text[slip.since :]:
        depth += (letter in "[{") - (letter in "]}")
        if depth == 0:
            break
    if depth:
        return slip.told(slip.since, slip.since + 1, f"this {opening!r} is never closed", f"close it with {closing!r}")
    if glued := _glued(slip, slip.at):
        return glued
    if slip.letter == ":":
        begin, line = slip.line(slip.at)
        if slip.line(slip.since)[0] != begin and not re.search(r":\s", line[: slip.at - begin]):
            return slip.told(begin, slip.at, "a ',' is missing before this", "end the line above with ','")
        return slip.here("a second ':' makes a key of what should be one text", "quote a text that holds ': '")
    begin, line = slip.line(slip.at)
    before = line[: slip.at - begin]
    if before.endswith(("'", '"')) and (before.count(before[-1]) % 2 == 0 or before.endswith('""')):
        other = '"' if before[-1] == "'" else "'"
        hint = f"{before[-1]} inside a text ends it: write {other} there; between two entries write a ','"
        return slip.here("text follows a closing quote", hint)
    return slip.here("a ',' is missing before this", f"between the entries of {opening}{closing} stands a ','")


def _glued(slip: Slip, stopped: int) -> Diagnostic | None:
    """A bracket within a text between { } or [ ]: it begins a list of its own there, as in {a: rows[0]}."""
    begin, line = slip.line(stopped)
    for found in _BRACED.finditer(line):
        if found.start(1) <= stopped - begin < found.end(1) and not _quoted(line, found.start(1)):
            text = found[1].rstrip(_BLANKS)
            hint = f"quote the text: {_between_quotes(text)}"
            hint += "; an expression has no f-strings: join texts with +" if text[:2] in ("f'", 'f"') else ""
            place = begin + found.start(1)
            message = "a text that holds braces is quoted between { } and [ ]"
            return slip.told(place, place + len(text), message, hint)
    for found in _IN_FLOW.finditer(line):
        text = found[1].rstrip(_BLANKS)
        start = begin + found.start(1)
        end = start + len(text)
        if start <= stopped <= end and not _quoted(line, start - begin):
            hint = f"quote the text: {_between_quotes(text)}"
            return slip.told(start, end, "a text that holds a bracket is quoted between { } and [ ]", hint)
    return None


def _quoted(line: str, at: int) -> bool:
    """Whether a quote is open there."""
    return line.count('"', 0, at) % 2 == 1 or line.count("'", 0, at) % 2 == 1


def _between_quotes(text: str) -> str:
    return f"'{text}'" if "'" not in text else f'"{text}"'


def _content(slip: Slip) -> Diagnostic:
    if slip.letter and slip.letter in "]}":
        return slip.here(f"this {slip.letter!r} closes nothing", "quote the text if it is one")
    hint = "delete it, or quote the text it belongs to"
    return slip.here(f"a value is missing before {slip.letter!r}" if slip.letter else "a value is missing", hint)


def _quote(slip: Slip) -> Diagnostic:
    quote = slip.text[slip.since : slip.since + 1]
    return slip.told(slip.since, slip.since + 1, "this quote is never closed", f"close it with {quote}")


def _escape(slip: Slip) -> Diagnostic:
    begin = slip.text.rfind("\\", slip.since, slip.at + 1)
    begin = slip.at if begin < 0 else begin
    if "Unicode" in slip.problem:
        message = f"{slip.text[begin : begin + 6]} is no character"
        return slip.told(begin, begin + 6, message, r"\u is followed by the four digits of one")
    if "hex" in slip.problem:
        kind = slip.text[begin + 1 : begin + 2]
        digits = {"x": 2, "u": 4, "U": 8}.get(kind, 0)
        hint = rf"\{kind} is followed by {digits} digits; \\ is a backslash"
        return slip.told(begin, slip.at + 1, "an escape lacks its digits", hint)
    message = f"{slip.text[begin : begin + 2]} is no escape"
    return slip.told(begin, begin + 2, message, r"write \\ for a backslash, or put the text between single quotes")


def _sigil(slip: Slip) -> Diagnostic:
    letter = slip.text[slip.since : slip.since + 1]
    if glued := _glued(slip, slip.since):
        return glued
    hint = "quote the text" + ("; the entries of a list begin with '- '" if letter == "*" else "")
    return slip.told(slip.since, slip.since + 1, f"a text cannot begin with {letter!r}", hint)


def _header(slip: Slip) -> Diagnostic:
    sign = slip.text[slip.since : slip.since + 1]
    hint = "put the text on the next lines, indented"
    return slip.here(f"behind {sign!r} stands nothing else on its line", hint)


def _entry(slip: Slip) -> Diagnostic:
    return slip.here("a list cannot begin behind a key on its line", "put it on the next line, or write [a, b]")


def _outside(slip: Slip) -> Diagnostic:
    begin, line = slip.line(slip.at)
    end = begin + len(line)
    return slip.told(slip.at, end, "this stands behind the end of the document", "'---' on a line begins another one")


def _tag(slip: Slip) -> Diagnostic:
    found = re.compile(r"![^\s,\[\]{}]*").match(slip.text, slip.since)
    span = Span(slip.source, *found.span()) if found else Span(slip.source, slip.since, slip.since + 1)
    hint = "the only tag is !expr; quote a text that begins with '!'"
    return Diagnostic("yaml.tag", f"unknown tag {span.text!r}", span, hint)


def _directive(slip: Slip) -> Diagnostic:
    begin, line = slip.line(slip.at)
    return slip.told(
        begin, begin + len(line), "a line cannot begin with '%'", "delete it; quote a text that begins with '%'"
    )


def _key(line: str) -> str:
    return line.removeprefix("- ").split(":")[0]


def _cut(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"


SLIPS: tuple[tuple[re.Pattern[str], Callable[[Slip], Diagnostic]], ...] = (
    (re.compile(r"cannot start any token|a tab character|mapping keys are not allowed"), _token),
    (re.compile(r"mapping values are not allowed"), _second_colon),
    (re.compile(r"could not find expected ':'"), _simple_key),
    (re.compile(r"sequence entries are not allowed"), _entry),
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
"""By the context and the problem, the first that fits."""
