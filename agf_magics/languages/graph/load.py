"""Loads the text of a graph into a flow, whose only step is a `Walk` over the nodes and edges.

Everything that the text alone decides is an error here (decision A5), and all errors are reported
together. A legal text that looks wrong gives a warning (lint.py). The linker checks names that the
registry or the input decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

from ...flow.flow import Declarations, Definition, Dialect, Flow, Origin
from ...flow.graph_steps import Edge, Walk
from ...flow.protocols import Expr, Name
from ...flow.step_options import Export, OwnLimits
from ...flow.steps import Invoke, Sequence, part
from ...text.diagnostics import Diagnostics
from ...text.source import Source, Span
from ...text.suggestions import suggest
from ...text.yaml.nodes import NOTHING, Fields, Items, Scalar, expr_tags, is_text, shown
from ...text.yaml.reader import Bounds
from ...values.value import Value
from ..documents import DocumentProblem, name_at, one_document, text_at
from ..keys import MappingSpec
from ..refused import refused_flow
from .clashes import Clashes, refuse_clashes
from .data_flow import feeds, reads_of_node
from .edges import Edges
from .exports import read_exports
from .expressions.reading import ROOT, Reader
from .expressions.tokens import KEY_NAME
from .lint import Graph, lint
from .node_kinds import build
from .nodes.builder_contract import BuiltNode, NodeSite
from .nodes.declared_tools import Tools, read_tools
from .peer_key import peer_key_in_code
from .prompts.prompt_files import Folders
from .state import COUNTS, Declared, Joining, Keys, end_of, start_of
from .takes import TYPES
from .walk_messages import endless_walk, over_limit
from .words import BUILT_IN, CONFIG, DEFAULTS, GRAPH, REDUCERS, STATE_KEY

ROUNDS = 50
"""The rounds of a graph, if it sets no ``recursion_limit``."""

CONCURRENT = 8
"""The nodes of a round that run at the same time, if it sets no ``max_concurrency``."""

_BOUNDS = Bounds()

_NO_GRAPH = DocumentProblem("graph.no-graph", "the text is empty", "a graph has nodes: and edges:")
_TWO_GRAPHS = DocumentProblem(
    "graph.two-graphs",
    "a cell or file holds one graph",
    "put it into a cell or file of its own; a subgraph node runs another graph",
)


def load(source: Source, problems: Diagnostics, bounds: Bounds = _BOUNDS) -> Definition:
    """The graph that ``source`` defines; errors and warnings go to ``problems``."""
    loader = _Loader(source, problems)
    document = one_document(source, problems, bounds, _NO_GRAPH, _TWO_GRAPHS)
    if document is None:
        return Definition(None)
    if not isinstance(document, Fields):
        message = f"a graph must be a mapping, got {shown(document)}"
        problems.error("graph.document-shape", message, document.span, _NO_GRAPH.hint)
        return Definition(None)
    return Definition(loader.flow(document))


_CHAINED = 8
"""The most nodes of a graph without edges for which a hint writes the edges out."""


class _Loader:
    """The loading of one graph."""

    def __init__(self, source: Source, problems: Diagnostics) -> None:
        self.source = source
        self.reader = Reader(problems)
        self.limits: dict[str, tuple[Span | None, int]] = {}
        """``loop_limits``."""
        self.exits: dict[str, Name] = {}
        """``loop_exits``."""
        self.variables: tuple[tuple[Name, Expr], ...] = ()
        """``variables``, with their first values."""
        self.tools: frozenset[str] = frozenset()
        """The names of all tools that the graph declares, also of those that cannot be read."""
        self.named: list[str] = []
        """The names of all nodes, also of those that cannot be read. `nodes` fills it."""

    def flow(self, document: Fields) -> Flow | None:
        """The flow of a document; None, after errors, if it is none."""
        for node in expr_tags(document):
            self.reader.refuse_tag(node)
        self.collect_names(document)
        fields = self.reader.fields(GRAPH, document, document.head)
        self.limits = fields.get("loop_limits", {})
        self.exits = fields.get("loop_exits", {})
        self.variables = fields.get("variables", ())
        declared = self.declared(fields.get("state"))
        config = {"recursion_limit": ROUNDS, **self.section(CONFIG, fields.get("config"))}
        tools = read_tools(self.reader, fields.get("tools"))
        built = self.nodes(fields, tools, config)
        edges = self.edges(fields, built)
        self.check_start(fields, edges)
        self.check_targets(built)
        exports = tuple(read_exports(self.reader, fields.get("exports")))
        if self.reader.lost:
            return self.refused(fields, built)
        keys = Keys(_with_written(declared, built))
        walk = self.walk(fields, built, edges, keys, config)
        refuse_clashes(self.reader, walk)
        if self.reader.lost:
            return self.refused(fields, built)
        named = (
            *(name for name, _ in self.variables),
            *(Name(export.name, export.span) for export in exports),
        )
        lint(self.reader, Graph(walk, built, keys, tools, self.reader.declared is not None, named))
        return self.around(walk, fields, keys, config, exports)

    def refused(self, fields: Mapping[str, Any], built: Mapping[str, BuiltNode]) -> Flow | None:
        """The nodes of a graph with errors, for the linker, without those whose tool the graph
        declares itself: its declaration may have the errors."""
        name = name_at(fields, "name", Name(""))
        steps = (
            node.step
            for node in built.values()
            if not (isinstance(node.step, Invoke) and node.step.name.text in self.tools)
        )
        return refused_flow(self.source, "graph", name, steps)

    def around(
        self,
        walk: Walk,
        fields: Mapping[str, Any],
        keys: Keys,
        config: Mapping[str, Any],
        exports: tuple[Export, ...],
    ) -> Flow:
        """The flow whose only step is ``walk``."""
        variables = self.variables

        def begin() -> dict[str, Value]:
            return {name.text: expr.evaluate({"state": {}}) for name, expr in variables}

        return Flow(
            name=text_at(fields, "name"),
            language="graph",
            source=self.source,
            body=Sequence(
                id="graph", word="graph", label=walk.label, span=walk.span, steps=(walk,)
            ),
            start=start_of(keys, begin),
            end=end_of(keys),
            dialect=Dialect(stores=ROOT, foreign=peer_key_in_code),
            declared=Declarations(
                text_at(fields, "description"),
                own_limits=_own_limits(config),
                refuses=tuple(self.reader.refuses),
                exports=exports,
            ),
            origin=Origin(walk.span),
        )

    def edges(self, fields: Mapping[str, Any], built: Mapping[str, BuiltNode]) -> tuple[Edge, ...]:
        """The edges, which `nodes` must come before: an edge leads to a name in `named`."""
        items = fields.get("edges")
        # Without nodes each edge is wrong.
        if not self.named or not isinstance(items, Items):
            return ()
        answers = {name: node.answers for name, node in built.items()}
        return Edges(self.reader, tuple(self.named), answers).read(items)

    def walk(
        self,
        fields: dict[str, Any],
        built: Mapping[str, BuiltNode],
        edges: tuple[Edge, ...],
        keys: Keys,
        config: Mapping[str, Any],
    ) -> Walk:
        """The step that runs the nodes along the edges."""
        label, span = name_at(fields, "name", Name("graph"))
        exits = {node: place.text for node, place in self.exits.items()}
        variables = {name.text for name, _ in self.variables}
        limit = fields.get("config", NOTHING).keys.get("recursion_limit")
        place_of_limit = limit.span if limit is not None else span or fields["edges"].span
        return Walk(
            id="nodes",
            word="graph",
            label=label,
            span=span,
            nodes={name: node.step for name, node in built.items()},
            edges=edges,
            join=Joining(
                keys,
                {name: node.write for name, node in built.items()},
                {name: node.note for name, node in built.items() if node.note is not None},
                counts=COUNTS not in keys.declared and _reads_counts(built, edges),
            ),
            limits={name: count for name, (_, count) in self.limits.items()},
            exits=exits,
            over=lambda name: over_limit(name, *self.limits[name], name in exits),
            rounds=config["recursion_limit"],
            endless=lambda rounds: endless_walk(rounds, place_of_limit),
            width=config.get("max_concurrency", CONCURRENT),
            clash=Clashes(built, keys),
            begun=frozenset({*BUILT_IN, *keys.begin({}, {}), *variables}),
            unwritten=_unwritten(keys.declared, built, variables),
            writes_any=frozenset(name for name, node in built.items() if node.writes_any),
            written={name: tuple(key.name for key in node.keys) for name, node in built.items()},
            feeds=feeds(built, edges, exits, keys, variables),
        )

    def collect_names(self, document: Fields) -> None:
        """Give the reader, before it reads the first expression, the names that one may use, and for
        its hints the nodes in their order."""
        self.tools = frozenset(document.inner("tools").fields)
        state = document.fields.get("state")
        nodes = document.inner("nodes")
        named = set(BUILT_IN)
        if isinstance(state, Fields):
            self.reader.declared = frozenset(state.fields)
            named |= state.fields.keys()
        if len(nodes.fields) <= _CHAINED and all(map(KEY_NAME.fullmatch, nodes.fields)):
            self.reader.chain = tuple(nodes.fields)
        for node in map(nodes.inner, nodes.fields):
            named |= {*map(node.text_at, ("state_key", "collect", "failures", "resume_key", "as"))}
            named |= {*node.inner("output").fields, *node.inner("set").fields}
        self.reader.known_keys = named - {""}

    def section(self, kind: MappingSpec, node: Fields | None) -> dict[str, Any]:
        """The values of a mapping of the document; empty, if it is not there."""
        return self.reader.fields(kind, node, node.span) if node is not None else {}

    def declared(self, node: Fields | None) -> dict[str, Declared]:
        """The keys that ``state:`` declares."""
        declared = {}
        for key, value in self.reader.named_entries(node):
            name = key.text
            if isinstance(value, Fields):
                fields = self.reader.fields(STATE_KEY, value, key.span)
                kind = name_at(fields, "type", Name("any"))
                reducer = fields.get("reducer")
            elif is_text(value):
                kind = Name(value.text, value.span)
                reducer = None
            else:
                hint = f"{name}: int, or {name}: {{type: list, reducer: add}}"
                message = f"the type of a state key must be a name, got {shown(value)}"
                self.reader.error("graph.wrong-type", message, value.span, hint)
                continue
            declared[name] = Declared(name, self.type(kind), self.reducer(reducer), key.span)
        return declared

    def type(self, kind: Name) -> str:
        if kind.text not in TYPES:
            outer = kind.text.partition("[")[0]  # of list[str]
            hint = (
                f"did you mean {outer}?" if outer in TYPES else suggest(kind.text, TYPES, "types")
            )
            self.reader.warn(
                "graph.state-type",
                f"unknown type {kind.text!r}: any value is allowed",
                kind.span,
                hint,
            )
            return "any"
        return kind.text

    def reducer(self, name: Name | None) -> str | None:
        if name is None:
            return None
        if name.text not in REDUCERS:
            hint = suggest(name.text, REDUCERS, "reducers")
            self.reader.error(
                "graph.reducer-name", f"unknown reducer {name.text!r}", name.span, hint
            )
        return name.text

    def nodes(
        self, fields: dict[str, Any], tools: Tools, config: Mapping[str, Any]
    ) -> dict[str, BuiltNode]:
        """The nodes that can be read, by name; `self.named` gets the names of all."""
        defaults = self.section(DEFAULTS, fields.get("defaults"))
        prompts = {**defaults, **fields}
        folders = Folders(text_at(prompts, "prompts_dir"), bool(prompts.get("prompts_relative")))
        written: Fields | None = fields.get("nodes")
        if written is not None and not written.fields:
            hint = "nodes: {first: {type: passthrough}}"
            self.reader.error("graph.missing-key", "nodes is empty", written.span, hint)
        nodes: dict[str, BuiltNode] = {}
        for name, value in self.reader.named_entries(written):
            if name.text.strip() in ("", "START", "END"):
                hint = "START and END are the beginning and the end of a graph"
                self.reader.error(
                    "graph.node-name", f"a node cannot be named {name.text!r}", name.span, hint
                )
                continue
            self.named.append(name.text)
            site = NodeSite(
                name.text,
                f"nodes{part(name.text)}",
                "",
                name.span,
                defaults,
                tools,
                config,
                folders=folders,
            )
            built = build(self.reader, value, site)
            if built is not None:
                self.check_keys(name, built)
                nodes[name.text] = built
        return nodes

    def check_keys(self, node: Scalar, built: BuiltNode) -> None:
        """Report a key that a node writes twice: one of the values would be lost."""
        names = [key.name for key in built.keys]
        for position, key in enumerate(built.keys):
            if key.name in names[:position]:
                message = f"{node.text!r} writes two values to {key.name!r}"
                hint = "give each value a key of its own"
                self.reader.error("graph.same-key", message, key.span or node.span, hint)

    def check_start(self, fields: dict[str, Any], edges: tuple[Edge, ...]) -> None:
        """Report that no edge begins at START."""
        node = fields.get("edges")
        starts_nowhere = not any(edge.source == "START" for edge in edges)
        # After another error the edge from START may be there, but could not be read.
        if isinstance(node, Items) and starts_nowhere and not self.reader.lost:
            hint = f"add {{from: START, to: {next(iter(self.named), 'first')}}}"
            self.reader.error("graph.no-start", "no edge begins at START", node.span, hint)

    def check_targets(self, built: Mapping[str, BuiltNode]) -> None:
        """Report each node that limits, exits or routes name and that does not exist."""
        named = [Name(name, span) for name, (span, _) in self.limits.items()]
        named += [place for place in self.exits.values() if place.text != "END"]
        named += [Name(name, place.span) for name, place in self.exits.items()]
        named += [place for node in built.values() for place in node.routes]
        for place in dict.fromkeys(named):
            if place.text not in self.named:
                hint = suggest(place.text, self.named, "nodes")
                self.reader.error(
                    "graph.unknown-node", f"there is no node {place.text!r}", place.span, hint
                )
        for name, place in self.exits.items():
            if name not in self.limits:
                message = f"{name!r} has an exit but no limit, so the exit is never used"
                self.reader.warn(
                    "graph.exit-unused", message, place.span, f"loop_limits: {{{name}: 10}}"
                )


def _with_written(
    declared: dict[str, Declared], built: Mapping[str, BuiltNode]
) -> dict[str, Declared]:
    """The keys that ``state:`` declares and those that nodes declare by naming them. A key to which
    a node gives a reducer has that reducer and the node's type, also if it is declared."""
    keys = dict(declared)
    for node in built.values():
        for key in node.keys:
            if key.reducer is not None:
                keys[key.name] = Declared(key.name, key.type, key.reducer, key.span)
            elif key.declares and key.name not in keys:
                keys[key.name] = Declared(key.name, key.type, None, key.span)
    return keys


def _unwritten(
    declared: Mapping[str, Declared], built: Mapping[str, BuiltNode], variables: Set[str]
) -> dict[str, Span | None]:
    """The declared keys that nothing in the text writes."""
    written = {key.name for node in built.values() for key in node.keys} | variables
    return {name: key.span for name, key in declared.items() if name not in written}


def _reads_counts(built: Mapping[str, BuiltNode], edges: Iterable[Edge]) -> bool:
    """Whether a node or a condition reads how often nodes have run."""
    refs = [ref for node in built.values() for ref in reads_of_node(node.step)]
    refs += [ref for edge in edges if edge.when is not None for ref in edge.when.reads()]
    return any(ref.path[:2] == (*ROOT, COUNTS) for ref in refs)


def _own_limits(config: Mapping[str, Any]) -> OwnLimits | None:
    keys = {"timeout": "seconds", "max_tokens": "tokens", "max_cost": "cost"}
    limits = {name: config[key] for key, name in keys.items() if config.get(key) is not None}
    return OwnLimits(**limits) if limits else None
