"""Reads ``edges:`` as edges of a `Walk`, with conditions, ``else``, routes and several targets."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from ...flow.expressions import Computed
from ...flow.graph_steps import END, START, Edge
from ...flow.protocols import Expr, Frame, Ref
from ...text.characters import QUOTES, character_hint
from ...text.diagnostics import DefinitionError
from ...text.shorten import shorten
from ...text.suggestions import misspelled_names, suggest
from ...text.yaml.nodes import Fields, Items, Node, Scalar, flow_text, shown
from ...values.value import Value
from ..scan import parse_at
from .expressions.condition import (
    Condition,
    condition,
    format_condition,
    needs_prefix,
    parse_condition,
)
from .expressions.reading import ROOT, Reader
from .expressions.tokens import Bare
from .state import CHOSEN_ROUTES, ROUTE
from .words import EDGE

ELSE = "else"
_ARROW = re.compile(r"\s*([^\s<>=-]+)\s*(?:->|=>|-->|→|>)\s*([^\s<>=-]+)\s*")
"""An edge in the notation of a picture."""


class IsRoute(Computed):
    """Whether the target of an edge was chosen by the source of the edge; if the source chooses no
    target, by the last router (decision Y19)."""

    __slots__ = ()

    def __init__(self, source: str, target: Scalar) -> None:
        def evaluate(frame: Frame) -> Value:
            chosen = frame.get(CHOSEN_ROUTES, {}).get(source, frame["state"].get(ROUTE))
            return bool(chosen == target.text)

        ref = Ref((*ROOT, ROUTE), target.span, certain=False)
        super().__init__(target.span, evaluate, (ref,))


def is_pair(item: Fields) -> bool:
    """Whether an edge is written ``a: b``, without from and to."""
    if len(item.fields) != 1:
        return False
    ((name, target),) = item.fields.items()
    return bool(target.text) and name not in EDGE.keys and not misspelled_names([name], EDGE.keys)


class Edges:
    """Reads the edges of one graph."""

    def __init__(
        self, reader: Reader, nodes: Collection[str], answers: Mapping[str, Mapping[str, str]]
    ) -> None:
        """``answers``: the answers of each router that lead to each node."""
        self.reader = reader
        self.answers = answers
        self.sources, self.goals = dict.fromkeys((START, *nodes)), dict.fromkeys((*nodes, END))
        self.edges: list[Edge] = []

    def read(self, items: Items) -> tuple[Edge, ...]:
        for item in items.items:
            if isinstance(item, Fields) and not is_pair(item):
                self.edge(item)
            else:
                message = f"an edge must be a mapping with from and to, got {shown(item)}"
                self.reader.error("graph.edge-shape", message, item.span, self.edge_example(item))
        return tuple(self.edges)

    def edge_example(self, item: Node) -> str:
        """The edge that a list such as ``[START, a]`` or an arrow such as ``START -> a`` means."""
        names = [target.text for target in item.items] if isinstance(item, Items) else []
        if isinstance(item, Fields):
            names = [text for pair in item.fields.items() for text in (pair[0], pair[1].text)]
        if arrow := _ARROW.fullmatch(item.text or ""):
            names = [arrow[1], arrow[2]]
        source, target = names if len(names) == 2 else ("START", next(iter(self.goals)))
        return f"write {{from: {source}, to: {target}}}"

    def edge(self, node: Fields) -> None:
        before = self.reader.lost
        source_node = node.fields.get("from")
        if isinstance(source_node, Items) and len(source_node.items) > 1:
            rest = "".join(f", {k}: {flow_text(v)}" for k, v in node.fields.items() if k != "from")
            each = ", ".join(f"{{from: {flow_text(item)}{rest}}}" for item in source_node.items)
            hint = f"write one edge for each node: {each}"
            self.reader.wrong_type(source_node, EDGE.keys["from"], hint)
            return
        fields = self.reader.fields(EDGE, node, node.span)
        if self.reader.lost > before:
            return
        source = self.name(fields["from"], self.sources, "from")
        named = [self.name(goal, self.goals, "to") for goal in fields["to"]]
        targets = [place for place in named if place is not None]
        if source is None or not targets:
            return
        written: Scalar | None = fields.get("condition")
        if fields.get("type") == "conditional":
            if written is not None:
                hint = "keep one of them: type: conditional follows a router, condition: compares"
                message = "an edge cannot have both a condition and a type"
                self.reader.error("graph.edge-kind", message, written.span, hint)
            self.route(source, targets)
        elif written is None:
            self.edges += [Edge(source.text, target.text, span=target.span) for target in targets]
        else:
            self.conditional(source, targets, written)

    def name(self, node: Scalar, names: Collection[str], key: str) -> Scalar | None:
        """``node`` if it is one of ``names``; None after an error. ``key``: ``from`` or ``to``."""
        if node.text in (START, END) and node.text not in names:
            message = f"an edge cannot lead {f'to {START}' if key == 'to' else f'from {END}'}"
            self.reader.error(
                "graph.unknown-node",
                message,
                node.span,
                f"a graph begins at {START} and ends at {END}",
            )
            return None
        if node.text not in names:
            hint = suggest(node.text, names, "nodes")
            self.reader.error(
                "graph.unknown-node", f"there is no node {node.text!r}", node.span, hint
            )
            return None
        return node

    def route(self, source: Scalar, targets: list[Scalar]) -> None:
        """Edges to the target that the router has chosen; to the first target if it has chosen none
        of them."""
        first, *other_targets = targets
        answers = self.answers.get(source.text, {})
        for target in other_targets:
            when = IsRoute(source.text, target)
            label = shorten(answers.get(target.text, target.text))
            self.edges.append(Edge(source.text, target.text, when, span=target.span, label=label))
        label = shorten(answers.get(first.text, first.text))
        self.edges.append(
            Edge(source.text, first.text, otherwise=True, span=first.span, label=label)
        )

    def conditional(self, source: Scalar, targets: list[Scalar], node: Scalar) -> None:
        """An edge with the condition ``node``, or edges for the case that no condition is true."""
        if node.text.strip() == ELSE:
            self.edges += [
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
            self.edges.append(Edge(source.text, target.text, when, span=target.span, label=label))


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
        if comparison.left.prefixed and not needs_prefix(comparison.left.names):
            _refuse_prefix(reader, text, comparison.left.start, read)
        if isinstance(comparison.right, Bare):
            _check_bare(reader, text, comparison.right, read)
    return condition(text, read, ROOT) if reader.error_count == before else None


def _refuse_prefix(reader: Reader, text: Scalar, start: int, parsed: Condition) -> None:
    place = text.locate(start, start + len("state."))
    hint = f"write: {format_condition(parsed, prefix=False)}"
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
    elif right.text.split(".")[0] not in reader.known_keys:
        near = suggest(right.text.split(".")[0], sorted(reader.known_keys))
        hint = " ".join(filter(None, (near, f"quote it if it is text: '{right.text}'")))
        if right.text[:1] in QUOTES:
            hint = character_hint(right.text[0], place.place[0])
        message = f"{shorten(right.text)!r} is compared as text: there is no key with that name"
        reader.warn("graph.unquoted-text", message, place, hint)
