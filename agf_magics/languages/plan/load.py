"""Loads a plan into a flow: a list of calls, or a mapping with ``calls`` and first messages.

All problems are reported at once. A problem that depends on the context (a cycle that a first value
opens, a reference that only an earlier run wrote) is a warning here and an error when the plan
runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from ...flow.flow import Declarations, Definition, Dialect, Flow, Origin
from ...flow.graph_steps import Dag
from ...flow.progress.question import Denied
from ...flow.protocols import FlowInput, FlowResult, Frame, Name
from ...flow.question_text import call_line
from ...flow.step import Step
from ...flow.step_options import CallReplacement, Exchange, Permit
from ...flow.steps import Compute, Invoke
from ...flow.steps import Sequence as InOrder
from ...text.diagnostics import DefinitionError, Diagnostic, Diagnostics, StepError
from ...text.source import Source
from ...text.yaml.nodes import Fields, Items, shown
from ...text.yaml.reader import Bounds
from ...values.extent import TooDeep
from ...values.value import Value, isolate_unread
from ..documents import DocumentProblem, one_document
from ..refused import refused_flow
from .arguments import ASKED, Arguments
from .calls import Call
from .document import Document, DocumentReader
from .lint import lint
from .log.log import Log, remove_secrets
from .log.messages import plain_message
from .log.reading import Stores, as_log
from .log.reference import sign_of
from .scheduling.dependencies import Dependencies, Turn
from .scheduling.scheduler import Plan, PlanScheduler, TurnOutcome, cycle_error

_BOUNDS = Bounds()

_NO_PLAN = DocumentProblem(
    "plan.no-plan", "there is no plan here", "begin with a list of calls: - _tool: …"
)
_TWO_PLANS = DocumentProblem(
    "plan.two-plans", "one plan per cell", "define the other plan in its own cell or file"
)


def load(
    source: Source, problems: Diagnostics, bounds: Bounds = _BOUNDS, latent: Collection[str] = ()
) -> Definition:
    """The plan that ``source`` defines. Errors are added to ``problems``. ``latent``: tools that
    are latent in addition to those that the document declares."""
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
    if reader.lost:
        steps = (_step(call, False) for call in document.calls)
        return Definition(refused_flow(source, "plan", document.name or Name(""), steps))
    try:
        return Definition(_flow(source, document, problems, tuple(latent)))
    except DefinitionError as error:  # the plan has too many dependencies
        problems.extend(error.diagnostics)
        return Definition(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDialect(Dialect):
    """The dialect of a plan's flow, with the plan and its first messages: the options ``--ordered``
    and ``--keep-going`` rebuild the flow from them."""

    plan: Plan
    messages: tuple[Mapping[str, Value], ...]

    def with_option(self, flow: Flow, option: str) -> Flow | None:
        """``flow`` with an option of its cell or run; None: a plan has no such option."""
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
    calls = document.calls
    messages = document.messages
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
            input=("input",),
            stores_of=_stores,
            context=document.context,
            latent=latent,
            without_secrets=remove_secrets,
            plan=plan,
            messages=messages,
        ),
        declared=Declarations(document.description, asks=document.listed_to_confirm),
        origin=Origin(name.span),
    )


def _dag(name: Name, document: Document, needs: Dependencies) -> Dag:
    calls = document.calls
    # First values, whose writer is negative, come last. The references of a call stay in their
    # order.
    wires = sorted(needs.wires(), key=lambda wire: (wire[0] < 0, wire[:2]))
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
            call.id: tuple(
                (destination.kind, *destination.path) for destination in call.output.destinations
            )
            for call in calls
        },
    )


def _step(call: Call, asks: bool) -> Step:
    """The step of a call. ``asks``: whether a person must approve it."""
    output = call.output
    sign = sign_of(output.span.text if output.span is not None else "")
    destinations = " || ".join(
        " && ".join(path.written(sign) for path in paths) for paths in output.alternatives
    )
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
        exchange=Exchange(with_schema=True, extra_arguments=() if call.delegate else ASKED),
        awaited=bool(call.output.alternatives),
        permit=Permit(_question_of(call), CallReplacement("_output", _record_answer(call)))
        if asks
        else None,
    )


def _question_of(
    call: Call,
) -> Callable[[Frame, Mapping[str, Value], Mapping[str, Value]], str | None]:
    """`Permit.ask`: makes the question whether the call may be made."""

    def ask(frame: Frame, given: Mapping[str, Value], shown: Mapping[str, Value]) -> str:
        arguments = {name: value for name, value in shown.items() if name not in ASKED}
        return f"call {call.tool.text}({call_line(arguments)})?"

    return ask


def _record_answer(call: Call) -> Callable[[Frame, Mapping[str, Value]], None]:
    """`CallReplacement`: records what a person gave instead of the call, for the messages that it
    writes."""

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
    """`Flow.start`: makes the frame that a run begins with, whose log has the ``messages`` and the
    input. Raises StepError for a plan that cannot run in its context."""

    def start(flow_input: FlowInput) -> Frame:
        context = flow_input.context
        # A resumed run has a list of messages.
        log = as_log((context.log if context is not None else None) or ())
        empty = flow_input.input is None or (
            type(flow_input.input) is dict and not flow_input.input
        )
        log = log.append(*messages, *([] if empty else [plain_message("input", flow_input.input)]))
        scheduler = PlanScheduler(plan, log)
        if refusals := scheduler.refusals():
            raise StepError(*refusals)
        if context is not None:
            context.log = log
        values = {"log": log, "instance": None, "context": context, "scheduler": scheduler}
        return {**values, "output": None, "failures": ()}

    return start


def _end(frame: Frame) -> FlowResult:
    """A plan fails at its end if a call failed or could never run (decision C2)."""
    failures: tuple[TurnOutcome, ...] = frame["failures"]
    if failures:
        # Repeating the plan would ask again for the approval that a person denied.
        kind = (
            Denied if any(isinstance(failure.error, Denied) for failure in failures) else StepError
        )
        error = kind(
            *(failure.diagnostic for failure in failures if failure.diagnostic is not None)
        )
        first = failures[0].error
        if first is not None:
            error.__cause__ = first.__cause__
            if len(failures) == 1:
                error.path = first.path
                error.where = first.where
        raise error
    try:
        return FlowResult(isolate_unread(frame["output"]), _stores(frame), frame.get("notes", ()))
    except TooDeep as error:
        problem = Diagnostic("step.too-deep", f"cannot return the output of the plan: {error}")
    raise StepError(problem)


def _end_with_warnings(frame: Frame) -> FlowResult:
    """The end with ``--keep-going``: failures are warnings."""
    ended = _end({**frame, "failures": ()})
    failures = [
        failure.diagnostic for failure in frame["failures"] if failure.diagnostic is not None
    ]
    return ended._replace(
        notes=(*ended.notes, *(replace(problem, severity="warning") for problem in failures))
    )


def _stores(frame: Frame) -> Mapping[str, Value]:
    """The stores of the log: the values without an instance, by the names of their kinds."""
    return Stores(frame["log"])
