"""The data flow of a graph: which node reads the value of a key that which other node wrote.

Warnings about a legal graph that looks wrong (decision Y7); ``strict`` makes them errors.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ...flow.step import END, START, Edge, Name, Ref, Step, Walk, edges_by_source
from ...flow.steps import Compute, Invoke, every
from ...flow.wiring import own_reads
from ...text.diagnostics import Span, suggest
from .calls import Tools
from .edges import ELSE
from .nodes import Built, Outputs
from .reading import PEER_KEY, ROOT, Reader
from .state import Keys
from .value_grammar import KEY_NAME
from .words import BUILT_IN

MOST_VISITS = 200_000
"""The bound for following writes along edges."""


def reads_of_node(step: Step) -> Iterator[Ref]:
    """The references to the state in a node."""
    for inner in every(step):
        yield from own_reads(inner)
        if isinstance(inner, Invoke) and inner.pick:
            yield from inner.pick.by.reads()


def feeds(
    built: Mapping[str, Built],
    edges: Collection[Edge],
    exits: Mapping[str, str],
    keys: Keys,
    initial: Collection[str],
) -> tuple[tuple[str | None, str, str], ...]:
    """Each value that flows: the id of the step that writes it (None: the input), of the step that
    reads it, the key.

    A write reaches the nodes on every path that does not write the key again; a key with a reducer
    is only added to, so every write reaches all nodes after it. ``initial``: the keys that have a
    value without an input.
    """
    reads = {name: _keys_read(each) for name, each in built.items()}
    writes = {name: {key.name for key in each.keys} for name, each in built.items()}
    after = {
        name: [edge.target for edge in leaving] for name, leaving in edges_by_source(edges).items()
    }
    for name, target in exits.items():
        after.setdefault(name, []).append(target)
    # A key with a reducer begins with an empty value.
    begun = {*initial, *(key for each in writes.values() for key in each if key in keys.reducers)}
    found: dict[tuple[str | None, str, str], None] = {}
    room = MOST_VISITS
    sources = [
        (START, key) for key in dict.fromkeys(key for each in reads.values() for key in each)
    ]
    for source, key in (*sources, *((name, key) for name, each in writes.items() for key in each)):
        if source == START and key in begun:
            continue
        seen, queue = set[str](), deque(after.get(source, ()))
        while queue and room > 0:
            name, room = queue.popleft(), room - 1
            if name in seen or name == END:
                continue
            seen.add(name)
            if key in reads[name]:
                found[
                    None if source == START else built[source].step.id, built[name].step.id, key
                ] = None
            if key not in writes[name] or key in keys.reducers:
                queue.extend(after.get(name, ()))
    return tuple(found)


def _keys_read(built: Built) -> set[str]:
    refs = (ref.path for ref in reads_of_node(built.step))
    return {path[1] for path in refs if path[:1] == ROOT and len(path) > 1} - {
        built.item,
        "_map_index",
    }


MOST_STEPS = 1_000_000
"""The bound for following forks: branches times the nodes that they lead to."""


class Graph(NamedTuple):
    """The input of the rules."""

    walk: Walk
    nodes: Mapping[str, Built]
    keys: Keys
    tools: Tools
    declares: bool
    """Whether the graph has ``state:``."""
    named: tuple[Name, ...] = ()
    """The keys that ``variables:`` and ``exports:`` name."""

    def place(self, name: str) -> Span | None:
        return self.nodes[name].step.span


def lint(reader: Reader, graph: Graph) -> None:
    """Report all warnings."""
    for rule in RULES:
        rule(reader, graph)


def written_keys(reader: Reader, graph: Graph) -> None:
    """graph.undeclared-key: a node writes a key that is not declared."""
    for built in graph.nodes.values():
        for key in built.keys:
            if (
                not key.declares
                and key.name not in graph.keys.declared
                and key.name not in BUILT_IN
            ):
                near = suggest(key.name, graph.keys.declared)
                hint = " ".join(filter(None, (near, f"declare it: state: {{{key.name}: any}}")))
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
    known: dict[str, object] = {**graph.keys.declared, **written, **BUILT_IN}
    for built in graph.nodes.values():
        own = {**known, built.item: None} if built.item else known
        for ref in reads_of_node(built.step):
            _read(reader, ref, own, graph.declares)
    for name in graph.named:
        _read(reader, Ref((*ROOT, name.text), name.span), known, graph.declares)
    for edge in graph.walk.edges:
        for ref in edge.when.reads() if edge.when else ():
            _read(reader, ref, known, graph.declares)


def _read(reader: Reader, ref: Ref, known: Collection[str], declares: bool) -> None:
    names = ref.path[1:]
    if not names or ref.path[0] != "state":
        return
    if peer := next(filter(PEER_KEY.fullmatch, names), None):
        path = ".".join(name for name in names if name != peer) or "the key in collect"
        hint = f"read {path}: a map collects the results themselves"
        message = f"no map writes {peer!r}, the key of YAMLGraph around a result"
        reader.warn("graph.peer-key", message, ref.span, hint)
        return
    if any(name.startswith("_") for name in names[1:]):
        hidden = next(name for name in names[1:] if name.startswith("_"))
        message = f"{hidden!r} is read from a mapping only: attributes that begin with _ are hidden"
        reader.warn(
            "graph.hidden-name", message, ref.span, "rename the attribute, or return a mapping"
        )
    if odd := next((n for n in names if n.isdigit() or not KEY_NAME.fullmatch(n)), None):
        hint = (
            "an expression is a path, one operator + - * / and one value: {state.n + 1}; a path "
            "has no index: a python node can return an element, and a map takes each"
        )
        reader.warn("graph.odd-name", f"this reads a key named {odd!r}", ref.span, hint)
    elif declares and names[0] not in known:
        keys = [name for name in known if name not in BUILT_IN]
        listed = suggest("", keys, "keys of the state") or "the state has no keys"
        hint = suggest(names[0], keys) or f"{listed}; declare it: state: {{{names[0]}: any}}"
        reader.warn(
            "graph.unwritten-key", f"{names[0]!r} is neither declared nor written", ref.span, hint
        )


def adds_itself(reader: Reader, graph: Graph) -> None:
    """graph.adds-itself: an output that adds to the old value, for a key whose reducer adds too."""
    for built in graph.nodes.values():
        value = built.step.value if isinstance(built.step, Compute) else None
        for name, expr in value.values if isinstance(value, Outputs) else ():
            reads = [ref for ref in expr.reads() if ref.path[1:] == (name.text,)]
            if reads and graph.keys.reducers.get(name.text) in ("add", "sorted_add"):
                hint = f"write only the new part, or declare {name.text!r} without a reducer"
                message = f"{name.text!r} has a reducer: its old value is added twice"
                reader.warn("graph.adds-itself", message, reads[0].span, hint)


def mixed_edges(reader: Reader, graph: Graph) -> None:
    """graph.plain-beside-condition: a plain edge is not an else. graph.else-alone: an else without
    a condition."""
    for source, edges in graph.walk.leaving.items():
        conditions = [edge for edge in edges if edge.when is not None]
        for edge in edges:
            if conditions and edge.is_plain:
                hint = f"write condition: {ELSE} if it is for the case that no condition is true"
                message = (
                    f"this edge is always taken, in addition to the one of {source!r} with "
                    f"a true condition"
                )
                reader.warn("graph.plain-beside-condition", message, edge.span, hint)
            elif edge.otherwise and edge.label == ELSE and not conditions:
                message = f"{source!r} has no edge with a condition, so this else is always taken"
                reader.warn("graph.else-alone", message, edge.span, "leave condition: else out")


def unreached(reader: Reader, graph: Graph) -> None:
    """graph.unreachable: a node that no path leads to."""
    ways = [*graph.walk.edges, *(Edge(name, exit) for name, exit in graph.walk.exits.items())]
    reached = _distances(edges_by_source(ways), [START])
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
    out, room = graph.walk.leaving, MOST_STEPS
    for edges in out.values():
        plain = [edge.target for edge in edges if edge.is_plain and edge.target != END]
        ways: list[dict[str, int]] = []
        for target in plain if len(plain) > 1 else ():
            ways.append(_distances(out, [target]))
            room -= len(ways[-1])
            for one in ways[:-1]:
                room -= min(len(one), len(ways[-1])) + 1
                if room <= 0:
                    return
                _uneven(reader, graph, one, ways[-1], reported)


def _uneven(
    reader: Reader,
    graph: Graph,
    one: Mapping[str, int],
    other: Mapping[str, int],
    reported: set[str],
) -> None:
    common = one.keys() & other.keys()
    first = min(common, key=lambda name: (max(one[name], other[name]), name), default="")
    if first and first not in reported and one[first] != other[first] and first in graph.nodes:
        reported.add(first)
        message = (
            f"{first!r} runs once for each branch that leads to it, because they differ in length"
        )
        hint = "make the shorter branch as long: a passthrough without output does nothing"
        reader.warn("graph.uneven-join", message, graph.place(first), hint)


def endless(reader: Reader, graph: Graph) -> None:
    """graph.endless-loop: a loop without an exit or a limit."""
    free = [
        edge
        for edge in graph.walk.edges
        if edge.source not in graph.walk.limits and edge.target not in graph.walk.limits
    ]
    always, every_way, out = (
        edges_by_source([edge for edge in free if edge.is_plain]),
        edges_by_source(free),
        graph.walk.leaving,
    )
    unending, around = circles(always), circles(every_way)
    # A path ends at a node without edges, or whose edges all have conditions: none may be true.
    ends = [
        name for name in graph.nodes if all(edge.when is not None for edge in out.get(name, ()))
    ]
    back = edges_by_source([Edge(edge.target, edge.source) for edge in graph.walk.edges])
    leaves = _distances(back, [*ends, END, *graph.walk.limits])
    reported: set[int] = set()
    for name in graph.nodes:
        stuck = name in unending or (name not in always and name not in leaves)
        if stuck and name in around and around[name] not in reported:
            reported.add(around[name])
            hint = f"put a condition on the edge that leaves it, or set loop_limits: {{{name}: 10}}"
            reader.warn(
                "graph.endless-loop",
                f"the loop through {name!r} never ends",
                graph.place(name),
                hint,
            )


def routers(reader: Reader, graph: Graph) -> None:
    """graph.router-edges: a router without an edge of type conditional."""
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
    adds_itself,
    mixed_edges,
    unreached,
    uneven_joins,
    endless,
    routers,
    unused_tools,
)


def _distances(out: Mapping[str, Sequence[Edge]], begin: Iterable[str]) -> dict[str, int]:
    """The smallest number of rounds to each node."""
    found = dict.fromkeys(begin, 0)
    queue = deque(found)
    while queue:
        name = queue.popleft()
        for edge in out.get(name, ()):
            if edge.target not in found and edge.target != END:
                found[edge.target] = found[name] + 1
                queue.append(edge.target)
    return found


def circles(out: Mapping[str, list[Edge]]) -> dict[str, int]:
    """The nodes on a loop; nodes on the same loops have the same number. Tarjan's strongly
    connected components, in linear time and without recursion."""
    found: dict[str, int] = {}
    seen: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    for first in out:
        ways = [] if first in seen else [(first, iter(out[first]))]
        while ways:
            name, rest = ways[-1]
            if name not in seen:
                seen[name] = low[name] = len(seen)
                path.append(name)
            edge = next(rest, None)
            if edge is not None:
                if edge.target not in seen:
                    ways.append((edge.target, iter(out.get(edge.target, ()))))
                elif edge.target in low:
                    low[name] = min(low[name], low[edge.target])
                continue
            ways.pop()
            if ways:
                low[ways[-1][0]] = min(low[ways[-1][0]], low[name])
            if low[name] == seen[name]:
                together = []
                while name in low:
                    together.append(path.pop())
                    del low[together[-1]]
                if len(together) > 1 or any(edge.target == name for edge in out.get(name, ())):
                    found.update(dict.fromkeys(together, seen[name]))
    return found
