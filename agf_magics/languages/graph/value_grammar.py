"""``{state.topic}``, ``{state.n + 1}``, ``Dear {state.name}``: value expressions as nodes.

The whole text is read first and what it cannot say is refused with the text to write instead (decision Y3). A text that
is exactly one placeholder keeps its value's type, in any other text each placeholder is replaced (decision Y10).
Braces that do not begin with ``state.`` are text: that is the seed's own rule.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .tokens import LONGEST, QUOTES, Bare, Literal, Path, literal, quoted_end, show_literal, skip, wrong

_HOLE = re.compile(r"\{\s*(?=state\.)")
_LEFT = re.compile(r"state\.([a-zA-Z_][\w.]*)\s*([+\-*/])")
_PLAIN = re.compile(r"[^{}+\-*/]+")
_OPERATOR = re.compile(r"[+\-*/]")
# In a text without quotes: a number or a path with an operator behind it, an operator between blanks, + and * anywhere.
_ARITHMETIC = re.compile(
    r"(?:(?<![\w.])(?:(?!state\.\w)[\w.])*+state\.\w[\w.]*+|(?<![\w.])[+-]?\d[\d.]*+)\s*+([+\-*/])"
    r"|\S\s++([+\-*/])(?=\s|\w|$)|[^\W_]\s*+([+*])\s*+\w|([+\-*/])$"
)


@dataclass(frozen=True, slots=True)
class One:
    """``[item]``"""

    item: Atom


@dataclass(frozen=True, slots=True)
class Pairs:
    """``{'key': value, …}``"""

    pairs: tuple[tuple[str, Atom], ...]


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``left operator right``"""

    left: Path
    operator: str
    right: Operand


Atom = Path | Literal | Bare
Operand = Atom | One | Pairs
Value = Path | Arithmetic


@dataclass(frozen=True, slots=True)
class Hole:
    """A placeholder in a text, as it is written and what it reads."""

    written: str
    path: Path


@dataclass(frozen=True, slots=True)
class Sentence:
    """A text with placeholders, or with none."""

    parts: tuple[str | Hole, ...]
    kept: tuple[tuple[int, int], ...] = ()
    """Where braces with ``state.`` stand that stay as they are: arithmetic is computed only on its own."""


Template = Value | Sentence


def unquoted(operand: Operand) -> tuple[Bare, ...]:
    """The words in it that are taken as text though they have no quotes."""
    match operand:
        case One():
            found: tuple[Atom, ...] = (operand.item,)
        case Pairs():
            found = tuple(value for _, value in operand.pairs)
        case _:
            found = (operand,)
    return tuple(one for one in found if isinstance(one, Bare))


def parse_template(source: str) -> Template:
    """What a text means. Raises Refused for a placeholder that stands alone and says what no value can be."""
    begin = _HOLE.match(source)
    if begin and source.endswith("}"):
        whole = _whole(source, begin.end())
        if whole is not None:
            return whole
    return _sentence(source)


def _whole(source: str, start: int) -> Value | None:
    """The one placeholder that ``source`` is; None: it goes on behind it."""
    last = len(source) - 1
    left = _LEFT.match(source, start, last)
    if left is None:
        return _path(source, start, last) if source.find("}", start) == last else None
    if len(source) > LONGEST:
        wrong("too-long", f"an expression has {len(source):,} characters, {LONGEST:,} are allowed", 0, 1)
    end = _closing(source, left.end())
    if 0 <= end < last:
        return None
    if end < 0:
        wrong("unfinished", "a bracket or a quote is never closed", left.end(), last, "write its closing mark")
    path = Path(tuple(left[1].split(".")), start, start + len("state.") + len(left[1]), True)
    return Arithmetic(path, left[2], _Operand(source, left.end(), end).read())


def _path(source: str, start: int, end: int) -> Path:
    """What stands behind ``state.`` on a way of its own: any names, a dot always separates them."""
    text = source[start:end].rstrip()
    return Path(tuple(text[len("state.") :].strip().split(".")), start, start + len(text), True)


def _closing(source: str, at: int) -> int:
    """The brace that closes the placeholder whose operand begins at ``at``; -1: none does."""
    depth, operand, end = 0, True, len(source)
    unclosed = set[str]()  # quotes that close nothing from here on: they are not looked for again
    while at < end:
        char = source[at]
        if char in QUOTES and operand and char not in unclosed:
            if (behind := quoted_end(source, at, end)) > 0:
                at, operand = behind, False
                continue
            unclosed.add(char)
        if char == "{":
            depth += 1
        elif char == "}":
            if not depth:
                return at
            depth -= 1
        operand = char in "[{,:+-*/" or (operand and char.isspace())
        at += 1
    return -1


def _sentence(source: str) -> Sentence:
    parts, kept, end = list[str | Hole](), list[tuple[int, int]](), 0
    for begin in _HOLE.finditer(source):
        start = begin.end()
        inner = _PLAIN.match(source, start + len("state."))
        if inner is None or source[inner.end() : inner.end() + 1] != "}":
            kept.append((begin.start(), inner.end() if inner else start + len("state.")))
            continue
        if parts_before := source[end : begin.start()]:
            parts.append(parts_before)
        end = inner.end() + 1
        parts.append(Hole(source[begin.start() : end], _path(source, start, inner.end())))
    if rest := source[end:]:
        parts.append(rest)
    return Sentence(tuple(parts), tuple(kept))


class _Operand:
    """What stands on the right of an operator, from ``at`` to ``end``."""

    def __init__(self, source: str, at: int, end: int) -> None:
        self.source, self.at, self.end = source, at, end

    def read(self) -> Operand:
        self.blanks()
        opening = self.source[self.at : min(self.at + 1, self.end)]
        if opening == "[":
            found: Operand = self.one()
        elif opening == "{":
            found = self.pairs()
        else:
            return self.atom("")
        self.over()
        return found

    def one(self) -> One:
        start = self.at
        self.at += 1
        self.blanks()
        if self.source[self.at] == "{":
            hint = "write the dict itself, {state.log + {'key': state.value}}: behind a list it is appended"
            wrong("nested-literal", "a list literal cannot hold a dict", self.at, self.at + 1, hint)
        item = self.atom(",]")
        if self.next() == ",":
            hint = "append one after the other, in two nodes or two keys of output"
            wrong("list-items", "a list literal holds one item", self.at, self.end, hint)
        self.close("]", start)
        return One(item)

    def pairs(self) -> Pairs:
        start, found = self.at, list[tuple[str, Atom]]()
        self.at += 1
        if self.next() == "}":
            self.at += 1
            return Pairs(())
        while True:
            key = self.key()
            found.append((key, self.atom(",}")))
            if self.next() != ",":
                break
            self.at += 1
        self.close("}", start)
        return Pairs(tuple(found))

    def key(self) -> str:
        self.blanks()
        start, source = self.at, self.source
        if source[start] in QUOTES:
            self.at = quoted_end(source, start, self.end)
            key = source[start + 1 : self.at - 1] if self.at > 0 else ""
        else:
            colon = source.find(":", start, self.end)
            self.at = colon if colon >= 0 else -1
            key = source[start : self.at].strip()
        if self.at < 0 or self.next() != ":":
            hint = "a dict literal has quoted keys: {'key': state.value}"
            wrong("dict-key", "a key with a colon behind it is missing", start, max(self.at, start + 1), hint)
        self.at += 1
        return key

    def atom(self, stops: str) -> Atom:
        """A path, a literal or a text, up to one of ``stops``."""
        self.blanks()
        start, source = self.at, self.source
        if start >= self.end or source[start] in stops:
            wrong("unfinished", "a value is missing", start, start + 1, "a value is state.name, a number or a 'text'")
        if source[start] in QUOTES:
            return self.quoted(stops)
        if source[start] in "([{":
            self.bracket()
        while self.at < self.end and source[self.at] not in stops:
            self.at += 1
        text = source[start : self.at].rstrip()
        if text.startswith("state.") and len(text) > len("state."):
            if operator := _OPERATOR.search(text):
                self.chained(start + operator.start())
            return Path(tuple(text[len("state.") :].split(".")), start, start + len(text), True)
        return self.bare(text, start)

    def quoted(self, stops: str) -> Literal:
        start = self.at
        self.at = quoted_end(self.source, start, self.end)
        if self.at < 0:
            wrong("unfinished", "this quote is never closed", start, start + 1, "write the closing quote")
        value, after = self.source[start + 1 : self.at - 1], self.next()
        if after and after not in stops:
            self.over()
        return Literal(value)

    def bare(self, text: str, start: int) -> Literal | Bare:
        found = literal(text, start)
        if isinstance(found, Literal):
            return found
        for at, char in enumerate(text):
            if char in "()[]{}":
                self.at = start + at
                self.bracket()
        if text[0] in "*/":
            self.chained(start)
        if operator := _ARITHMETIC.search(text):
            self.chained(start + operator.start(operator.lastindex or 0))
        return found

    def bracket(self) -> None:
        at, char = self.at, self.source[self.at]
        if char in "()":
            hint = "compute it into a key of its own first, then use that key"
            wrong("parentheses", "parentheses are not supported", at, at + 1, hint)
        hint = "literals do not nest; quote it if it is meant as text"
        wrong("nested-literal", f"{char!r} cannot stand here", at, at + 1, hint)

    def chained(self, at: int) -> None:
        hint = "compute it in two steps, the first into a key of its own; quote what is meant as text"
        wrong("chained", "only one operator is supported", at, at + 1, hint)

    def close(self, bracket: str, start: int) -> None:
        if self.next() != bracket:
            wrong("unfinished", f"{self.source[start]!r} is never closed", start, start + 1, f"write {bracket!r}")
        self.at += 1

    def over(self) -> None:
        """Nothing may follow."""
        after = self.next()
        if after and after in "+-*/":
            self.chained(self.at)
        if after:
            wrong("trailing", "nothing can follow here", self.at, self.end, "quote a text that holds quotes or blanks")

    def next(self) -> str:
        self.blanks()
        return self.source[self.at] if self.at < self.end else ""

    def blanks(self) -> None:
        self.at = skip(self.source, self.at, self.end)


def show(node: Template) -> str:
    """The expression as its grammar writes it: parsed again it is equal.

    >>> show(parse_template("{state.log+{ 'k':state.v }}"))
    "{state.log + {'k': state.v}}"
    """
    if isinstance(node, Sentence):
        return "".join(part if isinstance(part, str) else part.written for part in node.parts)
    if isinstance(node, Path):
        return "{" + _atom(node) + "}"
    return "{" + f"{_atom(node.left)} {node.operator} {_operand(node.right)}" + "}"


def _operand(node: Operand) -> str:
    match node:
        case One():
            return f"[{_atom(node.item)}]"
        case Pairs():
            return "{" + ", ".join(f"{show_literal(key)}: {_atom(value)}" for key, value in node.pairs) + "}"
    return _atom(node)


def _atom(node: Atom) -> str:
    match node:
        case Path():
            return "state." + ".".join(node.names)
        case Literal():
            return show_literal(node.value)
    return node.text
