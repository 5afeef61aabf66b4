"""Builds the flow of a session of an agent that is a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...catalog import ModelAgent
from ...flow.expressions import Computed
from ...flow.flow import Dialect, Flow, Origin
from ...flow.protocols import FlowResult, Frame, Name, Outcome, Ref
from ...flow.sessions.react import react
from ...flow.sessions.session import Offer, RequestOptions, Session, format_prompt
from ...flow.steps import Invoke
from ...flow.steps import Sequence as Steps
from ...schemas.schema import Schema, json_schema
from ...text.diagnostics import Diagnostic
from ...text.source import Source, Span
from ...values.value import Value
from .answer_reader import reader_at_step


def session_flow(
    agent: ModelAgent, step: Invoke, around: Flow, schemas: Mapping[str, Schema]
) -> Flow:
    """The flow that answers ``step``. It has the same input as an agent function."""
    span = step.place or around.source.span(0, 0)
    asking = step.asking
    named = schemas.get(step.gives.text) if step.gives is not None else None
    schema = asking.schema or agent.gives
    if named is not None:
        # A model gets a schema in which all fields are required (decision P7).
        schema = json_schema(named, schemas, all_required=True)
    tools = None
    if agent.tools is not None:
        tools = tuple(Offer(Name(tool, span)) for tool in agent.tools)
    model = None if asking.overrides_agent else agent.model
    session = Session(
        model=Name(model.name if model is not None else asking.model, asking.span or span),
        prompt=Computed(span, _prompt),
        files=Computed(span, lambda frame: frame["given"].get("attach")),
        system=Computed(span, lambda frame: frame["given"].get("system")),
        options=RequestOptions(
            agent.instructions,
            settings={**agent.settings, **asking.settings},
            schema=schema,
            model_object=model,
        ),
        tools=tools,
        read_answer=agent.read_answer or reader_at_step(agent, step, named, schemas),
        steps=asking.steps or agent.steps,
        with_calls=asking.calls,
        too_many_steps=lambda steps: _too_many_steps(
            steps, agent, span, by_step=asking.steps is not None
        ),
    )
    return _session(agent.name, session, around.language, around.source, span)


def _session(agent: str, session: Session, language: str, source: Source, span: Span) -> Flow:
    """The flow whose only step is ``session``. Its frame has the input under the key ``given``."""
    steps = (
        react(session, id="session", word="session", span=span, label=agent, target=_Answer()),
    )
    return Flow(
        name=session_name(agent),
        language=language,
        source=source,
        body=Steps(id="built", word="steps", span=span, steps=steps),
        start=lambda flow_input: {"given": flow_input.input},
        end=lambda frame: FlowResult(frame["answer"], {}),
        dialect=Dialect(stores_of=lambda frame: {}),
        origin=Origin(span, is_built=True),
    )


def recorded_session(
    agent: str, model: str, tools: Sequence[str], language: str, span: Span
) -> Flow:
    """The flow of a session in an earlier run. It can be shown but not run."""
    prompt = Computed(span, _prompt)
    failure = Diagnostic("model.max-steps", "", span)
    session = Session(
        model=Name(model, span),
        prompt=prompt,
        tools=tuple(Offer(Name(tool, span)) for tool in tools),
        too_many_steps=lambda steps: failure,
    )
    return _session(agent, session, language, span.source, span)


def session_name(agent: str) -> str:
    """The name of the flow that answers for an agent."""
    return f"{agent} (a model)"


def _too_many_steps(steps: int, agent: ModelAgent, span: Span, by_step: bool) -> Diagnostic:
    message = f"the model asked for tools in step {steps}, its last one, in which it must answer"
    more = (
        f"max_iterations: {2 * steps}"
        if by_step
        else f"agf.model_agent({agent.name!r}, max_steps={2 * steps}, …)"
    )
    hint = f"{more} allows more; or tell it in its instructions to stop"
    return Diagnostic("model.max-steps", message, span, hint)


def _prompt(frame: Frame) -> Value:
    """The prompt, or else the input as text."""
    arguments = frame["given"]
    return arguments.get("prompt") or format_prompt(arguments.get("input"))


class _Answer:
    """Stores the value of the session."""

    def store(self, frame: Frame, outcome: Outcome) -> Frame:
        return {**frame, "answer": outcome.value}

    def writes(self) -> tuple[Ref, ...]:
        return ()
