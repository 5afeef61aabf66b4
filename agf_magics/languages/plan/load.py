"""Text to flow: a list of calls, or a mapping with ``calls`` and the first messages of the context.

All problems are reported at once. A problem that depends on the context (a cycle that a first value
opens, a reference that only an earlier run wrote) is a warning here and an error when the plan
runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...flow.declared import Instead
from ...flow.frame import FlowInput, FlowResult, Frame
from ...flow.steps import Compute, Dag, Definition, Flow, Invoke, Name, Sequence, Step
from ...flow.values import TooDeep, Value, isolate
from ...text.diagnostics import Diagnostic, Diagnostics, StepError
from ...text.source import Source
from ...text.yamlnodes import Bounds, Fields, Items, documents, shown
from .agenda import Plan, PlanScheduler, TurnOutcome, cycle_error
from .calls import ASKED, Answer, Arguments, Call
from .document import Document, DocumentReader
from .lints import lint
from .log import Log, remove_secrets
from .needs import Dependencies, Turn
from .reading import Stores
from .reference import sign_of

_BOUNDS = Bounds()


def load(
    source: Source, problems: Diagnostics, bounds: Bounds = _BOUNDS, latent: Collection[str] = ()
) -> Definition:
    """The plan that ``source`` defines. Errors are added to ``problems``. ``latent``: tools that
    are latent in addition to those that the document declares."""
    before = problems.error_count
    nodes = documents(source, problems, bounds)
    if problems.error_count > before:
        return Definition(None)
    if not nodes:
        hint = "begin with a list of calls: - _tool: …"
        problems.error("plan.no-plan", "there is no plan here", source.span(0, 0), hint)
        return Definition(None)
    reader = DocumentReader(problems, sign_of(source.text), latent)
    for node in nodes[1:]:
        reader.error(
            "plan.two-plans",
            "one plan per cell",
            node.span,
            "define the other plan in its own cell or file",
        )
    first = nodes[0]
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
    return Definition(_flow(source, document, problems, tuple(latent)))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanExtension:
    """The parts of a plan's flow that other languages do not have (`flow.steps.Extension`)."""

    plan: Plan
    messages: tuple[Mapping[str, Value], ...]
    context: str | None
    options: tuple[str, ...] = ()
    latent: tuple[str, ...] = ()

    def with_context(self, name: str | None) -> PlanExtension:
        return replace(self, context=name)

    def with_option(self, flow: Flow, option: str) -> Flow | None:
        extension = replace(self, options=(*self.options, option))
        if option == "--ordered":
            return replace(
                flow,
                start=_start(replace(self.plan, ordered=True), self.messages),
                extension=extension,
            )
        return (
            replace(flow, end=_end_with_warnings, extension=extension)
            if option == "--keep-going"
            else None
        )

    def without_secrets(
        self, log: Any, paths: Collection[tuple[str, ...]], holds: Callable[[Value], bool]
    ) -> Log:
        return remove_secrets(log, paths, holds)


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
        kept=_stores,
        description=document.description,
        span=name.span,
        extension=PlanExtension(
            plan=plan, messages=messages, context=document.context or "", latent=latent
        ),
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
            value=Answer(call.span, call.answer),
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
        wants=True,
        offers=() if call.delegate else ASKED,
        awaited=bool(call.alternatives),
        permit=_permit(call) if asks else None,
        instead=Instead("_output", _taken(call)) if asks else None,
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
