"""``edges:`` to the edges of a `Walk`: conditions, else, routes, several targets at once.

``score < 0.8 and status == 'done'``: conditions as nodes.

Comparisons, ``and`` before ``or``, nothing else. The whole condition is parsed before any of it is
evaluated, so an error after a short-circuit is found too (decision Y3).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from ...flow.step import Expr, Ref
from ...flow.steps import END, START, Computed, Edge
from ...flow.values import Value
from ...text.diagnostics import DefinitionError, Text, suggest
from ...text.nodes import shorten
from ...text.yamlnodes import Fields, Items, Node, Scalar, shown
from ..documents import MISSING, Refusal, Scanner, parse_at, skip_blanks
from .reading import ROOT, Reader
from .value import compare, find
from .value_grammar import (
    LONGEST,
    QUOTES,
    Bare,
    Evaluated,
    Literal,
    Path,
    format_literal,
    parse_literal,
    parsed,
    quoted_end,
)
from .words import EDGE

ELSE = "else"


def _is_route(target: Scalar) -> Computed:
    """Whether a router chose the node."""
    ref = Ref((*ROOT, "_route"), target.span, False)
    return Computed(target.span, lambda frame: frame["state"].get("_route") == target.text, (ref,))


class Edges:
    """Reads the edges of one graph."""

    def __init__(
        self, reader: Reader, nodes: Collection[str], answers: Mapping[str, Mapping[str, str]]
    ) -> None:
        """``answers``: of each router, the answers that lead to each node."""
        self.reader, self.answers = reader, answers
        self.sources, self.goals = dict.fromkeys((START, *nodes)), dict.fromkeys((*nodes, END))
        self.found: list[Edge] = []

    def read(self, items: Items) -> tuple[Edge, ...]:
        for item in items.items:
            if isinstance(item, Fields):
                self.edge(item)
            else:
                message = f"an edge must be a mapping with from and to, got {shown(item)}"
                self.reader.error("graph.edge-shape", message, item.span, self.edge_example(item))
        return tuple(self.found)

    def edge_example(self, item: Node) -> str:
        """The edge that a list such as ``[START, a]`` means."""
        names = [target.text for target in item.items] if isinstance(item, Items) else []
        source, target = names if len(names) == 2 else ("START", next(iter(self.goals)))
        return f"write {{from: {source}, to: {target}}}"

    def edge(self, node: Fields) -> None:
        before = self.reader.error_count
        given = self.reader.fields(EDGE, node, node.span)
        if self.reader.error_count > before:
            return
        source = self.name(given["from"], self.sources, "from")
        named = [self.name(each, self.goals, "to") for each in given["to"]]
        targets = [place for place in named if place is not None]
        if source is None or not targets:
            return
        written: Scalar | None = given.get("condition")
        if given.get("type") == "conditional":
            if written is not None:
                hint = "keep one of them: type: conditional follows a router, condition: compares"
                message = "an edge cannot have both a condition and a type"
                self.reader.error("graph.edge-kind", message, written.span, hint)
            self.route(source, targets)
        elif written is None:
            self.found += [Edge(source.text, target.text, span=target.span) for target in targets]
        else:
            self.conditional(source, targets, written)

    def name(self, node: Scalar, known: Collection[str], key: str) -> Scalar | None:
        if node.text in (START, END) and node.text not in known:
            message = f"an edge cannot lead {f'to {START}' if key == 'to' else f'from {END}'}"
            self.reader.error(
                "graph.unknown-node",
                message,
                node.span,
                f"a graph begins at {START} and ends at {END}",
            )
            return None
        if node.text not in known:
            hint = suggest(node.text, known, "nodes")
            self.reader.error(
                "graph.unknown-node", f"there is no node {node.text!r}", node.span, hint
            )
            return None
        return node

    def route(self, source: Scalar, targets: list[Scalar]) -> None:
        """Edges to the target that ``_route`` names; to the first target if it names none of
        them."""
        first, *others = targets
        answers = self.answers.get(source.text, {})
        for target in others:
            when, label = _is_route(target), shorten(answers.get(target.text, target.text))
            self.found.append(Edge(source.text, target.text, when, span=target.span, label=label))
        label = shorten(answers.get(first.text, first.text))
        self.found.append(
            Edge(source.text, first.text, otherwise=True, span=first.span, label=label)
        )

    def conditional(self, source: Scalar, targets: list[Scalar], node: Scalar) -> None:
        if node.text.strip() == ELSE:
            self.found += [
                Edge(source.text, target.text, otherwise=True, span=target.span, label=ELSE)
                for target in targets
            ]
            return
        if len(targets) > 1:
            hint = "let it lead to one node, and that node to several"
            message = "an edge with a condition can lead to one node only"
            self.reader.error("graph.condition-list", message, targets[1].span, hint)
            return
        when = read_condition(self.reader, node)
        if when is not None:
            (target,) = targets
            label = shorten(" ".join(node.text.split()))
            self.found.append(Edge(source.text, target.text, when, span=target.span, label=label))


def read_condition(reader: Reader, text: Scalar) -> Expr | None:
    """The condition of an edge; the seed allows neither ``state.`` nor braces in it (decisions Y4,
    Y11)."""
    try:
        read = parse_at(text, parse_condition)
    except DefinitionError as error:
        reader.problems.extend(error.diagnostics)
        return None
    before = reader.error_count
    for comparison in read.comparisons():
        if comparison.left.prefixed:
            _refuse_prefix(reader, text, comparison.left.start, read)
        if isinstance(comparison.right, Bare):
            _check_bare(reader, text, comparison.right, read)
    return condition(text, read, ROOT) if reader.error_count == before else None


def _refuse_prefix(reader: Reader, text: Scalar, start: int, parsed: Condition) -> None:
    place = text.locate(start, start + len("state."))
    hint = f"write: {format_condition(parsed).replace('state.', '')}"
    reader.error("graph.condition-prefix", "a condition names keys without 'state.'", place, hint)


def _check_bare(reader: Reader, text: Scalar, right: Bare, parsed: Condition) -> None:
    place = text.locate(right.start, right.end)
    if right.text.startswith("state."):
        _refuse_prefix(reader, text, right.start, parsed)
    elif "{" in right.text:
        inner = right.text.strip("{} ").removeprefix("state.")
        hint = (
            f"write {inner}"
            if inner
            else "compare with null, or with a key that holds an empty object"
        )
        reader.error("graph.condition-braces", "a condition has no braces", place, hint)
    elif right.text.split(".")[0] not in reader.known:
        near = suggest(right.text.split(".")[0], sorted(reader.known))
        hint = " ".join(filter(None, (near, f"quote it if it is text: '{right.text}'")))
        message = f"{shorten(right.text)!r} is compared as text: there is no key with that name"
        reader.warn("graph.unquoted-text", message, place, hint)


COMPARING = ("<=", ">=", "==", "!=", "<", ">")

_LEFT = re.compile(r"[a-zA-Z_][\w.]*")
_OPERATOR = re.compile(r"<=|>=|==|!=|<|>")
_LONG_OPERATOR = re.compile(r"(?><=|>=|==|!=|<|>)\s*+[<>=]++")
_JOINING = re.compile(r"(and|or)(?=[\s(]|$)", re.IGNORECASE)
_NOT = re.compile(r"not\s+\w", re.IGNORECASE)
_WORD = re.compile(r"[^\s\w]+|\w+|.")
_LEFT_WORD = re.compile(r"[^\s<>=!]*")
_NOT_TEXT = re.compile(
    r"<|>|!?=|[()]|&&|\|\||[^\W_]\s*+[+*]\s*+\w|\S\s++[-+*/%]\s++\S|^[A-Za-z_][\w.]*+/[\w.]++$"
)
_PATH = re.compile(r"[\w.-]+")
_REVERSED = re.compile(r"([^\s<>=!]+)\s*(<=|>=|==|!=|<|>)\s*([a-zA-Z_][\w.]*)")
_MIRROR = {"<=": ">=", ">=": "<=", "==": "==", "!=": "!=", "<": ">", ">": "<"}


@dataclass(frozen=True, slots=True)
class ComparisonNode:
    left: Path
    operator: str
    right: Literal | Bare

    def holds(self, state: Any) -> bool:
        right = self.right.of(state)
        if isinstance(self.right, Bare):  # Y11: a key that exists counts even when it is None
            held = find(state, tuple(self.right.text.split(".")))
            right = right if held is MISSING else held
        return compare(self.operator, self.left.of(state), right)


@dataclass(frozen=True, slots=True)
class Condition:
    """True if all comparisons of one of its alternatives are true."""

    alternatives: tuple[tuple[ComparisonNode, ...], ...]

    def holds(self, state: Any) -> bool:
        return any(
            all(comparison.holds(state) for comparison in alternative)
            for alternative in self.alternatives
        )

    def comparisons(self) -> Iterator[ComparisonNode]:
        return (one for alternative in self.alternatives for one in alternative)


def parse_condition(source: str) -> Condition:
    """The meaning of a condition. Raises Refusal for everything that the grammar does not allow."""
    if len(source) > LONGEST:
        message = f"the condition has {len(source):,} characters; the limit is {LONGEST:,}"
        raise Refusal("graph.too-long", message, 0, 1)
    return _Parser(source, 0, len(source.rstrip())).condition()


class _Parser(Scanner):
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
        found = self.match(_OPERATOR)
        if found is None:
            self.refuse_missing_operator(left)
        if odd := self.match(_LONG_OPERATOR):
            hint = f"the operators are {' '.join(COMPARING)}"
            raise Refusal(
                "graph.operator", f"unknown operator {odd[0]!r}", odd.start(), odd.end(), hint
            )
        self.at = found.end()
        return ComparisonNode(left, found[0], self.right(left, found[0]))

    def left(self) -> Path:
        start = self.skip_blanks()
        if start >= self.end:
            hint = "a condition compares: score < 0.8, status == 'done'"
            raise Refusal("graph.unfinished", "expected a comparison here", start, start, hint)
        found = self.match(_LEFT)
        if found is None:
            self.refuse_left(start)
        if found[0].lower() in ("and", "or"):
            message, hint = (
                f"expected a comparison before {found[0]!r}",
                "write a comparison on both sides",
            )
            raise Refusal("graph.unfinished", message, start, found.end(), hint)
        if self.match(_NOT):
            hint = "use the opposite comparison: != for ==, >= for <; for 'not done' write done == false"
            raise Refusal("graph.not", "'not' is not supported", start, start + 3, hint)
        self.at = found.end()
        names = tuple(found[0].split("."))
        prefixed = names[0] == "state" and len(names) > 1
        names = names[1:] if prefixed else names
        if "" in names:
            hint = f"write {'.'.join(filter(None, names)) or 'a name'}"
            raise Refusal(
                "graph.path", f"a name is missing in the path {found[0]!r}", start, self.at, hint
            )
        return Path(names, start, self.at, prefixed)

    def refuse_left(self, start: int) -> NoReturn:
        source, char = self.source, self.source[start]
        if char == "(":
            hint = (
                "leave them out: 'and' binds more tightly than 'or'; several edges may lead to "
                "one node"
            )
            raise Refusal(
                "graph.parentheses", "parentheses are not supported", start, start + 1, hint
            )
        if char == "{":
            close = source.find("}", start, self.end)
            inner = source[start + 1 : close].strip("{ ") if close > 0 else ""
            end = close + 1 if close > 0 else self.end
            rest = (inner.removeprefix("state.") + source[end : self.end].lstrip("}")).strip()
            shown = f"write: {rest}" if inner else None
            raise Refusal("graph.condition-braces", "a condition has no braces", start, end, shown)
        word = self.match(_LEFT_WORD)
        end = max(word.end() if word else start, start + 1)
        hint = "the left side is a path into the state: score, critique.score"
        if found := _REVERSED.match(source, start, self.end):
            hint = f"swap the sides: {found[3]} {_MIRROR[found[2]]} {found[1]}"
        raise Refusal(
            "graph.left", f"a comparison cannot begin with {source[start:end]!r}", start, end, hint
        )

    def refuse_missing_operator(self, left: Path) -> NoReturn:
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
        if text == "=":
            message, hint = "'=' does not compare", "write == to compare"
        if self.source.startswith("(", left.end):
            name = self.source[left.start : left.end]
            message = f"a condition has no functions: there is no {name!r}"
            hint = (
                "let a python node before this edge compute it, and compare the key that it writes"
            )
        raise Refusal("graph.operator", message, self.at, end, hint)

    def right(self, left: Path, operator: str) -> Literal | Bare:
        start, source = self.skip_blanks(), self.source
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
        source, at = self.source, start
        while at < self.end:
            if source[at] in QUOTES:
                after = quoted_end(source, at, self.end)
                at = after if after > 0 else self.end
            elif source[at].isspace():
                word = skip_blanks(source, at, self.end)
                if _JOINING.match(source, word, self.end):
                    break
                at = word
            else:
                at += 1
        self.at = at
        text = source[start:at].rstrip()
        found = parse_literal(text, start)
        if isinstance(found, Bare):
            self.check_text(text, start)
        return found

    def check_text(self, text: str, start: int) -> None:
        # Everything after a quote that is not closed is text.
        if odd := _NOT_TEXT.search(
            text, 0, min(text.find(quote) % (len(text) + 1) for quote in QUOTES)
        ):
            found, place = odd[0].strip(), (start + odd.start(), start + odd.end())
            quoted = format_literal(text)
            hint = (
                f"compute it in a passthrough node and compare with its key; quote it if it is "
                f"text: {quoted}"
            )
            if found in ("(", ")"):
                raise Refusal("graph.parentheses", "parentheses are not supported", *place, hint)
            if found in ("&&", "||"):
                word = "and" if found == "&&" else "or"
                raise Refusal(
                    "graph.operator", f"unknown operator {found!r}", *place, f"write {word!r}"
                )
            if found[0] in "<>=!":
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


def format_condition(node: Condition) -> str:
    """The text of a condition: parsed again it is equal.

    >>> format_condition(parse_condition("a==1 AND b!='x'  or c>limit"))
    "a == 1 and b != 'x' or c > limit"
    """
    return " or ".join(
        " and ".join(map(_format_comparison, comparisons)) for comparisons in node.alternatives
    )


def _format_comparison(node: ComparisonNode) -> str:
    right = node.right.text if isinstance(node.right, Bare) else format_literal(node.right.value)
    # A key named "state" can only be reached with the prefix.
    prefix = "state." if node.left.names[0] == "state" else ""
    return f"{prefix}{'.'.join(node.left.names)} {node.operator} {right}"


def evaluate_condition(expr: str, state: Mapping[str, Value]) -> bool:
    """Whether a condition is true. Raises ValueError for an invalid condition.

    >>> evaluate_condition("score < 0.8 and status == 'open'", {"score": 0.5, "status": "open"})
    True
    """
    read: Condition = parsed(parse_condition, expr)
    return read.holds(state)


def parse_condition_text(text: Text) -> Evaluated:
    """The condition of a text that is used alone: its frame is the state."""
    return condition(text, parse_at(text, parse_condition))


def condition(text: Text, node: Condition, root: tuple[str, ...] = ()) -> Evaluated:
    """A condition as the engine evaluates it. ``root``: where in a frame the state is."""
    # Only the left sides certainly name keys: a name on the right may be text.
    return Evaluated(text, node.holds, tuple(one.left for one in node.comparisons()), root)
