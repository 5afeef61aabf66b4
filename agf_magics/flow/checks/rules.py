"""Finds the problems that the text of a flow shows: wrong names and types, values that nobody
reads.

The checks are independent of the language and the registry; `RULES` is their order. A certain
failure is an error, a legal text that looks wrong is a warning, other information is a note
(decision A5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from ...text.diagnostics import Diagnostic
from ...text.source import Span
from ...text.suggestions import slip_of, spend_comparisons, suggest
from ..flow import Flow
from ..protocols import Ref
from ..step import Step
from ..step_path import is_part
from ..steps import Choose, Each, Fold, every, expressions
from .outcomes import Outcomes
from .wiring import Accesses, Prefix, Read, StoreKey, Write, every_write, follow


class Facts(NamedTuple):
    """The input of a rule."""

    flow: Flow
    steps: tuple[Step, ...]
    """All steps, in the order of the text."""
    trace: Accesses
    outcomes: Outcomes


Rule = Callable[[Facts], Iterator[Diagnostic]]
"""Finds the problems of some codes, which its docstring names."""


def check(flow: Flow) -> tuple[Flow, list[Diagnostic]]:
    """``flow`` with the names that its input must have (`Flow.inputs`), and the problems in the
    order of the rules."""
    trace = follow(flow)
    facts = Facts(flow, tuple(every(flow.body)), trace, Outcomes(flow, trace))
    problems = [diagnostic for rule in RULES for diagnostic in rule(facts)]
    return replace(flow, inputs=inputs(facts)), problems


def inputs(facts: Facts) -> tuple[Ref, ...]:
    """The stores that are read before a step writes them, in the order of the text.

    A name is certain if every run needs it: its step always runs, and its expression requires it.
    In a step that runs for each item of a list, a name after ``and`` is needed, too: some item will
    read it, and ``on_error: continue`` would drop that item (decision P24).
    """
    refs: dict[StoreKey, Ref] = {}
    for read in facts.trace.reads:
        if read.unwritten and read.store:
            ref = read.ref
            certain = _is_certain(read, facts)
            earlier = refs.get(read.key)
            optional = ref.optional and (earlier is None or earlier.optional)
            if earlier is None or (certain and not earlier.certain):
                refs[read.key] = Ref(read.key, ref.span, certain, optional=optional)
            elif earlier.optional != optional:
                refs[read.key] = earlier._replace(optional=optional)
    return tuple(refs.values())


def _is_certain(read: Read, facts: Facts) -> bool:
    """Whether every run needs the name that ``read`` reads."""
    # the last iteration of the same fold writes it: read-before-written reports this
    if read.writes:
        return False
    # In some languages ``and`` hides a read, but one of the repeated items will reach it.
    is_repeated = read.step.id in facts.trace.repeated
    reaches = facts.flow.dialect.reads_are_complete and is_repeated and not read.ref.optional
    return read.required and (read.ref.certain or reaches)


def unwritten(facts: Facts) -> Iterator[Diagnostic]:
    """flow.unwritten: a name that no step writes and that is similar to one that an earlier step
    writes, or to one that its place binds."""
    written: dict[str, list[str]] = {}
    seen: set[str] = set()
    for move in facts.trace.order:
        name = move.store
        if isinstance(move, Write):
            if move.outlives_block:
                written.setdefault(name[:1].lower(), []).append(name)
        elif name and move.unwritten and name not in seen:
            seen.add(name)
            bound = list[str]()
            if spend_comparisons(len(move.visible)):
                bound = [key[0] for key in move.visible if len(key) == 1]
            near = slip_of(name, [*written.get(name[:1].lower(), []), *bound])
            if near is not None:
                message = f"no step writes {name!r}"
                hint = f"did you mean {near}?"
                span = _word(move.ref.span, name)
                yield Diagnostic("flow.unwritten", message, span, hint, "warning")


def read_before_written(facts: Facts) -> Iterator[Diagnostic]:
    """flow.read-before-written: a name that only a later step writes, or only the previous item of
    the same fold."""
    first = {write.key: write for write in reversed(facts.trace.writes) if write.outlives_block}
    seen: set[str] = set()
    for read in facts.trace.reads:
        name = read.store
        later = first.get(read.key)
        if not name or not read.unwritten or name in seen:
            continue
        if read.writes and read.ref.certain:
            message = f"{name!r} does not exist for the first item"
            hint = "write it in a step before, or in the input"
        elif later is not None and not is_part(read.step.id, later.step.id):
            message = f"{name!r} is read before it is written"
            hint = f"only {later.step.id} writes it; otherwise the run's input must have it"
        else:
            continue
        seen.add(name)
        write = read.writes[0] if read.writes else later or read
        related = _related("written here", write.ref.span)
        span = _word(read.ref.span, name)
        yield Diagnostic("flow.read-before-written", message, span, hint, "warning", related)


def overwritten(facts: Facts) -> Iterator[Diagnostic]:
    """flow.overwritten: a store is written again before a step reads it. flow.written-twice: after
    a step reads it."""
    last: dict[StoreKey, Write] = {}
    read: set[StoreKey] = set()
    written: dict[StoreKey, int] = {}
    all_read = -1  # the place where a step last read all stores
    for place, move in enumerate(facts.trace.order):
        if isinstance(move, Read):
            if isinstance(move.writes, Prefix):
                all_read = place
            else:
                read.update(write.key for write in move.writes)
        elif move.outlives_block:
            before = last.get(move.key)
            if before is not None:
                is_read = move.key in read or written[move.key] < all_read
                yield _warn_overwrite(before, move, is_read)
            last[move.key] = move
            written[move.key] = place
            read.discard(move.key)


def _warn_overwrite(first: Write, second: Write, is_read: bool) -> Diagnostic:
    """The note about two writes of a store. ``is_read``: whether a step reads the first value."""
    name = second.store
    first_span = first.ref.span
    second_span = second.ref.span
    if is_read:
        message = f"{name!r} is written a second time"
        related = _related("first written here", first_span)
        return Diagnostic("flow.written-twice", message, second_span, None, "note", related)
    message = f"{name!r} is overwritten before a step reads it"
    related = _related("overwritten here", second_span)
    return Diagnostic("flow.overwritten", message, first_span, None, "note", related)


def never_read(facts: Facts) -> Iterator[Diagnostic]:
    """flow.never-read: a store that no step reads, unless the last step writes it. flow.lost: no
    step can read it."""
    read = {(write.key, write.step.id) for write in every_write(facts.trace.reads)}
    # A loaded flow has at least one step: the readers refuse an empty list.
    final = facts.flow.body.steps[-1].id
    latest = {write.key: write for write in facts.trace.writes}
    for write in facts.trace.writes:
        name = write.store
        if (write.key, write.step.id) in read:
            continue
        if not write.outlives_block:
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
    yield from facts.outcomes.problems


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
            values = " or ".join(map(repr, dict.fromkeys(missing)))
            message = f"there is no case for {values}, and no default"
            hint = "add a case or a default, or the step fails"
            yield Diagnostic("flow.no-case", message, step.pick.span, hint, "warning")


# `failing` infers all shapes in the order of the text, so that no later rule needs a long
# recursion.
RULES: tuple[Rule, ...] = (
    unwritten,
    read_before_written,
    overwritten,
    never_read,
    failing,
    lists,
    labels,
)


def _word(span: Span | None, name: str) -> Span | None:
    """The place of ``name`` in a path."""
    if span is None or name not in span.text:
        return span
    start = span.text.index(name)
    return span.locate(start, start + len(name))


def _related(title: str, span: Span | None) -> tuple[tuple[str, Span], ...]:
    return ((title, span),) if span else ()
