"""Finds which step reads a value that another step writes.

One walk in the order of the text follows every name from the step that writes it to the steps that
read it. The data edges of the picture and the checks of names use the result. The walk is
independent of the languages: expressions tell the paths that they read, targets tell the paths that
they write, and `Dialect.stores` is the place of the named stores in a frame.
"""

from __future__ import annotations

from collections import ChainMap, abc
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice, starmap
from typing import Any, Literal, NamedTuple

from ..flow import Flow
from ..graph_steps import Dag, Walk
from ..protocols import Ref, Target
from ..step import Step
from ..steps import (
    Branches,
    Choose,
    Compute,
    Each,
    Fold,
    Invoke,
    Repeat,
    Sequence,
    children,
    every,
    own_reads,
)

StoreKey = tuple[str, ...]
"""A path in a frame that is written as a whole: ``("ctx", "review")``, ``("pipe",)``."""

Role = Literal["outcome", "element", "acc", "results", "failures"]
"""The kind of a written value: the step's value, its element, its accumulator, the results or the
failures of the steps inside."""


class Wire(NamedTuple):
    """A value that flows from one step to another."""

    source: str | None
    """The id of the step that writes the value; None: the run's input has it."""
    dest: str
    """The id of the step that reads the value."""
    name: str
    """The label of the edge in the picture."""


class Write(NamedTuple):
    """A step writes a value to a path."""

    key: StoreKey
    store: str
    """The name of the store; empty for any other path."""
    step: Step
    ref: Ref
    role: Role = "outcome"
    part: str | None = None
    """The field of the value that this step writes, if several steps write one value."""
    from_second_iteration: bool = False
    """Whether the value exists only from the second iteration on."""
    outlives_block: bool = True
    """Whether later steps of the flow can read it; a store inside an element, a branch or a fold
    does not outlive it."""


class Read(NamedTuple):
    """A step reads a path."""

    key: StoreKey
    store: str
    """The name of the store; empty for any other path, and for all stores together."""
    step: Step
    ref: Ref
    writes: abc.Sequence[Write]
    """The writes whose value the step may read; empty: no earlier step writes it."""
    unwritten: bool
    """Whether no step has written the value when it is read first."""
    required: bool
    """Whether each run reads the path, and reads it before a node of a graph can write it. The body
    of a fan-out or a fold counts as run, because its list is unknown (decision P24)."""
    visible: Mapping[StoreKey, tuple[Write, ...]]
    """The writes of the innermost step around the read, the names that this step binds included."""


class Accesses(NamedTuple):
    """All reads and writes of a flow, in the order of the text."""

    reads: list[Read]
    """The reads of stores, the pipe and items."""
    writes: list[Write]
    """The writes to stores."""
    order: list[Read | Write]
    """The reads and the writes together."""
    repeated: set[str]
    """The ids of the steps that run once for each item of a list."""


def wires(flow: Flow) -> tuple[Wire, ...]:
    """The data edges of ``flow``, in the order of the reads."""
    edges: list[Wire] = []
    steps = list(every(flow.body))
    fed = {inner.id for step in steps if isinstance(step, Walk) for inner in every(step)}
    for read in follow(flow).reads:
        # The nodes of a Walk have no fixed order, so `Walk.feeds` has their data flow.
        if read.step.id in fed:
            continue
        if read.unwritten:
            edges.append(Wire(None, read.step.id, _name(read, read.key[-1])))
        edges += [
            Wire(write.step.id, read.step.id, _name(read, write.part or write.key[-1]))
            for write in read.writes
        ]
    for step in steps:
        if isinstance(step, Dag | Walk):
            edges += starmap(Wire, step.feeds)
    return tuple(dict.fromkeys(edges))


def _name(read: Read, name: str) -> str:
    """The label of a wire: ``name``, and the field of a mapping that the value fills."""
    field = read.ref.path[-1]
    into = read.ref.into
    if not into:
        return name
    return field if field == into else f"{field} → {into}"


def follow(flow: Flow, pipes: bool = False) -> Accesses:
    """Every read and write of ``flow``. ``pipes``: whether each call of a flow counts as a read of
    the pipe, which the called flow may or may not read; default False."""
    walk = _Follower(flow.dialect.stores, pipes)
    walk.step(flow.body, View(), True)
    return walk.trace


View = ChainMap[StoreKey, tuple[Write, ...]]
"""The writes that a step can read, the innermost place first: writes in an inner place are not
visible outside of it."""


class _Follower:
    """One walk through a flow that collects its reads and writes."""

    def __init__(self, stores: StoreKey, pipes: bool) -> None:
        self.stores = stores
        self.pipes = pipes
        self.trace = Accesses([], [], [], set())
        self.repeated = False
        """Whether the walk is in a step that runs for each item of a list."""
        self.begun = frozenset[str]()
        """In a `Walk`: the names of stores that a node writes or that begin with a value. Whatever
        the order of the nodes, the input need not have them."""
        self.so_far = SoFar()
        """The writes of the outermost steps."""
        self.unsure = False
        """Whether an earlier step may have written any store, because its text has errors."""

    def step(self, step: Step, view: View, always_runs: bool) -> None:
        """Follow the reads of ``step``, then the steps inside, then its writes. ``view``: the writes that
        it can read. ``always_runs``: whether it runs in every run."""
        if self.repeated:
            self.trace.repeated.add(step.id)
        match step:
            case Sequence():
                for inner in step.steps:
                    self.step(inner, view, always_runs)
            case Invoke() | Compute():
                self.read(step, own_reads(step), view, always_runs)
                if self.pipes and isinstance(step, Invoke) and step.exchange.pipe is not None:
                    self.read(step, step.exchange.pipe.reads(), view, always_runs)
            case Choose():
                self.read(step, own_reads(step), view, always_runs)
                for case in children(step):
                    self.step(case, view.new_child(), False)
            case Branches():
                self.branches_of(step, view, always_runs)
            case Each():
                self.elements_of(step, view, always_runs)
            case Fold():
                self.fold_over(step, view, always_runs)
            case Repeat():
                self.step(step.body, view, always_runs)
                self.read(step, own_reads(step), view, always_runs)
            case Walk():
                # Each node is followed alone, because the order of nodes is known only while the
                # graph runs. So the input need not have a key that any node writes.
                outer = self.begun
                sure_nodes = step.sure if always_runs else ()
                self.begun = step.begun.union(*step.written.values())
                for name, node in step.nodes.items():
                    self.step(node, view.new_child(), name in sure_nodes)
                self.read(step, own_reads(step), view, False)
                self.begun = outer
        self.write_outcome(step, view)

    def branches_of(self, step: Branches, view: View, always_runs: bool) -> None:
        """Follow the branches, then their ``collect``."""
        for branch in step.branches.values():
            self.step(branch, view.new_child(), always_runs)
        if step.join is None or step.collect is None:
            return
        inside = view.new_child()
        for ref in step.join.writes():
            parts = [
                Write(ref.path, "", branch, ref, part=name)
                for name, branch in step.branches.items()
            ]
            inside[ref.path] = tuple(parts)
        self.step(step.collect, inside, always_runs)

    def elements_of(self, step: Each, view: View, always_runs: bool) -> None:
        """Follow the body of a fan-out, then its ``collect``."""
        self.read(step, own_reads(step), view, always_runs)
        inside = view.new_child()
        self.bind_element(step, step.element, "element", inside)
        self.repeat(step.body, inside, always_runs)
        if step.join is None or step.collect is None:
            return
        inside = view.new_child()
        # The first ref has the values, the second one the failures.
        for number, ref in enumerate(step.join.writes()):
            role: Role = "failures" if number else "results"
            inside[ref.path] = (Write(ref.path, "", step.body, ref, role),)
        self.step(step.collect, inside, always_runs)

    def fold_over(self, step: Fold, view: View, always_runs: bool) -> None:
        """Follow the body of a fold, which also reads its own writes."""
        self.read(step, own_reads(step), view, always_runs)
        inside = view.new_child()
        self.bind_element(step, step.element, "element", inside)
        self.bind_element(step, step.acc, "acc", inside)
        # The next iteration reads the writes of this one.
        carried_over = (
            *step.acc.writes(),
            *(step.body.target.writes() if step.body.target else ()),
        )
        for ref in carried_over:
            write = Write(
                ref.path, self.store_name(ref.path), step.body, ref, from_second_iteration=True
            )
            inside[ref.path] = (*inside.get(ref.path, ()), write)
        self.repeat(step.body, inside, always_runs)

    def repeat(self, body: Step, view: View, always_runs: bool) -> None:
        """Follow a step that runs for each item of a list."""
        outer = self.repeated
        self.repeated = True
        self.step(body, view, always_runs)
        self.repeated = outer

    def bind_element(self, step: Step, target: Target, role: Role, view: View) -> None:
        """Let ``view`` have an element or an accumulator of ``step``."""
        for ref in target.writes():
            view[ref.path] = (Write(ref.path, "", step, ref, role),)

    def write_outcome(self, step: Step, view: View) -> None:
        """Note the writes of a step's own value."""
        for ref in step.target.writes() if step.target else ():
            if ref.path == self.stores:
                self.unsure = True
                continue
            store = self.store_name(ref.path)
            write = Write(
                ref.path,
                store,
                step,
                ref,
                "outcome",
                None,
                from_second_iteration=False,
                outlives_block=len(view.maps) == 1,
            )
            view[ref.path] = (write,)
            if len(view.maps) == 1 and ref.path[: len(self.stores)] == self.stores:
                self.so_far.add(write)
            if store:
                self.trace.writes.append(write)
                self.trace.order.append(write)

    def read(self, step: Step, refs: Iterable[Ref], view: View, always_runs: bool) -> None:
        """Note the reads of ``step``, each with the writes whose value it may read."""
        stores = self.stores
        depth = len(self.stores)
        for ref in refs:
            path = ref.path
            key = path[: depth + 1] if path[:depth] == stores else path[:1]
            writes: abc.Sequence[Write] = (
                self._under(key, view) if key == stores else view.get(key, ())
            )
            if len(path) > len(key):
                # If branches write parts of one value, only the branch of the read field counts.
                named = tuple([write for write in writes if write.part == path[len(key)]])
                writes = named or writes
            unwritten = not writes or all(write.from_second_iteration for write in writes)
            store = self.store_name(key)
            if self.unsure and store:
                unwritten, writes = False, ()
            required = always_runs and store not in self.begun
            read = Read(key, store, step, ref, writes, unwritten, required, view.maps[0])
            self.trace.reads.append(read)
            self.trace.order.append(read)

    def store_name(self, key: StoreKey) -> str:
        """The name of the store at ``key``; empty for any other path."""
        depth = len(self.stores)
        return key[depth] if len(key) == depth + 1 and key[:depth] == self.stores else ""

    def _under(self, key: StoreKey, view: View) -> abc.Sequence[Write]:
        """All writes below ``key``, for a step that reads a whole mapping."""
        inner = [
            path for inner_view in view.maps[:-1] for path in inner_view if path[: len(key)] == key
        ]
        # Only the outermost steps have written so far.
        if not inner:
            return self.so_far.view()
        below = (writes for path, writes in view.items() if path[: len(key)] == key)
        return tuple(chain.from_iterable(below))


class SoFar:
    """The writes of the outermost steps to stores. A read of all stores sees the writes so far as a
    `Prefix` of this list. They are not copied for each such read, because n reads would cost n²."""

    def __init__(self) -> None:
        self._writes: list[Write] = []
        self._places: dict[StoreKey, int] = {}
        """The index of the last write of each store."""

    def add(self, write: Write) -> None:
        index = self._places.setdefault(write.key, len(self._writes))
        if index == len(self._writes):
            self._writes.append(write)
        else:  # earlier reads still see the earlier write
            self._writes = [*self._writes[:index], write, *self._writes[index + 1 :]]

    def view(self) -> Prefix:
        """The writes so far."""
        return Prefix(self._writes, len(self._writes))


class Prefix(abc.Sequence[Write]):
    """The first ``size`` writes of a list that grows."""

    __slots__ = ("_size", "whole")

    def __init__(self, whole: list[Write], size: int) -> None:
        self.whole = whole
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: Any) -> Any:
        return self.whole[: self._size][index] if isinstance(index, slice) else self._item(index)

    def _item(self, index: int) -> Write:
        if not -self._size <= index < self._size:
            raise IndexError(index)
        return self.whole[index if index >= 0 else self._size + index]

    def __iter__(self) -> Iterator[Write]:
        return islice(self.whole, self._size)


def every_write(reads: Iterable[Read]) -> Iterator[Write]:
    """The writes of all reads. Writes that several reads of all stores share come once."""
    longest: dict[int, Prefix] = {}
    for read in reads:
        if isinstance(read.writes, Prefix):
            longest_writes = longest.get(id(read.writes.whole))
            if longest_writes is None or len(longest_writes) < len(read.writes):
                longest[id(read.writes.whole)] = read.writes
        else:
            yield from read.writes
    yield from chain.from_iterable(longest.values())
