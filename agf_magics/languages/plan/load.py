"""Text to flow: a list of calls, or a mapping with ``calls`` and what the context begins with.

Everything wrong is told at once. What the context decides (a circle that a first value opens, a reference that only an
earlier run wrote) is a warning here, and refuses the run that would need it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from ...flow.declared import Instead
from ...flow.frame import FlowInput, FlowResult, Frame
from ...flow.steps import Compute, Dag, Definition, Flow, Invoke, Name, Sequence, Step
from ...flow.values import TooDeep, Value, isolate
from ...text.diagnostics import Diagnostic, Diagnostics, StepError
from ...text.source import Source
from ...text.yamlnodes import Bounds, Fields, Items, documents, shown
from .agenda import Plan, PlanScheduler, TurnOutcome, in_circle
from .calls import ASKED, Answer, Arguments, Call
from .document import Document, Reader
from .lints import lint
from .log import Log
from .needs import Dependencies, Turn
from .reading import Stores
from .secrets import without

_BOUNDS = Bounds()


def load(source: Source, problems: Diagnostics, bounds: Bounds = _BOUNDS, latent: Collection[str] = ()) -> Definition:
    """The plan that ``source`` defines; what is wrong goes to ``problems``. ``latent``: tools that nobody does, beside
    those that the document declares."""
    before = len(problems.errors)
    nodes = documents(source, problems, bounds)
    if len(problems.errors) > before:
        return Definition(None)
    if not nodes:
        problems.error(
            "plan.no-plan", "there is no plan here", source.span(0, 0), "begin with a list of calls: - _tool: …"
        )
        return Definition(None)
    reader = Reader(problems, latent)
    for node in nodes[1:]:
        reader.wrong("two-plans", "one plan per cell", node.span, "define the other one in a cell or file of its own")
    first = nodes[0]
    if isinstance(first, Items):
        document = reader.document(Fields({"calls": first}, {}, first.span))
    elif isinstance(first, Fields):
        document = reader.document(first)
    else:
        message = f"a plan is a list of calls or a mapping with calls, not {shown(first)}"
        reader.wrong(
            "document-shape", message, first.span, "- {_tool: fetch, url: †input.url, _outputPath: †state.page}"
        )
        document = Document()
    if len(problems.errors) > before:
        return Definition(None)
    return Definition(replace(flow_of(source, document, problems), latent=tuple(latent)))


def flow_of(source: Source, document: Document, problems: Diagnostics) -> Flow:
    """The flow of a document in which nothing is wrong."""
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
    circle = needs.cycle
    if circle is not None:
        problems.add(replace(in_circle(needs, circle), severity="warning"))
    name = document.name or Name("")
    body = _dag(name, document, needs)
    return Flow(
        name=name.text,
        language="plan",
        source=source,
        body=Sequence(id="plan", word="plan", label=name.text, span=name.span, steps=(body,)),
        start=_start(plan, messages),
        end=_end,
        kept=stores,
        description=document.description,
        span=name.span,
        context=document.context or "",
        without=without,
        ways={
            "--ordered": lambda flow: _chosen(flow, "--ordered", start=_start(replace(plan, ordered=True), messages)),
            "--keep-going": lambda flow: _chosen(flow, "--keep-going", end=_went_on),
        },
    )


def _chosen(flow: Flow, way: str, **changed: Any) -> Flow:
    return replace(flow, chosen=(*flow.chosen, way), **changed)


def _dag(name: Name, document: Document, needs: Dependencies) -> Dag:
    calls = document.calls
    feeds = [(calls[writer].id, calls[reader].id, told) for (writer, reader), told in sorted(needs.names().items())]
    feeds += [("", calls[reader].id, told) for reader, told in needs.brought()]
    return Dag(
        id="calls",
        word="plan",
        label=name.text,
        span=name.span,
        steps=tuple(_step(call, document.confirm) for call in calls),
        open=lambda frame: frame["agenda"],
        feeds=tuple(feeds),
        written={call.id: tuple((one.kind, *one.path) for one in call.destinations) for call in calls},
    )


def _step(call: Call, confirm: Callable[[str], bool]) -> Step:
    label = " ".join(filter(None, (call.tool.text, "→ " * bool(call.alternatives) + _where(call))))
    if call.latent:
        assert call.span is not None
        return Compute(id=call.id, word="latent", label=label, span=call.span, value=Answer(call.span, call.answer))
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
        permit=_permit(call) if confirm(call.tool.text) else None,
        instead=Instead("_output", _taken(call)) if confirm(call.tool.text) else None,
    )


def _where(call: Call) -> str:
    return " || ".join(" && ".join(map(str, each)) for each in call.alternatives)


def _permit(call: Call) -> Callable[[Frame, Mapping[str, Value], Mapping[str, Value]], str | None]:
    def ask(frame: Frame, given: Mapping[str, Value], shown: Mapping[str, Value]) -> str:
        shown_ = ", ".join(f"{name}={str(value)[:80]}" for name, value in shown.items() if name not in ASKED)
        return f"call {call.tool.text}({shown_})?"

    return ask


def _taken(call: Call) -> Callable[[Frame, Mapping[str, Value]], None]:
    """Keeps what a person put in the call's place: the messages that it writes say so."""

    def take(frame: Frame, said: Mapping[str, Value]) -> None:
        for name in said:
            if name.startswith("_") and name != "_output":
                hint = "other arguments: {NAME: VALUE}; or a result: {_output: VALUE}"
                raise StepError(Diagnostic("step.instead", f"{name!r} of a call cannot be changed", call.span, hint))
        frame["agenda"].take(frame["turn"], said)

    return take


def _start(plan: Plan, messages: tuple[Mapping[str, Value], ...]) -> Callable[[FlowInput], Frame]:
    def start(given: FlowInput) -> Frame:
        context = given.context
        said = () if context is None or context.log is None else context.log
        log = said if isinstance(said, Log) else Log(said)  # the messages alone, where a run is taken up again
        told = given.input is not None and not (type(given.input) is dict and not given.input)
        inputs = [{"type": "data", "kind": "input", "data": given.input}] if told else []
        log = log.append(*messages, *inputs)
        agenda = PlanScheduler(plan, log)
        if refusals := agenda.refusals():
            raise StepError(*refusals)
        if context is not None:
            context.log = log
        return {"log": log, "instance": None, "context": context, "agenda": agenda, "output": None, "failures": ()}

    return start


def _end(frame: Frame) -> FlowResult:
    """A plan of which a call failed or could never run has failed, everything else done first (decision C2)."""
    failures: tuple[TurnOutcome, ...] = frame["failures"]
    if failures:
        error = StepError(*(fate.diagnostic for fate in failures if fate.diagnostic is not None))
        first = failures[0].error
        if first is not None:
            error.__cause__ = first.__cause__
            if len(failures) == 1:
                error.path, error.where = first.path, first.where
        raise error
    try:
        return FlowResult(isolate(frame["output"]), stores(frame), frame.get("notes", ()))
    except TooDeep as error:
        found = Diagnostic("step.too-deep", f"the plan's output cannot be kept: {error}")
    raise StepError(found)


def _went_on(frame: Frame) -> FlowResult:
    """The end of a plan whose failures are told and not raised."""
    ended = _end({**frame, "failures": ()})
    told = (replace(fate.diagnostic, severity="warning") for fate in frame["failures"])
    return ended._replace(notes=(*ended.notes, *told))


def stores(frame: Frame) -> Mapping[str, Value]:
    """What everybody reads by the kinds' names."""
    return Stores(frame["log"])
