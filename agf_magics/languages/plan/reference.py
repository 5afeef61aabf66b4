"""References: ``†state.user || †input.user``.

What is found counts, not what is true: ``||`` takes the first operand that exists, be it 0 or null; ``&&`` wants all of
them and takes the last. The parser is bounded in depth and length, so that no text drives it, or a reading of what it
gives, over Python's limit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Final, NoReturn

from ...flow.values import Value
from ...text.diagnostics import DefinitionError, Diagnostic
from ...text.source import Span, Text

DAGGER: Final = "†"
DEEPEST: Final = 50
"""How deep parentheses may nest."""
MOST_SEGMENTS: Final = 100

KIND = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_SEGMENT = re.compile(r"""[^\s.|&()\[\]'"†]+""")
_INSTANCE = re.compile(r"""\s*+[^\[\]'"]++""")
_INDEX = re.compile(r"0|[1-9][0-9]{0,17}")
_QUOTED = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'""", re.DOTALL)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)
_WORD = re.compile(r"""[^\s|&()†]+""")
_BLANK = re.compile(r"\s*")
_WORDS: dict[str, Callable[[], Value]] = {
    "true": lambda: True, "false": lambda: False, "null": lambda: None, "[]": list, "{}": dict,
}  # fmt: skip


class Missing:
    """What a reference gives that nothing was found for."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()

EVERY: Final = "*"
"""The selector of all instances: no instance can be named so."""


@dataclass(frozen=True, slots=True)
class Reference:
    """``†kind[instance].path``"""

    kind: str
    path: tuple[str, ...] = ()
    instance: str | None = None
    """The selector: an instance's name, or `EVERY`; None: the reader's own."""
    span: Span | None = field(default=None, compare=False)
    counts: bool = field(init=False, compare=False, repr=False)
    """Whether some part of the path may count a list's elements."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "counts", any(map(is_index, self.path)))

    def __str__(self) -> str:
        chosen = f"[{self.instance}]" if self.instance is not None else ""
        return DAGGER + self.kind + chosen + "".join(map(_segment, self.path))


@dataclass(frozen=True, slots=True)
class Literal:
    """A default: a number, a text, true, false, null, [] or {}."""

    value: Value
    span: Span | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return json.dumps(self.value, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Either:
    """``a || b``: the first that is found."""

    operands: tuple[Expression, ...]
    mixed: bool = field(default=False, compare=False)
    """Whether an operand is an ``&&`` without parentheses."""

    def __str__(self) -> str:
        return " || ".join(str(one) if isinstance(one, Reference | Literal) else f"({one})" for one in self.operands)


@dataclass(frozen=True, slots=True)
class Both:
    """``a && b``: the last, if all are found."""

    operands: tuple[Expression, ...]

    def __str__(self) -> str:
        return " && ".join(str(one) if isinstance(one, Reference | Literal) else f"({one})" for one in self.operands)


Expression = Reference | Literal | Either | Both


def parse(text: Text, sigils: Collection[str] = ()) -> Expression:
    """The expression that ``text`` is; ``sigils``: the kinds that may be written ``$kind`` too.

    Raises DefinitionError: ``plan.bad-reference``, ``plan.bad-expression``.

    >>> from agf_magics.text.source import Source
    >>> str(parse(Source("", "(†a||†b.c[0])&&†d || 10").span()))
    '((†a || †b.c.0) && †d) || 10'
    """
    parser = _Parser(text, sigils)
    found = parser.either(0)
    if parser.at < len(parser.text):
        if parser.text[parser.at] == ")":
            parser.wrong("this parenthesis closes nothing")
        parser.wrong("an operator is missing here", "join references with || (the first that is found) or && (all)")
    return found


def canonical(text: Text, sigils: Collection[str]) -> str:
    """The text of an expression as it is kept: with ``†`` where its author wrote ``$``."""
    parser = _Parser(text, sigils)
    parser.either(0)
    letters = list(parser.text)
    for at in parser.begins:
        letters[at] = DAGGER
    return "".join(letters)


def evaluate(expression: Expression, read: Callable[[Reference], Value]) -> Value:
    """Its value, or MISSING; ``read`` gives a reference's value, or MISSING."""
    if isinstance(expression, Reference):
        return read(expression)
    if isinstance(expression, Literal):
        return expression.value
    value, any_of_them = MISSING, isinstance(expression, Either)
    for operand in expression.operands:
        value = evaluate(operand, read)
        if (value is not MISSING) is any_of_them:
            break
    return value


def references(expression: Expression) -> Iterator[Reference]:
    """Every reference of it, in the order of the text."""
    if isinstance(expression, Reference):
        yield expression
    elif isinstance(expression, Either | Both):
        for operand in expression.operands:
            yield from references(operand)


def is_mixed(expression: Expression) -> bool:
    """Whether somewhere in it ``&&`` stands beside ``||`` without parentheses."""
    if isinstance(expression, Either) and expression.mixed:
        return True
    return isinstance(expression, Either | Both) and any(map(is_mixed, expression.operands))


def _segment(name: str) -> str:
    return f".{name}" if _SEGMENT.fullmatch(name) else '["' + name.replace("\\", "\\\\").replace('"', '\\"') + '"]'


def is_index(segment: str) -> bool:
    """Whether it may count a list's elements."""
    return segment.isdigit() and _INDEX.fullmatch(segment) is not None


def refuse(code: str, message: str, span: Span, hint: str | None = None) -> NoReturn:
    """Raise the DefinitionError."""
    raise DefinitionError(Diagnostic(code, message, span, hint))


class _Parser:
    """One text; ``at`` stands on the next letter that is no blank."""

    def __init__(self, text: Text, sigils: Collection[str]) -> None:
        self.source, self.text, self.sigils = text, text.text, sigils
        self.at = 0
        self.loose = False
        """Whether what `both` gave last is an ``&&`` without parentheses around it."""
        self.begins: list[int] = []
        """Where references begin."""
        self.skip(0)

    def skip(self, at: int) -> None:
        found = _BLANK.match(self.text, at)
        self.at = found.end() if found else at

    def wrong(
        self, message: str, hint: str | None = None, start: int | None = None, end: int | None = None
    ) -> NoReturn:
        start = self.at if start is None else start
        span = self.source.locate(start, min(len(self.text), start + 1) if end is None else end)
        refuse("plan.bad-expression", message, span, hint)

    def bad(self, message: str, start: int, end: int, hint: str | None = None) -> NoReturn:
        refuse("plan.bad-reference", message, self.source.locate(start, max(end, start + 1)), hint)

    def either(self, depth: int) -> Expression:
        operands, mixed = [], False
        while True:
            operands.append(self.both(depth))
            mixed = mixed or self.loose
            if not self.operator("|"):
                break
        return operands[0] if len(operands) == 1 else Either(tuple(operands), mixed)

    def both(self, depth: int) -> Expression:
        operands = [self.operand(depth)]
        while self.operator("&"):
            operands.append(self.operand(depth))
        self.loose = len(operands) > 1
        return operands[0] if len(operands) == 1 else Both(tuple(operands))

    def operator(self, sign: str) -> bool:
        """Whether the operator of two such signs stands here; then it is passed."""
        if self.text[self.at : self.at + 1] != sign:
            return False
        if self.text[self.at : self.at + 2] != sign * 2:
            self.wrong(f"a single {sign!r}", f"write {sign * 2}")
        self.skip(self.at + 2)
        return True

    def operand(self, depth: int) -> Expression:
        at = self.at
        sign = self.text[at : at + 1]
        if sign == "(":
            if depth >= DEEPEST:
                self.wrong(f"parentheses nest deeper than {DEEPEST}")
            self.skip(at + 1)
            inner = self.either(depth + 1)
            if self.text[self.at : self.at + 1] != ")":
                self.wrong("this parenthesis is not closed", None, at, at + 1)
            self.skip(self.at + 1)
            return inner
        if sign == DAGGER:
            return self.reference()
        if sign == "$" and (kind := KIND.match(self.text, at + 1)) and kind[0] in self.sigils:
            return self.reference()
        if not sign or sign in "|&)":
            self.wrong("a reference is missing here", "an operator stands between two of them: †a || †b")
        return self.literal()

    def literal(self) -> Literal:
        at = self.at
        quoted = _QUOTED.match(self.text, at)
        word = quoted or _WORD.match(self.text, at)
        if word is None or (not quoted and self.text[at] in "'\""):
            self.wrong("this text is not closed", None, at, len(self.text))
        span = self.source.locate(at, word.end())
        self.skip(word.end())
        if quoted:
            return Literal(self.unquoted(word[0], span), span)
        if word[0] in _WORDS:
            return Literal(_WORDS[word[0]](), span)
        if _NUMBER.fullmatch(word[0]) and len(word[0]) <= 100:
            value = json.loads(word[0])
            if value - value == 0:
                return Literal(value, span)
        hint = f"a reference begins with {DAGGER}" + (f": {DAGGER}{word[0]}" if KIND.match(word[0]) else "")
        self.bad(f"{word[0][:40]!r} is no reference", at, word.end(), hint)

    def unquoted(self, quoted: str, span: Span) -> str:
        """As JSON reads it; between single quotes a backslash keeps the letter after it."""
        if quoted[0] == "'":
            return re.sub(r"\\(.)", r"\1", quoted[1:-1], flags=re.DOTALL)
        try:
            found: str = json.loads(quoted, strict=False)
        except ValueError:
            refuse("plan.bad-expression", "a backslash here escapes nothing", span, r"JSON knows \" \\ \n \t \u00e9")
        return found

    def reference(self) -> Reference:
        start = self.at
        kind = KIND.match(self.text, start + 1)
        if kind is None:
            hint = f"for instance {DAGGER}state.user"
            self.bad(f"after {DAGGER} stands a kind of messages", start, start + 1, hint)
        self.begins.append(start)
        at = kind.end()
        instance: str | None = None
        path: list[str] = []
        while self.text[at : at + 1] in (".", "["):
            if self.text[at] == ".":
                segment = _SEGMENT.match(self.text, at + 1)
                if segment is None:
                    hint = f'a name follows a dot; one with blanks or signs is quoted: {DAGGER}{kind[0]}["a b"]'
                    self.bad("a name is missing after this dot", at, at + 1, hint)
                at = segment.end()
                path.append(segment[0])
            else:
                at, chosen = self.bracket(at, path, first=at == kind.end())
                instance = chosen if chosen is not None else instance
        if len(path) > MOST_SEGMENTS:
            self.bad(f"a path has at most {MOST_SEGMENTS} parts", start, at)
        self.skip(at)
        return Reference(kind[0], tuple(path), instance, self.source.locate(start, at))

    def bracket(self, at: int, path: list[str], first: bool) -> tuple[int, str | None]:
        """What stands in brackets: an index or a quoted name for ``path``, or (directly after the kind) an instance."""
        quoted = _QUOTED.match(self.text, at + 1)
        end = quoted.end() if quoted else self.text.find("]", at)
        if end < 0 or self.text[end : end + 1] != "]":
            self.bad("this bracket is not closed", at, at + 1)
        inside = self.text[at + 1 : end]
        if quoted:
            path.append(self.unquoted(inside, self.source.locate(at + 1, end)))
            return end + 1, None
        if is_index(inside):
            path.append(inside)
            return end + 1, None
        if not first or not _INSTANCE.fullmatch(inside) or re.fullmatch(r"\s*[-+]?[0-9]+\s*", inside):
            hint = '[0] is the first element, ["a b"] a quoted name, and after the kind [①] an instance'
            self.bad(f"[{inside[:40]}] is no index", at, end + 1, hint)
        return end + 1, inside.strip()
