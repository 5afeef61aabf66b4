"""Sessions of agents that are models, as flows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ...catalog import Agent, Model, ModelAgent, Registry, Tool, check_reply, parse_json_reply
from ...flow.expressions import Computed
from ...flow.flow import Dialect, Flow, Origin
from ...flow.protocols import FlowResult, Frame, Name, Outcome, Ref
from ...flow.sessions.react import react
from ...flow.sessions.session import Offer, RequestOptions, Session, format_for_model, format_prompt
from ...flow.steps import Invoke, Sequence
from ...schemas.json_schema import judge
from ...schemas.schema import Schema, json_schema
from ...schemas.violations import describe_all
from ...text.diagnostics import Diagnostic, Diagnostics, StepError
from ...text.source import Source, Span
from ...values.value import Value
from .linked import ModelBinding
from .server_tools import expand


def model_binding(step: Invoke, registry: Registry, problems: Diagnostics) -> ModelBinding:
    """The model that answers ``step``: the configured one, else the one that the step names
    (decision B2)."""
    held, configured = step.asking.config.get("model_object"), registry.model
    named = held if isinstance(held, Model) else registry.named(step.name.text)
    model = configured if configured is not None and held is None else named
    span = step.place
    if problem := model.problem():
        problems.add(replace(problem, span=span))
    if model is not named and step.name.text and model.name != named.name:
        message = f"the configured model {model.name} answers instead of {step.name.text!r}"
        problems.add(Diagnostic("model.configured", message, span, severity="note"))
    if step.tools is None:
        return ModelBinding(model, registry.offered)
    names = [each for name in step.tools for each in registered_names(step, name, registry)]
    callees = {alias: find_registered(name.text, registry) for alias, name in names}
    # Unknown tools are reported at the step that calls them.
    return ModelBinding(model, {alias: c for alias, c in callees.items() if c is not None})


def find_registered(name: str, registry: Registry) -> Tool | Agent | ModelAgent | Flow | None:
    """What a model calls by a registered name: a tool, else an agent, else a flow."""
    shelves = (registry.tools, registry.agents, registry.flows)
    return next((shelf[name] for shelf in shelves if name in shelf), None)


def registered_names(step: Invoke, name: Name, registry: Registry) -> list[tuple[str, Name]]:
    """The aliases of a name, with their registered names (decision B5): several for all tools of an
    MCP server."""
    # An alias that is registered means that: a definition must not hide what is registered.
    if find_registered(name.text, registry) is not None:
        return [(name.text, name)]
    registered = step.lookup.registered.get(name.text, "")
    expanded = expand(name.text, registered, registry)
    return [(alias, Name(text, name.span)) for alias, text in expanded]


def session_flow(
    agent: ModelAgent, step: Invoke, around: Flow, schemas: Mapping[str, Schema]
) -> Flow:
    """The flow that answers ``step``; its input is that of an agent function."""
    span = step.place or around.source.span(0, 0)
    wanted = schemas.get(step.gives.text) if step.gives is not None else None
    asking = step.asking
    model = None if asking.overrides_agent else agent.model
    session = Session(
        model=Name(model.name if model is not None else asking.model, asking.span or span),
        prompt=Computed(span, _prompt),
        files=Computed(span, lambda frame: frame["given"].get("attach")),
        system=Computed(span, lambda frame: frame["given"].get("system")),
        options=RequestOptions(
            agent.instructions,
            settings={**agent.settings, **asking.settings},
            # A model is asked with all fields required (decision P7).
            schema=json_schema(wanted, schemas, all_required=True)
            if wanted is not None
            else asking.schema or agent.gives,
            model_object=model,
        ),
        tools=None
        if agent.tools is None
        else tuple(Offer(Name(tool, span)) for tool in agent.tools),
        read_answer=agent.read_answer or _reader(agent, step, wanted, schemas),
        steps=asking.steps or agent.steps,
        with_calls=asking.calls,
        over=lambda steps: _over(steps, agent, span, by_step=asking.steps is not None),
    )
    return _session(agent.name, session, around.language, around.source, span)


def _session(agent: str, session: Session, language: str, source: Source, span: Span) -> Flow:
    steps = (
        react(session, id="session", word="session", span=span, label=agent, target=_Answer()),
    )
    return Flow(
        name=session_name(agent),
        language=language,
        source=source,
        body=Sequence(id="built", word="steps", span=span, steps=steps),
        start=lambda flow_input: {"given": flow_input.input},
        end=lambda frame: FlowResult(frame["answer"], {}),
        dialect=Dialect(stores_of=lambda frame: {}),
        origin=Origin(span, is_built=True),
    )


def recorded_session(agent: str, model: str, language: str, span: Span) -> Flow:
    """The flow of a session of an earlier run, to show it: it cannot run."""
    prompt, over = Computed(span, _prompt), Diagnostic("model.max-steps", "", span)
    session = Session(model=Name(model, span), prompt=prompt, over=lambda steps: over)
    return _session(agent, session, language, span.source, span)


def session_name(agent: str) -> str:
    """The name of the flow that answers for an agent."""
    return f"{agent} (a model)"


def _over(steps: int, agent: ModelAgent, span: Span, by_step: bool) -> Diagnostic:
    message = f"the model asked for tools in step {steps}, its last one, in which it must answer"
    more = (
        f"max_iterations: {2 * steps}"
        if by_step
        else f"agf.model_agent({agent.name!r}, max_steps={2 * steps}, …)"
    )
    hint = f"{more} allows more; or tell it in its instructions to stop"
    return Diagnostic("model.max-steps", message, span, hint)


def _prompt(frame: Frame) -> Value:
    """The prompt, else the input as text."""
    arguments = frame["given"]
    return arguments.get("prompt") or format_prompt(arguments.get("input"))


def _reader(
    agent: ModelAgent, step: Invoke, wanted: Schema | None, schemas: Mapping[str, Schema]
) -> Callable[[Value], Value]:
    conforming = reader_of(agent.name, wanted, step.asking.schema or agent.gives, schemas)
    span = (step.gives.span if step.gives is not None else None) or step.place

    def read(answer: Value) -> Value:
        try:
            return conforming(answer)
        except StepError as error:
            diagnostic = error.diagnostic
        raise StepError(Diagnostic(diagnostic.code, diagnostic.message, span, diagnostic.hint))

    return read


def reader_of(
    owner: str,
    named: Schema | None,
    written: Mapping[str, Any] | None,
    schemas: Mapping[str, Schema],
) -> Callable[[Value], Value]:
    """A function that returns the value of an agent's answer. It raises StepError for one that does
    not conform to the schema that the step names, else to the one that is written out."""
    if named is None and written is not None:
        return answer_judge(written, owner)
    return lambda answer: check_reply(answer, named, schemas)


class _Answer:
    """Stores the value of the session."""

    def store(self, frame: Frame, outcome: Outcome) -> Frame:
        return {**frame, "answer": outcome.value}

    def writes(self) -> tuple[Ref, ...]:
        return ()


def answer_judge(schema: Mapping[str, Any], owner: str) -> Callable[[Value], Value]:
    """A function that returns the value of an answer, the JSON in a text. It raises StepError
    ``agent.reply-schema``.

    ``owner``: the name of the agent, for the message.
    """
    # Once for an agent: compiling a schema takes longer than judging an answer.
    violations = judge(schema)

    def conforming(answer: Value) -> Value:
        # Models write JSON in texts, and in fences.
        value = parse_json_reply(answer) if isinstance(answer, str) else answer
        if wrong := violations(value):
            message = (
                f"the reply does not conform to the schema of {owner!r}: {describe_all(wrong)}"
            )
            hint = f"the reply was: {format_for_model(answer)[:300]}"
            raise StepError(Diagnostic("agent.reply-schema", message, hint=hint))
        return value

    return conforming
