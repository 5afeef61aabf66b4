"""Text to flow: one graph, its state, nodes and edges lowered to a `Walk`.

Everything that the text alone decides is an error here (decision A5), all of it told at once; what is legal but looks
wrong is a warning (lint.py). What the registry or the input decides is linking's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...flow.declared import Caps
from ...flow.frame import Expr
from ...flow.steps import Definition, Edge, Flow, Name, Sequence, Walk
from ...flow.values import Value
from ...text.diagnostics import Diagnostic, Diagnostics, suggest
from ...text.source import Source, Span
from ...text.yamlnodes import Bounds, Fields, Items, Node, Scalar, documents, shown
from .edges import Edges
from .kinds import build
from .lint import Graph, lint
from .nodes import Built, Here, node_id
from .reading import ROOT, Reader
from .state import Declared, Joining, Keys, ends, starts
from .tools import read_tools
from .words import BUILT_IN, CONFIG, DEFAULTS, GRAPH, REDUCERS, STATE_KEY, TYPES

ROUNDS, SIDE_BY_SIDE = 50, 8

_BOUNDS = Bounds()


def load(source: Source, problems: Diagnostics, bounds: Bounds = _BOUNDS) -> Definition:
    """The graph that ``source`` defines; what is wrong goes to ``problems``."""
    before = len(problems.errors)
    nodes = documents(source, problems, bounds)
    if len(problems.errors) > before:
        return Definition(None)
    if not nodes:
        problems.error("graph.no-graph", "there is no graph here", source.span(0, 0), "begin: nodes: and edges:")
        return Definition(None)
    for other in nodes[1:]:
        problems.error("graph.two-graphs", "one graph per cell or file", other.span, "a subgraph node runs another one")
    if not isinstance(nodes[0], Fields):
        hint = "begin with nodes: and edges:"
        problems.error("graph.document-shape", f"a graph is a mapping, not {shown(nodes[0])}", nodes[0].span, hint)
        return Definition(None)
    flow = _Loading(source, problems).flow(nodes[0])
    return Definition(flow if len(problems.errors) == before else None)


class _Loading:
    def __init__(self, source: Source, problems: Diagnostics) -> None:
        self.source, self.problems = source, problems
        self.reader = Reader(problems)
        self.spans: dict[str, Span] = {}
        self.items: dict[str, str] = {}

    def flow(self, document: Fields) -> Flow | None:
        first = next(iter(document.keys.values()), None)
        self.begins = first.span if first else document.span
        self.state_names(document.fields.get("state"))
        given = self.reader.fields(GRAPH, document, self.begins)
        declared = self.declared(given.get("state"))
        built = self.nodes(given)
        read = Edges(self.reader, tuple(self.spans), {name: each.answers for name, each in built.items()})
        edges = read.read(given["edges"]) if isinstance(given.get("edges"), Items) else ()
        self.entered(given, edges)
        self.targets(given, built)
        if self.reader.faults:
            return None
        keys = Keys(_with_written(declared, built))
        limits: dict[str, tuple[Span, int]] = given.get("loop_limits") or {}
        exits = {node: place.text for node, place in (given.get("loop_exits") or {}).items()}
        graph = Graph(built, self.spans, edges, keys, tuple(limits), exits, self.items, "state" in given)
        lint(self.reader, graph)
        return self.made(given, built, edges, keys, limits)

    def made(
        self,
        given: dict[str, Any],
        built: Mapping[str, Built],
        edges: tuple[Edge, ...],
        keys: Keys,
        limits: Mapping[str, tuple[Span, int]],
    ) -> Flow:
        config, name = self.config(given), given.get("name") or Name("", self.begins)
        initial: tuple[tuple[Name, Expr], ...] = given.get("variables") or ()
        exits: dict[str, Name] = given.get("loop_exits") or {}
        walk = Walk(
            id="nodes",
            word="graph",
            label=name.text or "graph",
            span=name.span,
            nodes={node: each.step for node, each in built.items()},
            edges=edges,
            join=Joining(keys, {node: each.write for node, each in built.items()}),
            limits={node: count for node, (_, count) in limits.items()},
            exits={node: place.text for node, place in exits.items()},
            over=lambda node: _limit(node, *limits[node]),
            rounds=config.get("recursion_limit") or ROUNDS,
            endless=lambda rounds: _endless(rounds, self.limit_of(given) or name.span),
            width=config["max_concurrency"],
            written={node: tuple(key.name for key in each.keys) for node, each in built.items()},
        )
        described: Name | None = given.get("description")
        return Flow(
            name=name.text,
            language="graph",
            source=self.source,
            body=Sequence(id="graph", word="graph", label=name.text or "graph", span=name.span, steps=(walk,)),
            start=starts(keys, lambda: _initial(initial)),
            end=ends(keys),
            description=described.text if described else "",
            stores=ROOT,
            span=name.span,
            caps=_caps(config),
        )

    def state_names(self, node: Node | None) -> None:
        """What expressions may name, known before they are read."""
        self.reader.known = {*BUILT_IN, *(node.fields if isinstance(node, Fields) else ())}

    def declared(self, node: Fields | None) -> dict[str, Declared]:
        found = {}
        for name, value in node.fields.items() if node else ():
            span = node.keys[name].span if node else None
            assert span is not None, "a key has a place"
            if isinstance(value, Fields):
                given = self.reader.fields(STATE_KEY, value, span)
                kind, reducer = given.get("type"), given.get("reducer")
            elif isinstance(value, Scalar) and isinstance(value.value, str):
                kind, reducer = Name(value.text, value.span), None
            else:
                hint = f"{name}: int, or {name}: {{type: list, reducer: add}}"
                self.reader.wrong("wrong-type", f"a state key has a type, not {shown(value)}", value.span, hint)
                continue
            found[name] = Declared(name, self.type(kind), self.reducer(reducer), span)
        return found

    def type(self, kind: Name | None) -> str:
        if kind is not None and kind.text not in TYPES:
            hint = suggest(kind.text, TYPES, "types")
            self.reader.warn("state-type", f"no type {kind.text!r}: the key may hold anything", kind.span, hint)
        return kind.text if kind is not None and kind.text in TYPES else "any"

    def reducer(self, name: Name | None) -> str | None:
        if name is not None and name.text not in REDUCERS:
            hint = suggest(name.text, REDUCERS, "reducers")
            self.reader.wrong("reducer-name", f"no reducer {name.text!r}", name.span, hint)
        return name.text if name is not None else None

    def config(self, given: dict[str, Any]) -> dict[str, Any]:
        node: Fields | None = given.get("config")
        read = given.get("_config")
        if read is None:
            read = self.reader.fields(CONFIG, node, node.span) if node else {}
            read.setdefault("max_concurrency", SIDE_BY_SIDE)
            given["_config"] = read
        return dict(read)

    def limit_of(self, given: dict[str, Any]) -> Span | None:
        """Where the document says how many rounds there may be."""
        node: Fields | None = given.get("config")
        key = node.keys.get("recursion_limit") if node is not None else None
        return key.span if key is not None else None

    def nodes(self, given: dict[str, Any]) -> dict[str, Built]:
        tools, limits = read_tools(self.reader, given.get("tools")), self.config(given)
        node: Fields | None = given.get("defaults")
        defaults = self.reader.fields(DEFAULTS, node, node.span) if node else {}
        written: Fields | None = given.get("nodes")
        if written is not None and not written.fields:
            self.reader.wrong("missing-key", "nodes is empty", written.span, "nodes: {first: {type: passthrough}}")
        found: dict[str, Built] = {}
        for name, value in written.fields.items() if written else ():
            span = written.keys[name].span if written else None
            assert span is not None, "a key has a place"
            if not name.strip() or name in ("START", "END"):
                what = f"no node can be named {name!r}" if name.strip() else "a node has a blank name"
                self.reader.wrong("node-name", what, span, "START and END stand for where a run begins and ends")
                continue
            self.spans[name] = span
            built = build(self.reader, value, Here(name, node_id(name), "", span, defaults, tools, limits))
            if built is not None:
                found[name] = built
            item = value.fields.get("as") if isinstance(value, Fields) else None
            if isinstance(item, Scalar):
                self.items[name] = item.text
        self.told_models(written, node)
        return found

    def told_models(self, nodes: Fields | None, defaults: Fields | None) -> None:
        """Keys for a model of its own, of which there is none: the registered agent answers."""
        for held in (defaults, *(nodes.fields.values() if nodes else ())):
            for name in ("provider", "model", "temperature", "max_tokens", "max_iterations"):
                if isinstance(held, Fields) and name in held.keys:
                    message = f"{name!r} is not used: the agent that answers has its own model"
                    hint = "identity: names the registered agent"
                    self.reader.warn("model-ignored", message, held.keys[name].span, hint)

    def entered(self, given: dict[str, Any], edges: tuple[Edge, ...]) -> None:
        node = given.get("edges")
        if isinstance(node, Items) and not any(edge.source == "START" for edge in edges) and not self.reader.faults:
            first = next(iter(self.spans), "first")
            self.reader.wrong("no-start", "no edge begins at START", node.span, f"{{from: START, to: {first}}}")

    def targets(self, given: dict[str, Any], built: Mapping[str, Built]) -> None:
        """Nodes that limits, exits and routes name."""
        limits: dict[str, tuple[Span, int]] = given.get("loop_limits") or {}
        exits: dict[str, Name] = given.get("loop_exits") or {}
        named = [Name(name, span) for name, (span, _) in limits.items()]
        named += [place for place in exits.values() if place.text != "END"]
        named += [Name(name, place.span) for name, place in exits.items() if name not in self.spans]
        named += [place for each in built.values() for place in each.routes]
        for place in dict.fromkeys(named):
            if place.text not in self.spans:
                hint = suggest(place.text, self.spans, "nodes")
                self.reader.wrong("unknown-node", f"there is no node {place.text!r}", place.span, hint)
        for name, place in exits.items():
            if name in self.spans and name not in limits:
                message = f"{name!r} has an exit and no limit: it is never taken"
                self.reader.warn("exit-unused", message, place.span, f"loop_limits: {{{name}: 10}}")


def _with_written(declared: dict[str, Declared], built: Mapping[str, Built]) -> dict[str, Declared]:
    """What the state declares and what nodes declare by naming it."""
    found = dict(declared)
    for each in built.values():
        for key in each.keys:
            if key.reducer is not None:
                found[key.name] = Declared(key.name, key.type, key.reducer, key.span)
            elif key.declares and key.name not in found:
                found[key.name] = Declared(key.name, key.type, None, key.span)
    return found


def _initial(values: tuple[tuple[Name, Expr], ...]) -> dict[str, Value]:
    return {name.text: expr.evaluate({"state": {}}) for name, expr in values}


def _limit(node: str, span: Span, count: int) -> Diagnostic:
    message = f"{node!r} has run {count} times, as often as it may"
    return Diagnostic("graph.loop-limit", message, span, "loop_exits says where it then leads to", "warning")


def _endless(rounds: int, span: Span | None) -> Diagnostic:
    message = f"the graph went through its {rounds} rounds and has not come to an end"
    hint = f"a loop needs an edge that leaves it; more rounds: config: {{recursion_limit: {2 * rounds}}}"
    return Diagnostic("step.rounds", message, span, hint)


def _caps(config: Mapping[str, Any]) -> Caps | None:
    seconds, tokens = config.get("timeout"), config.get("max_tokens")
    return Caps(seconds=seconds, tokens=tokens) if seconds is not None or tokens is not None else None
