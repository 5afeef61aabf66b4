"""An agent that is a model, as the flow that its session is: what answers an agent step that way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..catalog import Model, ModelAgent, Registry, Tool, read_json, reply
from ..flow.frame import FlowResult, Frame, Outcome, Ref
from ..flow.json_schema import judge
from ..flow.react import Read, react
from ..flow.schemas import Schema, json_schema
from ..flow.session import Offer, Session, asked, shown
from ..flow.steps import Flow, Invoke, Name, Sequence
from ..flow.values import Value
from ..flow.violations import told
from ..text.diagnostics import Diagnostic, Diagnostics, StepError
from ..text.source import Span


@dataclass(frozen=True, slots=True, eq=False)
class ModelBinding:
    """A model, with the tools that a session may offer it."""

    model: Model
    tools: Mapping[str, Tool | Flow]
    """What each means, by the name that the model calls it."""

    @property
    def name(self) -> str:
        return self.model.name


def model_binding(step: Invoke, registry: Registry, found: Diagnostics) -> ModelBinding:
    """The model that answers ``step``: the one that is configured before the one that is named (decision B2)."""
    made, chosen = (step.config or {}).get("made"), registry.model
    named = made if isinstance(made, Model) else registry.named(step.name.text)
    model = chosen if chosen is not None and made is None else named
    span = step.name.span or step.span
    if problem := model.problem():
        found.add(replace(problem, span=span))
    if model is not named and step.name.text and model.name != named.name:
        message = f"{model.name} answers, which is configured, and not {step.name.text!r}"
        found.add(Diagnostic("model.configured", message, span, severity="note"))
    if step.tools is None:
        return ModelBinding(model, dict(registry.tools))
    # What is not registered is told at the step that calls it.
    one = ((name.text, meant(step, name, registry).text) for name in step.tools)
    known = ((name, registry.tools.get(text) or registry.flows.get(text)) for name, text in one)
    return ModelBinding(model, {name: callee for name, callee in known if callee is not None})


def meant(step: Invoke, name: Name, registry: Registry) -> Name:
    """One name of several as it is registered (decision B5)."""
    known = name.text in registry.tools or name.text in registry.flows
    return name if known else Name(step.registered.get(name.text, name.text), name.span)


def session_flow(agent: ModelAgent, step: Invoke, around: Flow, schemas: Mapping[str, Schema]) -> Flow:
    """The flow that answers ``step``; its input is what an agent function would be given."""
    span = step.name.span or step.span or around.source.span(0, 0)
    wanted = schemas.get(step.gives.text) if step.gives is not None else None
    session = Session(
        model=Name(agent.model.name if agent.model is not None else "", span),
        made=agent.model,
        prompt=Read(span, _prompt),
        instructions=agent.instructions,
        tools=None if agent.tools is None else tuple(Offer(Name(tool, span)) for tool in agent.tools),
        settings=agent.settings,
        # A model is asked with all fields required (decision P7).
        schema=json_schema(wanted, schemas, all_required=True) if wanted is not None else agent.gives,
        read=_reader(agent, step, wanted, schemas),
        steps=agent.steps,
        over=lambda steps: _over(steps, agent, span),
    )
    return Flow(
        name=f"{agent.name} (a model)",
        language=around.language,
        source=around.source,
        body=Sequence(
            id="built",  # it has no text of its own
            word="steps",
            span=span,
            steps=(react(session, id="session", word="session", span=span, label=agent.name, target=_Answer()),),
        ),
        start=lambda given: {"given": given.input},
        end=lambda frame: FlowResult(frame["answer"], {}),
        kept=lambda frame: {},
        span=span,
    )


def _over(steps: int, agent: ModelAgent, span: Span) -> Diagnostic:
    """What to say when its model asks for tools to the end; names what sets how long that is."""
    message = f"the model still asked for tools in step {steps}, the last one, in which it must answer"
    how = f"agf.model_agent({agent.name!r}, max_steps={2 * steps}, …) gives it more"
    return Diagnostic("model.max-steps", message, span, f"{how}; or say in its instructions when to stop")


def _prompt(frame: Frame) -> Value:
    """The prompt, and where there is none the input as text."""
    given = frame["given"]
    return given.get("prompt") or asked(given.get("input"))


def _reader(
    agent: ModelAgent, step: Invoke, wanted: Schema | None, schemas: Mapping[str, Schema]
) -> Callable[[Value], Value]:
    violations = judge(agent.gives) if wanted is None and agent.gives is not None else None
    span = (step.gives.span if step.gives is not None else None) or step.name.span or step.span

    def conforming(answer: Value) -> Value:
        if violations is None:
            return reply(answer, wanted, schemas)
        value = read_json(answer) if isinstance(answer, str) else answer
        if wrong := violations(value):
            message = f"the reply is not what {agent.name!r} gives: {told(wrong)}"
            raise StepError(Diagnostic("agent.reply-schema", message, hint=f"it was: {shown(answer)[:300]}"))
        return value

    def read(answer: Value) -> Value:
        try:
            return conforming(answer)
        except StepError as error:
            found = error.diagnostic
        raise StepError(Diagnostic(found.code, found.message, span, found.hint))

    return read


class _Answer:
    """Keeps the session's value."""

    def store(self, frame: Frame, outcome: Outcome) -> Frame:
        return {**frame, "answer": outcome.value}

    def writes(self) -> tuple[Ref, ...]:
        return ()


def describe_tool(
    binding: ModelBinding, name: str, descriptions: Mapping[str, str]
) -> tuple[str, str, Mapping[str, Any]]:
    """The name, description and JSON Schema of a tool, as a model gets them."""
    callee = binding.tools[name]
    if isinstance(callee, Tool):
        return name, descriptions.get(name) or callee.description, callee.accepts
    return name, descriptions.get(name) or callee.description, callee.accepts or {"type": "object"}
