"""Which step of an earlier definition is which step of the present one, although an edit moves the
ids.

Steps of equal kind and label, in the same order, are the same step. Between them, steps of one kind
in equal number are edited ones; all others are new or removed.

Which steps of a run depend on the results of others, along the values and the decisions of the
definition.

A step depends on a step whose value it reads, and on the decision whether, how often or for which
elements it runs: the value that a `Choose`, a fan-out or an edge of a graph reads. In a loop each
iteration may depend on the one before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from ..engine.linked import Linked, flows_of
from ..flow.rows import Key, Row
from ..flow.step import Dag, NamedArgs, Step, Walk
from ..flow.steps import Each, Flow, Fold, Invoke, Repeat, children, every
from ..flow.wiring import follow

MOST_COMPARED = 2_000
"""Steps of a definition that are compared by their order; in a larger one a step is the one with
the same id."""


def align(before: Sequence[Row], now: Sequence[Row]) -> dict[Key, Row]:
    """For each step of ``now`` that is also in ``before``, by its key: the step there."""
    if [row.key for row in before] == [row.key for row in now] and _kinds(before) == _kinds(now):
        return {row.key: row for row in before}
    if max(len(before), len(now)) > MOST_COMPARED:
        known = {row.key: row for row in before}
        return {
            row.key: known[row.key]
            for row in now
            if row.key in known and known[row.key].word == row.word
        }
    found: dict[Key, Row] = {}
    matcher = SequenceMatcher(None, _names(before), _names(now), autojunk=False)
    for tag, start, end, first, last in matcher.get_opcodes():
        old, new = before[start:end], now[first:last]
        if tag == "equal" or (tag == "replace" and _kinds(old) == _kinds(new)):
            found.update(zip([row.key for row in new], old, strict=True))
    return found


def _names(rows: Sequence[Row]) -> list[tuple[int, str, str]]:
    return [(row.depth, row.word, row.label) for row in rows]


def _kinds(rows: Sequence[Row]) -> list[tuple[int, str]]:
    return [(row.depth, row.word) for row in rows]


CONTROL = ("element", "acc")
"""Roles of a value that a step gets from the step around it, which decides about it."""

PIPE = "pipe"
"""The field of the value that a called flow gets from the step before the call."""


def dependents(linked: Linked, changed: Collection[Key]) -> set[Key]:
    """The keys of the steps that depend on the ``changed`` ones."""
    found = _Flow(linked, (), frozenset(changed))
    found.spread()
    return set(found.keys())


class _Link(NamedTuple):
    """A step reads a value."""

    source: str | None
    """The id of the step that writes it; None: it is of the input."""
    dest: str
    path: tuple[str, ...]
    """What it reads, as in a `Ref`."""
    into: str = ""
    """The argument that it fills, if the reference has it."""


class _Input:
    """Which fields of the input of a flow depend on a changed step."""

    def __init__(self) -> None:
        self.known: frozenset[str] | None = frozenset()
        """The names of all fields; None: they are not known."""
        self.changed: frozenset[str] = frozenset()
        self.is_changed = False

    def reaches(self, path: tuple[str, ...]) -> bool:
        """Whether a read of this path may read a changed field; a path without a field reads the
        whole input."""
        if not self.is_changed or self.known is None:
            return self.is_changed
        return self.known.isdisjoint(path) or not self.changed.isdisjoint(path)


class _Flow:
    """One call of a flow, and which of its steps depend on a changed one."""

    def __init__(self, linked: Linked, before: Key, changed: frozenset[Key]) -> None:
        self.linked, self.before, self.changed, self.input = linked, before, changed, _Input()
        self.body = linked.flow.body
        self.steps = {step.id: step for step in every(self.body)}
        self.values = {key[-1] for key in changed if key[:-1] == before and key[-1] in self.steps}
        """The steps whose value may change."""
        self.decided: set[str] = set()
        """The steps that read such a value themselves, or about which one decides."""
        self.uncertain: set[str] = set()
        """The steps of which a changed value decides whether or how often they run."""
        self.inner: dict[str, list[_Flow]] = {}
        for id, callee in linked.callees.items():
            if id in self.steps:
                self.inner[id] = [_Flow(one, (*before, id), changed) for one in flows_of(callee)]
        self.links = list(_links(linked.flow))

    def keys(self) -> Iterator[Key]:
        for id in self.decided:
            yield (*self.before, id)
        for flows in self.inner.values():
            for flow in flows:
                yield from flow.keys()

    def spread(self) -> None:
        """Follow the links until nothing is added."""
        size = -1
        while size != (size := len(self.values) + len(self.decided)):
            for link in self.links:
                if self._is_changed(link):
                    self._decide(link.dest)
            for id, flows in self.inner.items():
                self._spread_inside(id, flows)
            self._spread_up(self.body)

    def _is_changed(self, link: _Link) -> bool:
        return self.input.reaches(link.path) if link.source is None else link.source in self.values

    def _decide(self, id: str, whether: bool = False) -> None:
        """The step reads a changed value: so its own may change, and whether and how often the
        steps inside it run. ``whether``: also whether the step itself runs."""
        for step in every(self.steps[id]):
            self.decided.add(step.id)
            self.values.add(step.id)
            if whether or step.id != id:
                self.uncertain.add(step.id)

    def _spread_inside(self, id: str, flows: list[_Flow]) -> None:
        for flow in flows:
            if id in self.decided:
                self._give(flow, self.steps[id])
            flow.spread()
            if flow.values:
                self.values.add(id)

    def _give(self, flow: _Flow, step: Step) -> None:
        """The arguments of a call become the input of the called ``flow``."""
        input = flow.input
        input.is_changed, input.known = True, None
        args = step.args if isinstance(step, Invoke) else None
        found = [link for link in self.links if link.dest == step.id and self._is_changed(link)]
        if step.id in self.uncertain:
            flow._decide(flow.body.id, whether=True)
        if args is None or args.names is None or not found:
            return
        names = [name for name, _ in args.names]
        reads = {
            name: {ref.path for ref in args.of(name)} if isinstance(args, NamedArgs) else set()
            for name in names
        }
        changed = set[str]()
        for link in found:
            filled = [name for name in names if name == link.into or link.path in reads[name]]
            if not filled and link.path != (PIPE,):
                return
            changed |= set(filled or (PIPE,))
        input.known, input.changed = frozenset((*names, PIPE)), frozenset(changed)

    def _spread_up(self, step: Step) -> bool:
        """Whether the value of ``step`` may change because that of a step inside it may."""
        inside = [self._spread_up(child) for child in children(step)]
        if any(inside):
            self.values.add(step.id)
            match step:
                case Repeat():
                    self._decide(step.id)
                case Walk():
                    self._walk(step)
        return step.id in self.values

    def _walk(self, step: Walk) -> None:
        """A condition that reads what a changed node writes decides about all nodes to which its
        edges lead."""
        changed = [name for name, node in step.nodes.items() if node.id in self.values]
        written = {key for name in changed for key in step.written.get(name, ())}
        unknown = any(not step.written.get(name) for name in changed)
        for edge in step.edges:
            if edge.when is not None and (
                unknown or any(written & {*ref.path} for ref in edge.when.reads())
            ):
                for name in _reached(edge.source, [(one.source, one.target) for one in step.edges]):
                    if name in step.nodes:
                        self._decide(step.nodes[name].id, whether=True)


def _links(flow: Flow) -> Iterator[_Link]:
    steps = list(every(flow.body))
    fed = {inner.id for step in steps if isinstance(step, Walk) for inner in every(step)}
    for read in follow(flow).reads:
        if (
            read.step.id in fed
        ):  # the nodes of a Walk have no fixed order: `feeds` has their data flow
            continue
        if read.unwritten:
            yield _Link(None, read.step.id, read.ref.path, read.ref.into)
        for write in read.writes:
            # What decides about the step around it decides about this one, too.
            if not (write.role in CONTROL and isinstance(write.step, Each | Fold)):
                yield _Link(write.step.id, read.step.id, read.ref.path, read.ref.into)
    for step in steps:
        if isinstance(step, Dag | Walk):
            for source, dest, name in step.feeds:
                yield _Link(source, dest, (name,))
        if isinstance(step, Walk):
            yield from _concurrent_links(step)


def _concurrent_links(step: Walk) -> Iterator[_Link]:
    """The feeds follow the edges. But all nodes share one state, so a node also reads what another
    one writes that no edge connects with it: it may run in an earlier round."""
    edges = [(edge.source, edge.target) for edge in step.edges]
    reached = {name: _reached(name, edges) for name in step.nodes}
    names = {node.id: name for name, node in step.nodes.items()}
    reads: dict[str, set[str]] = {}
    for _, dest, key in step.feeds:
        if dest in names:
            reads.setdefault(names[dest], set()).add(key)
    for writer, keys in step.written.items():
        for reader, read in reads.items():
            if reader != writer and reader not in reached[writer] and writer not in reached[reader]:
                for key in read.intersection(keys):
                    yield _Link(step.nodes[writer].id, step.nodes[reader].id, (key,))


def _reached(start: str, edges: Collection[tuple[str, str]]) -> set[str]:
    found: set[str] = set()
    left = [start]
    while left:
        source = left.pop()
        new = {target for one, target in edges if one == source} - found
        found |= new
        left += new
    return found
