"""Which step reads a value that another step wrote.

One walk in the order of the text follows every name from the step that writes it to the steps that
read it. The data edges of the picture and the checks of names use its result. It is independent of
the languages: expressions return the paths that they read, targets those that they write, and
`Dialect.stores` is the place of the named stores in a frame.

The shape of every step's value before a run, from schemas, literals and expressions along the
wires.

Computed on demand, once per step.

Checks of a whole flow by its text alone, independent of its language and the registry. `RULES`
is their order.

A certain failure is an error, a legal text that looks wrong a warning, other information a note
(decision A5).
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import chain, starmap
from typing import Literal, NamedTuple

from ..text.diagnostics import Diagnostic, Span, nearest, spend_comparisons, suggest
from .events import is_part
from .shapes import Found, SchemaShapes, Shape, descend, list_of
from .step import Args, Expr, Ref, Target
from .steps import (
    Branches,
    Choose,
    Compute,
    Dag,
    Each,
    Flow,
    Fold,
    Invoke,
    Repeat,
    Sequence,
    Step,
    Walk,
    children,
    every,
    expressions,
    own_reads,
)

StoreKey = tuple[str, ...]
"""A path in a frame that is written as a whole: ``("ctx", "review")``, ``("pipe",)``."""

Role = Literal["outcome", "element", "acc", "results", "failures"]
"""The kind of the value: the step's own, its element, its accumulator, the results of the steps
inside, or what failed there."""


class Wire(NamedTuple):
    """A value that flows from one step to another."""

    source: str | None
    """The id of the step that writes it; None: the run's input has it."""
    dest: str
    """The id of the step that reads it."""
    name: str


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
    again: bool = False
    """Whether it exists only from the second iteration on."""
    lasting: bool = True
    """Whether later steps of the flow can read it; a store inside an element, a branch or a fold
    ends with that."""


class Read(NamedTuple):
    """A step reads a path."""

    key: StoreKey
    store: str
    """The name of the store; empty for any other path, and for all stores together."""
    step: Step
    ref: Ref
    writes: tuple[Write, ...]
    """The writes that it may read; empty: no earlier one."""
    unwritten: bool
    """Whether no step has written it at the first read."""
    sure: bool
    """Whether the step runs in every run. What a fan-out or a fold repeats counts as run: its list
    is not known (decision P24)."""
    visible: Mapping[StoreKey, tuple[Write, ...]]
    """The writes of the innermost place around it, among them the names that it binds."""


class Accesses(NamedTuple):
    """All reads and writes, in the order of the text."""

    reads: list[Read]
    """Of stores, the pipe and items."""
    writes: list[Write]
    """Of stores."""
    order: list[Read | Write]
    """Both together."""
    repeated: set[str]
    """The ids of the steps that run once for each item of a list."""


def wires(flow: Flow) -> tuple[Wire, ...]:
    """The data edges of ``flow``, in the order of the reads."""
    edges: list[Wire] = []
    steps = list(every(flow.body))
    fed = {inner.id for step in steps if isinstance(step, Walk) for inner in every(step)}
    for read in follow(flow).reads:
        # The nodes of a Walk have no fixed order: `feeds` has their data flow.
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
    """The label of a wire: the name of the path, and the field of a mapping that it fills."""
    field, into = read.ref.path[-1], read.ref.into
    return name if not into else field if field == into else f"{field} → {into}"


def follow(flow: Flow, pipes: bool = False) -> Accesses:
    """Every read and write of ``flow``. ``pipes``: also that each call of a flow hands over the
    pipe, which the flow may or may not read."""
    walk = _Walk(flow.dialect.stores, pipes)
    walk.step(flow.body, View(), True)
    return walk.trace


View = ChainMap[StoreKey, tuple[Write, ...]]
"""The writes that a step can read, the innermost place first: writes in an inner place are not
visible outside of it."""


class _Walk:
    def __init__(self, stores: StoreKey, pipes: bool) -> None:
        self.stores, self.pipes = stores, pipes
        self.trace = Accesses([], [], [], set())
        self.repeated = False

    def step(self, step: Step, view: View, sure: bool) -> None:
        """Follow the reads of ``step``, then the steps inside, then its writes."""
        if self.repeated:
            self.trace.repeated.add(step.id)
        match step:
            case Sequence():
                for inner in step.steps:
                    self.step(inner, view, sure)
            case Invoke() | Compute():
                self.read(step, own_reads(step), view, sure)
                if self.pipes and isinstance(step, Invoke) and step.exchange.pipe is not None:
                    self.read(step, step.exchange.pipe.reads(), view, sure)
            case Choose():
                self.read(step, own_reads(step), view, sure)
                for case in children(step):
                    self.step(case, view.new_child(), False)
            case Branches():
                self.branches(step, view, sure)
            case Each():
                self.each(step, view, sure)
            case Fold():
                self.fold(step, view, sure)
            case Repeat():
                self.step(step.body, view, sure)
                self.read(step, own_reads(step), view, sure)
            case Walk():
                # Each alone: which nodes ran before is known only while the graph runs.
                for node in step.nodes.values():
                    self.step(node, view.new_child(), False)
                self.read(step, own_reads(step), view, False)
        self.leave(step, view)

    def branches(self, step: Branches, view: View, sure: bool) -> None:
        for branch in step.branches.values():
            self.step(branch, view.new_child(), sure)
        if step.join is None or step.collect is None:
            return
        inside = view.new_child()
        for ref in step.join.writes():
            parts = [
                Write(ref.path, "", branch, ref, part=name)
                for name, branch in step.branches.items()
            ]
            inside[ref.path] = tuple(parts)
        self.step(step.collect, inside, sure)

    def each(self, step: Each, view: View, sure: bool) -> None:
        self.read(step, own_reads(step), view, sure)
        inside = view.new_child()
        self.bind(step, step.element, "element", inside)
        self.repeat(step.body, inside, sure)
        if step.join is None or step.collect is None:
            return
        inside = view.new_child()
        for number, ref in enumerate(step.join.writes()):  # what follows tells of failures
            role: Role = "failures" if number else "results"
            inside[ref.path] = (Write(ref.path, "", step.body, ref, role),)
        self.step(step.collect, inside, sure)

    def fold(self, step: Fold, view: View, sure: bool) -> None:
        self.read(step, own_reads(step), view, sure)
        inside = view.new_child()
        self.bind(step, step.element, "element", inside)
        self.bind(step, step.acc, "acc", inside)
        # The next iteration reads the writes of this one.
        left = (*step.acc.writes(), *(step.body.target.writes() if step.body.target else ()))
        for ref in left:
            write = Write(ref.path, self.store(ref.path), step.body, ref, again=True)
            inside[ref.path] = (*inside.get(ref.path, ()), write)
        self.repeat(step.body, inside, sure)

    def repeat(self, body: Step, view: View, sure: bool) -> None:
        outer, self.repeated = self.repeated, True
        self.step(body, view, sure)
        self.repeated = outer

    def bind(self, step: Step, target: Target, role: Role, view: View) -> None:
        for ref in target.writes():
            view[ref.path] = (Write(ref.path, "", step, ref, role),)

    def leave(self, step: Step, view: View) -> None:
        for ref in step.target.writes() if step.target else ():
            store = self.store(ref.path)
            write = Write(ref.path, store, step, ref, "outcome", None, False, len(view.maps) == 1)
            view[ref.path] = (write,)
            if store:
                self.trace.writes.append(write)
                self.trace.order.append(write)

    def read(self, step: Step, refs: Iterable[Ref], view: View, sure: bool) -> None:
        stores, depth = self.stores, len(self.stores)
        for ref in refs:
            path = ref.path
            key = path[: depth + 1] if path[:depth] == stores else path[:1]
            writes = _under(key, view) if key == stores else view.get(key, ())
            if len(path) > len(key):
                # Of branches that write one value, only the one whose field is read.
                named = tuple([write for write in writes if write.part == path[len(key)]])
                writes = named or writes
            unwritten = not writes or all(write.again for write in writes)
            read = Read(key, self.store(key), step, ref, writes, unwritten, sure, view.maps[0])
            self.trace.reads.append(read)
            self.trace.order.append(read)

    def store(self, key: StoreKey) -> str:
        depth = len(self.stores)
        return key[depth] if len(key) == depth + 1 and key[:depth] == self.stores else ""


def _under(key: StoreKey, view: View) -> tuple[Write, ...]:
    """All writes below ``key``, for a step that reads a whole mapping."""
    below = (writes for at, writes in view.items() if at[: len(key)] == key)
    return tuple(chain.from_iterable(below))


class Outcomes:
    """The shapes of one flow."""

    def __init__(self, flow: Flow, trace: Accesses) -> None:
        self.flow = flow
        self.found: list[Diagnostic] = []
        """Errors of the expressions, found on the way."""
        self._repeated = trace.repeated
        self._reads: dict[str, dict[tuple[str, ...], Read]] = {}
        for read in trace.reads:
            self._reads.setdefault(read.step.id, {})[read.ref.path] = read
        self._outcomes: dict[str, Shape | None] = {}
        self._expressions: dict[int, Shape | None] = {}
        """By identity: each expression is inferred once, so that its errors are reported once."""

    @cached_property
    def _schemas(self) -> SchemaShapes:
        # Of most flows no step names a schema.
        return SchemaShapes(self.flow.declared.schemas)

    def of(self, step: Step) -> Shape | None:
        """The shape of the value of ``step``."""
        if step.id not in self._outcomes:
            self._outcomes[step.id] = self._find(step)
        return self._outcomes[step.id]

    def expression(self, step: Step, expr: Expr | Args) -> Shape | None:
        """The shape of an expression of ``step``."""
        infer = self.flow.dialect.infer
        if infer is None:
            return None
        if id(expr) in self._expressions:
            return self._expressions[id(expr)]
        reads = self._reads.get(step.id, {})

        def look(path: tuple[str, ...]) -> Found:
            read = reads.get(path)
            return self._read(read) if read else (None, None)

        self._expressions[id(expr)] = shape = infer(
            expr, look, self.found, step.id in self._repeated
        )
        return shape

    def _find(self, step: Step) -> Shape | None:
        match step:
            case Invoke(gives=name) if name is not None:
                return self._schemas.of(name.text)
            case Compute():
                return self.expression(step, step.value)
            case Each(collect=collect) | Branches(collect=collect) if collect is not None:
                return self.of(collect)
        return None

    def _read(self, read: Read) -> Found:
        rest = read.ref.path[len(read.key) :]
        if any(write.again for write in read.writes):  # it depends on itself
            return None, None
        if read.writes and all(write.part for write in read.writes):
            fields = {str(write.part): self._written(write) for write in read.writes}
            return descend(Shape(frozenset({"object"}), fields=fields, closed=True), rest)
        if len(read.writes) == 1:
            return descend(self._written(read.writes[0]), rest)
        return None, None

    def _written(self, write: Write) -> Shape | None:
        step = write.step
        match write.role:
            case "outcome":
                return self.of(step)
            case "results":
                return list_of(self.of(step))
            case "element" if isinstance(step, (Each, Fold)):
                items = self.expression(step, step.over)
                return items.of if items else None
        return None


class Facts(NamedTuple):
    """The input of a rule."""

    flow: Flow
    steps: tuple[Step, ...]
    """All steps, in the order of the text."""
    trace: Accesses
    outcomes: Outcomes


Rule = Callable[[Facts], Iterator[Diagnostic]]


def check(flow: Flow) -> tuple[Flow, list[Diagnostic]]:
    """``flow`` with the names that its input must have (`Flow.inputs`), and the findings, rule by
    rule."""
    trace = follow(flow)
    facts = Facts(flow, tuple(every(flow.body)), trace, Outcomes(flow, trace))
    findings = [diagnostic for rule in RULES for diagnostic in rule(facts)]
    return replace(flow, inputs=inputs(facts)), findings


def inputs(facts: Facts) -> tuple[Ref, ...]:
    """The stores that are read before a step writes them, in the order of the text.

    A name is certain if every run needs it: its step always runs, and its expression requires it.
    In a step that runs for each item of a list also a name after ``and`` is needed: some item will
    read it, and ``on_error: continue`` would drop that item (decision P24).
    """
    refs: dict[StoreKey, Ref] = {}
    for read in facts.trace.reads:
        if read.unwritten and read.store:
            ref = read.ref
            counts = facts.flow.dialect.reads_are_complete and read.step.id in facts.trace.repeated
            needs = ref.certain or (counts and not ref.optional)
            # What the last iteration of the same fold wrote is another matter: read-before-written.
            certain = read.sure and needs and not read.writes
            earlier = refs.get(read.key)
            if earlier is None or (certain and not earlier.certain):
                refs[read.key] = Ref(read.key, ref.span, certain)
    return tuple(refs.values())


def unwritten(facts: Facts) -> Iterator[Diagnostic]:
    """flow.unwritten: a name that no step writes and that is similar to one that an earlier step
    writes, or to one that its place binds."""
    written: dict[str, list[str]] = {}
    seen: set[str] = set()
    for move in facts.trace.order:
        name = move.store
        if isinstance(move, Write):
            if move.lasting:
                written.setdefault(name[:1].lower(), []).append(name)
        elif name and move.unwritten and name not in seen:
            seen.add(name)
            bound = [key[0] for key in move.visible if len(key) == 1]
            near = _misspelt(name, [*written.get(name[:1].lower(), []), *bound])
            if near is not None:
                message, hint = f"no step writes {name!r}", f"did you mean {near}?"
                yield Diagnostic(
                    "flow.unwritten", message, _word(move.ref.span, name), hint, "warning"
                )


def read_before_written(facts: Facts) -> Iterator[Diagnostic]:
    """flow.read-before-written: a name that only a later step writes, or only the previous item of
    the same fold."""
    first = {write.key: write for write in reversed(facts.trace.writes) if write.lasting}
    seen: set[str] = set()
    for read in facts.trace.reads:
        name, later = read.store, first.get(read.key)
        if not name or not read.unwritten or name in seen:
            continue
        if read.writes and read.ref.certain:
            message, hint = (
                f"{name!r} does not exist for the first item",
                "write it in a step before, or in the input",
            )
        elif later is not None and not is_part(read.step.id, later.step.id):
            message = f"{name!r} is read before it is written"
            hint = f"only {later.step.id} writes it; otherwise the run's input must have it"
        else:
            continue
        seen.add(name)
        related = _place(
            "written here", (read.writes[0] if read.writes else later or read).ref.span
        )
        span = _word(read.ref.span, name)
        yield Diagnostic("flow.read-before-written", message, span, hint, "warning", related)


def overwritten(facts: Facts) -> Iterator[Diagnostic]:
    """flow.overwritten: a store is written again before a step reads it. flow.written-twice: after
    a step reads it."""
    last: dict[StoreKey, Write] = {}
    read: set[StoreKey] = set()
    for move in facts.trace.order:
        if isinstance(move, Read):
            read.update(write.key for write in move.writes)
        elif move.lasting:
            before = last.get(move.key)
            if before is not None:
                yield _written_again(before, move, move.key in read)
            last[move.key] = move
            read.discard(move.key)


def _written_again(first: Write, second: Write, is_read: bool) -> Diagnostic:
    """``is_read``: whether a step reads what was written first."""
    name, (here, there) = second.store, (first.ref.span, second.ref.span)
    if is_read:
        message, related = f"{name!r} is written a second time", _place("first written here", here)
        return Diagnostic("flow.written-twice", message, there, None, "note", related)
    message = f"{name!r} is overwritten before a step reads it"
    related = _place("overwritten here", there)
    return Diagnostic("flow.overwritten", message, here, None, "note", related)


def never_read(facts: Facts) -> Iterator[Diagnostic]:
    """flow.never-read: a store that no step reads, unless the last step writes it. flow.lost: no
    step can read it."""
    read = {(write.key, write.step.id) for read in facts.trace.reads for write in read.writes}
    # A loaded flow has at least one step: the readers refuse an empty list.
    final = facts.flow.body.steps[-1].id
    latest = {write.key: write for write in facts.trace.writes}
    for write in facts.trace.writes:
        name = write.store
        if (write.key, write.step.id) in read:
            continue
        if not write.lasting:
            if not isinstance(write.step, Fold):  # a fold must name a store
                message = (
                    f"no step can read {name!r}: a store inside an item or a branch ends with it"
                )
                hint = "only the result of the last step leaves the item or branch"
                yield Diagnostic("flow.lost", message, write.ref.span, hint, "note")
        elif write.step.id != final and latest[write.key] is write:
            message = f"no step reads {name!r}; it is only a result of the run"
            yield Diagnostic("flow.never-read", message, write.ref.span, None, "note")


def failing(facts: Facts) -> Iterator[Diagnostic]:
    """Expressions that fail for every value: flow.schema-field, flow.maybe-absent, and those of the
    language."""
    for step in facts.steps:
        for part in expressions(step):
            facts.outcomes.expression(step, part)
    yield from facts.outcomes.found


def lists(facts: Facts) -> Iterator[Diagnostic]:
    """flow.not-a-list: a for_each or a fold over a value that is not a list."""
    for step in facts.steps:
        if isinstance(step, (Each, Fold)):
            shape = facts.outcomes.expression(step, step.over)
            if shape is not None and "list" not in shape.kinds:
                hint = (
                    "over takes a list or a sequence; without over and items the incoming pipe "
                    "is used"
                )
                yield Diagnostic(
                    "flow.not-a-list", f"expected a list, got {shape}", step.over.span, hint
                )


def labels(facts: Facts) -> Iterator[Diagnostic]:
    """flow.label: a case that no value selects. flow.no-case: a value without a case and without a
    default."""
    for step in facts.steps:
        if not isinstance(step, Choose):
            continue
        shape = facts.outcomes.expression(step, step.pick)
        if shape is None or shape.values is None:
            continue
        possible = [step.labels(value) for value in shape.values]
        texts = list(dict.fromkeys(label for labels in possible for label in labels))
        for label, case in step.cases.items():
            if label not in texts:
                hint = suggest(label, texts, "its values")
                yield Diagnostic(
                    "flow.label", f"no value has the label {label!r}", case.span, hint, "warning"
                )
        missing = [labels[0] for labels in possible if step.cases.keys().isdisjoint(labels)]
        if missing and step.default is None:
            message = (
                f"there is no case for {' or '.join(map(repr, dict.fromkeys(missing)))}, "
                f"and no default"
            )
            yield Diagnostic(
                "flow.no-case",
                message,
                step.pick.span,
                "add a case or a default, or the step fails",
                "warning",
            )


# Expressions come before the rules that use their shapes: in the order of the text no shape needs a
# long recursion.
RULES: tuple[Rule, ...] = (
    unwritten,
    read_before_written,
    overwritten,
    never_read,
    failing,
    lists,
    labels,
)


def _misspelt(name: str, written: list[str]) -> str | None:
    """The written name of which ``name`` is probably a misspelling.

    Names that differ only at their end (doc, docs; reviewers, reviews) are two names.
    """
    # A text of ten thousand names would compare each with all others.
    if not spend_comparisons(len(written)):
        return None
    alike = [
        word for word in written if abs(len(word) - len(name)) <= 2 and not _same_stem(word, name)
    ]
    return nearest(name, alike, 0.75)


def _same_stem(a: str, b: str) -> bool:
    most = min(len(a), len(b)) - 1
    return a[:most] == b[:most]


def _word(span: Span | None, name: str) -> Span | None:
    """The place of ``name`` in a path."""
    if span is None or name not in span.text:
        return span
    start = span.text.index(name)
    return span.locate(start, start + len(name))


def _place(what: str, span: Span | None) -> tuple[tuple[str, Span], ...]:
    return ((what, span),) if span else ()
