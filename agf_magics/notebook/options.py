"""The line of a magic: words with their places, options from one table. What the words stand for is in `given`.

Our own splitter, because IPython's keeps the quotes inside a value (``--set 'q=1'``) and refuses ``--set msg="a b"``,
and because a caret needs to know where a word stood.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, NoReturn

from ..text.diagnostics import DefinitionError, Diagnostic, suggest
from ..text.source import Source, Span

Kind = Literal[
    "switch", "flow", "run", "pair", "variable", "new", "file", "seconds", "days", "value", "expression", "context",
    "reference", "count", "code",
]  # fmt: skip
"""What is written there; completion and reading both go by it. ``new``: a name the magic will bind."""

BLANKS = " \t\r\n"
ESCAPES = os.sep != "\\"
"""On Windows a backslash is a part of a path."""


class Option(NamedTuple):
    """``--flag METAVAR``; a switch has no value."""

    flag: str
    help: str
    kind: Kind = "switch"
    metavar: str = ""
    many: bool = False
    optional: bool = False
    """Whether its value may be left out; the next word is its value only when the magic has the operands it needs."""

    @property
    def shown(self) -> str:
        return f"{self.flag} {f'[{self.metavar}]' if self.optional else self.metavar}".rstrip()


class Operand(NamedTuple):
    """A word without a dash. The last one of a command may be many."""

    metavar: str
    help: str
    kind: Kind
    required: bool = True
    many: bool = False
    rest: bool = False
    """It is the whole rest of the line, as it is written: no quotes, no options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """All that a magic takes: the parser, ``--help``, completion and the reference read this and nothing else."""

    name: str
    """With its percent signs: ``%%pipeline``."""
    about: str
    operands: tuple[Operand, ...] = ()
    options: tuple[Option, ...] = ()
    example: str

    @property
    def usage(self) -> str:
        parts = [self.name]
        for operand in self.operands:
            text = operand.metavar + ("..." if operand.many else "")
            parts.append(text if operand.required else f"[{text}]")
        for option in self.options:
            parts.append(f"[{option.shown}]" + ("..." if option.many else ""))
        return " ".join(parts)

    @property
    def help(self) -> str:
        """What ``--help`` prints and ``?`` shows."""
        rows = [(o.metavar, o.help) for o in self.operands]
        rows += [(o.shown, o.help) for o in self.options]
        rows.append(("-h, --help", "show this"))
        width = max(len(left) for left, _ in rows)
        table = "\n".join(f"  {left:<{width}}  {right}" for left, right in rows)
        example = "\n".join(f"    {line}".rstrip() for line in self.example.splitlines())
        return f"{self.about}\n\n{self.usage}\n\n{table}\n\nExample:\n\n{example}\n"


class Token(NamedTuple):
    """A word of the line as it is meant, and where each of its characters stands. It is a `text.source.Text`."""

    text: str
    span: Span
    at: tuple[int, ...]
    """The offset in the source of every character of ``text``, and of what follows the last one."""

    def locate(self, start: int, end: int) -> Span:
        return Span(self.span.source, self.at[min(start, len(self.text))], self.at[min(end, len(self.text))])

    def part(self, start: int, end: int) -> Token:
        return Token(self.text[start:end], self.locate(start, end), self.at[start : end + 1])


@dataclass(frozen=True, slots=True)
class ParsedLine:
    """A line that was understood: what was written for each operand (by its metavar) and option (by its flag)."""

    source: Source
    given: Mapping[str, tuple[Token, ...]]

    def __contains__(self, name: str) -> bool:
        return name in self.given

    def words(self, name: str) -> tuple[Token, ...]:
        return self.given.get(name, ())

    def word(self, name: str) -> Token | None:
        return next(iter(self.words(name)), None)

    def text(self, name: str) -> str | None:
        found = self.word(name)
        return found.text if found else None


def read(command: Command, line: str, where: str = "") -> ParsedLine | None:
    """What ``line`` (all after the magic's name) says; None when it asks for help. ``where``: ``In[6]``.

    Raises a DefinitionError that points at the very word.
    """
    source = Source(f"{where} {command.name}".lstrip(), f"{command.name} {line}")
    start = len(command.name) + 1
    operand = command.operands[0] if command.operands else None
    if operand and operand.rest and line.strip() not in ("-h", "--help"):
        return _whole(command, source, start)
    words = split(source, start)
    if any(word.text in ("-h", "--help") and len(word.text) == word.span.end - word.span.start for word in words):
        return None
    given: dict[str, list[Token]] = {}
    loose = _options(command, words, given)
    _operands(command, loose, given)
    missing = next((o for o in command.operands if o.required and o.metavar not in given), None)
    if missing:
        wrong("missing", f"{command.name} needs {missing.metavar}: {missing.help}", source.span(), command.usage)
    return ParsedLine(source, {name: tuple(found) for name, found in given.items()})


def _whole(command: Command, source: Source, start: int) -> ParsedLine:
    operand, text = command.operands[0], source.text
    start += len(text) - start - len(text[start:].lstrip())
    end = max(start, len(text.rstrip()))
    if operand.required and start == end:
        wrong("missing", f"{command.name} needs {operand.metavar}: {operand.help}", source.span(), command.usage)
    word = Token(text[start:end], Span(source, start, end), tuple(range(start, end + 1)))
    return ParsedLine(source, {operand.metavar: (word,)} if word.text else {})


def _options(command: Command, words: Sequence[Token], given: dict[str, list[Token]]) -> list[Token]:
    """Take the options and their values out of ``words``; what is left are the operands."""
    known = {option.flag: option for option in command.options}
    loose, queue = [], list(words)
    needed = sum(operand.required for operand in command.operands)
    while queue:
        word = queue.pop(0)
        if not word.text.startswith("-") or word.text == "-":
            loose.append(word)
            continue
        flag, equals, _ = word.text.partition("=")
        option = known.get(flag)
        if option is None:
            shown = word.part(0, len(flag))
            wrong("unknown-option", f"{command.name} has no option {flag!r}", shown.span,
                   suggest(flag, [*known, "--help"], "options"))  # fmt: skip
        if option.flag in given and not option.many:
            wrong("option-twice", f"{flag} is given twice", word.span, f"{flag} takes one value; leave one out")
        if option.kind == "switch":
            if equals:
                wrong("unwanted-value", f"{flag} takes no value", word.span, f"write {flag} alone")
            value = word
        elif equals:
            value = word.part(len(flag) + 1, len(word.text))
        elif queue and not queue[0].text.startswith("--") and (not option.optional or len(loose) >= needed):
            value = queue.pop(0)
        elif option.optional:
            value = word
        else:
            wrong("missing-value", f"{flag} needs a value", word.span, f"write {flag} {option.metavar}: {option.help}")
        given.setdefault(option.flag, []).append(value)
    return loose


def _operands(command: Command, words: Sequence[Token], given: dict[str, list[Token]]) -> None:
    places = list(command.operands)
    for word in words:
        if not places:
            takes = " and ".join(o.metavar for o in command.operands) or "no name"
            wrong("extra-word", f"{word.text!r} is one word too many for {command.name}, which takes {takes}",
                   word.span, "a value with blanks is written in quotes; " + command.usage)  # fmt: skip
        given.setdefault(places[0].metavar, []).append(word)
        if not places[0].many:
            places.pop(0)


# --- words -----------------------------------------------------------------------------------------------------------


def split(source: Source, start: int = 0, escapes: bool = ESCAPES) -> list[Token]:
    """The words of ``source`` as a POSIX shell would see them, each with its place.

    >>> [word.text for word in split(Source("", '''a "b c" 'q={"x": 1}' d="e f"'''))]
    ['a', 'b c', 'q={"x": 1}', 'd=e f']
    """
    words, text, i = [], source.text, start
    while i < len(text):
        if text[i] in BLANKS:
            i += 1
        else:
            words.append(_word(source, i, escapes))
            i = words[-1].span.end
    return words


def _word(source: Source, start: int, escapes: bool) -> Token:
    text, i, quote, opened = source.text, start, "", start
    at: list[int] = []
    while i < len(text) and (quote or text[i] not in BLANKS):
        char = text[i]
        if char == quote:
            quote = ""
        elif not quote and char in "'\"":
            quote, opened = char, i
        else:
            # In double quotes a backslash is one, except before what it must be able to protect.
            if char == "\\" and (text[i + 1 : i + 2] in (quote, "\\") if quote == '"' else escapes and not quote):
                i += 1
                if i == len(text):
                    wrong("quote", "the line ends after a backslash", Span(source, i - 1, i), "write \\\\ for one")
            at.append(i)
        i += 1
    if quote:
        wrong("quote", f"the quote {quote} is never closed", Span(source, opened, opened + 1),
               f"close it with {quote}; a quote inside a value stands in the other kind of quotes")  # fmt: skip
    return Token("".join(text[k] for k in at), Span(source, start, i), (*at, i))


def wrong(what: str, message: str, span: Span, hint: str | None) -> NoReturn:
    raise DefinitionError(Diagnostic(f"magic.{what}", message, span, hint))
