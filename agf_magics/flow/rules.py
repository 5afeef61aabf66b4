"""Checks of a whole flow that its text alone decides. Each rule is a small generator; `RULES` is their order.

Nothing here knows a language or the registry. What is certain to fail is an error; what is legal but looks wrong is a
warning; what is merely worth knowing is a note (decision A5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from ..text.diagnostics import Diagnostic, nearest, spend, suggest
from ..text.source import Span
from .frame import Ref
from .outcomes import Outcomes
from .steps import Choose, Compute, Each, Flow, Fold, Invoke, Step, every
from .wiring import Key, Read, Trace, Write, follow


class Facts(NamedTuple):
    """What the rules look at."""

    flow: Flow
    steps: tuple[Step, ...]
    """All of them, in the order of the text."""
    trace: Trace
    outcomes: Outcomes


Rule = Callable[[Facts], Iterator[Diagnostic]]


def check(flow: Flow) -> tuple[Flow, list[Diagnostic]]:
    """``flow`` with the names that its input must bring (`Flow.inputs`), and everything found, rule by rule."""
    trace = follow(flow)
    facts = Facts(flow, tuple(every(flow.body)), trace, Outcomes(flow, trace))
    found = [diagnostic for rule in RULES for diagnostic in rule(facts)]
    return replace(flow, inputs=inputs(facts)), found


def inputs(facts: Facts) -> tuple[Ref, ...]:
    """The stores that are read before any step wrote them, in the order of the text.

    Certain where a run without them surely fails: the step runs in every run and its expression is refused without.
    """
    found: dict[Key, Ref] = {}
    for read in facts.trace.reads:
        if read.unwritten and read.store:
            certain = read.sure and read.ref.certain
            known = found.get(read.key)
            if known is None or (certain and not known.certain):
                found[read.key] = Ref(read.key, read.ref.span, certain)
    return tuple(found.values())


def unwritten(facts: Facts) -> Iterator[Diagnostic]:
    """flow.unwritten: a name that no step writes and that looks like one that an earlier step does write."""
    written: dict[str, list[str]] = {}
    seen: set[str] = set()
    for move in facts.trace.order:
        name = move.store
        if isinstance(move, Write):
            if move.lasting:
                written.setdefault(name[:1].lower(), []).append(name)
        elif name and move.unwritten and name not in seen:
            seen.add(name)
            near = _misspelt(name, written.get(name[:1].lower(), []))
            if near is not None:
                message, hint = f"no step writes {name!r}", f"did you mean {near}?"
                yield Diagnostic("flow.unwritten", message, _word(move.ref.span, name), hint, "warning")


def read_before_written(facts: Facts) -> Iterator[Diagnostic]:
    """flow.read-before-written: a name that only a later step writes, or only an earlier item of the same fold."""
    first = {write.key: write for write in reversed(facts.trace.writes) if write.lasting}
    seen: set[str] = set()
    for read in facts.trace.reads:
        name, later = read.store, first.get(read.key)
        if not name or not read.unwritten or name in seen:
            continue
        if read.writes and read.ref.certain:
            message, hint = f"the first item finds no {name!r}", "let a step before write it, or let the input bring it"
        elif later is not None and not _stands_in(read.step, later.step):
            message = f"{name!r} is read before it is written"
            hint = f"only {later.step.id} writes it; without it the run's input must bring it"
        else:
            continue
        seen.add(name)
        related = _place("written here", (read.writes[0] if read.writes else later or read).ref.span)
        span = _word(read.ref.span, name)
        yield Diagnostic("flow.read-before-written", message, span, hint, "warning", related)


def overwritten(facts: Facts) -> Iterator[Diagnostic]:
    """flow.overwritten: a store is written again before anybody read it. flow.written-twice: after somebody did."""
    last: dict[Key, Write] = {}
    read: set[Key] = set()
    for move in facts.trace.order:
        if isinstance(move, Read):
            read.update(write.key for write in move.writes)
        elif move.lasting:
            before, name = last.get(move.key), move.store
            if before is not None and move.key in read:
                message, related = f"{name!r} is written a second time", _place("first written here", before.ref.span)
                yield Diagnostic("flow.written-twice", message, move.ref.span, None, "note", related)
            elif before is not None:
                message = f"{name!r} is overwritten before anybody reads it"
                related = _place("overwritten here", move.ref.span)
                yield Diagnostic("flow.overwritten", message, before.ref.span, None, "note", related)
            last[move.key] = move
            read.discard(move.key)


def never_read(facts: Facts) -> Iterator[Diagnostic]:
    """flow.never-read: a store nobody reads, unless it is the last step's. flow.lost: one that nobody could read."""
    read = {(write.key, write.step.id) for read in facts.trace.reads for write in read.writes}
    final = facts.flow.body.steps[-1].id
    latest = {write.key: write for write in facts.trace.writes}
    for write in facts.trace.writes:
        name = write.store
        if (write.key, write.step.id) in read:
            continue
        if not write.lasting:
            if not isinstance(write.step, Fold):  # a fold must name a store
                message = f"nobody sees {name!r}: what is stored here ends with its item or branch"
                yield Diagnostic("flow.lost", message, write.ref.span, "the step's result is what goes on", "note")
        elif write.step.id != final and latest[write.key] is write:
            message = f"no step reads {name!r}; it is only kept as a result"
            yield Diagnostic("flow.never-read", message, write.ref.span, None, "note")


def expressions(facts: Facts) -> Iterator[Diagnostic]:
    """What no value can make work: flow.schema-field, flow.maybe-absent, and the findings of the language itself."""
    outcomes = facts.outcomes
    for step in facts.steps:
        match step:
            case Invoke():
                outcomes.expression(step, step.args)
            case Compute():
                outcomes.of(step)
            case Choose():
                outcomes.expression(step, step.pick)
            case Each():
                outcomes.expression(step, step.over)
            case Fold():
                outcomes.expression(step, step.over)
                outcomes.expression(step, step.init)
    yield from outcomes.found


def lists(facts: Facts) -> Iterator[Diagnostic]:
    """flow.not-a-list: a for_each or a fold over what is no list."""
    for step in facts.steps:
        if isinstance(step, (Each, Fold)):
            shape = facts.outcomes.expression(step, step.over)
            if shape is not None and "list" not in shape.kinds:
                hint = "over takes a list; without over and items the incoming pipe is used"
                yield Diagnostic("flow.not-a-list", f"a list is needed here, not {shape}", step.over.span, hint)


def labels(facts: Facts) -> Iterator[Diagnostic]:
    """flow.label: a case that no value picks. flow.no-case: a value that picks none, and there is no default."""
    for step in facts.steps:
        shape = facts.outcomes.expression(step, step.pick) if isinstance(step, Choose) else None
        if not isinstance(step, Choose) or shape is None or shape.values is None:
            continue
        possible = [step.labels(value) for value in shape.values]
        texts = list(dict.fromkeys(label for labels in possible for label in labels))
        for label, case in step.cases.items():
            if label not in texts:
                hint = suggest(label, texts, "its values")
                yield Diagnostic("flow.label", f"no value has the label {label!r}", case.span, hint, "warning")
        missing = [labels[0] for labels in possible if step.cases.keys().isdisjoint(labels)]
        if missing and step.default is None:
            message = f"there is no case for {' or '.join(map(repr, dict.fromkeys(missing)))}, and no default"
            yield Diagnostic("flow.no-case", message, step.pick.span, "the step fails for it", "warning")


# Expressions come before what asks for their shapes: looked at in the order of the text, none waits for a long chain.
RULES: tuple[Rule, ...] = (unwritten, read_before_written, overwritten, never_read, expressions, lists, labels)


def _misspelt(name: str, written: list[str]) -> str | None:
    """The written name that ``name`` was likely meant to be; the first letter is the same, but for its case.

    Names that differ at their end alone (doc, docs; reviewers, reviews) are two names, not one misspelt.
    """
    if not spend(len(written)):
        return None
    alike = [word for word in written if abs(len(word) - len(name)) <= 2 and not _same_stem(word, name)]
    return nearest(name, alike, 0.75)


def _same_stem(a: str, b: str) -> bool:
    most = min(len(a), len(b)) - 1
    return a[:most] == b[:most]


def _stands_in(step: Step, other: Step) -> bool:
    return step.id == other.id or step.id.startswith((f"{other.id}.", f"{other.id}["))


def _word(span: Span | None, name: str) -> Span | None:
    """Where in a path ``name`` stands."""
    start = span.text.find(name) if span else -1
    return span.locate(start, start + len(name)) if span and start >= 0 else span


def _place(what: str, span: Span | None) -> tuple[tuple[str, Span], ...]:
    return ((what, span),) if span else ()
