"""``edges:`` to the edges of a `Walk`: conditions, else, routes, several targets at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from ...flow.frame import Expr, Frame, Ref
from ...flow.steps import END, START, Edge
from ...flow.values import Value
from ...text.diagnostics import DefinitionError, suggest
from ...text.nodes import shorten
from ...text.source import Span
from ...text.yamlnodes import Fields, Items, Node, Scalar, shown
from .condition import comparisons, condition
from .condition_grammar import Condition, parse_condition, show
from .reading import ROOT, Reader
from .tokens import Bare, located
from .words import EDGE, Key

ELSE = "else"


class RouteIs:
    """Whether a router chose this node. An Expr."""

    __slots__ = ("evaluate", "span")

    evaluate: Callable[[Frame], Value]

    def __init__(self, target: str, span: Span) -> None:
        self.span = span
        self.evaluate = lambda frame: frame["state"].get("_route") == target

    def reads(self) -> tuple[Ref, ...]:
        return (Ref((*ROOT, "_route"), self.span, certain=False),)


class Place(NamedTuple):
    """A node's name where an edge has it."""

    name: str
    span: Span


class Edges:
    """Reads the edges of one graph."""

    def __init__(self, reader: Reader, nodes: Collection[str], answers: Mapping[str, Mapping[str, str]]) -> None:
        """``answers``: of each router what it is answered where it leads to a node."""
        self.reader, self.answers = reader, answers
        self.sources, self.goals = dict.fromkeys((START, *nodes)), dict.fromkeys((*nodes, END))
        self.found: list[Edge] = []
        self.routed: set[str] = set()
        """The nodes with edges of type conditional."""

    def read(self, items: Items) -> tuple[Edge, ...]:
        for item in items.items:
            if isinstance(item, Fields):
                self.edge(item)
            else:
                hint = "an edge: {from: START, to: first}"
                self.reader.wrong(
                    "edge-shape", f"an edge is a mapping with from and to, not {shown(item)}", item.span, hint
                )
        return tuple(self.found)

    def edge(self, node: Fields) -> None:
        before = self.reader.faults
        given = self.reader.fields(EDGE, node, node.span)
        if self.reader.faults > before:
            return
        source = self.name(given["from"], self.sources, "from")
        targets = self.targets(given["to"])
        if source is None or not targets:
            return
        written: Node | None = given.get("condition")
        if given.get("type") == "conditional":
            if written is not None:
                hint = "keep one: type: conditional follows a router, condition: compares"
                self.reader.wrong("edge-kind", "an edge has a condition or a type", written.span, hint)
            self.route(source, targets)
        elif written is None:
            self.found += [Edge(source.name, target.name, span=target.span) for target in targets]
        else:
            self.conditional(source, targets, written)

    def name(self, node: Node, known: Collection[str], key: str) -> Place | None:
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            self.reader.mistyped(node, Key(key, "source" if key == "from" else "targets", ""))
            return None
        if node.text in (START, END) and node.text not in known:
            message = f"no edge leads {f'to {START}' if key == 'to' else f'from {END}'}"
            self.reader.wrong("unknown-node", message, node.span, f"{START} is where the graph begins, {END} its end")
            return None
        if node.text not in known:
            hint = suggest(node.text, known, "nodes")
            self.reader.wrong("unknown-node", f"there is no node {node.text!r}", node.span, hint)
            return None
        return Place(node.text, node.span)

    def targets(self, node: Node) -> list[Place]:
        nodes = node.items if isinstance(node, Items) else (node,)
        if not nodes:
            self.reader.mistyped(node, Key("to", "targets", ""))
        found = [self.name(each, self.goals, "to") for each in nodes]
        return [place for place in found if place is not None]

    def route(self, source: Place, targets: list[Place]) -> None:
        """To the one that ``_route`` names; to the first where it names none of them."""
        self.routed.add(source.name)
        first, *others = targets
        answers = self.answers.get(source.name, {})
        for target in others:
            when, label = RouteIs(target.name, target.span), shorten(answers.get(target.name, target.name))
            self.found.append(Edge(source.name, target.name, when, span=target.span, label=label))
        label = shorten(answers.get(first.name, first.name))
        self.found.append(Edge(source.name, first.name, otherwise=True, span=first.span, label=label))

    def conditional(self, source: Place, targets: list[Place], node: Node) -> None:
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            self.reader.mistyped(node, Key("condition", "condition", ""))
            return
        if node.text.strip() == ELSE:
            self.found += [
                Edge(source.name, target.name, otherwise=True, span=target.span, label=ELSE) for target in targets
            ]
            return
        if len(targets) > 1:
            hint = "lead it to one node, and from there on to several"
            self.reader.wrong("condition-list", "an edge with a condition leads to one node", targets[1].span, hint)
            return
        when = read_condition(self.reader, node)
        if when is not None:
            (target,) = targets
            label = shorten(" ".join(node.text.split()))
            self.found.append(Edge(source.name, target.name, when, span=target.span, label=label))


def read_condition(reader: Reader, text: Scalar) -> Expr | None:
    """The condition that ``text`` is, with what the seed does not allow in one told (decisions Y4, Y11)."""
    try:
        parsed = located(text, parse_condition)
    except DefinitionError as error:
        reader.faults += 1
        reader.problems.extend(error.diagnostics)
        return None
    before = reader.faults
    for one in comparisons(parsed):
        left, right = one.left, one.right
        if left.prefixed:
            _no_prefix(reader, text, left.start, parsed)
        if isinstance(right, Bare):
            _bare(reader, text, right, parsed)
    return condition(text, parsed, ROOT) if reader.faults == before else None


def _no_prefix(reader: Reader, text: Scalar, start: int, parsed: Condition) -> None:
    place = text.locate(start, start + len("state."))
    hint = f"write: {show(parsed).replace('state.', '')}"
    reader.wrong("condition-prefix", "a condition names keys without 'state.'", place, hint)


def _bare(reader: Reader, text: Scalar, right: Bare, parsed: Condition) -> None:
    place = text.locate(right.start, right.end)
    if right.text.startswith("state."):
        _no_prefix(reader, text, right.start, parsed)
    elif "{" in right.text:
        inner = right.text.strip("{} ").removeprefix("state.")
        hint = f"write {inner}" if inner else "compare with null, or with a key that holds an empty object"
        reader.wrong("condition-braces", "a condition has no braces", place, hint)
    elif right.text.split(".")[0] not in reader.known:
        near = suggest(right.text.split(".")[0], sorted(reader.known))
        hint = " ".join(filter(None, (near, f"quote it if it is text: '{right.text}'")))
        reader.warn("unquoted-text", f"{shorten(right.text)!r} is compared as text: no key has that name", place, hint)


def outgoing(edges: Collection[Edge]) -> dict[str, list[Edge]]:
    out: dict[str, list[Edge]] = {}
    for edge in edges:
        out.setdefault(edge.source, []).append(edge)
    return out


def is_plain(edge: Edge) -> bool:
    return edge.when is None and not edge.otherwise
