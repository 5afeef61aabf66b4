"""Finds which values of a definition influence which others, through called flows as well.

One graph answers two questions, in two directions. Forwards: which steps depend on a step that runs
again? Backwards: which inputs and steps feed an argument that a tool declares as secret? Both
follow a value through expressions, elements, results and arguments, as `flow.wiring.follow` finds
them. They differ in two points:

- A decision (whether, how often or for which elements a step runs) makes a step depend on another
  one, but carries no secret.
- A step depends on the write that it reads. A secret is left out by the name of its store, so every
  step that writes the store counts, in whatever order they run.

Secrets are followed before the first step, because the manifest with the input is written before
any tool is called.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from ...catalog import Tool
from ...engine.linking.linked import Linked, callees_of, flows_of
from ...flow.checks.wiring import Read, follow
from ...flow.graph_steps import START, Dag, Walk
from ...flow.progress.rows import Key
from ...flow.protocols import Ref, TracedArgs
from ...flow.step import Step
from ...flow.steps import (
    Branches,
    Compute,
    Each,
    Fold,
    Invoke,
    Repeat,
    Sequence,
    calls,
    children,
    every,
    own_reads,
)

Scope = Any
"""Stands for a flow: the ids of the calls that lead to it; or its identity, if all calls of the
flow count as one (see ``per_call``)."""

Node = tuple[Any, ...]
"""The scope, the kind, and the step or the name. Values: ``value``, ``element`` or ``acc`` of a step; an
``argument`` of a call; a field of the ``input``; a ``store``. Decisions: the step ``reads``
something, and ``whether`` it runs. Of the nodes of a graph: what reaches them of ``any key``, written by
a function that may write each, and of ``all keys``, for one that may read each."""

Links = Mapping[Node, list[Node]]
"""The nodes that a node leads to."""

T = TypeVar("T")

ALL = ""
"""All arguments of a call, where it is not known which one."""

PIPE = "pipe"
"""The field of the input that a called flow gets from the step before the call."""


class Dependence(NamedTuple):
    """Why a step depends on a changed one, by the shortest way between them."""

    changed: Key
    """The changed step."""
    reads: Key | None
    """The step whose value it reads itself; None: only whether, how often or for what it runs
    depends on the changed step."""


def dependents(linked: Linked, changed: Collection[Key]) -> dict[Key, Dependence]:
    """The steps that depend on the ``changed`` ones, by their keys.

    A step depends on a step whose value it reads, and on the decision whether, how often or for
    which elements it runs: the value that a `Choose`, a fan-out or an edge of a graph reads.
    """
    graph = Influence(linked, per_call=True)
    values = [(key[:-1], "value", key[-1]) for key in changed]
    before = ways(values, graph.carries, graph.decides)
    return {(*node[0], node[2]): _dependence(node, before) for node in before if node[1] == "reads"}


def _dependence(reader: Node, before: Mapping[Node, Node | None]) -> Dependence:
    """Follows the way from a reader back to the changed step. The first value on it is the one that
    the reader reads itself, unless a decision comes before."""
    direct: Key | None = None
    is_decided = False
    node, last = before[reader], reader
    while node is not None:
        scope, kind, step, *_ = last = node
        is_decided |= kind in ("whether", "reads") and direct is None
        if kind in ("value", "element", "acc") and direct is None and not is_decided:
            direct = (*scope, step)
        node = before[node]
    return Dependence((*last[0], last[2]), direct)


class Influence:
    """The links between the values of a linked definition."""

    def __init__(
        self, linked: Linked, *, per_call: bool, given: Collection[str] | None = None
    ) -> None:
        """``per_call``: whether each call of a flow has values of its own, and decisions are
        followed. Without it, the graph grows with the text only, however often its flows are
        called: every run of a tool with secrets is searched before its first step. ``given``: the
        fields of the run's input; default None: they are not known."""
        self.per_call = per_call
        self.carries: dict[Node, list[Node]] = defaultdict(list)
        """The links from a value to the values that it becomes, or becomes a part of."""
        self.stores: dict[Node, list[Node]] = defaultdict(list)
        """The links between writers and readers of a store, in whatever order the steps run."""
        self.decides: dict[Node, list[Node]] = defaultdict(list)
        """The links from a value to the decisions and values that may change with it."""
        self.flows: dict[Scope, Linked] = {}
        self._fields: dict[Scope, set[str]] = defaultdict(set)
        """The fields of the input that the calls of a flow give; none for the flow of the run."""
        self._reads: list[tuple[Scope, tuple[str, ...], Links, Node]] = []
        """The reads of the input, with the links to which `__init__` adds them at the end."""
        self._by_name: dict[Scope, list[tuple[_Flow, Invoke]]] = defaultdict(list)
        """The calls of a flow whose input is filled by the names that it reads."""
        queue: list[tuple[Scope, Linked]] = [((), linked) if per_call else (id(linked), linked)]
        for scope, flow in queue:  # the list grows while it is read
            if scope in self.flows:
                continue
            self.flows[scope] = flow
            caller = _Flow(self, scope, flow, given if flow is linked else None)
            caller.add()
            for call in calls(flow.flow.body):
                for called in flows_of(flow.callees.get(call.id)):
                    inner = (*scope, call.id) if per_call else id(called)
                    self._add_call(scope, call, inner, called)
                    if _is_by_name(call):
                        self._by_name[inner].append((caller, call))
                    queue.append((inner, called))
        for scope, path, links, reader in self._reads:  # this list grows, too
            if links is self.stores:
                for caller, call in self._by_name[scope]:
                    caller.read_by_name(call, path, reader)
            fields = self._fields[scope]
            # A path that names no field reads the whole input.
            for field in {ALL, *fields.intersection(path)} if fields & {*path} else fields:
                links[scope, "input", field].append(reader)

    def read_input(self, scope: Scope, path: tuple[str, ...], links: Links, reader: Node) -> None:
        """``reader`` reads this path of the input: linked when all calls of the flow are known."""
        self._reads.append((scope, path, links, reader))

    def _add_call(self, scope: Scope, call: Invoke, inner: Scope, called: Linked) -> None:
        """The links into a called flow, of its arguments, and out of it, of its value."""
        body = called.flow.body.id
        for name in {ALL, PIPE, *_names(call)}:
            self._fields[inner].add(name)
            self.carries[scope, "argument", call.id, name].append((inner, "input", name))
        for last in called.flow.body.steps[-1:]:
            self.carries[inner, "value", last.id].append((scope, "value", call.id))
        self.decides[inner, "value", body].append((scope, "value", call.id))
        self.decides[scope, "whether", call.id].append((inner, "whether", body))
        if called.agent is not None:  # a model reads all of its arguments
            self.decides[scope, "reads", call.id].append((inner, "whether", body))


class _Flow:
    """Adds the links inside of one flow."""

    def __init__(
        self, graph: Influence, scope: Scope, linked: Linked, given: Collection[str] | None
    ) -> None:
        self.graph = graph
        self.scope = scope
        self.flow = linked.flow
        self._linked = linked
        self._given = given
        """The fields of the input; None: they are not known."""
        self._names = set[str]()
        """The names of the stores that a step may write, or that a graph declares."""
        self._root = whole_input(linked)
        self._stores = set[tuple[str, ...]]()
        """The stores that have a node."""
        self._read_stores: set[tuple[str, ...]] = set()
        self._arguments: dict[str, dict[tuple[str, ...], set[str]]] = {}
        """The names of each call's arguments, by the paths that the arguments read."""

    def add(self) -> None:
        """Add all links."""
        steps = list(every(self.flow.body))
        # These run in no fixed order: `feeds` tells which of them reads what another one wrote.
        fed = {inner.id for step in steps if isinstance(step, Walk | Dag) for inner in every(step)}
        for read in follow(self.flow, pipes=True).reads:
            self._add_read(read, read.step.id in fed)
        for step in steps:
            self._add_values(step)
            if self.graph.per_call:
                self._add_decisions(step)
        for step in steps if not self.graph.per_call else ():
            if isinstance(step, Invoke) and _is_by_name(step):
                self._add_secrets_by_name(step)

    def _add_secrets_by_name(self, call: Invoke) -> None:
        """Links into the secret arguments of a call that is filled by name."""
        callees = callees_of(self._linked.callees.get(call.id))
        for tool in (callee for callee in callees if isinstance(callee, Tool)):
            for name in tool.secret:
                argument = self._node("argument", call, name)
                self.read_by_name(call, (name,), argument, tool.accepts)

    def read_by_name(
        self,
        call: Invoke,
        path: tuple[str, ...],
        reader: Node,
        wanted: Mapping[str, Any] | None = None,
    ) -> None:
        """``reader`` reads an argument of a call that is filled by name. ``path``: the name; empty:
        all arguments."""
        args: Any = call.args
        depth = len(self._root)
        refs = args.of(path[0], wanted) if path else (Ref(self._root),)
        for ref in refs:
            if not ref.optional or not self._may_have(path[0]):
                self._read_store(ref.path[: depth + 1], [reader])

    def _may_have(self, name: str) -> bool:
        """Whether the stores may have this name; True if the input is not known."""
        return self._given is None or name in self._given or name in self._names

    def _node(self, kind: str, step: Step, *more: str) -> Node:
        return (self.scope, kind, step.id, *more)

    def _add_read(self, read: Read, is_fed: bool) -> None:
        """Add links from a written value to the values that the reading step makes of it."""
        graph = self.graph
        step = read.step
        path = read.ref.path
        readers = list(self._nodes_filled(step, read.ref))
        if read.store or read.key == self._root:
            self._read_store(read.key, readers)
        if is_fed:
            return
        linked = [(graph.carries, reader) for reader in readers]
        for links, reader in (*linked, (graph.decides, self._node("reads", step))):
            for write in read.writes:
                role = write.role if write.role in ("element", "acc") else "value"
                links[self._node(role, write.step)].append(reader)
            if read.unwritten:
                graph.read_input(self.scope, path, links, reader)

    def _nodes_filled(self, step: Step, ref: Ref) -> Iterator[Node]:
        """The places to which a value that a step reads flows; empty if the value only decides."""
        match step:
            case Compute():
                yield self._node("value", step)
            case Each():
                yield self._node("element", step)
            case Fold():
                yield self._node("acc" if ref in step.init.reads() else "element", step)
            case Invoke():
                if step.id not in self._arguments:
                    self._arguments[step.id] = _arguments(step)
                for name in self._arguments[step.id][ref.path]:
                    # What is filled by name is followed by `read_by_name`.
                    if self.graph.per_call or name != ALL or not _is_by_name(step):
                        yield self._node("argument", step, name)

    def _add_values(self, step: Step) -> None:
        """Links from the values of the steps inside a step to its value, and from it to stores."""
        graph = self.graph
        value = self._node("value", step)
        for inner in _giving(step):
            graph.carries[self._node("value", inner)].append(value)
        written = [(value, step.target)]
        match step:
            case Fold():
                graph.carries[self._node("acc", step)].append(value)
                written.append((self._node("element", step), step.element))
            case Each():
                written.append((self._node("element", step), step.element))
            case Dag():
                self._add_messages(step)
            case Walk():
                self._names |= {*step.begun, *step.unwritten}
                for name, keys in step.written.items():
                    self._names.update(keys)
                    paths = ((*self.flow.dialect.stores, key) for key in keys)
                    self._store_inside(step.nodes[name], paths)
        for node, target in written:
            for ref in target.writes() if target is not None else ():
                if ref.path[:-1] == self.flow.dialect.stores:
                    self._names.add(ref.path[-1])
                    graph.stores[node].append(self._store(ref.path))

    def _add_decisions(self, step: Step) -> None:
        """Links from what a step reads to whether the steps inside it run, and to its value."""
        decides = self.graph.decides
        inside = children(step)
        value = self._node("value", step)
        reads = self._node("reads", step)
        inner_runs = [self._node("whether", inner) for inner in inside]
        decides[self._node("whether", step)] += [reads, *inner_runs]
        decides[reads] += [value, *inner_runs]
        for inner in inside:
            # An iteration may depend on the one before.
            changed = reads if isinstance(step, Repeat) else value
            decides[self._node("value", inner)].append(changed)
        if isinstance(step, Dag | Walk):
            self._add_feeds(step.feeds)
        if isinstance(step, Walk):
            self._add_edges(step)

    def _store(self, path: tuple[str, ...]) -> Node:
        store = self.scope, "store", path
        if path not in self._stores:
            self._stores.add(path)
            if path[:-1] == self._root:  # who reads the whole reads each store
                self.graph.stores[store].append(self._store(self._root))
        return store

    def _store_inside(self, outer: Step, paths: Iterable[tuple[str, ...]]) -> None:
        """Any step in ``outer`` may make the values that it writes to these paths."""
        stores = list(map(self._store, paths))
        for step in every(outer):
            self.graph.stores[self._node("value", step)] += stores

    def _read_store(self, path: tuple[str, ...], readers: Iterable[Node]) -> None:
        store = self._store(path)
        self.graph.stores[store] += readers
        if path not in self._read_stores:
            self._read_stores.add(path)
            field = path[-1:] if path != self._root else ()
            self.graph.read_input(self.scope, field, self.graph.stores, store)

    def _add_messages(self, dag: Dag) -> None:
        """The calls of a plan write messages, and read what lies at, above or below a path. A path
        is here the kind of a message and, unless all of that kind is meant, a name."""
        for step in every(dag):
            for ref in own_reads(step):
                self._read_store(ref.path[:2], self._nodes_filled(step, ref))
        below: dict[tuple[str, ...], set[tuple[str, ...]]] = defaultdict(set)
        for path in self._read_stores:
            below[path].add(path)
            below[path[:1]].add(path)
        for step in dag.steps:
            for written in dag.written.get(step.id, ()):
                above = self._read_stores & {written[:1]}
                self._store_inside(step, below.get(written[:2], set()) | above)

    def _add_edges(self, walk: Walk) -> None:
        """Links from what a graph's nodes write to the nodes behind the conditions that read it."""
        edges = [(edge.source, edge.target) for edge in walk.edges]
        after = {name: reachable_from(name, edges) for name in (START, *walk.nodes)}
        for edge in walk.edges:
            if edge.when is None:
                continue
            # A condition that reads what a node writes decides about all nodes behind the edge.
            parts = {part for ref in edge.when.reads() for part in ref.path}
            inside = after[edge.source] & walk.nodes.keys()
            behind = [self._node("whether", walk.nodes[name]) for name in inside]
            for name, node in walk.nodes.items():
                is_read = not parts.isdisjoint(walk.written.get(name) or parts)
                if is_read or name in walk.writes_any:
                    self.graph.decides[self._node("value", node)] += behind
        # The feeds follow the edges. But all nodes share one state, so a node also reads the writes
        # of nodes that no edge connects with it: they may run in an earlier round.
        names = {node.id: name for name, node in walk.nodes.items()}
        for dest, key in {(dest, key) for _, dest, key in walk.feeds}:
            reader = names[dest]
            for writer, keys in walk.written.items():
                is_after = writer in (reader, *after[reader])
                if key in keys and not is_after and reader not in after[writer]:
                    self._add_feeds([(walk.nodes[writer].id, dest, key)])
        self._add_unnamed(walk)

    def _add_unnamed(self, walk: Walk) -> None:
        """Links along the edges for keys that the text does not name: a function may return any key
        of the state, and may be called with all of them."""
        reads = {
            name: [ref.path for inner in every(node) for ref in own_reads(inner)]
            for name, node in walk.nodes.items()
        }
        readers = {name for name, paths in reads.items() if paths}
        of_all = {name for name, paths in reads.items() if self.flow.dialect.stores in paths}
        for kind, writing, reading in (
            ("any key", walk.writes_any, readers),
            ("all keys", walk.nodes, of_all),
        ):
            for name in writing:
                node = walk.nodes[name]
                self.graph.decides[self._node("value", node)].append(self._node(kind, node))
            for edge in walk.edges:
                if edge.source not in walk.nodes or edge.target not in walk.nodes:
                    continue
                source, target = walk.nodes[edge.source], walk.nodes[edge.target]
                behind = [self._node(kind, target)]
                if edge.target in reading:
                    behind += [self._node("reads", target), self._node("argument", target, ALL)]
                self.graph.decides[self._node(kind, source)] += behind

    def _add_feeds(self, feeds: Iterable[tuple[str | None, str, str]]) -> None:
        """Add links for feeds: the id of the step that writes (None: the input), the id of the step
        that reads, and the name of the value."""
        for source, dest, name in feeds:
            for reader in ((self.scope, "reads", dest), (self.scope, "argument", dest, ALL)):
                if source:
                    self.graph.decides[self.scope, "value", source].append(reader)
                else:
                    self.graph.read_input(self.scope, (name,), self.graph.decides, reader)


def _giving(step: Step) -> tuple[Step, ...]:
    """The steps inside ``step`` whose value becomes its value."""
    if isinstance(step, Walk | Dag):
        return ()
    is_last = isinstance(step, Sequence) or (
        isinstance(step, Each | Branches) and step.collect is not None
    )
    return children(step)[-1:] if is_last else children(step)


def whole_input(linked: Linked) -> tuple[str, ...]:
    """The path at which a step reads the whole input, with the stores."""
    dialect = linked.flow.dialect
    return dialect.stores if dialect.input is None else dialect.input


def _is_by_name(step: Step) -> bool:
    """Whether the arguments of a call are those values that have the names of its parameters."""
    return (
        isinstance(step, Invoke) and step.args.names is None and isinstance(step.args, TracedArgs)
    )


def _names(call: Invoke) -> list[str]:
    """The names of a call's arguments, as far as the text has them."""
    return [name for name, _ in call.args.names or ()]


def _arguments(call: Invoke) -> dict[tuple[str, ...], set[str]]:
    """The names of the arguments that read each path, and of the pipe into a called flow."""
    names: dict[tuple[str, ...], set[str]] = defaultdict(set)
    args = call.args
    arguments = _names(call)
    for name in arguments:
        for ref in args.of(name) if isinstance(args, TracedArgs) else ():
            names[ref.path].add(name)
    for ref in args.reads():
        names[ref.path] |= {ref.into}.intersection(arguments)
        names[ref.path] = names[ref.path] or {ALL}
    for ref in call.exchange.pipe.reads() if call.exchange.pipe is not None else ():
        names[ref.path].add(PIPE)
    return names


def spread(start: Iterable[T], *links: Mapping[T, list[T]]) -> set[T]:
    """``start``, and all that the links lead to from there."""
    return set(ways(start, *links))


def ways(start: Iterable[T], *links: Mapping[T, list[T]]) -> dict[T, T | None]:
    """The same, and for each the one before it on the shortest way; None: it is of ``start``."""
    before: dict[T, T | None] = dict.fromkeys(start)
    queue = deque(before)
    while queue:
        node = queue.popleft()
        for targets in links:
            for target in targets.get(node, ()):
                if target not in before:
                    before[target] = node
                    queue.append(target)
    return before


def backwards(links: Links) -> Links:
    """The links in the other direction."""
    back: dict[Node, list[Node]] = defaultdict(list)
    for source, readers in links.items():
        for reader in readers:
            back[reader].append(source)
    return back


def reachable_from(start: str, edges: Iterable[tuple[str, str]]) -> set[str]:
    """Everything that edges reach from ``start`` in any number of steps; ``start`` itself only
    through a circle."""
    targets: dict[str, list[str]] = defaultdict(list)
    for source, target in edges:
        targets[source].append(target)
    return spread(targets[start], targets)
