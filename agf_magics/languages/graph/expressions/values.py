"""Parses and evaluates value expressions: ``{state.topic}``, ``{state.n + 1}``, ``Dear
{state.name}``.

The whole text is parsed first. Text that the grammar does not allow is refused, with the text to
write instead (decision Y3). A text that is exactly one placeholder keeps the type of its value; in
any other text each placeholder is replaced (decision Y10). By the seed's rule, braces that do not
begin with ``state.`` are text, and so are doubled braces (decision Y13). The method `of` of a node
computes its value from the state, and raises one of `CANNOT` (value_errors.py) if that is
impossible.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple
from typing import Literal as OneOf

from ....text.source import Text
from ...scan import Refusal, Scanner, parse_at
from .evaluated import Evaluated
from .operators import combine
from .tokens import (
    DOTTED,
    LETTER,
    LONGEST,
    LONGEST_TEXT,
    QUOTES,
    Bare,
    Literal,
    Path,
    parse_literal,
    quoted_end,
)
from .written_text import format_value

_OPENING = re.compile(r"\{\s*(?=state\.)")
"""The begin of a placeholder; what follows begins with ``state.``."""
_LEFT = re.compile(rf"state\.({LETTER}{DOTTED}*)\s*([+\-*/])")
"""The left side of an operation, and its operator."""
_PLAIN = re.compile(r"[^{}+\-*/]+")
"""The path of a placeholder inside a text: no operator, because nothing is computed there."""
_OPERATOR = re.compile(r"[+\-*/]")
# In a text without quotes: an operator after a number or path, before a path, between blanks, at
# the end; any + or *.
_ARITHMETIC = re.compile(
    r"(?<![\w.])(?:(?>(?:(?!state\.\w)[\w.])*)state\.\w[\w.]*+|[+-]?\.?\d[\d_.]*+(?:[eE][+-]?\d++)?)\s*+([+\-*/])"
    r"|([+\-*/])\s*+(?=state\.\w)|\S\s++([+\-*/])(?=\s|\w|$)|[^\W_]\s*+([+*])\s*+\w|([+\-*/])$"
)


@dataclass(frozen=True, slots=True)
class One:
    """``[item]``"""

    item: Atom

    def of(self, state: Any) -> list[Any]:
        return [self.item.of(state)]


@dataclass(frozen=True, slots=True)
class Pairs:
    """``{'key': value, …}``"""

    pairs: tuple[tuple[str, Atom], ...]

    def of(self, state: Any) -> dict[str, Any]:
        return {key: value.of(state) for key, value in self.pairs}


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``left operator right``"""

    left: Path
    operator: str
    right: Operand

    def of(self, state: Any) -> Any:
        left = self.left.of(state)
        return None if left is None else combine(self.operator, left, self.right.of(state))


Atom = Path | Literal | Bare
Operand = Atom | One | Pairs
Value = Path | Arithmetic


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A placeholder in a text: its text and the path that it reads."""

    text: str
    path: Path

    def of(self, state: Any) -> str:
        """The text of the value; the placeholder itself, if there is none."""
        value = self.path.of(state)
        return self.text if value is None else format_value(value, repr(self.text))


class Unfilled(NamedTuple):
    """Braces with ``state.`` in them that stay text, and why: a sum, doubled braces, no closing
    brace."""

    start: int
    end: int
    why: OneOf["computed", "doubled", "open"]


@dataclass(frozen=True, slots=True)
class Sentence:
    """A text with placeholders, or with none."""

    parts: tuple[str | Placeholder, ...]
    unfilled: tuple[Unfilled, ...] = ()

    def of(self, state: Any) -> str:
        parts = [part if isinstance(part, str) else part.of(state) for part in self.parts]
        if sum(map(len, parts)) > LONGEST_TEXT:
            raise ValueError(f"the text has more than {LONGEST_TEXT:,} characters")
        return "".join(parts)


Template = Value | Sentence


def atoms(operand: Operand) -> tuple[Atom, ...]:
    """The paths and literals of an operand."""
    match operand:
        case One():
            return (operand.item,)
        case Pairs():
            return tuple(value for _, value in operand.pairs)
    return (operand,)


def template_paths(node: Template) -> tuple[Path, ...]:
    """The paths that a template reads, in the order of the text."""
    if isinstance(node, Path):
        return (node,)
    if isinstance(node, Sentence):
        return tuple(part.path for part in node.parts if isinstance(part, Placeholder))
    return (node.left, *(atom for atom in atoms(node.right) if isinstance(atom, Path)))


def parse_template(source: str) -> Template:
    """The meaning of a text. Raises Refusal for a text that is one placeholder with an invalid
    expression."""
    begin = _OPENING.match(source)
    if begin and source.endswith("}"):
        whole = _parse_whole(source, begin.end())
        if whole is not None:
            return whole
    return _parse_sentence(source)


def _parse_whole(source: str, start: int) -> Value | None:
    """The placeholder that ``source`` consists of; None if there is more text. ``start``: where its
    ``state.`` begins."""
    last = len(source) - 1
    left = _LEFT.match(source, start, last)
    if left is None:
        return _parse_path(source, start, last) if source.find("}", start) == last else None
    if len(source) > LONGEST:
        message = f"the expression has {len(source):,} characters; the limit is {LONGEST:,}"
        raise Refusal("graph.too-long", message, 0, 1)
    end = _closing_brace(source, left.end())
    if 0 <= end < last:
        return None
    if end < 0:
        message = "a bracket or a quote in this expression is not closed"
        raise Refusal(
            "graph.unfinished", message, left.end(), last, "add the closing bracket or quote"
        )
    path = Path(tuple(left[1].split(".")), start, start + len("state.") + len(left[1]), True)
    return Arithmetic(path, left[2], _Operand(source, left.end(), end).read())


def _parse_path(source: str, start: int, end: int) -> Path:
    """A path that is alone in its braces: any names, separated by dots."""
    text = source[start:end].rstrip()
    return Path(tuple(text[len("state.") :].strip().split(".")), start, start + len(text), True)


def _closing_brace(source: str, start: int) -> int:
    """The brace that closes the placeholder whose operand begins at ``start``; -1 if none does."""
    index = start
    end = len(source)
    depth = 0
    may_begin_text = True
    # Quotes without a closing quote from here on: they are not searched for again.
    unclosed = set[str]()
    while index < end:
        char = source[index]
        if char in QUOTES and may_begin_text and char not in unclosed:
            if (after := quoted_end(source, index, end)) > 0:
                index = after
                may_begin_text = False
                continue
            unclosed.add(char)
        if char == "{":
            depth += 1
        elif char == "}":
            if not depth:
                return index
            depth -= 1
        may_begin_text = char in "[{,:+-*/" or (may_begin_text and char.isspace())
        index += 1
    return -1


def _parse_sentence(source: str) -> Sentence:
    """A text with its placeholders, and with the braces that stay text."""
    parts = list[str | Placeholder]()
    unfilled = list[Unfilled]()
    end = 0
    last_close = source.rfind("}")
    last_double = source.rfind("}}")
    for begin in _OPENING.finditer(source):
        start = begin.end()
        if source[begin.start() - 1 : begin.start()] == "{":
            close = source.find("}}", start) + 2 if start <= last_double else start + len("state.")
            unfilled.append(Unfilled(begin.start() - 1, close, "doubled"))
            continue
        inner = _PLAIN.match(source, start + len("state."))
        if inner is None or source[inner.end() : inner.end() + 1] != "}":
            after = inner.end() if inner else start + len("state.")
            why: OneOf["open", "computed"] = "open" if last_close < begin.start() else "computed"
            unfilled.append(Unfilled(begin.start(), after, why))
            continue
        if text := source[end : begin.start()]:
            parts.append(text)
        end = inner.end() + 1
        parts.append(
            Placeholder(source[begin.start() : end], _parse_path(source, start, inner.end()))
        )
    if rest := source[end:]:
        parts.append(rest)
    return Sentence(tuple(parts), tuple(unfilled))


class _Operand(Scanner):
    """The right side of an operator."""

    def read(self) -> Operand:
        opening = self.peek()
        if opening == "[":
            operand: Operand = self.one()
        elif opening == "{":
            operand = self.pairs()
        else:
            return self.atom("")
        self.expect_end()
        return operand

    def one(self) -> One:
        """A list literal."""
        start = self.at
        self.at += 1
        if self.peek() == "{":
            hint = (
                "write the dict itself, {state.log + {'key': state.value}}: it is appended to "
                "a list"
            )
            raise Refusal(
                "graph.nested-literal",
                "a list literal cannot hold a dict",
                self.at,
                self.at + 1,
                hint,
            )
        item = self.atom(",]")
        if self.peek() == ",":
            hint = "append the items one after the other, in two nodes or to two keys of output"
            raise Refusal(
                "graph.list-items", "a list literal has one item", self.at, self.end, hint
            )
        self.close("]", start)
        return One(item)

    def pairs(self) -> Pairs:
        """A dict literal."""
        start = self.at
        pairs = list[tuple[str, Atom]]()
        self.at += 1
        if self.peek() == "}":
            self.at += 1
            return Pairs(())
        while True:
            start_of_key = self.skip_blanks()
            key = self.key()
            if key in dict(pairs):
                end = start_of_key + len(self.source[start_of_key : self.at - 1].rstrip())
                message = f"the dict literal has {key!r} twice"
                hint = "keep one of them, or give them different keys"
                raise Refusal("graph.dict-key", message, start_of_key, end, hint)
            pairs.append((key, self.atom(",}")))
            if self.peek() != ",":
                break
            self.at += 1
        self.close("}", start)
        return Pairs(tuple(pairs))

    def key(self) -> str:
        """The key of a pair; the colon after it is skipped."""
        start = self.skip_blanks()
        source = self.source
        if source[start] in QUOTES:
            self.at = quoted_end(source, start, self.end)
            key = source[start + 1 : self.at - 1] if self.at > 0 else ""
        else:
            self.at = source.find(":", start, self.end)
            key = source[start : self.at].strip()
        if self.at < 0 or self.peek() != ":":
            hint = "a dict literal has quoted keys: {'key': state.value}"
            raise Refusal(
                "graph.dict-key", "expected a key and a colon", start, max(self.at, start + 1), hint
            )
        self.at += 1
        return key

    def atom(self, stops: str) -> Atom:
        """Parse a path, a literal or a text, up to one of ``stops``."""
        start = self.skip_blanks()
        source = self.source
        if start >= self.end or source[start] in stops:
            hint = "a value is state.name, a number or a 'text'"
            raise Refusal("graph.unfinished", "expected a value here", start, start + 1, hint)
        if source[start] in QUOTES:
            return self.quoted(stops)
        if source[start] in "([{":
            self.refuse_bracket(start)
        while self.at < self.end and source[self.at] not in stops:
            self.at += 1
        text = source[start : self.at].rstrip()
        if text.startswith("state.") and len(text) > len("state."):
            if operator := _OPERATOR.search(text):
                self.refuse_chained(start + operator.start())
            return Path(tuple(text[len("state.") :].split(".")), start, start + len(text), True)
        return self.bare(text, start)

    def quoted(self, stops: str) -> Literal:
        start = self.at
        self.at = quoted_end(self.source, start, self.end)
        if self.at < 0:
            raise Refusal(
                "graph.unfinished",
                "this quote is not closed",
                start,
                start + 1,
                "add the closing quote",
            )
        value = self.source[start + 1 : self.at - 1]
        after = self.peek()
        if after and after not in stops:
            self.expect_end()
        return Literal(value)

    def bare(self, text: str, start: int) -> Literal | Bare:
        literal = parse_literal(text, start)
        if isinstance(literal, Literal):
            return literal
        for index, char in enumerate(text, start):
            if char in "()[]{}":
                self.refuse_bracket(index)
        if text[0] in "*/":
            self.refuse_chained(start)
        if operator := _ARITHMETIC.search(text):
            self.refuse_chained(start + operator.start(operator.lastindex or 0))
        return literal

    def refuse_bracket(self, index: int) -> None:
        end = index + 1
        if self.source[index] in "()":
            hint = "compute it into a key of its own first, then use that key"
            raise Refusal("graph.parentheses", "parentheses are not supported", index, end, hint)
        hint = "literals do not nest; quote it if it is text"
        message = f"unexpected {self.source[index]!r}"
        raise Refusal("graph.nested-literal", message, index, end, hint)

    def refuse_chained(self, index: int) -> None:
        hint = "compute it in two steps, the first into a key of its own; quote it if it is text"
        raise Refusal("graph.chained", "only one operator is supported", index, index + 1, hint)

    def close(self, bracket: str, start: int) -> None:
        if self.peek() != bracket:
            message = f"{self.source[start]!r} is not closed"
            raise Refusal("graph.unfinished", message, start, start + 1, f"add {bracket!r}")
        self.at += 1

    def expect_end(self) -> None:
        after = self.peek()
        if after and after in "+-*/":
            self.refuse_chained(self.at)
        if after:
            hint = "put quotes around a text that contains quotes or blanks"
            raise Refusal(
                "graph.trailing", "unexpected text after the expression", self.at, self.end, hint
            )


class Expression(Evaluated):
    """A template, with its parsed node."""

    __slots__ = ("node",)

    def __init__(self, text: Text, node: Template, root: tuple[str, ...] = ()) -> None:
        super().__init__(text, node.of, template_paths(node), root)
        self.node = node


def parse_value(text: Text) -> Expression:
    """The expression of a text that is used alone: its frame is the state."""
    return Expression(text, parse_at(text, parse_template))
