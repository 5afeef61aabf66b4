"""What is legal in a graph but looks wrong (decision Y7): told when it is loaded, refused under ``strict``."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from ...flow.frame import Ref
from ...flow.steps import END, START, Compute, Each, Edge, Invoke, every
from ...text.diagnostics import suggest
from ...text.source import Span
from .edges import ELSE, is_plain, outgoing
from .nodes import Built, Outputs
from .reading import Reader
from .state import Keys
from .words import BUILT_IN

MOST_STEPS = 1_000_000
"""How far forks are followed: their branches times what these lead to."""

_NAME = re.compile(r"[\w-]+(?: [\w-]+)*")


class Graph(NamedTuple):
    """What the rules look at."""

    nodes: Mapping[str, Built]
    spans: Mapping[str, Span]
    """Where each node's name stands."""
    edges: tuple[Edge, ...]
    keys: Keys
    limits: Collection[str]
    """The nodes that may run only so often."""
    exits: Mapping[str, str]
    """Where those lead to then."""
    items: Mapping[str, str]
    """What a map calls its item, by node."""
    declares: bool
    """Whether the graph declares its state at all."""


def lint(reader: Reader, graph: Graph) -> None:
    """Tell everything that looks wrong."""
    for rule in RULES:
        rule(reader, graph)


def written_keys(reader: Reader, graph: Graph) -> None:
    """graph.undeclared-key: what a node writes and nothing declares."""
    for built in graph.nodes.values():
        for key in built.keys:
            if not key.declares and key.name not in graph.keys.declared and key.name not in BUILT_IN:
                near = suggest(key.name, graph.keys.declared)
                hint = " ".join(filter(None, (near, f"declare it: state: {{{key.name}: any}}")))
                reader.warn(
                    "undeclared-key", f"{key.name!r} is written, and the state does not declare it", key.span, hint
                )


def read_keys(reader: Reader, graph: Graph) -> None:
    """graph.unwritten-key, graph.hidden-name, graph.odd-name: paths that lead nowhere, as far as the text says."""
    known = (
        {key.name for built in graph.nodes.values() for key in built.keys}
        | graph.keys.declared.keys()
        | BUILT_IN.keys()
    )
    for name, built in graph.nodes.items():
        own = known | {graph.items[name]} if name in graph.items else known
        for ref in _reads(built):
            _read(reader, ref, own, graph.declares)
    for edge in graph.edges:
        for ref in edge.when.reads() if edge.when else ():
            _read(reader, ref, known, graph.declares)


def _reads(built: Built) -> Iterator[Ref]:
    for step in every(built.step):
        match step:
            case Invoke():
                yield from step.args.reads()
                yield from step.pick.reads() if step.pick else ()
            case Compute():
                yield from step.value.reads()
            case Each():
                yield from step.over.reads()


def _read(reader: Reader, ref: Ref, known: Collection[str], declares: bool) -> None:
    names = ref.path[1:]
    if not names or ref.path[0] != "state":
        return
    if any(name.startswith("_") for name in names[1:]):
        hidden = next(name for name in names[1:] if name.startswith("_"))
        hint = "a key of that name in an object is read, a hidden attribute of something else never is"
        reader.warn("hidden-name", f"{hidden!r} is read only as a key", ref.span, hint)
    if odd := next((name for name in names if not _NAME.fullmatch(name)), None):
        hint = "one operator, + - * /, between a path that begins with a letter and one value"
        reader.warn("odd-name", f"this reads a key named {odd!r}", ref.span, hint)
    elif declares and names[0] not in known:
        hint = suggest(names[0], known) or f"declare it: state: {{{names[0]}: any}}"
        reader.warn("unwritten-key", f"nothing declares or writes {names[0]!r}", ref.span, hint)


def adds_itself(reader: Reader, graph: Graph) -> None:
    """graph.adds-itself: an output that adds to what is there, under a key whose reducer does that too."""
    for built in graph.nodes.values():
        value = built.step.value if isinstance(built.step, Compute) else None
        for name, expr in value.values if isinstance(value, Outputs) else ():
            reads = [ref for ref in expr.reads() if ref.path[1:] == (name.text,)]
            if reads and graph.keys.reducers.get(name.text) in ("add", "sorted_add"):
                hint = f"write only what is new, or declare {name.text!r} without a reducer"
                message = f"{name.text!r} has a reducer: what is there is added to itself"
                reader.warn("adds-itself", message, reads[0].span, hint)


def mixed_edges(reader: Reader, graph: Graph) -> None:
    """graph.plain-beside-condition: a plain edge is no else. graph.else-alone: an else without a condition."""
    for source, edges in outgoing(graph.edges).items():
        conditions = [edge for edge in edges if edge.when is not None]
        for edge in edges:
            if conditions and is_plain(edge):
                hint = f"write condition: {ELSE} if it is meant for what no condition holds for"
                message = f"this edge is always taken, beside the one of {source!r} whose condition holds"
                reader.warn("plain-beside-condition", message, edge.span, hint)
            elif edge.otherwise and edge.label == ELSE and not conditions:
                message = f"{source!r} has no condition that this could be the else of: it is always taken"
                reader.warn("else-alone", message, edge.span, "leave condition: else out")


def unreached(reader: Reader, graph: Graph) -> None:
    """graph.unreachable: a node that no way leads to."""
    ways = [*graph.edges, *(Edge(name, exit) for name, exit in graph.exits.items())]
    reached = _distances(outgoing(ways), [START])
    for name, span in graph.spans.items():
        if name not in reached:
            hint = f"an edge leads to it: {{from: …, to: {name}}}"
            reader.warn("unreachable", f"no way leads from START to {name!r}", span, hint)


def uneven_joins(reader: Reader, graph: Graph) -> None:
    """graph.uneven-join: a node that branches of one fork reach in different rounds runs several times."""
    told: set[str] = set()
    out, room = outgoing(graph.edges), MOST_STEPS
    for edges in out.values():
        plain = [edge.target for edge in edges if is_plain(edge) and edge.target != END]
        ways: list[dict[str, int]] = []
        for target in plain if len(plain) > 1 else ():
            ways.append(_distances(out, [target]))
            room -= len(ways[-1])
            for one in ways[:-1]:
                room -= min(len(one), len(ways[-1])) + 1
                if room <= 0:
                    return
                _uneven(reader, graph, one, ways[-1], told)


def _uneven(reader: Reader, graph: Graph, one: Mapping[str, int], other: Mapping[str, int], told: set[str]) -> None:
    common = one.keys() & other.keys()
    first = min(common, key=lambda name: (max(one[name], other[name]), name), default="")
    if first and first not in told and one[first] != other[first] and first in graph.spans:
        told.add(first)
        message = f"{first!r} runs once for each branch that leads to it: they differ in length"
        hint = "give the shorter branch as many nodes (a passthrough without output does nothing)"
        reader.warn("uneven-join", message, graph.spans[first], hint)


def endless(reader: Reader, graph: Graph) -> None:
    """graph.endless-loop: a round way that nothing leaves or bounds."""
    free = [edge for edge in graph.edges if edge.source not in graph.limits and edge.target not in graph.limits]
    always, every_way, out = outgoing([edge for edge in free if is_plain(edge)]), outgoing(free), outgoing(graph.edges)
    unending, around = circles(always), circles(every_way)
    # A way ends at a node without edges, and where all of them have conditions: none may hold.
    ends = [name for name in graph.spans if all(edge.when is not None for edge in out.get(name, ()))]
    back = outgoing([Edge(edge.target, edge.source) for edge in graph.edges])
    leaves = _distances(back, [*ends, END, *graph.limits])
    told: set[int] = set()
    for name in graph.spans:
        if (
            name in around
            and around[name] not in told
            and (name in unending or (name not in always and name not in leaves))
        ):
            told.add(around[name])
            hint = f"give the edge that leaves it a condition, or set loop_limits: {{{name}: 10}}"
            reader.warn("endless-loop", f"the loop through {name!r} has no way out", graph.spans[name], hint)


def routers(reader: Reader, graph: Graph) -> None:
    """graph.router-edges: a router whose choice no edge follows."""
    out = outgoing(graph.edges)
    for name, built in graph.nodes.items():
        if built.step.word == "router" and not any(edge.otherwise for edge in out.get(name, ())):
            hint = f"{{from: {name}, to: [first, second], type: conditional}}"
            reader.warn("router-edges", f"no edge follows what {name!r} chooses", graph.spans[name], hint)


RULES = (written_keys, read_keys, adds_itself, mixed_edges, unreached, uneven_joins, endless, routers)


def _distances(out: Mapping[str, list[Edge]], begin: Iterable[str]) -> dict[str, int]:
    """How many rounds it is at least to each node."""
    found = dict.fromkeys(begin, 0)
    waiting = deque(found)
    while waiting:
        name = waiting.popleft()
        for edge in out.get(name, ()):
            if edge.target not in found and edge.target != END:
                found[edge.target] = found[name] + 1
                waiting.append(edge.target)
    return found


def circles(out: Mapping[str, list[Edge]]) -> dict[str, int]:
    """The nodes with a way back to themselves; those on each other's way round have one number. In linear time
    (Tarjan's strongly connected components), without recursion."""
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
