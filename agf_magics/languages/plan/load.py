"""Warnings and notes about valid plans that are probably mistakes.

Text to flow: a list of calls, or a mapping with ``calls`` and the first messages of the context.

All problems are reported at once. A problem that depends on the context (a cycle that a first value
opens, a reference that only an earlier run wrote) is a warning here and an error when the plan
runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from ...flow.step import Dag, Exchange, FlowInput, FlowResult, Frame, Instead, Name, Permit, Step
from ...flow.steps import (
    Compute,
    Declarations,
    Definition,
    Dialect,
    Flow,
    Invoke,
    Origin,
)
from ...flow.steps import Sequence as InOrder
from ...flow.values import TooDeep, Value, isolate
from ...text.diagnostics import (
    DefinitionError,
    Diagnostic,
    Diagnostics,
    Severity,
    Source,
    StepError,
    suggest,
)
from ...text.nodes import Fields, Items, shown
from ...text.yamlnodes import Bounds
from ..documents import Finding, one_document
from .agenda import Plan, PlanScheduler, TurnOutcome, cycle_error
from .calls import ASKED, Arguments, Call, Stores, Template, as_log, expressions, reads
from .document import Document, DocumentReader
from .log import Log, remove_secrets
from .messages import Destination, overlap, plain_message
from .needs import Dependencies, Place, Turn, above, exists, places
from .reference import Reference, as_written, is_mixed, references, sign_of
from .takes import KINDS, Suspect

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
    if any(one.kind == "input" for one in call.output.destinations):  # G24
        hint = f"write results to {sign}state; {sign}input is the input of the run"
        yield Diagnostic(
            "plan.writes-input", "this call overwrites the input", call.output.span, hint, "warning"
        )
    if call.output.method is not None and not call.output.alternatives:
        message = f"'_outputMethod: {call.output.method}' has no effect without an '_outputPath'"
        hint = f"add _outputPath: {sign}state.…"
        yield Diagnostic("plan.method-without-path", message, call.tool.span, hint, "warning")


def _arguments(call: Call) -> Iterator[Diagnostic]:
    for name, span, template in call.given:
        if (
            name == "output" and isinstance(template, Reference) and not call.output.alternatives
        ):  # G19
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
        exists_now = (
            (suspect.kind, suspect.first) in named
            or exists(Reference(suspect.kind, (suspect.first,)), needs.log, None)
            or (suspect.marked and suspect.kind == "input")  # no text has the fields of the input
            or (suspect.form == "whole" and suspect.kind == "state")
        )
        if exists_now and suspect.text not in reported:
            reported.add(suspect.text)
            yield _literal(suspect)


def _unknown_kind(
    suspect: Suspect, kinds: set[str], known: set[tuple[str, str]], sign: str
) -> Iterator[Diagnostic]:
    """A text like ``$result.x``. Without a path, in an argument, and like no name it is text."""
    near = suggest(suspect.kind, sorted(kinds))
    last = suspect.reference.rpartition(".")[2]
    if ("state", suspect.kind) in known:
        near = f"write {sign}state.{suspect.reference}"
    elif ("state", last) in known:
        near = f"write {sign}state.{last}"
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
    before = [0] * len(needs.turns)
    """The turns that surely precede each turn, one bit each: linear for ten thousand calls."""
    at: dict[Place, int] = {}
    inside: dict[Place, int] = {}
    # A turn comes after all that it waits for, so those that come before do not wait for it.
    for number in needs.ranks:
        turn, rivals = needs.turns[number], 0
        for other in needs.after[number]:
            before[number] |= before[other] | 1 << other
        for place in places(turn):
            rivals |= inside.get(place, 0)
            for outer in above(place):
                rivals |= at.get(outer, 0)
        rivals &= ~before[number]
        if rivals:
            yield _race(turn.call, needs.turns[(rivals & -rivals).bit_length() - 1].call)
        for place in places(turn):
            at[place] = at.get(place, 0) | 1 << number
            for outer in (*above(place), place):
                inside[outer] = inside.get(outer, 0) | 1 << number


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


_BOUNDS = Bounds()

_NO_PLAN = Finding(
    "plan.no-plan", "there is no plan here", "begin with a list of calls: - _tool: …"
)
_TWO_PLANS = Finding(
    "plan.two-plans", "one plan per cell", "define the other plan in its own cell or file"
)


def load(
    source: Source, problems: Diagnostics, bounds: Bounds = _BOUNDS, latent: Collection[str] = ()
) -> Definition:
    """The plan that ``source`` defines. Errors are added to ``problems``. ``latent``: tools that
    are latent in addition to those that the document declares."""
    before = problems.error_count
    first = one_document(source, problems, bounds, _NO_PLAN, _TWO_PLANS)
    if first is None:
        return Definition(None)
    reader = DocumentReader(problems, sign_of(source.text), latent)
    if isinstance(first, Items):
        first = Fields({"calls": first}, {}, first.span)
    if not isinstance(first, Fields):
        message = f"a plan must be a list of calls or a mapping with 'calls', got {shown(first)}"
        hint = (
            f"for example - {{_tool: fetch, url: {reader.sign}input.url, _outputPath: "
            f"{reader.sign}state.page}}"
        )
        reader.error("plan.document-shape", message, first.span, hint)
        return Definition(None)
    document = reader.document(first)
    if problems.error_count > before:
        return Definition(None)
    try:
        return Definition(_flow(source, document, problems, tuple(latent)))
    except DefinitionError as error:  # it has too many dependencies
        problems.extend(error.diagnostics)
        return Definition(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDialect(Dialect):
    """What the options of a plan need of its text."""

    plan: Plan
    messages: tuple[Mapping[str, Value], ...]

    def with_option(self, flow: Flow, option: str) -> Flow | None:
        dialect = replace(self, options=(*self.options, option))
        if option == "--ordered":
            return replace(
                flow,
                start=_start(replace(self.plan, ordered=True), self.messages),
                dialect=dialect,
            )
        return (
            replace(flow, end=_end_with_warnings, dialect=dialect)
            if option == "--keep-going"
            else None
        )


def _flow(
    source: Source, document: Document, problems: Diagnostics, latent: tuple[str, ...]
) -> Flow:
    """The flow of a document without errors."""
    calls, messages = document.calls, document.messages
    needs = Dependencies([Turn(call, call.instance) for call in calls], Log(messages))
    plan = Plan(
        calls=calls,
        needs=needs,
        output=document.output,
        has_output=document.has_output,
        lazy=document.mode == "lazy",
        ordered=document.ordered,
    )
    problems.extend(lint(needs, document))
    cycle = needs.cycle
    if cycle is not None:
        problems.add(replace(cycle_error(needs, cycle), severity="warning"))
    name = document.name or Name("")
    body = _dag(name, document, needs)
    return Flow(
        name=name.text,
        language="plan",
        source=source,
        body=InOrder(id="plan", word="plan", label=name.text, span=name.span, steps=(body,)),
        start=_start(plan, messages),
        end=_end,
        dialect=PlanDialect(
            kept=_stores,
            context=document.context,
            latent=latent,
            without_secrets=remove_secrets,
            plan=plan,
            messages=messages,
        ),
        declared=Declarations(document.description),
        origin=Origin(name.span),
    )


def _dag(name: Name, document: Document, needs: Dependencies) -> Dag:
    calls = document.calls
    wires = sorted(
        needs.wires(), key=lambda wire: (wire[0] < 0, wire[:2])
    )  # stable: references in their order
    return Dag(
        id="calls",
        word="plan",
        label=name.text,
        span=name.span,
        steps=tuple(_step(call, call.tool.text in document.confirm) for call in calls),
        open=lambda frame: frame["scheduler"],
        feeds=tuple(
            (calls[writer].id if writer >= 0 else "", calls[reader].id, ref)
            for writer, reader, ref in wires
        ),
        written={
            call.id: tuple((one.kind, *one.path) for one in call.output.destinations)
            for call in calls
        },
    )


def _step(call: Call, asks: bool) -> Step:
    """The step of a call. ``asks``: whether a person must approve it."""
    destinations = " || ".join(" && ".join(map(str, each)) for each in call.output.alternatives)
    label = f"{call.tool.text} → {destinations}" if destinations else call.tool.text
    if call.latent is not None:
        return Compute(
            id=call.id, word="latent", label=label, span=call.tool.span, value=call.latent
        )
    return Invoke(
        id=call.id,
        word="delegate" if call.delegate else "tool",
        label=label,
        span=call.tool.span,
        kind="flow" if call.delegate else "tool",
        name=call.tool,
        args=Arguments(call),
        exchange=Exchange(wants=True, offers=() if call.delegate else ASKED),
        awaited=bool(call.output.alternatives),
        permit=Permit(_permit(call), Instead("_output", _taken(call))) if asks else None,
    )


def _permit(call: Call) -> Callable[[Frame, Mapping[str, Value], Mapping[str, Value]], str | None]:
    def ask(frame: Frame, given: Mapping[str, Value], shown: Mapping[str, Value]) -> str:
        arguments = ", ".join(
            f"{name}={str(value)[:80]}" for name, value in shown.items() if name not in ASKED
        )
        return f"call {call.tool.text}({arguments})?"

    return ask


def _taken(call: Call) -> Callable[[Frame, Mapping[str, Value]], None]:
    """Records what a person gave instead of the call, for the messages that it writes."""

    def take(frame: Frame, answer: Mapping[str, Value]) -> None:
        for name in answer:
            if name.startswith("_") and name != "_output":
                hint = "give other arguments, {NAME: VALUE}, or a result, {_output: VALUE}"
                raise StepError(
                    Diagnostic(
                        "step.instead",
                        f"{name!r} of a call cannot be changed",
                        call.tool.span,
                        hint,
                    )
                )
        frame["scheduler"].take(frame["turn"], answer)

    return take


def _start(plan: Plan, messages: tuple[Mapping[str, Value], ...]) -> Callable[[FlowInput], Frame]:
    def start(given: FlowInput) -> Frame:
        context = given.context
        # A resumed run has a list of messages.
        log = as_log((context.log if context is not None else None) or ())
        empty = given.input is None or (type(given.input) is dict and not given.input)
        log = log.append(*messages, *([] if empty else [plain_message("input", given.input)]))
        scheduler = PlanScheduler(plan, log)
        if refusals := scheduler.refusals():
            raise StepError(*refusals)
        if context is not None:
            context.log = log
        own = {"log": log, "instance": None, "context": context, "scheduler": scheduler}
        return {**own, "output": None, "failures": ()}

    return start


def _end(frame: Frame) -> FlowResult:
    """A plan fails at its end if a call failed or could never run (decision C2)."""
    failures: tuple[TurnOutcome, ...] = frame["failures"]
    if failures:
        error = StepError(*(one.diagnostic for one in failures if one.diagnostic is not None))
        first = failures[0].error
        if first is not None:
            error.__cause__ = first.__cause__
            if len(failures) == 1:
                error.path, error.where = first.path, first.where
        raise error
    try:
        return FlowResult(isolate(frame["output"]), _stores(frame), frame.get("notes", ()))
    except TooDeep as error:
        found = Diagnostic("step.too-deep", f"cannot return the output of the plan: {error}")
    raise StepError(found)


def _end_with_warnings(frame: Frame) -> FlowResult:
    """The end with ``--keep-going``: failures are warnings."""
    ended = _end({**frame, "failures": ()})
    failures = [one.diagnostic for one in frame["failures"] if one.diagnostic is not None]
    return ended._replace(
        notes=(*ended.notes, *(replace(found, severity="warning") for found in failures))
    )


def _stores(frame: Frame) -> Mapping[str, Value]:
    """The values without an instance, by the names of their kinds."""
    return Stores(frame["log"])
