"""What is legal in a plan and looks wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...text.diagnostics import Diagnostic, suggest
from .calls import Call, expressions
from .document import Document
from .needs import Needs, exists
from .reference import Reference, is_mixed, references

SUGGESTED = 20
"""For how many references that nobody writes it is looked who was meant."""


def lint(needs: Needs, document: Document) -> Iterator[Diagnostic]:
    """Warnings and notes, call by call."""
    for turn in needs.turns:
        yield from _written(turn.call)
        yield from _read(turn.call)
    yield from _unwritten(needs)
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


def _unwritten(needs: Needs) -> Iterator[Diagnostic]:
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


def _races(needs: Needs) -> Iterator[Diagnostic]:
    """G11: which of two writes is the last depends on which call ends last."""
    if needs.cycle() is not None:
        return
    before: list[int] = [0] * len(needs.turns)
    """Whom each one surely comes after, a bit each."""
    for number in sorted(range(len(needs.turns)), key=needs.ranks().__getitem__):
        for other in needs.after[number]:
            before[number] |= before[other] | 1 << other
    for number, turn in enumerate(needs.turns):
        call = turn.call
        for other in needs.overlapping(number):
            if other > number or before[number] >> other & 1 or before[other] >> number & 1:
                continue
            first = needs.turns[other].call
            pushes = call.method == first.method == "push"
            message = f"{call.id} and {first.id} write to one place, in the order in which they end"
            related = (("the other one", first.path_span),) if first.path_span else ()
            hint = "ordered: true keeps the order of the list"
            found = Diagnostic("plan.race", message, call.path_span, hint, "warning", related)
            yield replace(found, severity="note") if pushes else found
            break
