"""Warnings and notes about valid plans that are probably mistakes.

Text to flow: a list of calls, or a mapping with ``calls`` and the first messages of the context.

All problems are reported at once. A problem that depends on the context (a cycle that a first value
opens, a reference that only an earlier run wrote) is a warning here and an error when the plan
runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice

from ...flow.step import Dag, Exchange, FlowInput, FlowResult, Frame, Instead, Name, Permit, Step
from ...flow.steps import (
    Compute,
    Constant,
    Declarations,
    Definition,
    Dialect,
    Flow,
    Invoke,
    Origin,
    Sequence,
)
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
from .calls import ASKED, Arguments, Call, Stores, expressions
from .document import Document, DocumentReader
from .log import Log, remove_secrets
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
            kind == ref.kind and layer.overlapping(ref.path)
            for (kind, _), layer in needs.layers.items()
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
        body=Sequence(id="plan", word="plan", label=name.text, span=name.span, steps=(body,)),
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
        steps=tuple(_step(call, document.confirm) for call in calls),
        open=lambda frame: frame["scheduler"],
        feeds=tuple(
            (calls[writer].id if writer >= 0 else "", calls[reader].id, ref)
            for writer, reader, ref in wires
        ),
        written={
            call.id: tuple((one.kind, *one.path) for one in call.destinations) for call in calls
        },
    )


def _step(call: Call, confirm: Callable[[str], bool]) -> Step:
    destinations = " || ".join(" && ".join(map(str, each)) for each in call.alternatives)
    label = f"{call.tool.text} → {destinations}" if destinations else call.tool.text
    if call.latent:
        assert call.span is not None
        return Compute(
            id=call.id,
            word="latent",
            label=label,
            span=call.span,
            value=Constant(call.span, call.answer),
        )
    asks = confirm(call.tool.text)
    return Invoke(
        id=call.id,
        word="delegate" if call.delegate else "tool",
        label=label,
        span=call.tool.span,
        kind="flow" if call.delegate else "tool",
        name=call.tool,
        args=Arguments(call),
        exchange=Exchange(wants=True, offers=() if call.delegate else ASKED),
        awaited=bool(call.alternatives),
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
                        "step.instead", f"{name!r} of a call cannot be changed", call.span, hint
                    )
                )
        frame["scheduler"].take(frame["turn"], answer)

    return take


def _start(plan: Plan, messages: tuple[Mapping[str, Value], ...]) -> Callable[[FlowInput], Frame]:
    def start(given: FlowInput) -> Frame:
        context = given.context
        earlier = () if context is None or context.log is None else context.log
        log = (
            earlier if isinstance(earlier, Log) else Log(earlier)
        )  # a resumed run has a list of messages
        empty = given.input is None or (type(given.input) is dict and not given.input)
        log = log.append(
            *messages, *([] if empty else [{"type": "data", "kind": "input", "data": given.input}])
        )
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
