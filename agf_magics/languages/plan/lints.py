"""What is legal in a plan and looks wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...text.diagnostics import Diagnostic, Severity, suggest
from ...text.source import Source
from .calls import Call, expressions
from .document import Document
from .needs import Dependencies, exists
from .order import Place, above, places
from .reference import DAGGER, Reference, is_mixed, parse, references

SUGGESTED = 20
"""For how many references that nobody writes it is looked who was meant."""


def lint(needs: Dependencies, document: Document) -> Iterator[Diagnostic]:
    """Warnings and notes, call by call."""
    for turn in needs.turns:
        yield from _written(turn.call)
        yield from _read(turn.call)
    yield from _unwritten(needs)
    yield from _undaggered(needs, document)
    if not document.ordered:
        yield from _races(needs)


def _written(call: Call) -> Iterator[Diagnostic]:
    if any(one.kind == "input" for one in call.destinations):  # G24
        hint = "†input is what the run was given; †state is for what it finds out"
        yield Diagnostic("plan.writes-input", "this call writes into its input", call.path_span, hint, "warning")
    if call.method is not None and not call.alternatives:
        message = f"{call.method!r} says how a result is kept, and this call keeps none"
        yield Diagnostic("plan.method-without-path", message, call.tool.span, "_outputPath: †state.…", "warning")


def _read(call: Call) -> Iterator[Diagnostic]:
    for name, span, template in call.given:
        if name == "output" and isinstance(template, Reference) and not call.alternatives:  # G19
            hint = f"_outputPath: {template}"
            message = "'output' is an argument like any other: the result goes nowhere"
            yield Diagnostic("plan.output-argument", message, span, hint, "warning")
        for one in expressions(template):
            if is_mixed(one):
                first = next(references(one), None)
                hint = f"&& binds tighter than ||: {one}"
                message = "&& beside || without parentheses"
                yield Diagnostic("plan.mixed-operators", message, first.span if first else span, hint, "warning")


def _unwritten(needs: Dependencies) -> Iterator[Diagnostic]:
    """A reference that nothing in the text gives."""
    known: dict[str, dict[str, None]] = {}
    for one in (one for turn in needs.turns for one in turn.call.destinations):
        known.setdefault(one.kind, {})[".".join(one.path)] = None
    misses = 0
    for turn in needs.turns:
        for ref in (one for one in turn.call.expressions if isinstance(one, Reference)):
            need = needs.needs[turn.call.index][ref]
            if ref.kind == "input" or need.awaited or need.others:
                continue
            if any(exists(ref, needs.log, reader) for reader in (turn.instance, *needs.log.instances)):
                continue
            misses += 1
            near = suggest(".".join(ref.path), known.get(ref.kind, ())) if misses <= SUGGESTED else None
            hint = near or "an earlier run in its context may have; else the call never runs"
            found = Diagnostic("plan.unwritten", f"no call writes {ref}", ref.span, hint, "note")
            yield replace(found, severity="warning") if near else found


def _undaggered(needs: Dependencies, document: Document) -> Iterator[Diagnostic]:
    """A text that is the path of something that the plan writes, reads or brings: data.csv alone is a file."""
    if not document.undaggered:
        return
    calls = document.calls
    read = (ref for call in calls for one in call.expressions for ref in references(one))
    output = (ref for one in expressions(document.output) for ref in references(one))
    known = {(one.kind, one.path[0]) for one in (*read, *output) if one.path}
    known |= {(one.kind, one.path[0]) for call in calls for one in call.destinations if one.path}
    for text, span in document.undaggered:
        first = next(references(parse(Source("", text).span())))
        if (first.kind, first.path[0]) in known or exists(Reference(first.kind, first.path[:1]), needs.log, None):
            message = f"{text.replace(DAGGER, '')!r} is a text: a reference begins with {DAGGER}"
            yield Diagnostic("plan.no-dagger", message, span, f"write {text} for what stands there", "warning")


def _races(needs: Dependencies) -> Iterator[Diagnostic]:
    """G11: which of two writes is the last depends on which call ends last."""
    if needs.cycle is not None:
        return
    in_turn = sorted(range(len(needs.turns)), key=needs.ranks.__getitem__)
    apart = [0] * len(needs.turns)
    """Whom each one surely comes after or before, a bit each: so ten thousand calls are looked at once each."""
    for number in in_turn:
        for other in needs.after[number]:
            apart[number] |= apart[other] | 1 << other
    behind = [0] * len(needs.turns)
    for number in reversed(in_turn):
        for other in needs.after[number]:
            behind[other] |= behind[number] | 1 << number
        apart[number] |= behind[number]
    at: dict[Place, int] = {}
    inside: dict[Place, int] = {}
    for number, turn in enumerate(needs.turns):
        rivals = 0
        for place in places(turn):
            rivals |= inside.get(place, 0)
            for each in above(place):
                rivals |= at.get(each, 0)
        rivals &= ~apart[number]
        if rivals:
            yield _race(turn.call, needs.turns[(rivals & -rivals).bit_length() - 1].call)
        for place in places(turn):
            at[place] = at.get(place, 0) | 1 << number
            for each in (*above(place), place):
                inside[each] = inside.get(each, 0) | 1 << number


def _race(call: Call, first: Call) -> Diagnostic:
    message = f"{call.id} and {first.id} write to one place, in the order in which they end"
    related = (("the other one", first.path_span),) if first.path_span else ()
    hint = "ordered: true keeps the order of the list"
    pushes = call.method == first.method == "push"
    severity: Severity = "note" if pushes else "warning"
    return Diagnostic("plan.race", message, call.path_span, hint, severity, related)
