"""Parses and evaluates conditions: ``score < 0.8 and status == 'done'``.

A condition consists of comparisons joined by ``and`` and ``or``, of which ``and`` binds more
tightly. It is parsed completely before it is evaluated, so that an error after a short-circuit is
found, too (decision Y3).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from ....flow.comparison_warnings import warn_of_comparison
from ....text.source import Text
from ....values.value import Value
from ...descend import MISSING
from ...scan import Refusal, Scanner, parse_at, skip_blanks
from .evaluated import Evaluated, parse_public
from .lookup import find
from .operators import compare, not_comparable
from .tokens import (
    DOTTED,
    LETTER,
    LONGEST,
    QUOTES,
    Bare,
    Literal,
    Path,
    format_literal,
    parse_literal,
    quoted_end,
)

COMPARING = ("<=", ">=", "==", "!=", "<", ">")

_LEFT = re.compile(rf"{LETTER}{DOTTED}*")
_OPERATOR = re.compile(r"<=|>=|==|!=|<|>")
_LONG_OPERATOR = re.compile(r"(?><=|>=|==|!=|<|>)\s*+[<>=]++")
_JOINING = re.compile(r"(and|or)(?=[\s(]|$)", re.IGNORECASE)
_JOINS = ("and", "or")
_NOT = re.compile(r"not\s+\w", re.IGNORECASE)
_WORD = re.compile(r"[^\s\w]+|\w+|.")
_LEFT_WORD = re.compile(r"[^\s<>=!]*")
_NOT_TEXT = re.compile(
    r"<|>|!?=|[()]|&&|\|\||[^\W_]\s*+[+*]\s*+\w|\S\s++[-+*/%]\s++\S"
    rf"|^{LETTER}{DOTTED}*+/{DOTTED}++$"
)
_PATH = re.compile(rf"(?:{DOTTED}|-)+")
_COMPUTED_BEFORE = (
    "let a python node before this edge compute it, and compare the key that it writes"
)
_REVERSED = re.compile(rf"([^\s<>=!]+)\s*(<=|>=|==|!=|<|>)\s*({LETTER}{DOTTED}*)")
_MIRROR = {"<=": ">=", ">=": "<=", "==": "==", "!=": "!=", "<": ">", ">": "<"}


@dataclass(frozen=True, slots=True)
class ComparisonNode:
    """A path of the state, compared with a literal or another path."""

    left: Path
    operator: str
    right: Literal | Bare

    def outcome(self, state: Any) -> tuple[bool, tuple[str, str] | None]:
        """Whether it holds; and, if the types of the values alone decide that, a message and a hint."""
        right = self.right.of(state)
        if isinstance(self.right, Bare):  # Y11: a key that exists counts even when it is None
            value_of_key = find(state, tuple(self.right.text.split(".")))
            right = right if value_of_key is MISSING else value_of_key
        left = self.left.of(state)
        result = compare(self.operator, left, right)
        unlike = not_comparable(self.operator, left, right)
        if unlike is None:
            return result, None
        reason, hint = unlike
        text = _format_comparison(self, keeps_prefix=False)
        return result, (f"{text!r} is {str(result).lower()}: {reason}", hint)


@dataclass(frozen=True, slots=True)
class Condition:
    """A whole condition, which is true if all comparisons of one alternative are true."""

    alternatives: tuple[tuple[ComparisonNode, ...], ...]

    def holds(self, state: Any) -> bool:
        return any(_all_hold(alternative, state) for alternative in self.alternatives)

    def comparisons(self) -> Iterator[ComparisonNode]:
        return (comparison for alternative in self.alternatives for comparison in alternative)


def _all_hold(comparisons: Iterable[ComparisonNode], state: Any) -> bool:
    """Whether all hold. Warns of those that types decide, unless another one is false anyway: `score >
    5 and kind == 'order'` is right about a mail, whatever its score is."""
    outcomes = list[tuple[bool, tuple[str, str] | None]]()
    for comparison in comparisons:
        is_true, unlike = comparison.outcome(state)
        if not is_true and unlike is None:
            return False
        outcomes.append((is_true, unlike))
    for _, unlike in outcomes:
        if unlike is not None:
            warn_of_comparison(*unlike)
    return all(is_true for is_true, _ in outcomes)


def parse_condition(source: str) -> Condition:
    """The meaning of a condition. Raises Refusal for everything that the grammar does not allow."""
    if len(source) > LONGEST:
        message = f"the condition has {len(source):,} characters; the limit is {LONGEST:,}"
        raise Refusal("graph.too-long", message, 0, 1)
    return _Parser(source, 0, len(source.rstrip())).condition()


class _Parser(Scanner):
    """The reading of one condition."""

    def condition(self) -> Condition:
        alternatives = [[self.comparison()]]
        while self.skip_blanks() < self.end:
            word = self.match(_JOINING)
            if word is None:
                hint = (
                    "join comparisons with 'and' and 'or'; put a text that contains quotes in "
                    "the other quotes"
                )
                raise Refusal(
                    "graph.trailing", "expected 'and' or 'or' here", self.at, self.end, hint
                )
            self.at = word.end()
            if word[1].lower() == "or":
                alternatives.append([])
            alternatives[-1].append(self.comparison())
        return Condition(tuple(map(tuple, alternatives)))

    def comparison(self) -> ComparisonNode:
        left = self.left()
        self.skip_blanks()
        operator = self.match(_OPERATOR)
        if operator is None:
            self.refuse_missing_operator(left)
        if odd := self.match(_LONG_OPERATOR):
            meant = {"<>": "!=", "===": "==", "!==": "!="}.get(odd[0])
            hint = (
                f"write {meant} to compare" if meant else f"the operators are {' '.join(COMPARING)}"
            )
            raise Refusal(
                "graph.operator", f"unknown operator {odd[0]!r}", odd.start(), odd.end(), hint
            )
        self.at = operator.end()
        return ComparisonNode(left, operator[0], self.right(left, operator[0]))

    def left(self) -> Path:
        """The path on the left of a comparison."""
        start = self.skip_blanks()
        if start >= self.end:
            hint = "a condition compares: score < 0.8, status == 'done'"
            raise Refusal("graph.unfinished", "expected a comparison here", start, start, hint)
        match = self.match(_LEFT)
        if match is None:
            self.refuse_left(start)
        if match[0].lower() in _JOINS:
            message = f"expected a comparison before {match[0]!r}"
            hint = "write a comparison on both sides"
            if self.is_compared(match.end()):
                hint = f"a key of this name: write state.{match[0]}"
            raise Refusal("graph.unfinished", message, start, match.end(), hint)
        if self.match(_NOT):
            hint = "use the opposite comparison: != for ==, >= for <; for 'not done' write done == false"
            raise Refusal("graph.not", "'not' is not supported", start, start + 3, hint)
        self.at = match.end()
        names = tuple(match[0].split("."))
        prefixed = names[0] == "state" and len(names) > 1
        names = names[1:] if prefixed else names
        if "" in names:
            hint = f"write {'.'.join(filter(None, names)) or 'a name'}"
            raise Refusal(
                "graph.path", f"a name is missing in the path {match[0]!r}", start, self.at, hint
            )
        return Path(names, start, self.at, prefixed)

    def is_compared(self, end: int) -> bool:
        """Whether an operator follows the name that ends at ``end``."""
        return bool(_OPERATOR.match(self.source[end : self.end].lstrip()))

    def refuse_left(self, start: int) -> NoReturn:
        """Refuse what begins no comparison."""
        source = self.source
        char = self.source[start]
        if char == "(":
            hint = self.parentheses_hint(start)
            raise Refusal(
                "graph.parentheses", "parentheses are not supported", start, start + 1, hint
            )
        if char == "{":
            close = source.find("}", start, self.end)
            inner = source[start + 1 : close].strip("{ ") if close > 0 else ""
            end = close + 1 if close > 0 else self.end
            rest = (inner.removeprefix("state.") + source[end : self.end].lstrip("}")).strip()
            braces_hint = f"write: {rest}" if inner else None
            if "{" in rest:
                braces_hint = f"a condition compares a key with a value; {_COMPUTED_BEFORE}"
            raise Refusal(
                "graph.condition-braces", "a condition has no braces", start, end, braces_hint
            )
        word = self.match(_LEFT_WORD)
        end = max(word.end() if word else start, start + 1)
        hint = "the left side is a path into the state: score, critique.score"
        if reversed := _REVERSED.match(source, start, self.end):
            swapped = f"{reversed[3]} {_MIRROR[reversed[2]]} {reversed[1]}"
            hint = f"swap the sides: {swapped}"
            rest = source[reversed.end() : self.end].strip()
            if _OPERATOR.match(rest):  # 1 < x < 3
                hint = f"write: {swapped} and {reversed[3]} {rest}"
        raise Refusal(
            "graph.left", f"a comparison cannot begin with {source[start:end]!r}", start, end, hint
        )

    def parentheses_hint(self, start: int) -> str:
        """The hint for a parenthesis, which can be left out if it changes no meaning."""
        source = self.source[start : self.end]
        inside = source.partition(")")[0]
        if re.search(r"\bor\b", inside) and re.search(r"\band\b", self.source[: self.end]):
            return "write an edge for each side of 'or': several edges may lead to one node"
        return (
            "leave them out: 'and' binds more tightly than 'or'; several edges may lead to one node"
        )

    def refuse_missing_operator(self, left: Path) -> NoReturn:
        """Refuse what follows ``left`` and is no operator."""
        if self.at >= self.end:
            name = self.source[left.start : left.end]
            hint = f"a condition compares: {name} == true"
            if name.lower() in ("true", "always"):
                hint = "leave the condition out: an edge without one is always taken"
            elif name.lower() == "else":
                hint = "an edge for all other cases has only this: condition: else"
            raise Refusal(
                "graph.unfinished",
                f"{name!r} is not compared with anything",
                left.start,
                left.end,
                hint,
            )
        word = self.match(_WORD)
        text, end = (word[0], word.end()) if word else ("", self.at + 1)
        hint = (
            f"the operators are {' '.join(COMPARING)}; there is no arithmetic, no index and no call"
        )
        message = f"unknown operator {text!r}"
        if text in ("and", "or"):
            name = self.source[left.start : left.end]
            message = f"{name!r} is not compared with anything"
            hint = f"compare each name with a value, such as {name} == true"
        elif text == "=":
            message = "'=' does not compare"
            hint = "write == to compare"
        if self.source.startswith("(", left.end):
            name = self.source[left.start : left.end]
            message = f"a condition has no functions: there is no {name!r}"
            hint = _COMPUTED_BEFORE
        raise Refusal("graph.operator", message, self.at, end, hint)

    def right(self, left: Path, operator: str) -> Literal | Bare:
        """The right side of a comparison."""
        start = self.skip_blanks()
        source = self.source
        word = self.match(_JOINING)
        if start >= self.end or (word and word.end() < self.end):
            text = f"{source[left.start : left.end]} {operator}"
            hint = f"write the value: {text} 0, {text} 'text'"
            raise Refusal(
                "graph.unfinished", f"{text!r} has no right side", left.start, self.at, hint
            )
        if source[start] in QUOTES and (end := quoted_end(source, start, self.end)) > 0:
            self.at = end
            return Literal(source[start + 1 : end - 1])
        return self.bare(start)

    def bare(self, start: int) -> Literal | Bare:
        """A text without quotes ends before the next ``and`` or ``or`` outside quotes."""
        source = self.source
        end = start
        while end < self.end:
            if source[end] in QUOTES:
                after = quoted_end(source, end, self.end)
                end = after if after > 0 else self.end
            elif source[end].isspace():
                word = skip_blanks(source, end, self.end)
                if _JOINING.match(source, word, self.end):
                    break
                end = word
            else:
                end += 1
        self.at = end
        text = source[start:end].rstrip()
        literal = parse_literal(text, start)
        if isinstance(literal, Bare):
            self.check_text(text, start)
        return literal

    def check_text(self, text: str, start: int) -> None:
        """Refuse signs in a text without quotes that mean something in other languages."""
        # Everything after a quote that is not closed is text. For a text without the quote, `find`
        # gives -1, which the remainder turns into the length of the text.
        first_quote = min(text.find(quote) % (len(text) + 1) for quote in QUOTES)
        if odd := _NOT_TEXT.search(text, 0, first_quote):
            sign = odd[0].strip()
            place = start + odd.start(), start + odd.end()
            quoted = format_literal(text)
            hint = (
                f"compute it in a passthrough node and compare with its key; quote it if it is "
                f"text: {quoted}"
            )
            if sign in ("(", ")"):
                raise Refusal("graph.parentheses", "parentheses are not supported", *place, hint)
            if sign in ("&&", "||"):
                word = "and" if sign == "&&" else "or"
                raise Refusal(
                    "graph.operator", f"unknown operator {sign!r}", *place, f"write {word}"
                )
            if sign[0] in "<>=!":
                raise Refusal("graph.operator", "a comparison has two sides", *place, hint)
            raise Refusal("graph.arithmetic", "there is no arithmetic in a condition", *place, hint)
        if _PATH.fullmatch(text) and "" in text.split("."):
            hint = f"write {'.'.join(filter(None, text.split('.')))}, or quote it: '{text}'"
            raise Refusal(
                "graph.path",
                f"a name is missing in the path {text!r}",
                start,
                start + len(text),
                hint,
            )


def needs_prefix(names: tuple[str, ...]) -> bool:
    """Whether a path on the left may need ``state.`` before it: that of a key with the name
    ``state``, ``and`` or ``or``."""
    return names[0] == "state" or (len(names) == 1 and names[0].lower() in _JOINS)


def format_condition(node: Condition, prefix: bool = True) -> str:
    """The text of a condition: parsed again it is equal. ``prefix``: whether a path on the right
    keeps its ``state.``.

    >>> format_condition(parse_condition("a==1 AND b!='x'  or c>limit"))
    "a == 1 and b != 'x' or c > limit"
    """
    return " or ".join(
        " and ".join(_format_comparison(comparison, prefix) for comparison in comparisons)
        for comparisons in node.alternatives
    )


def _format_comparison(node: ComparisonNode, keeps_prefix: bool) -> str:
    if isinstance(node.right, Bare):
        right = node.right.text if keeps_prefix else node.right.text.removeprefix("state.")
    else:
        right = format_literal(node.right.value)
    prefix = "state." if needs_prefix(node.left.names) else ""
    return f"{prefix}{'.'.join(node.left.names)} {node.operator} {right}"


def evaluate_condition(expr: str, state: Mapping[str, Value]) -> bool:
    """Whether a condition is true. Raises ValueError for an invalid condition.

    >>> evaluate_condition("score < 0.8 and status == 'open'", {"score": 0.5, "status": "open"})
    True
    """
    read: Condition = parse_public(parse_condition, expr)
    return read.holds(state)


def parse_condition_text(text: Text) -> Evaluated:
    """The condition of a text that is used alone: its frame is the state."""
    return condition(text, parse_at(text, parse_condition))


def condition(text: Text, node: Condition, root: tuple[str, ...] = ()) -> Evaluated:
    """A condition as the engine evaluates it. ``root``: where in a frame the state is."""
    # Only the left sides certainly name keys: a name on the right may be text.
    return Evaluated(
        text, node.holds, tuple(comparison.left for comparison in node.comparisons()), root
    )
