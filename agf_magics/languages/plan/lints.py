"""Warnings and notes about valid plans that are probably mistakes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from ...text.diagnostics import Diagnostic, Severity, suggest
from .calls import Call, expressions
from .document import Document
from .needs import Dependencies, exists
from .order import Place, above, places
from .reference import Reference, as_written, is_mixed, references
from .templates import KINDS, Suspect

_SUGGESTED = 20
"""The most unwritten references for which a similar name is searched."""


def lint(needs: Dependencies, document: Document) -> Iterator[Diagnostic]:
    """Warnings and notes, call by call."""
    for turn in needs.turns:
        yield from _output_path(turn.call, document.sign)
        yield from _arguments(turn.call)
    written = _written(needs)
    yield from _unwritten(needs, written)
    yield from _output(needs, document, written)
    yield from _suspects(needs, document)
    if not document.ordered:
        yield from _races(needs)


def _output_path(call: Call, sign: str) -> Iterator[Diagnostic]:
    if any(one.kind == "input" for one in call.destinations):  # G24
        hint = f"write results to {sign}state; {sign}input is the input of the run"
        yield Diagnostic(
            "plan.writes-input", "this call overwrites the input", call.path_span, hint, "warning"
        )
    if call.method is not None and not call.alternatives:
        message = f"'_outputMethod: {call.method}' has no effect without an '_outputPath'"
        hint = f"add _outputPath: {sign}state.…"
        yield Diagnostic("plan.method-without-path", message, call.tool.span, hint, "warning")


def _arguments(call: Call) -> Iterator[Diagnostic]:
    for name, span, template in call.given:
        if name == "output" and isinstance(template, Reference) and not call.alternatives:  # G19
            message = "'output' is an ordinary argument: the result of this call is not stored"
            hint = f"write _outputPath: {as_written(template)}"
            yield Diagnostic("plan.output-argument", message, span, hint, "warning")
        for one in expressions(template):
            if is_mixed(one):
                first = next(references(one), None)
                hint = f"&& binds tighter than ||: {as_written(one)}"
                message = "&& and || are combined without parentheses"
                yield Diagnostic(
                    "plan.mixed-operators", message, first.span if first else span, hint, "warning"
                )


def _written(needs: Dependencies) -> dict[str, dict[str, None]]:
    """The paths that calls write, by their kinds."""
    paths: dict[str, dict[str, None]] = {}
    for destination in (one for turn in needs.turns for one in turn.call.destinations):
        paths.setdefault(destination.kind, {})[".".join(destination.path)] = None
    return paths


def _output(
    needs: Dependencies, document: Document, written: dict[str, dict[str, None]]
) -> Iterator[Diagnostic]:
    """References of the output that the text gives no value, but one of a similar name."""
    read = dict.fromkeys(ref for one in expressions(document.output) for ref in references(one))
    unwritten = (
        ref
        for ref in read
        if not any(
            kind == ref.kind and layer.meets(ref.path) for (kind, _), layer in needs.layers.items()
        )
        and not any(exists(ref, needs.log, reader) for reader in (None, *needs.log.instances))
    )
    for ref in islice(unwritten, _SUGGESTED):
        if near := suggest(".".join(ref.path), written.get(ref.kind, ())):
            message = f"no call writes {as_written(ref)}"
            yield Diagnostic("plan.unwritten", message, ref.span, near, "warning")


def _unwritten(needs: Dependencies, written: dict[str, dict[str, None]]) -> Iterator[Diagnostic]:
    """References that the text gives no value."""
    misses = 0
    for turn in needs.turns:
        for ref in (one for one in turn.call.expressions if isinstance(one, Reference)):
            need = needs.needs[turn.call.index][ref]
            if ref.kind == "input" or need.awaited or need.others:
                continue
            if any(
                exists(ref, needs.log, reader) for reader in (turn.instance, *needs.log.instances)
            ):
                continue
            misses += 1
            near = (
                suggest(".".join(ref.path), written.get(ref.kind, ()))
                if misses <= _SUGGESTED
                else None
            )
            hint = near or "the call only runs if an earlier run in its context has written it"
            found = Diagnostic(
                "plan.unwritten", f"no call writes {as_written(ref)}", ref.span, hint, "note"
            )
            yield replace(found, severity="warning") if near else found


def _suspects(needs: Dependencies, document: Document) -> Iterator[Diagnostic]:
    """Texts with the path of something that the plan writes, reads or declares: data.csv is
    otherwise a file."""
    if not document.suspects:
        return
    calls = document.calls
    read = (ref for call in calls for one in call.expressions for ref in references(one))
    output = (ref for one in expressions(document.output) for ref in references(one))
    known = {(one.kind, one.path[0]) for one in (*read, *output) if one.path}
    known |= {(one.kind, one.path[0]) for call in calls for one in call.destinations if one.path}
    kinds = {*KINDS, *(kind for kind, _ in known)}
    reported = set()
    for suspect in document.suspects:
        if suspect.form == "kind":
            yield from _unknown_kind(suspect, kinds, known, document.sign)
            continue
        name = (suspect.kind, suspect.first)
        exists_now = name in known or exists(
            Reference(suspect.kind, (suspect.first,)), needs.log, None
        )
        exists_now = exists_now or (
            suspect.marked and suspect.kind == "input"
        )  # no text has the fields of the input
        exists_now = exists_now or (suspect.form == "whole" and suspect.kind == "state")
        if exists_now and suspect.text not in reported:
            reported.add(suspect.text)
            yield _literal(suspect)


def _unknown_kind(
    suspect: Suspect, kinds: set[str], known: set[tuple[str, str]], sign: str
) -> Iterator[Diagnostic]:
    """A text like ``$result.x``. Without a path, in an argument, and like no name it is text."""
    near = suggest(suspect.kind, sorted(kinds))
    if ("state", suspect.kind) in known:
        near = f"write {sign}state.{suspect.reference}"
    if near or suspect.marked:
        shown = ", ".join(f"{sign}{kind}" for kind in sorted(kinds))
        message = f"{suspect.span.text!r} is passed as text: there is no kind {suspect.kind!r}"
        hint = near or f"the kinds of this plan are {shown}; a result is read as {sign}state.NAME"
        yield Diagnostic("plan.unknown-kind", message, suspect.span, hint, "warning")


def _literal(suspect: Suspect) -> Diagnostic:
    if suspect.form == "whole":
        message = f"{suspect.text.strip()!r} is passed as text: a reference begins with † or $"
        return Diagnostic(
            "plan.no-dagger", message, suspect.span, f"write {suspect.reference}", "warning"
        )
    message = f"{suspect.span.text!r} in this text is not replaced"
    hint = (
        f"a reference must be the whole value: pass {suspect.reference} as an argument of its own"
    )
    if suspect.form == "computed":
        message = f"{suspect.text.strip()!r} is passed as text: a plan does not compute"
        hint = f"let a tool compute it, with {suspect.reference} as an argument"
    return Diagnostic("plan.literal-reference", message, suspect.span, hint, "warning")


def _races(needs: Dependencies) -> Iterator[Diagnostic]:
    """G11: two writes to one place whose order depends on which call ends last."""
    if needs.cycle is not None:
        return
    in_turn = sorted(range(len(needs.turns)), key=needs.ranks.__getitem__)
    ordered = [0] * len(needs.turns)
    """The turns that surely precede or follow each turn, one bit each: linear for ten thousand
    calls."""
    for number in in_turn:
        for other in needs.after[number]:
            ordered[number] |= ordered[other] | 1 << other
    later = [0] * len(needs.turns)
    for number in reversed(in_turn):
        for other in needs.after[number]:
            later[other] |= later[number] | 1 << number
        ordered[number] |= later[number]
    at: dict[Place, int] = {}
    inside: dict[Place, int] = {}
    for number, turn in enumerate(needs.turns):
        rivals = 0
        for place in places(turn):
            rivals |= inside.get(place, 0)
            for each in above(place):
                rivals |= at.get(each, 0)
        rivals &= ~ordered[number]
        if rivals:
            yield _race(turn.call, needs.turns[(rivals & -rivals).bit_length() - 1].call)
        for place in places(turn):
            at[place] = at.get(place, 0) | 1 << number
            for each in (*above(place), place):
                inside[each] = inside.get(each, 0) | 1 << number


def _race(call: Call, first: Call) -> Diagnostic:
    message = (
        f"{first.id} and {call.id} write to the same place; the call that ends last decides "
        f"the result"
    )
    related = (("the other call", first.path_span),) if first.path_span else ()
    hint = "ordered: true stores results in the order of the list"
    pushes = call.method == first.method == "push"
    severity: Severity = "note" if pushes else "warning"
    return Diagnostic("plan.race", message, call.path_span, hint, severity, related)
