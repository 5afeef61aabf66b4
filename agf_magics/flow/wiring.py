"""Who reads what whom wrote.

One walk in the order of the text follows every name from the step that writes it to the steps that read it; the data
edges of the picture and the checks of names are two readings of what it finds. It knows no language: expressions say
what they read, targets what they write, and `Flow.stores` where names live in a frame.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from .frame import Join, Ref, Target
from .steps import Branches, Choose, Compute, Dag, Each, Flow, Fold, Invoke, Repeat, Sequence, Step, Walk, every

Key = tuple[str, ...]
"""A place of a frame that is written as a whole: ``("ctx", "review")``, ``("pipe",)``."""

Role = Literal["outcome", "element", "acc", "results"]
"""What of a step it is that stands there: its own value, an element it goes over, what it carries, what ran in it."""


class Wire(NamedTuple):
    """A value that flows."""

    source: str | None
    """The id of the step that wrote it; None: it comes with the run's input."""
    dest: str
    """The id of the step that reads it."""
    name: str


class Write(NamedTuple):
    """A step leaves a value at a place."""

    key: Key
    store: str
    """The name of the store it is; empty for any other place."""
    step: Step
    ref: Ref
    role: Role = "outcome"
    part: str | None = None
    """The field of the value that is this step's, where several steps make up one value."""
    again: bool = False
    """Whether it is only there from the second iteration on."""
    lasting: bool = True
    """Whether the flow's own steps see it; what is stored in an element, a branch or a fold goes with it."""


class Read(NamedTuple):
    """A step reads a place."""

    key: Key
    store: str
    """The name of the store it is; empty for any other place, and for all stores at once."""
    step: Step
    ref: Ref
    writes: tuple[Write, ...]
    """Whom it may come from; empty: nobody before it."""
    unwritten: bool
    """Whether nobody has written it when it is read for the first time."""
    sure: bool
    """Whether the step runs whenever the flow does."""


class Trace(NamedTuple):
    """What is read and written, in the order of the text."""

    reads: list[Read]
    """All of it: stores, the pipe, items."""
    writes: list[Write]
    """Of stores."""
    order: list[Read | Write]
    """Both."""


def wires(flow: Flow, trace: Trace | None = None) -> tuple[Wire, ...]:
    """The data edges of ``flow``, in the order in which they are read."""
    found: dict[Wire, None] = {}
    steps = list(every(flow.body))
    nodes = (node for step in steps if isinstance(step, Walk) for node in step.nodes.values())
    fed = {inner.id for node in nodes for inner in every(node)}
    for read in (trace or follow(flow)).reads:
        if read.step.id in fed:  # the nodes of a Walk run in no order: `feeds` has their data flow
            continue
        if read.unwritten:
            found[Wire(None, read.step.id, _name(read, read.key[-1]))] = None
        for write in read.writes:
            found[Wire(write.step.id, read.step.id, _name(read, write.part or write.key[-1]))] = None
    for step in steps:
        if isinstance(step, Dag | Walk):
            found.update(dict.fromkeys(Wire(*feed) for feed in step.feeds))
    return tuple(found)


def _name(read: Read, name: str) -> str:
    """What flows: the place it stands at; of a field that is read for a field, both."""
    field, into = read.ref.path[-1], read.ref.into
    return name if not into else field if field == into else f"{field} → {into}"


def follow(flow: Flow) -> Trace:
    """Every read and write of ``flow``."""
    walk = _Walk(flow.stores)
    walk.step(flow.body, _View(), True)
    return walk.trace


class _View:
    """What is written where, as a step sees it. What is written in a view is not seen outside of it."""

    __slots__ = ("outer", "written")

    def __init__(self, outer: _View | None = None) -> None:
        self.outer = outer
        self.written: dict[Key, tuple[Write, ...]] = {}

    def at(self, key: Key) -> tuple[Write, ...]:
        view: _View | None = self
        while view is not None:
            if key in view.written:
                return view.written[key]
            view = view.outer
        return ()

    def under(self, key: Key) -> tuple[Write, ...]:
        """Everything below ``key``: whoever reads a whole mapping reads all that is in it."""
        views = [self]
        while views[-1].outer is not None:
            views.append(views[-1].outer)
        seen = {at: writes for view in reversed(views) for at, writes in view.written.items() if at[: len(key)] == key}
        return tuple(write for writes in seen.values() for write in writes)


class _Walk:
    def __init__(self, stores: Key) -> None:
        self.stores = stores
        self.trace = Trace([], [], [])

    def step(self, step: Step, view: _View, sure: bool) -> None:
        """``step``, in its order: what it reads, its own steps, what it leaves."""
        match step:
            case Sequence():
                for inner in step.steps:
                    self.step(inner, view, sure)
            case Invoke():
                # `pipe` is handed to every called flow; whether one reads it is not known here.
                self.read(step, step.args.reads(), view, sure)
            case Compute():
                self.read(step, step.value.reads(), view, sure)
            case Choose():
                self.read(step, step.pick.reads(), view, sure)
                for case in (*step.cases.values(), *([step.default] if step.default else [])):
                    self.step(case, _View(view), False)
            case Branches():
                self.branches(step, view, sure)
            case Each():
                self.each(step, view, sure)
            case Fold():
                self.fold(step, view, sure)
            case Repeat():
                self.step(step.body, view, sure)
                self.read(step, step.until.reads() if step.until else (), view, sure)
            case Walk():
                for node in step.nodes.values():
                    self.step(node, _View(view), False)
                for edge in step.edges:
                    self.read(step, edge.when.reads() if edge.when else (), view, False)
        self.leave(step, view)

    def branches(self, step: Branches, view: _View, sure: bool) -> None:
        for branch in step.branches.values():
            self.step(branch, _View(view), sure and step.on_error == "abort")
        if step.join is None or step.collect is None:
            return
        inside = _View(view)
        for ref in step.join.writes():
            parts = [Write(ref.path, "", branch, ref, part=name) for name, branch in step.branches.items()]
            inside.written[ref.path] = tuple(parts)
        self.step(step.collect, inside, sure)

    def each(self, step: Each, view: _View, sure: bool) -> None:
        self.read(step, step.over.reads(), view, sure)
        inside = _View(view)
        self.bind(step, step.element, "element", inside)
        self.step(step.body, inside, False)
        if step.join is None or step.collect is None:
            return
        inside = _View(view)
        self.bind(step.body, step.join, "results", inside)
        self.step(step.collect, inside, sure)

    def fold(self, step: Fold, view: _View, sure: bool) -> None:
        self.read(step, (*step.over.reads(), *step.init.reads()), view, sure)
        inside = _View(view)
        self.bind(step, step.element, "element", inside)
        self.bind(step, step.acc, "acc", inside)
        # What one iteration leaves, the next one sees.
        left = (*step.acc.writes(), *(step.body.target.writes() if step.body.target else ()))
        for ref in left:
            write = Write(ref.path, self.store(ref.path), step.body, ref, again=True)
            inside.written[ref.path] = (*inside.at(ref.path), write)
        self.step(step.body, inside, False)

    def bind(self, step: Step, target: Target | Join, role: Role, view: _View) -> None:
        for ref in target.writes():
            view.written[ref.path] = (Write(ref.path, "", step, ref, role),)

    def leave(self, step: Step, view: _View) -> None:
        for ref in step.target.writes() if step.target else ():
            store = self.store(ref.path)
            write = Write(ref.path, store, step, ref, "outcome", None, False, view.outer is None)
            view.written[ref.path] = (write,)
            if store:
                self.trace.writes.append(write)
                self.trace.order.append(write)

    def read(self, step: Step, refs: Iterable[Ref], view: _View, sure: bool) -> None:
        stores, depth = self.stores, len(self.stores)
        for ref in refs:
            path = ref.path
            key = path[: depth + 1] if path[:depth] == stores else path[:1]
            writes = view.under(key) if key == stores else view.at(key)
            if len(path) > len(key):
                named = tuple([write for write in writes if write.part == path[len(key)]])
                writes = named or writes
            unwritten = not writes or all(write.again for write in writes)
            read = Read(key, self.store(key), step, ref, writes, unwritten, sure)
            self.trace.reads.append(read)
            self.trace.order.append(read)

    def store(self, key: Key) -> str:
        depth = len(self.stores)
        return key[depth] if len(key) == depth + 1 and key[:depth] == self.stores else ""
