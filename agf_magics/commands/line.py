"""Parses the line of a magic: sorts its words into operands, options and values by the table of the
command.

Before, words.py splits the line into words. Afterwards, values.py reads the values that the words
stand for.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ..text.diagnostics import DefinitionError
from ..text.placed import PlacedText
from ..text.source import Source, Span
from ..text.suggestions import misspelled_names, suggest
from .words import BLANKS, Token, comment_at, line_error, split

Kind = Literal[
    "switch",
    "flow",
    "run",
    "pair",
    "input",
    "table",
    "score",
    "column",
    "new",
    "file",
    "seconds",
    "dollars",
    "days",
    "value",
    "expression",
    "context",
    "reference",
    "count",
    "status",
    "tool",
    "tools",
    "model",
    "code",
    "lesson",
    "step",
    "time",
    "notebook",
    "workers",
    "direction",
    "server",
]
"""What a word of a line stands for; the completion offers names of this kind. ``new``: a name that
the magic will bind."""


WIDE = 78
"""The columns of a help text. Such a text fits an output cell even when the file browser is open.
"""


class Option(NamedTuple):
    """An option of a command, as ``--flag METAVAR``. A switch has no value."""

    flag: str
    help: str
    kind: Kind = "switch"
    metavar: str = ""
    many: bool = False
    """Whether the option may be given more than once."""
    optional: bool = False
    """Whether the value may be left out. The next word is taken as the value only if the magic
    already has the operands that it needs."""

    @property
    def shown(self) -> str:
        return f"{self.flag} {f'[{self.metavar}]' if self.optional else self.metavar}".rstrip()


class Operand(NamedTuple):
    """A word of the line that is not an option. Only the last operand of a command may be many
    words."""

    metavar: str
    help: str
    kind: Kind
    required: bool = True
    many: bool = False
    """Whether the operand takes all words that are left."""
    is_rest: bool = False
    """Whether the operand is the whole rest of the line, with quotes and options unparsed."""
    after_dashes: bool = False
    """Whether the operand is all words after ``--``, even those that look like options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """The operands and options of a magic. The parser, ``--help``, completion and the reference
    read this table."""

    name: str
    """The name with the percent signs: ``%%pipeline``."""
    about: str
    operands: tuple[Operand, ...] = ()
    options: tuple[Option, ...] = ()
    example: str

    @property
    def usage(self) -> str:
        parts = [self.name]
        for operand in self.operands:
            text = operand.metavar + ("..." if operand.many else "")
            text = f"-- {text}" if operand.after_dashes else text
            parts.append(text if operand.required else f"[{text}]")
        for option in self.options:
            parts.append(f"[{option.shown}]" + ("..." if option.many else ""))
        return " ".join(parts)

    @property
    def help(self) -> str:
        """The text of ``--help`` and ``?``, wrapped at WIDE columns."""
        rows = [(o.metavar, o.help) for o in self.operands]
        rows += [(o.shown, o.help) for o in self.options]
        rows.append(("-h, --help", "show this"))
        width = max(len(name) for name, _ in rows) + 4
        usage = _wrap(self.usage, "", " " * (len(self.name) + 1))
        table = "\n".join(_wrap(text, f"  {name}".ljust(width), " " * width) for name, text in rows)
        example = textwrap.indent(self.example, "    ")
        return f"{_wrap(self.about, '', '')}\n\n{usage}\n\n{table}\n\nExample:\n\n{example}\n"


@dataclass(frozen=True, slots=True)
class ParsedLine:
    """The words of each operand (by its metavar) and of each option (by its flag).

    A switch has its own word, and so has an option whose optional value is left out.
    """

    source: Source
    tokens: Mapping[str, tuple[Token, ...]]

    def __contains__(self, name: str) -> bool:
        return name in self.tokens

    def words(self, name: str) -> tuple[Token, ...]:
        return self.tokens.get(name, ())

    def word(self, name: str) -> Token | None:
        return next(iter(self.words(name)), None)

    def text(self, name: str) -> str | None:
        token = self.word(name)
        return token.text if token else None

    def placed(self, name: str) -> PlacedText | None:
        """The text of a word, for an error that finds out later that it is wrong."""
        token = self.word(name)
        return PlacedText.at(token.span, token.text) if token else None


def read(command: Command, line: str, where: str = "") -> ParsedLine | None:
    """Parse ``line``, the text after the name of the magic. Return None if the line asks for help.
    ``where``: the cell for error messages, as ``In[6]``.

    Raises DefinitionError with the place of the wrong word.
    """
    source = Source(f"{where} {command.name}".lstrip(), f"{command.name} {line}")
    start = len(command.name) + 1
    operand = command.operands[0] if command.operands else None
    if operand and operand.is_rest and line.strip() not in ("-h", "--help"):
        return _rest_of_line(command, source, start)
    return read_words(command, source, split(source, start))


def read_words(command: Command, source: Source, words: Sequence[Token]) -> ParsedLine | None:
    """Parse a line that is already split into ``words``, such as the line of a shell (see
    `as_typed`). Return None if the line asks for help."""
    tokens: dict[str, list[Token]] = {}
    words = _before_dashes(command, words, tokens)
    # A quoted '--help' is longer in the line than its text: it is a value.
    if any(
        word.text in ("-h", "--help") and len(word.text) == word.span.end - word.span.start
        for word in words
    ):
        return None
    _operands(command, _options(command, words, tokens), tokens)
    missing = next((o for o in command.operands if o.required and o.metavar not in tokens), None)
    if missing:
        operands = [tokens.get(operand.metavar) for operand in command.operands]
        before = " ".join(words[0].text for words in operands if words)
        raise _missing(command, missing, source, before)
    return ParsedLine(source, {name: tuple(values) for name, values in tokens.items()})


def as_typed(program: str, arguments: Sequence[str]) -> tuple[Source, list[Token]]:
    """Rebuild the line of a shell as a person may have typed it, with the words that the shell has
    split.

    >>> source, words = as_typed("agf-magics", ["run", "--set", "words=[pear, fig]"])
    >>> source.text, words[2].text, words[2].span.text
    ("agf-magics run --set 'words=[pear, fig]'", 'words=[pear, fig]', "'words=[pear, fig]'")
    """
    typed_words = [word if _SAFE.fullmatch(word) else f"'{word}'" for word in arguments]
    source = Source("the command line", " ".join([program, *typed_words]))
    words = list[Token]()
    start = len(program) + 1
    for word, text in zip(arguments, typed_words, strict=True):
        span = Span(source, start, start + len(text))
        lead = start + (len(text) > len(word))
        words.append(Token(word, span, tuple(range(lead, lead + len(word) + 1))))
        start = span.end + 1
    return source, words


def _before_dashes(
    command: Command, words: Sequence[Token], tokens: dict[str, list[Token]]
) -> Sequence[Token]:
    """Return the words before ``--``. Move the words after it to ``tokens`` if the command has an
    operand for them."""
    operand = next((operand for operand in command.operands if operand.after_dashes), None)
    dashes = next((index for index, word in enumerate(words) if word.text == "--"), None)
    if operand is None or dashes is None:
        return words
    if dashes + 1 < len(words):
        tokens[operand.metavar] = list(words[dashes + 1 :])
    return words[:dashes]


_SAFE = re.compile(r"[\w@%+:,./=-]*[\w@%+:,./-]")
"""A word that needs no quotes in a shell."""


def _rest_of_line(command: Command, source: Source, start: int) -> ParsedLine:
    """Parse the line as the only operand of a command, without blanks around it and without a
    comment or a semicolon at its end."""
    operand = command.operands[0]
    text = source.text
    start = len(text) - len(text[start:].lstrip())
    end = max(start, len(text[: comment_at(text, start)].rstrip(f"{BLANKS};")))
    if operand.required and start == end:
        raise _missing(command, operand, source)
    word = Token(text[start:end], Span(source, start, end), tuple(range(start, end + 1)))
    return ParsedLine(source, {operand.metavar: (word,)} if word.text else {})


_ELSEWHERE = {
    "--dir": "did you mean --direction? ",
    "--name": "the name stands alone, without an option; ",
    "--record": "%runs RUN --record FILE records a run; ",
    **dict.fromkeys(("--param", "--params", "--arg", "--args", "--var"), "write --set key=value; "),
    **dict.fromkeys(("--save", "--export"), "%draw NAME --save FILE and %runs RUN --export FILE; "),
}
"""What to write instead of an option of another magic or another program."""


def options_hint(flag: str, flags: Collection[str]) -> str:
    """The hint for ``flag``, which is none of the ``flags`` of a command."""
    # Compare the names without the dashes, because with them every two options are similar.
    near = misspelled_names([flag.lstrip("-")], [name.lstrip("-") for name in flags])
    meant = "".join(f"did you mean --{name}? " for name in near) or _ELSEWHERE.get(flag, "")
    return f"{meant}options are {', '.join(flags)}"


def _options(
    command: Command, words: Sequence[Token], tokens: dict[str, list[Token]]
) -> list[Token]:
    """Move the options and their values from ``words`` to ``tokens``. Return the other words, which
    are the operands."""
    options_by_flag = {option.flag: option for option in command.options}
    operands = list[Token]()
    queue = list(words)
    needed = sum(operand.required for operand in command.operands)
    while queue:
        word = queue.pop(0)
        if not word.text.startswith("-") or word.text == "-":
            if "--set" in options_by_flag:
                _refuse_pair(word)
            operands.append(word)
            continue
        flag = word.text.partition("=")[0]
        option = options_by_flag.get(flag)
        if option is None:
            raise line_error(
                "unknown-option",
                f"{command.name} has no option {flag!r}",
                word.part(0, len(flag)),
                options_hint(flag, [*options_by_flag, "--help"]),
            )
        if flag in tokens and not option.many:
            hint = "remove one of them"
            if option.kind != "switch":
                hint = f"{flag} takes one value: remove one"
            raise line_error("option-twice", f"{flag} is given twice", word, hint)
        may_take_next = not option.optional or len(operands) >= needed
        value = _value(option, word, queue, may_take_next)
        if option.kind == "pair":
            _check_pair(value, queue)
        tokens.setdefault(flag, []).append(value)
    return operands


def _value(option: Option, word: Token, queue: list[Token], may_take_next: bool) -> Token:
    """The value of an option: the text after its equals sign, or else the next word, which is taken
    from ``queue``. For an option without a value it is ``word`` itself."""
    flag = option.flag
    has_equals = "=" in word.text
    if option.kind == "switch":
        if has_equals:
            message = f"{flag} takes no value"
            raise line_error("unwanted-value", message, word, f"write {flag} alone")
        return word
    if has_equals:
        return word.part(len(flag) + 1, len(word.text))
    # One dash may begin a value, such as -1.
    if queue and may_take_next and not queue[0].text.startswith("--"):
        return queue.pop(0)
    if option.optional:
        return word
    hint = f"write {flag} {option.metavar}: {option.help}"
    raise line_error("missing-value", f"{flag} needs a value", word, hint)


def _refuse_pair(word: Token) -> None:
    """Refuse an operand ``key=value`` in a line that takes ``--set key=value``."""
    key, equals, _ = word.text.partition("=")
    if equals and key.isidentifier():
        message = f"unexpected {word.text!r}: --set takes one key=value"
        raise line_error("extra-word", message, word, f"write --set {word.text}")


def _check_pair(word: Token, rest: Sequence[Token]) -> None:
    """Refuse a ``key=value`` that a blank without quotes cuts in two."""
    following = [token.text for token in rest[:20]]  # enough for a list that a person writes
    spaced = _SPACED.match(" ".join([word.span.text, *following[:2]]))
    if spaced is not None:
        message = f"no blank may separate {spaced['key']!r} from its value"
        hint = f"write --set {spaced['key']}={spaced['value']}"
        raise line_error("set", message, word, hint)
    _, _, value = word.text.partition("=")
    end = _parts_until_closed([value, *following])
    if end:
        pair = " ".join([word.text, *following[:end]])
        message = f"{word.text!r} is only the start of a value: a blank ends a value without quotes"
        raise line_error("set", message, word, f"write --set '{pair}'")


_SPACED = re.compile(r"(?P<key>[^\s='\"]+)(?: = ?|= )(?P<value>[^\s=-]\S*)")
"""A pair with blanks around its equals sign: ``a = 1``, ``a =1``, ``a= 1``."""


def _parts_until_closed(parts: Sequence[str]) -> int:
    """The number of further parts that belong to a list or an object that begins in the first part;
    0 if no list begins there, or if it is not closed."""
    depth = 0
    for number, part in enumerate(_QUOTED.sub("", part) for part in parts):
        depth += sum(part.count(c) for c in "[{") - sum(part.count(c) for c in "]}")
        if depth <= 0 or not parts[0].startswith(("[", "{")):
            return number
    return 0


_QUOTED = re.compile(r"(?<![^\[{,:\s])(?:\"(?:[^\"\\]|\\.)*(?:\"|\\?\Z)|'[^']*(?:'|\Z))", re.DOTALL)
"""A text in quotes, whose brackets open and close nothing. A quote inside of a word, as in ``it's``,
opens none. Without a closing quote the text goes to the end, so that the rest is read once."""

_OF_A_FILE = re.compile(r".+\.(?:ya?ml|json|py)")
"""The name of a definition or of a file of tools."""


def _extra_hint(command: Command, word: Token, tokens: Mapping[str, Sequence[Token]]) -> str:
    """The hint for a word that fits no operand: what to write instead."""
    for option in command.options:
        values = tokens.get(option.flag, ())
        if option.many and values and option.kind == "file" and _OF_A_FILE.fullmatch(word.text):
            files = f"{option.flag} {values[-1].text} {option.flag} {word.text}"
            return f"write the option before each file: {files}"
        if option.kind != "pair" and any(value.text[:1] in ("{", "[") for value in values):
            hint = (
                f"assign the value to a variable in a cell above and write {option.flag} VARIABLE"
            )
            if option.flag == "--input":
                hint += ", or give each value in the line: --set NAME=VALUE"
            return hint
    for option in command.options:
        values = tokens.get(option.flag, ())
        if option.kind == "pair" and values and values[-1].span.end + 1 == word.span.start:
            text = f"{values[-1].text} {word.text}"
            if not set(text) & set("'\"\\"):
                return f"write {option.flag} '{text}'"
    return (
        f"quote a value with blanks, as in --set 'a=b c'; {command.name} --help lists the options"
    )


def _operands(command: Command, words: Sequence[Token], tokens: dict[str, list[Token]]) -> None:
    """Assign each word to the next free operand, in ``tokens``."""
    operands = [operand for operand in command.operands if not operand.after_dashes]
    free = list(operands)
    for word in words:
        if not free:
            accepts = " and ".join(operand.metavar for operand in operands) or "no name"
            message = f"unexpected word {word.text!r}: {command.name} takes {accepts}"
            raise line_error("extra-word", message, word, _extra_hint(command, word, tokens))
        tokens.setdefault(free[0].metavar, []).append(word)
        if not free[0].many:
            free.pop(0)


def _missing(
    command: Command, operand: Operand, source: Source, before: str = ""
) -> DefinitionError:
    """The error for a line that lacks ``operand``. ``before``: the operands that the line has."""
    written = " ".join(filter(None, (command.name, before, operand.metavar)))
    hint = f"write {written}; {command.name} --help lists the options"
    return line_error(
        "missing", f"{command.name} needs {operand.metavar}: {operand.help}", source.span(), hint
    )


def _wrap(text: str, first: str, others: str) -> str:
    return textwrap.fill(
        text, WIDE, initial_indent=first, subsequent_indent=others, break_on_hyphens=False
    )


def check_known(
    what: str,
    message: str,
    word: Token,
    names: Collection[str],
    among: str,
    otherwise: str | None = None,
) -> None:
    """Refuse ``word`` if it is not among ``names``, with the error ``magic.WHAT``. The hint is the
    nearest name, or ``otherwise`` if no name is near."""
    if word.text not in names:
        raise line_error(what, message, word, suggest(word.text, names, among) or otherwise)
