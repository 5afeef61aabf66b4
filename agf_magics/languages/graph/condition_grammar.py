"""``score < 0.8 and status == 'done'``: conditions as nodes.

Comparisons, ``and`` before ``or``, nothing else. All of it is read before any of it is evaluated, so what is refused is
refused behind a short-circuit too (decision Y3).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NoReturn

from .tokens import LONGEST, QUOTES, Bare, Literal, Path, literal, quoted_end, show_literal, skip, wrong

COMPARING = ("<=", ">=", "==", "!=", "<", ">")

_LEFT = re.compile(r"[a-zA-Z_][\w.]*")
_OPERATOR = re.compile(r"<=|>=|==|!=|<|>")
_JOINING = re.compile(r"(and|or)(?=[\s(]|$)", re.IGNORECASE)
_NOT = re.compile(r"not\s+\w", re.IGNORECASE)
_UNREADABLE = re.compile(r"<|>|!?=|[()]|&&|\|\||[^\W_]\s*+[+*]\s*+\w|\S\s++[-+*/%]\s++\S|^[A-Za-z_][\w.]*+/[\w.]++$")
_PATH = re.compile(r"[\w.-]+")
_TURNED = re.compile(r"([^\s<>=!]+)\s*(<=|>=|==|!=|<|>)\s*([a-zA-Z_][\w.]*)")
_ROUND = {"<=": ">=", ">=": "<=", "==": "==", "!=": "!=", "<": ">", ">": "<"}


@dataclass(frozen=True, slots=True)
class Comparison:
    left: Path
    operator: str
    right: Literal | Bare
    quoted: bool = field(default=True, compare=False)


@dataclass(frozen=True, slots=True)
class Condition:
    """True if all comparisons of one of its alternatives are."""

    alternatives: tuple[tuple[Comparison, ...], ...]


def parse_condition(source: str) -> Condition:
    """What a condition says. Raises Refused for everything it cannot say."""
    if len(source) > LONGEST:
        wrong("too-long", f"a condition has {len(source):,} characters, {LONGEST:,} are allowed", 0, 1)
    return _Reading(source).whole()


class _Reading:
    def __init__(self, source: str) -> None:
        self.source, self.at, self.end = source, 0, len(source.rstrip())

    def whole(self) -> Condition:
        alternatives = [[self.comparison()]]
        while self.blanks() < self.end:
            word = _JOINING.match(self.source, self.at, self.end)
            if word is None:
                self.trailing()
            self.at = word.end()
            if word[1].lower() == "or":
                alternatives.append([])
            alternatives[-1].append(self.comparison())
        return Condition(tuple(map(tuple, alternatives)))

    def comparison(self) -> Comparison:
        left = self.left()
        found = _OPERATOR.match(self.source, self.blanks(), self.end)
        if found is None:
            self.no_operator(left)
        self.at = found.end()
        if self.source[self.at : self.at + 1] in tuple("<>="):
            self.operator(found.start())
        right = self.right(left, found[0])
        return Comparison(left, found[0], right)

    def left(self) -> Path:
        start, source = self.blanks(), self.source
        if start >= self.end:
            hint = "a condition compares: score < 0.8, status == 'done'"
            wrong("unfinished", "a comparison is missing", start, start, hint)
        found = _LEFT.match(source, start, self.end)
        if found is None:
            self.not_a_path(start)
        if found[0].lower() in ("and", "or"):
            hint = "a comparison stands on both of its sides"
            wrong("unfinished", f"a comparison is missing before {found[0]!r}", start, found.end(), hint)
        if _NOT.match(source, start, self.end):
            hint = "turn the comparison round: != for ==, >= for <"
            wrong("not", "'not' is not supported", start, start + 3, hint)
        self.at = found.end()
        names = tuple(found[0].split("."))
        prefixed = names[0] == "state" and len(names) > 1
        names = names[1:] if prefixed else names
        if "" in names:
            hint = f"write {'.'.join(filter(None, names)) or 'a name'}"
            wrong("path", f"{found[0]!r} is no path: a name is missing beside a dot", start, self.at, hint)
        return Path(names, start, self.at, prefixed)

    def not_a_path(self, start: int) -> NoReturn:
        source, char = self.source, self.source[start]
        if char in "(":
            hint = "'and' binds more tightly than 'or'; write an alternative out, or use two edges"
            wrong("parentheses", "parentheses are not supported", start, start + 1, hint)
        if char == "{":
            close = source.find("}", start, self.end)
            inner = source[start + 1 : close].strip() if close > 0 else ""
            end = close + 1 if close > 0 else self.end
            rest = (inner.removeprefix("state.") + source[end : self.end]).strip()
            wrong("condition-braces", "a condition has no braces", start, end, f"write: {rest}" if inner else None)
        word = re.compile(r"[^\s<>=!]*").match(source, start, self.end)
        end = max(word.end() if word else start, start + 1)
        turned = _TURNED.match(source, start, self.end)
        hint = "the left side is a path into the state: score, critique.score"
        if turned:
            hint = f"turn it round: {turned[3]} {_ROUND[turned[2]]} {turned[1]}"
        wrong("left", f"a comparison cannot begin with {source[start:end]!r}", start, end, hint)

    def no_operator(self, left: Path) -> NoReturn:
        at = self.at
        if at >= self.end:
            name = self.source[left.start : left.end]
            hint = f"write what it is compared with: {name} == true"
            wrong("unfinished", f"{name!r} is compared with nothing", left.start, left.end, hint)
        word = re.compile(r"[^\s\w]+|\w+|.").match(self.source, at, self.end)
        end = word.end() if word else at + 1
        hint = f"the operators are {' '.join(COMPARING)}; there is no arithmetic, no index and no call"
        wrong("operator", f"{self.source[at:end]!r} is no operator of a condition", at, end, hint)

    def operator(self, start: int) -> None:
        end = self.at
        while self.source[end : end + 1] in tuple("<>="):
            end += 1
        hint = f"the operators are {' '.join(COMPARING)}"
        wrong("operator", f"{self.source[start:end]!r} is no operator of a condition", start, end, hint)

    def right(self, left: Path, operator: str) -> Literal | Bare:
        start, source = self.blanks(), self.source
        word = _JOINING.match(source, start, self.end)
        if start >= self.end or (word and word.end() < self.end):
            written = f"{source[left.start : left.end]} {operator}"
            hint = f"write the value: {written} 0, {written} 'text'"
            wrong("unfinished", f"{written!r} is compared with nothing", left.start, self.at, hint)
        if source[start] in QUOTES and (end := quoted_end(source, start, self.end)) > 0:
            self.at = end
            return Literal(source[start + 1 : end - 1])
        return self.bare(start)

    def bare(self, start: int) -> Literal | Bare:
        """A text without quotes goes on to the next ``and`` or ``or`` that stands in no quotes."""
        source, at = self.source, start
        while at < self.end:
            if source[at] in QUOTES:
                behind = quoted_end(source, at, self.end)
                at = behind if behind > 0 else self.end
            elif source[at].isspace():
                word = skip(source, at, self.end)
                if _JOINING.match(source, word, self.end):
                    break
                at = word
            else:
                at += 1
        self.at = at
        text = source[start:at].rstrip()
        found = literal(text, start)
        if isinstance(found, Bare):
            self.readable(text, start)
        return found

    def readable(self, text: str, start: int) -> None:
        # What stands behind a quote without an end is text, whatever it is.
        if odd := _UNREADABLE.search(text, 0, min(text.find(q) % (len(text) + 1) for q in QUOTES)):
            what = odd[0].strip()
            place = start + odd.start(), start + odd.end()
            if what in ("(", ")"):
                wrong("parentheses", "parentheses are not supported", *place, _two_ways(text))
            if what in ("&&", "||"):
                word = "and" if what == "&&" else "or"
                wrong("operator", f"{what!r} is no operator of a condition", *place, f"write {word!r}")
            if what[0] in "<>=!":
                wrong("operator", "a comparison has two sides", *place, _two_ways(text))
            wrong("arithmetic", "there is no arithmetic in a condition", *place, _two_ways(text))
        if _PATH.fullmatch(text) and "" in text.split("."):
            hint = f"write {'.'.join(filter(None, text.split('.')))}, or quote it: '{text}'"
            wrong("path", f"{text!r} is no path: a name is missing beside a dot", start, start + len(text), hint)

    def trailing(self) -> NoReturn:
        hint = "comparisons are joined by 'and' and 'or'; a text with quotes in it stands in the other quotes"
        wrong("trailing", "nothing can follow here but 'and' and 'or'", self.at, self.end, hint)

    def blanks(self) -> int:
        self.at = skip(self.source, self.at, self.end)
        return self.at


def _two_ways(text: str) -> str:
    return f"compute it in a passthrough node and compare with its key; quote it if it is text: {show_literal(text)}"


def show(node: Condition) -> str:
    """The condition as its grammar writes it: parsed again it is equal.

    >>> show(parse_condition("a==1 AND b!='x'  or c>limit"))
    "a == 1 and b != 'x' or c > limit"
    """
    return " or ".join(" and ".join(map(_comparison, comparisons)) for comparisons in node.alternatives)


def _comparison(node: Comparison) -> str:
    right = node.right.text if isinstance(node.right, Bare) else show_literal(node.right.value)
    # A key named "state" can only be reached with the prefix.
    prefix = "state." if node.left.names[0] == "state" else ""
    return f"{prefix}{'.'.join(node.left.names)} {node.operator} {right}"
