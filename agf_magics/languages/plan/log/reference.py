"""Parses references to the log: ``†state.user || †input.user``.

Existence counts, not truth: ``||`` takes the first operand that exists, even 0 or null. ``&&``
needs all operands and takes the last. ``$state.user`` means the same as ``†state.user``. The parser
bounds depth and length, so that no text exceeds Python's recursion limit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Final, NoReturn

from ....text.names import same_name
from ....text.source import Span, Text
from ....values.value import Value
from ...descend import MISSING
from ...scan import QUOTED, Refusal, Scanner, parse_at, read_number

DAGGER: Final = "†"
SIGNS: Final = (DAGGER, "$")
"""The signs with which a reference may begin. Logs contain only the first."""
DEEPEST: Final = 50
"""The deepest nesting of parentheses."""
MOST_SEGMENTS: Final = 100
"""The most parts of a path."""

KIND = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
"""The name of a kind of messages."""

KINDS: Final = frozenset({"state", "input", "data", "output", "error"})
"""The kinds that ``$`` may precede, besides the kinds of the document's own messages."""

_SEGMENT = re.compile(r"""[^\s.|&()\[\]'"†]+""")
_INSTANCE = re.compile(r"""\s*+[^\[\]'"]++""")
_INDEX = re.compile(r"0|[1-9][0-9]{0,17}")
_WORD = re.compile(r"""[^\s|&()†]+""")
_DOLLAR = re.compile(r"\$[A-Za-z_]")
_WORDS: dict[str, Callable[[], Value]] = {
    "true": lambda: True,
    "false": lambda: False,
    "null": lambda: None,
    "[]": list,
    "{}": dict,
}
"""The literals that are words; functions, so that no two expressions share a list."""


EVERY: Final = "*"
"""The selector of all instances; no instance can have this name."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference to values of the log: ``†kind[instance].path``."""

    kind: str
    path: tuple[str, ...] = ()
    instance: str | None = None
    """The selector: the name of an instance, or `EVERY`; None: the reader's own."""
    span: Span | None = field(default=None, compare=False)
    sign: str = field(default=DAGGER, compare=False, repr=False)
    """The sign of the reference in its text, one of `SIGNS`."""
    operands: ClassVar[tuple[Expression, ...]] = ()
    mixed: ClassVar[bool] = False

    def evaluate(self, read: Read, instance: str | None) -> Value:
        return read(self, instance)

    def __str__(self) -> str:
        selector = f"[{self.instance}]" if self.instance is not None else ""
        return DAGGER + self.kind + selector + "".join(map(_segment, self.path))


@dataclass(frozen=True, slots=True)
class Literal:
    """A default: a number, a text, true, false, null, [] or {}."""

    value: Value
    span: Span | None = field(default=None, compare=False)
    operands: ClassVar[tuple[Expression, ...]] = ()
    mixed: ClassVar[bool] = False

    def evaluate(self, read: Read, instance: str | None) -> Value:
        return self.value

    def __str__(self) -> str:
        return json.dumps(self.value, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Either:
    """``a || b``: the first that exists."""

    operands: tuple[Expression, ...]
    mixed: bool = field(default=False, compare=False)
    """Whether an operand is an ``&&`` without parentheses."""

    def evaluate(self, read: Read, instance: str | None) -> Value:
        for operand in self.operands:
            value = operand.evaluate(read, instance)
            if value is not MISSING:
                return value
        return MISSING

    def __str__(self) -> str:
        return _join(self.operands, " || ")


@dataclass(frozen=True, slots=True)
class Both:
    """``a && b``: the last, if all exist."""

    operands: tuple[Expression, ...]
    mixed: ClassVar[bool] = False

    def evaluate(self, read: Read, instance: str | None) -> Value:
        value = MISSING
        for operand in self.operands:
            value = operand.evaluate(read, instance)
            if value is MISSING:
                break
        return value

    def __str__(self) -> str:
        return _join(self.operands, " && ")


def _join(operands: tuple[Expression, ...], sign: str) -> str:
    return sign.join(f"({operand})" if operand.operands else str(operand) for operand in operands)


Expression = Reference | Literal | Either | Both
"""An expression. ``evaluate`` returns its value for a reader of an instance, or MISSING."""

Read = Callable[[Reference, "str | None"], Value]
"""Returns the value of a reference for a reader of an instance, or MISSING."""


def parse(text: Text) -> Expression:
    """Parse an expression.

    Raises DefinitionError: ``plan.bad-reference``, ``plan.bad-expression``.

    >>> from agf_magics.text.source import Source
    >>> str(parse(Source("", "(†a||$b.c[0])&&†d || 10").span()))
    '((†a || †b.c.0) && †d) || 10'
    """
    return parse_at(text, lambda source: _Parser(text).whole())


def canonical(text: Text) -> str:
    """The text of an expression with ``†`` for each ``$``, as logs contain it. Text after the
    expression is kept: only `parse` refuses it."""
    parser = _Parser(text)
    parse_at(text, lambda source: parser.either(0))
    letters = list(text.text)
    for begin in parser.begins:
        letters[begin] = DAGGER
    return "".join(letters)


def as_written(expression: Expression) -> str:
    """The text of an expression with the sign that its author uses, for messages."""
    first = next(references(expression), None)
    return str(expression).replace(DAGGER, first.sign) if first else str(expression)


def sign_of(text: str) -> str:
    """The sign that a text uses for references."""
    return "$" if DAGGER not in text and _DOLLAR.search(text) else DAGGER


def references(expression: Expression) -> Iterator[Reference]:
    """All references in an expression, in the order of the text."""
    if isinstance(expression, Reference):
        yield expression
    for operand in expression.operands:
        yield from references(operand)


def is_mixed(expression: Expression) -> bool:
    """Whether ``&&`` and ``||`` are combined without parentheses."""
    return expression.mixed or any(map(is_mixed, expression.operands))


def _segment(name: str) -> str:
    """A name of a path as it is written, quoted if it must be."""
    if _SEGMENT.fullmatch(name):
        return f".{name}"
    return '["' + name.replace("\\", "\\\\").replace('"', '\\"') + '"]'


def is_index(segment: str) -> bool:
    """Whether a part of a path may be the index of a list."""
    return _INDEX.fullmatch(segment) is not None


class _Parser(Scanner):
    """The parser of one text. ``at`` is the offset of the next character that is not a blank."""

    def __init__(self, text: Text) -> None:
        super().__init__(text.text)
        self.locate = text.locate
        self.sign = sign_of(text.text)
        self.loose = False
        """Whether the last result of `both` is an ``&&`` without parentheses around it."""
        self.begins: list[int] = []
        """The positions where references begin."""
        self.skip_blanks()

    def whole(self) -> Expression:
        """The expression of the whole text."""
        parsed = self.either(0)
        if self.at < self.end:
            if self.source[self.at] == ")":
                self.wrong("unexpected ')': no '(' is open")
            sign = self.source[self.at]
            if sign in "+-*/%<>=!":
                hint = (
                    f"let a tool compute it, with {self.source[: self.at].strip()} as an argument"
                )
                self.wrong(f"a plan does not compute: there is no {sign!r}", hint)
            hint = "join references with || (the first that exists) or && (all)"
            self.wrong("expected an operator here", hint)
        return parsed

    def wrong(
        self, message: str, hint: str | None = None, place: tuple[int, int] | None = None
    ) -> NoReturn:
        """Refuse the text at ``place``; None: at the next character."""
        start, end = place or (self.at, min(self.end, self.at + 1))
        raise Refusal("plan.bad-expression", message, start, end, hint)

    def wrong_reference(
        self, message: str, start: int, end: int, hint: str | None = None
    ) -> NoReturn:
        raise Refusal("plan.bad-reference", message, start, max(end, start + 1), hint)

    def either(self, depth: int) -> Expression:
        """Operands joined by ``||``, inside ``depth`` parentheses."""
        operands = []
        mixed = False
        while True:
            operands.append(self.both(depth))
            mixed = mixed or self.loose
            if not self.operator("|"):
                break
        return operands[0] if len(operands) == 1 else Either(tuple(operands), mixed)

    def both(self, depth: int) -> Expression:
        """Operands joined by ``&&``."""
        first = self.operand(depth)
        operands = [first]
        while self.operator("&"):
            operands.append(self.operand(depth))
        self.loose = len(operands) > 1
        return Both(tuple(operands)) if self.loose else first

    def operator(self, sign: str) -> bool:
        """Skip the operator that consists of ``sign`` twice, and return whether it was next."""
        if self.source[self.at : self.at + 1] != sign:
            return False
        if self.source[self.at : self.at + 2] != sign * 2:
            self.wrong(f"a single {sign!r} is not an operator", f"write {sign * 2}")
        self.skip(self.at + 2)
        return True

    def operand(self, depth: int) -> Expression:
        """A reference, a literal, or an expression in parentheses."""
        start = self.at
        sign = self.source[start : start + 1]
        if sign == "(":
            if depth >= DEEPEST:
                self.wrong(f"parentheses nest deeper than {DEEPEST}")
            self.skip(start + 1)
            inner = self.either(depth + 1)
            if self.source[self.at : self.at + 1] != ")":
                self.wrong("this parenthesis is not closed", None, (start, start + 1))
            self.skip(self.at + 1)
            return inner
        if sign == DAGGER or (sign == "$" and KIND.match(self.source, start + 1)):
            return self.reference()
        if not sign or sign in "|&)":
            self.wrong(
                "expected a reference here", f"an operator joins two: {self.sign}a || {self.sign}b"
            )
        return self.literal()

    def literal(self) -> Literal:
        """A default. Refuses a word that is neither a literal nor a reference."""
        start = self.at
        quoted = QUOTED.match(self.source, start)
        match = quoted or _WORD.match(self.source, start)
        if match is None or (not quoted and self.source[start] in "'\""):
            self.wrong("this text is not closed", None, (start, self.end))
        word = match[0]
        span = self.locate(start, match.end())
        self.skip(match.end())
        if quoted:
            return Literal(self.unquoted(word, start), span)
        if word in _WORDS:
            return Literal(_WORDS[word](), span)
        if (number := read_number(word)) is not None:
            return Literal(number, span)
        hint = "a reference begins with † or $"
        if KIND.match(word):
            hint += f": {self.sign}{word}"
        if self.begins:  # a default may follow a reference
            hint = f'quote a text: "{word}"; {hint}'
            if word.startswith(("[", "{")):
                hint = (
                    "a default is a text, a number, true, false or null; give any other value a "
                    f"name: state: {{other: {self.source[start : self.end].strip()}}}, and write "
                    f"{self.sign}state.other"
                )
        self.wrong_reference(f"{word[:40]!r} is not a reference", start, match.end(), hint)

    def unquoted(self, quoted: str, start: int) -> str:
        """The text in ``quoted``, which begins at ``start``. In single quotes, a backslash keeps
        the character after it. A text in double quotes is JSON."""
        if quoted[0] == "'":
            return re.sub(r"\\(.)", r"\1", quoted[1:-1], flags=re.DOTALL)
        try:
            text: str = json.loads(quoted, strict=False)
        except ValueError:
            hint = r"JSON has \" \\ \n \t \u00e9"
            self.wrong("invalid escape in this text", hint, (start, start + len(quoted)))
        return text

    def reference(self) -> Reference:
        """A kind, perhaps an instance, and a path."""
        start = self.at
        sign = self.source[start]
        kind = KIND.match(self.source, start + 1)
        if kind is None:
            hint = f"for example {sign}state.user"
            self.wrong_reference(
                f"expected a kind of messages after {sign}", start, start + 1, hint
            )
        self.begins.append(start)
        end = kind.end()
        instance: str | None = None
        path: list[str] = []
        while self.source[end : end + 1] in (".", "["):
            if self.source[end] == ".":
                segment = _SEGMENT.match(self.source, end + 1)
                if segment is None:
                    hint = (
                        f"a name follows a dot; quote a name with blanks or signs: "
                        f'{sign}{kind[0]}["a b"]'
                    )
                    self.wrong_reference("expected a name after this dot", end, end + 1, hint)
                end = segment.end()
                path.append(same_name(segment[0]))
            else:
                end, selected = self.bracket(end, path, first=end == kind.end())
                instance = selected if selected is not None else instance
        if len(path) > MOST_SEGMENTS:
            self.wrong_reference(f"a path has at most {MOST_SEGMENTS} parts", start, end)
        self.skip(end)
        return Reference(kind[0], tuple(path), instance, self.locate(start, end), sign)

    def bracket(self, start: int, path: list[str], first: bool) -> tuple[int, str | None]:
        """Read brackets: an index or a quoted name for ``path``, or (directly after the kind) an
        instance. Returns the place after them, and the instance."""
        quoted = QUOTED.match(self.source, start + 1)
        end = quoted.end() if quoted else self.source.find("]", start)
        if end < 0 or self.source[end : end + 1] != "]":
            self.wrong_reference("this bracket is not closed", start, start + 1)
        inside = self.source[start + 1 : end]
        if quoted:
            path.append(self.unquoted(inside, start + 1))
            return end + 1, None
        if is_index(inside):
            path.append(inside)
            return end + 1, None
        if (
            not first
            or not _INSTANCE.fullmatch(inside)
            or re.fullmatch(r"\s*[-+]?[0-9]+\s*", inside)
        ):
            hint = (
                '[0] is the first element, and none is counted from the end; ["a b"] is a quoted '
                "name; after the kind [NAME] is an instance"
            )
            self.wrong_reference(f"[{inside[:40]}] is not an index", start, end + 1, hint)
        return end + 1, inside.strip()
