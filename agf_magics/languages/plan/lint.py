"""Warns of valid plans that are probably mistakes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from ...text.diagnostics import Diagnostic, Severity
from ...text.suggestions import suggest
from ..file_texts import FILE
from .calls import Call, Template, expressions, reads
from .document import Document
from .log.destinations import Destination, overlap
from .log.reference import KINDS, Reference, as_written, is_mixed, references
from .lookalikes import Suspect
from .scheduling.dependencies import Dependencies, exists
from .scheduling.storing_order import Place, above, places

_SUGGESTED = 20
"""The most unwritten references for which a similar name is searched."""


def lint(needs: Dependencies, document: Document) -> Iterator[Diagnostic]:
    """Warnings and notes, call by call."""
    for turn in needs.turns:
        yield from _output_path(turn.call, document.sign)
        yield from _arguments(turn.call)
    written = list(chain(*(call.output.destinations for call in document.calls)))
    yield from _unwritten(needs, document.output, written)
    yield from _suspects(needs, document, written)
    if not document.ordered:
        yield from _races(needs)


def _output_path(call: Call, sign: str) -> Iterator[Diagnostic]:
    if any(destination.kind == "input" for destination in call.output.destinations):  # G24
        hint = f"write results to {sign}state; {sign}input is the input of the run"
        yield Diagnostic(
            "plan.writes-input", "this call overwrites the input", call.output.span, hint, "warning"
        )
    if call.output.method is not None and not call.output.alternatives:
        message = f"'_outputMethod: {call.output.method}' has no effect without an '_outputPath'"
        hint = f"add _outputPath: {sign}state.…"
        yield Diagnostic("plan.method-without-path", message, call.tool.span, hint, "warning")


def _arguments(call: Call) -> Iterator[Diagnostic]:
    for name, span, template, _ in call.arguments:
        is_reference = isinstance(template, Reference)
        if name == "output" and is_reference and not call.output.alternatives:  # G19
            message = "'output' is an ordinary argument: the result of this call is not stored"
            hint = f"write _outputPath: {as_written(template)}"
            yield Diagnostic("plan.output-argument", message, span, hint, "warning")
        for expression in expressions(template):
            if is_mixed(expression):
                first = next(references(expression), None)
                hint = f"&& binds tighter than ||: {as_written(expression)}"
                message = "&& and || are combined without parentheses"
                yield Diagnostic(
                    "plan.mixed-operators", message, first.span if first else span, hint, "warning"
                )


def _unwritten(
    needs: Dependencies, output: Template, written: Sequence[Destination]
) -> Iterator[Diagnostic]:
    """References that the text gives no value; of the output, those with a name that is similar to
    one that a call writes."""
    called = [
        ref
        for turn, dependencies in zip(needs.turns, needs.needs, strict=True)
        for ref in turn.call.expressions
        if isinstance(ref, Reference) and ref.kind != "input" and not dependencies[ref].writers
    ]
    noted = {ref.span for ref in called}
    called += (
        ref
        for ref in dict.fromkeys(reads(output))
        if not any(place.kind == ref.kind and overlap(place.path, ref.path) for place in written)
    )
    unwritten = [
        ref
        for ref in called
        if not any(exists(ref, needs.log, reader) for reader in (None, *needs.log.instances))
    ]
    for number, ref in enumerate(unwritten):
        similar = [".".join(place.path) for place in written if place.kind == ref.kind]
        near = suggest(".".join(ref.path), similar) if number < _SUGGESTED else None
        message = f"no call writes {as_written(ref)}"
        if near:
            yield Diagnostic("plan.unwritten", message, ref.span, near, "warning")
        elif ref.span in noted:
            hint = "the call only runs if an earlier run in its context has written it"
            yield Diagnostic("plan.unwritten", message, ref.span, hint, "note")


def _suspects(
    needs: Dependencies, document: Document, written: Sequence[Destination]
) -> Iterator[Diagnostic]:
    """Texts with the path of something that the plan writes, reads or declares: data.csv is
    otherwise a file."""
    called = chain(*(call.expressions for call in document.calls))
    places: tuple[Reference | Destination, ...] = (*reads([*called, document.output]), *written)
    named = {(place.kind, place.path[0]) for place in places if place.path}
    kinds = {*KINDS, *(kind for kind, _ in named)}
    reported = set()
    for suspect in document.suspects:
        if suspect.form == "kind":
            yield from _unknown_kind(suspect, kinds, named, document.sign)
            continue
        if suspect.form == "name":
            for kind in ("state", "input", "data"):
                place = Reference(kind, (suspect.first,))
                if (kind, suspect.first) in named or exists(place, needs.log, None):
                    reference = f"{document.sign}{kind}.{suspect.first}"
                    yield _literal(suspect._replace(form="whole", reference=reference))
                    break
            continue
        exists_now = (
            (suspect.kind, suspect.first) in named
            or exists(Reference(suspect.kind, (suspect.first,)), needs.log, None)
            or (suspect.marked and suspect.kind == "input")  # no text has the fields of the input
            or (
                suspect.form == "whole"
                and suspect.kind in ("state", "input")
                and not FILE.fullmatch(suspect.text)
            )
        )
        if exists_now and suspect.text not in reported:
            reported.add(suspect.text)
            yield _literal(suspect)


def _unknown_kind(
    suspect: Suspect, kinds: set[str], known_paths: set[tuple[str, str]], sign: str
) -> Iterator[Diagnostic]:
    """A text like ``$result.x``. Without a path, in an argument, and like no name it is text."""
    near = suggest(suspect.kind, sorted(kinds))
    last = suspect.reference.rpartition(".")[2]
    if ("state", suspect.kind) in known_paths:
        near = f"write {sign}state.{suspect.reference}"
    elif ("state", last) in known_paths:
        near = f"write {sign}state.{last}"
    if near or suspect.marked:
        kinds_text = ", ".join(f"{sign}{kind}" for kind in sorted(kinds))
        message = f"{suspect.span.text!r} is passed as text: there is no kind {suspect.kind!r}"
        hint = (
            near or f"the kinds of this plan are {kinds_text}; a result is read as {sign}state.NAME"
        )
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
    before = [0] * len(needs.turns)
    """The turns that surely precede each turn, one bit each: linear for ten thousand calls."""
    writers_at: dict[Place, int] = {}
    writers_inside: dict[Place, int] = {}
    # A turn comes after all that it waits for, so those that come before do not wait for it.
    for number in needs.ranks:
        turn = needs.turns[number]
        rivals = 0
        for other in needs.after[number]:
            before[number] |= before[other] | 1 << other
        for place in places(turn):
            rivals |= writers_inside.get(place, 0)
            for outer in above(place):
                rivals |= writers_at.get(outer, 0)
        rivals &= ~before[number]
        if rivals:
            # The lowest bit: the first rival in the list.
            yield _race(turn.call, needs.turns[(rivals & -rivals).bit_length() - 1].call)
        for place in places(turn):
            writers_at[place] = writers_at.get(place, 0) | 1 << number
            for outer in (*above(place), place):
                writers_inside[outer] = writers_inside.get(outer, 0) | 1 << number


def _race(call: Call, first: Call) -> Diagnostic:
    message = (
        f"{first.id} and {call.id} write to the same place; the call that ends last decides "
        f"the result"
    )
    related = (("the other call", first.output.span),) if first.output.span else ()
    hint = "ordered: true stores results in the order of the list"
    pushes = call.output.method == first.output.method == "push"
    severity: Severity = "note" if pushes else "warning"
    return Diagnostic("plan.race", message, call.output.span, hint, severity, related)
