"""Checks of a whole flow that its text alone decides. Each rule is a small generator; `RULES` is their order.

Nothing here knows a language or the registry. What is certain to fail is an error; what is legal but looks wrong is a
warning; what is merely worth knowing is a note (decision A5).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ..text.diagnostics import Diagnostic, in_order
from ..text.source import Span
from .frame import Ref
from .steps import Flow, Fold, Step
from .wiring import Key, Read, Trace, Write, follow


@dataclass(frozen=True, slots=True)
class Facts:
    """What the rules look at."""

    flow: Flow
    trace: Trace

    def is_store(self, key: Key) -> bool:
        """Whether ``key`` is one named store (and not all of them, or the pipe)."""
        depth = len(self.flow.stores)
        return len(key) == depth + 1 and key[:depth] == self.flow.stores


Rule = Callable[[Facts], Iterator[Diagnostic]]


def check(flow: Flow) -> tuple[Flow, list[Diagnostic]]:
    """``flow`` with the names that its input must bring (`Flow.inputs`), and everything found, sorted by place."""
    facts = Facts(flow, follow(flow))
    found = [diagnostic for rule in RULES for diagnostic in rule(facts)]
    return replace(flow, inputs=inputs(facts)), in_order(found)


def inputs(facts: Facts) -> tuple[Ref, ...]:
    """The stores that are read before any step wrote them, in the order of the text.

    Certain where a run without them surely fails: the step runs in every run and its expression is refused without.
    """
    found: dict[Key, Ref] = {}
    for read in facts.trace.reads:
        if read.unwritten and facts.is_store(read.key):
            certain = read.sure and read.ref.certain
            known = found.get(read.key)
            if known is None or (certain and not known.certain):
                found[read.key] = Ref(read.key, read.ref.span, certain)
    return tuple(found.values())


def unwritten(facts: Facts) -> Iterator[Diagnostic]:
    """flow.unwritten: a name that no step writes and that looks like one that an earlier step does write."""
    written: dict[str, None] = {}
    seen: set[Key] = set()
    for move in facts.trace.order:
        name = move.key[-1]
        if not facts.is_store(move.key):
            continue
        if isinstance(move, Write):
            written[name] = None
        elif move.unwritten and move.key not in seen:
            seen.add(move.key)
            near = _misspelt(name, written)
            if near is not None:
                message, hint = f"no step writes {name!r}", f"did you mean {near}?"
                yield Diagnostic("flow.unwritten", message, _word(move.ref.span, name), hint, "warning")


def read_before_written(facts: Facts) -> Iterator[Diagnostic]:
    """flow.read-before-written: a name that only a later step writes, or only an earlier item of the same fold."""
    first = {write.key: write for write in reversed(facts.trace.writes) if write.lasting}
    seen: set[Key] = set()
    for read in facts.trace.reads:
        if not read.unwritten or not facts.is_store(read.key) or read.key in seen:
            continue
        name, later = read.key[-1], first.get(read.key)
        if read.writes and read.ref.certain:
            message, hint = f"the first item finds no {name!r}", "let a step before write it, or let the input bring it"
        elif later is not None and not _stands_in(read.step, later.step):
            message = f"{name!r} is read before it is written"
            hint = f"only {later.step.id} writes it; without it the run's input must bring it"
        else:
            continue
        seen.add(read.key)
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
        elif facts.is_store(move.key) and move.lasting:
            before, name = last.get(move.key), move.key[-1]
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
        if not facts.is_store(write.key) or (write.key, write.step.id) in read:
            continue
        name = write.key[-1]
        if not write.lasting:
            if not isinstance(write.step, Fold):  # a fold must name a store
                message = f"nobody sees {name!r}: what is stored here ends with its item or branch"
                yield Diagnostic("flow.lost", message, write.ref.span, "the step's result is what goes on", "note")
        elif write.step.id != final and latest[write.key] is write:
            message = f"no step reads {name!r}; it is only kept as a result"
            yield Diagnostic("flow.never-read", message, write.ref.span, None, "note")


RULES: tuple[Rule, ...] = (unwritten, read_before_written, overwritten, never_read)


def _misspelt(name: str, written: dict[str, None]) -> str | None:
    """The written name that ``name`` was likely meant to be.

    Names that differ at their end alone (doc, docs; reviewers, reviews) are two names, not one misspelt.
    """
    alike = [w for w in written if w[:1] == name[:1] and abs(len(w) - len(name)) <= 2 and not _same_stem(w, name)]
    near = difflib.get_close_matches(name, alike, 1, 0.75)
    return near[0] if near else None


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
