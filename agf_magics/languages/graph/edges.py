"""``edges:`` to the edges of a `Walk`: conditions, else, routes, several targets at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ...flow.expressions import Computed
from ...flow.step import Expr, Ref
from ...flow.steps import END, START, Edge, Name
from ...text.diagnostics import DefinitionError, suggest
from ...text.nodes import shorten
from ...text.yamlnodes import Fields, Items, Node, Scalar, shown
from ..documents import parse_at
from .condition import Condition, condition, format_condition, parse_condition
from .reading import ROOT, Reader
from .value_grammar import Bare
from .words import EDGE

ELSE = "else"


def _is_route(target: Name) -> Computed:
    """Whether a router chose the node."""
    ref = Ref((*ROOT, "_route"), target.span, False)
    assert target.span is not None, "a target has a place"
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
        names = (
            [one.text for one in item.items if isinstance(one, Scalar)]
            if isinstance(item, Items)
            else []
        )
        source, target = names if len(names) == 2 else ("START", next(iter(self.goals)))
        return f"write {{from: {source}, to: {target}}}"

    def edge(self, node: Fields) -> None:
        before = self.reader.error_count
        given = self.reader.fields(EDGE, node, node.span)
        if self.reader.error_count > before:
            return
        source = self.name(given["from"], self.sources, "from")
        targets = self.targets(given["to"])
        if source is None or not targets:
            return
        written: Node | None = given.get("condition")
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

    def name(self, node: Node, known: Collection[str], key: str) -> Name | None:
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            self.reader.wrong_type(node, EDGE.keys[key])
            return None
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
        return Name(node.text, node.span)

    def targets(self, node: Node) -> list[Name]:
        nodes = node.items if isinstance(node, Items) else (node,)
        if not nodes:
            self.reader.wrong_type(node, EDGE.keys["to"])
        found = [self.name(each, self.goals, "to") for each in nodes]
        return [place for place in found if place is not None]

    def route(self, source: Name, targets: list[Name]) -> None:
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

    def conditional(self, source: Name, targets: list[Name], node: Node) -> None:
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            self.reader.wrong_type(node, EDGE.keys["condition"])
            return
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
        parsed = parse_at(text, parse_condition)
    except DefinitionError as error:
        reader.problems.extend(error.diagnostics)
        return None
    before = reader.error_count
    for one in parsed.comparisons():
        if one.left.prefixed:
            _refuse_prefix(reader, text, one.left.start, parsed)
        if isinstance(one.right, Bare):
            _check_bare(reader, text, one.right, parsed)
    return condition(text, parsed, ROOT) if reader.error_count == before else None


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


def outgoing(edges: Collection[Edge]) -> dict[str, list[Edge]]:
    out: dict[str, list[Edge]] = {}
    for edge in edges:
        out.setdefault(edge.source, []).append(edge)
    return out


def is_plain(edge: Edge) -> bool:
    return edge.when is None and not edge.otherwise
