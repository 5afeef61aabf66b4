"""Warns of valid graphs that look wrong (decision Y7); ``strict`` turns the warnings into
errors."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations, filterfalse, permutations
from typing import NamedTuple

from ...flow.graph_steps import END, START, Edge, Walk, edges_by_source
from ...flow.protocols import Name, Ref
from ...flow.steps import Compute, own_reads
from ...schemas.schema import first_cycle
from ...text.diagnostics import Diagnostic
from ...text.source import Span
from ...text.suggestions import slip_of, suggest
from .data_flow import distances, reads_of_node, ways_from
from .edges import ELSE, IsRoute
from .expressions.reading import ROOT, Reader
from .expressions.tokens import KEY_NAME
from .nodes.builder_contract import BuiltNode
from .nodes.declared_tools import Tools
from .nodes.passthrough import Outputs
from .peer_key import LEAVE_OUT, PEER_KEY, peer_key
from .state import ROUTE, Keys
from .words import BUILT_IN

MOST_STEPS = 1_000_000
"""The bound for following forks: pairs of branches times the nodes that they may lead to."""
_WORD = re.compile(r"\w+")
"""A word of the graph's text, for `idle_keys`."""
MOST_LOOPS = 20
"""Loops without an end that are reported."""
_PLAIN_KEY = re.compile(rf"(?!\d+\Z)(?:{KEY_NAME.pattern})")
"""A key that is no number."""
_OPERATORS = frozenset({"or", "and", "if", "else", "in", "is", "not"})
"""Words of other languages that are operators there."""


class Graph(NamedTuple):
    """The input of the rules."""

    walk: Walk
    nodes: Mapping[str, BuiltNode]
    keys: Keys
    tools: Tools
    declares: bool
    """Whether the graph has ``state:``."""
    named_keys: tuple[Name, ...] = ()
    """The keys that ``variables:`` and ``exports:`` name."""

    def place(self, name: str) -> Span | None:
        return self.nodes[name].step.span


_OTHER_ROOTS = frozenset(("ctx", "input", "inputs", "item", "pipe", "vars"))
"""The names of the state, or of the input, in other languages."""


def lint(reader: Reader, graph: Graph) -> None:
    """Report all warnings."""
    for rule in RULES:
        rule(reader, graph)


def written_keys(reader: Reader, graph: Graph) -> None:
    """graph.undeclared-key: a node writes a key that is not declared."""
    declared = {**graph.keys.declared, **BUILT_IN}
    for built in graph.nodes.values():
        for key in built.keys:
            if not (key.declares or key.name in declared):
                near = suggest(key.name, graph.keys.declared)
                hint = " ".join(filter(None, (near, _declare(key.name, graph.declares))))
                reader.warn(
                    "graph.undeclared-key",
                    f"{key.name!r} is not declared in the state",
                    key.span,
                    hint,
                )


def read_keys(reader: Reader, graph: Graph) -> None:
    """graph.unwritten-key, graph.hidden-name, graph.odd-name: paths without a value, as far as the
    text says."""
    written = dict.fromkeys(key.name for built in graph.nodes.values() for key in built.keys)
    names: dict[str, object] = {**graph.keys.declared, **written, **BUILT_IN}
    for built in graph.nodes.values():
        for ref in reads_of_node(built.step):
            _read(reader, ref, {**names, **dict.fromkeys(built.binds)}, graph.declares)
    named = (Ref((*ROOT, name.text), name.span) for name in graph.named_keys)
    for ref in (*named, *own_reads(graph.walk)):
        _read(reader, ref, names, graph.declares)


def _is_plain_key(name: str) -> bool:
    """Whether a name looks like a key, and not like an index or an expression of another language.

    >>> [name for name in ("name", "unit price", "0", "a or b", "not a") if _is_plain_key(name)]
    ['name', 'unit price']
    """
    first, *later_words = name.split() or [""]
    *between, last = later_words or [""]
    is_expression = (
        (first == "not" and later_words) or _OPERATORS & set(between) or last in ("if", "or", "and")
    )
    return _PLAIN_KEY.fullmatch(name) is not None and not is_expression


def _declare(name: str, declares: bool) -> str:
    """The words for declaring a key, in a graph with or without ``state``."""
    return f"add {name}: any to state" if declares else f"declare it: state: {{{name}: any}}"


def _read(reader: Reader, ref: Ref, names_known: Collection[str], declares: bool) -> None:
    """Warn of a path that has no value, as far as the text says."""
    names = ref.path[1:]
    if not names or ref.path[0] != "state":
        return
    if peer := next(filter(PEER_KEY.fullmatch, names), None):
        reader.warn("graph.peer-key", peer_key(peer), ref.span, LEAVE_OUT)
        return
    if hidden := next((name for name in names[1:] if name.startswith("_")), None):
        message = f"{hidden!r} is read from a mapping only: attributes that begin with _ are hidden"
        reader.warn(
            "graph.hidden-name", message, ref.span, "rename the attribute, or return a mapping"
        )
    odd = next(filterfalse(_is_plain_key, names), None)
    if odd is not None:
        hint = (
            "an expression is a path, one operator + - * / and one value: {state.n + 1}; a path "
            "has no index: a python node can return an element, and a map takes each"
        )
        reader.warn("graph.odd-name", f"this reads a key named {odd!r}", ref.span, hint)
    elif declares and names[0] not in names_known:
        keys = [name for name in names_known if name not in BUILT_IN]
        listed = suggest("", keys, "keys of the state") or "the state has no keys"
        hint = suggest(names[0], keys) or f"{listed}; {_declare(names[0], declares)}"
        if names[0] in _OTHER_ROOTS and names[1:2] and names[1] in names_known:
            hint = f"write state.{'.'.join(names[1:])}"
        reader.warn(
            "graph.unwritten-key", f"{names[0]!r} is neither declared nor written", ref.span, hint
        )
    elif not declares and names[0] not in names_known:
        # Without `state:` any other name is an input.
        near = slip_of(names[0], [name for name in names_known if name not in BUILT_IN])
        if near is not None:
            message = f"no node writes {names[0]!r}"
            reader.warn("graph.unwritten-key", message, ref.span, f"did you mean {near}?")


def idle_keys(reader: Reader, graph: Graph) -> None:
    """graph.idle-key: a declared key that nothing in the graph reads or writes, and that no other
    text of it names. A function that gets the whole state may do both, and a prompt that cannot be
    read, too."""
    if reader.refuses or any(built.writes_any for built in graph.nodes.values()):
        return
    refs = [ref for built in graph.nodes.values() for ref in reads_of_node(built.step)]
    refs += own_reads(graph.walk)
    if any(ref.path == ROOT for ref in refs):
        return
    named = {ref.path[1] for ref in refs if ref.path[:1] == ROOT}
    named.update(name.text for name in graph.named_keys)
    idle = {name: span for name, span in graph.walk.unwritten.items() if name not in named}
    source = next((span.source for span in idle.values() if span is not None), None)
    words = Counter(_WORD.findall(source.text if source else ""))
    for name, span in idle.items():
        # 1: the text has the name only where it is declared. 0: the name is not a single word.
        if name not in BUILT_IN and words[name] == 1:
            message = f"no node reads or writes {name!r}"
            reader.problems.add(Diagnostic("graph.idle-key", message, span, None, "note"))


def adds_itself(reader: Reader, graph: Graph) -> None:
    """graph.adds-itself: an output that adds to the old value, for a key whose reducer adds too."""
    adding = {key for key, reducer in graph.keys.reducers.items() if reducer != "last_value"}
    for built in graph.nodes.values():
        match built.step:
            case Compute(value=Outputs(values=values)):
                for name, ref in ((name, ref) for name, expr in values for ref in expr.reads()):
                    if ref.path[1:] == (name.text,) and name.text in adding:
                        hint = (
                            f"write only the new part, or declare {name.text!r} without a reducer"
                        )
                        message = f"{name.text!r} has a reducer: its old value is added twice"
                        reader.warn("graph.adds-itself", message, ref.span, hint)


def mixed_edges(reader: Reader, graph: Graph) -> None:
    """graph.plain-beside-condition: a plain edge is not an else. graph.else-alone: an else without
    a condition."""
    for source, edges in graph.walk.leaving.items():
        chooses = any(edge.when for edge in edges)
        for edge in edges:
            if chooses and edge.is_plain:
                hint = f"write condition: {ELSE} if it is for the case that no condition is true"
                message = (
                    f"this edge is always taken, in addition to the one of {source!r} with "
                    f"a true condition"
                )
                reader.warn("graph.plain-beside-condition", message, edge.span, hint)
            elif edge.label == ELSE and not chooses:
                message = f"{source!r} has no edge with a condition, so this else is always taken"
                reader.warn("graph.else-alone", message, edge.span, "leave condition: else out")


def unreached(reader: Reader, graph: Graph) -> None:
    """graph.unreachable: a node that no path leads to."""
    reached = distances(ways_from(graph.walk.edges, graph.walk.exits), [START])
    for name in graph.nodes:
        if name not in reached:
            hint = f"add an edge to it: {{from: {next(iter(reached), START)}, to: {name}}}"
            reader.warn(
                "graph.unreachable",
                f"{name!r} cannot be reached from START",
                graph.place(name),
                hint,
            )


def uneven_joins(reader: Reader, graph: Graph) -> None:
    """graph.uneven-join: a node runs several times if branches of one fork reach it in different
    rounds."""
    reported: set[str] = set()
    room = MOST_STEPS
    out = graph.walk.leaving
    # A fork takes all its plain edges, so each pair of them is two branches that run together.
    for edges in (edges for edges in out.values() if len(edges) > 1):
        room -= len(edges) ** 2 * len(graph.nodes)
        if room < 0:
            return
        ways = [distances(out, [edge.target]) for edge in edges if edge.is_plain]
        for first, other in combinations(ways, 2):
            common = first.keys() & other.keys() & graph.nodes.keys()
            node = min(common, key=lambda name: (max(first[name], other[name]), name), default="")
            if first.get(node) != other.get(node) and node not in reported:
                reported.add(node)
                message = (
                    f"{node!r} runs once for each branch that leads to it, because they differ "
                    f"in length"
                )
                hint = "make the shorter branch as long: a passthrough without output does nothing"
                reader.warn("graph.uneven-join", message, graph.place(node), hint)


def endless(reader: Reader, graph: Graph) -> None:
    """graph.endless-loop: a loop without an exit or a limit."""
    order = {name: number for number, name in enumerate(graph.nodes)}
    trapping = _edges_that_trap(graph.walk, _nodes_that_leave(graph))
    after = {name: [edge.target for edge in edges] for name, edges in trapping.items()}
    # A node without a plain edge names the loop, if there is one in it.
    always = {name for name, edges in trapping.items() if any(edge.is_plain for edge in edges)}
    for _ in range(MOST_LOOPS):
        loop = first_cycle(after)
        if loop is None:
            return
        name = min(loop, key=lambda name: (name in always, order[name]))
        hint = f"put a condition on the edge that leaves it, or set loop_limits: {{{name}: 10}}"
        message = f"the loop through {name!r} never ends"
        reader.warn("graph.endless-loop", message, graph.place(name), hint)
        after = {name: targets for name, targets in after.items() if name not in loop}


def _nodes_that_leave(graph: Graph) -> Collection[str]:
    """The nodes from which some path ends: at END, at a limit, or at a node without edges or whose
    edges all have conditions, because none of them may be true."""
    walk = graph.walk
    ends = [name for name in graph.nodes if all(edge.when for edge in walk.leaving.get(name, ()))]
    back = edges_by_source(Edge(edge.target, edge.source) for edge in walk.edges)
    return distances(back, [*ends, END, *walk.limits])


def _edges_that_trap(walk: Walk, leaves: Collection[str]) -> Mapping[str, Sequence[Edge]]:
    """The edges that keep a run inside, by their source: the plain edges of a node, which are
    always taken, and all edges of a node without plain edges from which no path ends. Edges at a
    limit do not count."""
    free = [
        edge for edge in walk.edges if walk.limits.keys().isdisjoint((edge.source, edge.target))
    ]
    stuck = edges_by_source(edge for edge in free if edge.source not in leaves)
    return {**stuck, **edges_by_source(edge for edge in free if edge.is_plain)}


def routers(reader: Reader, graph: Graph) -> None:
    """graph.router-edges: a router without an edge of type conditional. Such edges, and one with
    ``else``, have ``otherwise``; either follows the choice."""
    out = graph.walk.leaving
    for name, built in graph.nodes.items():
        if built.step.word == "router" and not any(edge.otherwise for edge in out.get(name, ())):
            nodes = ", ".join(dict.fromkeys(route.text for route in built.routes))
            hint = f"write {{from: {name}, to: [{nodes}], type: conditional}}"
            reader.warn(
                "graph.router-edges",
                f"no edge follows the choice of {name!r}",
                built.step.span,
                hint,
            )


def routes_read(reader: Reader, graph: Graph) -> None:
    """graph.several-routers: ``_route`` is read where several routers may run in one round; each
    conditional edge follows its own (decision Y19)."""
    routers = [name for name, built in graph.nodes.items() if built.routes]
    together = _together(graph, routers)
    if together is None:
        return
    first, other = together
    refs = [ref for built in graph.nodes.values() for ref in reads_of_node(built.step)]
    for edge in graph.walk.edges:
        if edge.when is not None and not (
            isinstance(edge.when, IsRoute) and edge.source in routers
        ):
            refs += edge.when.reads()
    refs += [Ref((*ROOT, name.text), name.span) for name in graph.named_keys]
    message = (
        f"{first!r} and {other!r} may choose in one round: {ROUTE} is the choice of the last one"
    )
    # The first key of a router is its `state_key`, which has its answer.
    keys = " and ".join(sorted(graph.nodes[name].keys[0].name for name in together))
    hint = f"read what each has answered: {keys}"
    for ref in dict.fromkeys(refs):
        if ref.path == (*ROOT, ROUTE):
            reader.warn("graph.several-routers", message, ref.span, hint)


def _together(graph: Graph, names: Collection[str]) -> tuple[str, str] | None:
    """Two of these nodes that may run in one round: on branches of one fork, at the same
    distance."""
    room = MOST_STEPS
    out = graph.walk.leaving
    for edges in (edges for edges in out.values() if len(edges) > 1 and len(names) > 1):
        room -= len(edges) ** 2 * len(graph.nodes)
        if room < 0:
            return None
        ways = [(edge, distances(out, [edge.target])) for edge in edges]
        for (first, after_first), (second, after_second) in combinations(ways, 2):
            if not (first.is_plain or second.is_plain):  # only one of them is taken
                continue
            for a, b in permutations(names, 2):
                if a in after_first and b in after_second and after_first[a] == after_second[b]:
                    return a, b
    return None


def unused_tools(reader: Reader, graph: Graph) -> None:
    """graph.unused-tool: a tool of the graph that no node uses."""
    for name, span in graph.tools.spans.items():
        if name not in graph.tools.used:
            hint = (
                f"a node uses it with {{type: tool, tool: {name}}}; delete it if it is not needed"
            )
            reader.warn("graph.unused-tool", f"no node uses the tool {name!r}", span, hint)


RULES = (
    written_keys,
    read_keys,
    idle_keys,
    adds_itself,
    mixed_edges,
    unreached,
    uneven_joins,
    endless,
    routers,
    routes_read,
    unused_tools,
)
