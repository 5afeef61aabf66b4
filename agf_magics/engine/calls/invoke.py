"""Runs the step `Invoke`: builds the arguments for each kind of callee, and reads its reply.

call.py makes the call itself. Calls of models are in model_requests.py, those of flows in
subflows.py.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from ...catalog import Agent, Tool, Transform
from ...catalog.tools.context import context_of
from ...flow.progress import events as ev
from ...flow.progress.question import Question
from ...flow.protocols import Frame, Name
from ...flow.step_path import format_path
from ...flow.steps import Invoke
from ...journal.secrets.placeholders import hide
from ...limits.grants import Grant, granting
from ...schemas.schema import json_schema
from ...text.diagnostics import Diagnostic, StepError
from ...text.suggestions import suggest
from ...values.unread import LostError
from ...values.value import Value, isolate
from ..host.placement import choose_place, has_effect
from ..late_values import late_value, make_again, when_read
from ..linking.answer_reader import reader_of
from ..linking.linked import (
    BoundPolicy,
    Callee,
    Candidates,
    Linked,
    ModelBinding,
    Person,
    named_tools,
    schema_of,
)
from ..runner import CallSite, ShapeResult, clock
from . import dry_run as dry
from .approvals import approve_first, ask_permission, permit_first
from .arguments import AsInput, build_arguments, copy_value
from .call import call, call_tool
from .failures import with_place
from .model_requests import request
from .questions import get_answer
from .subflows import call_linked
from .tool_context import RunContact, contexts_of


async def invoke(site: CallSite[Invoke]) -> Value:
    """Call the callee that the linker found for the name of the step."""
    callee = site.scope.linked.callees.get(site.step.id)
    # Compared by exact class: only the linker creates these objects.
    try:
        return await CALL[type(callee)](site, callee)
    except LostError as lost:
        if type(callee) is Linked:  # its steps have made their calls
            raise
        await make_again(lost)
    return await invoke(site)


async def _call_chosen(site: CallSite[Invoke], candidates: Candidates) -> Value:
    """Call the callee whose name the step chooses while it runs."""
    step = site.step
    assert step.pick is not None, "only such a step has a choice"
    name = step.pick.by.evaluate(site.frame)
    callee = candidates.callees.get(name) if isinstance(name, str) else None
    if isinstance(name, str) and name:
        _announce(site, "agent" if isinstance(callee, Agent) else step.kind, name, callee)
    if callee is None:
        hint = (
            suggest(str(name).strip(), candidates.callees, "the names to choose from")
            or "there is nothing to choose from"
        )
        # A model may leave out the name of a tool.
        written = repr(name.strip() if isinstance(name, str) else name)
        message = f"there is no {step.kind} {written} here"
        raise StepError(Diagnostic("step.not-among", message, step.name.span, hint))
    # Messages about the call name the chosen callee.
    chosen = replace(step, name=Name(name, step.name.span))
    if isinstance(callee, Tool) and callee.asks_first:
        chosen = replace(chosen, permit=permit_first(callee, step.permit))
    if isinstance(callee, Agent):
        # The choosing session counts itself. The agents that it calls count as its tools.
        asking = step.asking._replace(counts_as_session=False)
        chosen = replace(chosen, kind="agent", args=AsInput(step.args), asking=asking)
    return await CALL[type(callee)](site.with_step(chosen), callee)


def _announce(site: CallSite[Invoke], kind: str, name: str, callee: Callee | None) -> None:
    """Tell listeners which tool, agent or flow is picked, with which arguments. A pick that fails
    before its call is told, too: there is no such callee, its arguments are wrong, a person denies
    it."""
    try:
        arguments = site.step.args.build(site.frame, None)
    except StepError:  # they cannot be parsed, which the call itself says
        arguments = {}
    shown = hide(arguments, getattr(callee, "secret", ()))
    site.run.emit(ev.CallStarted(site.path, clock(), kind, getattr(callee, "name", name), shown))


async def _call_none(site: CallSite[Invoke], callee: None) -> Value:
    """The result of an agent step in a dry run, if no agent is registered."""
    assert site.run.options.dry, "only a dry run needs no agent"
    site.run.open_session(site.step.span)
    return dry.result(site.step, callee, site.scope.linked)


async def _call_transform(site: CallSite[Invoke], transform: Transform) -> Value:
    """Call a transform with its argument, unless its value can be read later."""
    if (late := late_value(site, transform, _call_transform)) is not None:
        return late[0]
    arguments = build_arguments(site, transform)
    if site.run.options.dry:
        return dry.result(site.step, None, site.scope.linked)
    return await call(site, of_one(transform), "transform", {"given": arguments})


@lru_cache(maxsize=256)
def of_one(transform: Transform) -> Transform:
    """``transform`` with its only parameter named ``given``, the name in journals and recordings.
    It is cached, because the journal computes one digest per object."""
    return replace(transform, function=lambda given: transform.function(given))


# --- agents that are functions ---


@contextmanager
def _errors_at(step: Invoke, frame: Frame | None = None) -> Iterator[None]:
    """Give a StepError without a place the place of the step."""
    try:
        yield
    except StepError as error:
        placed = with_place(error, step, frame)
        # `with_place` returns the same error if it has a place. `from error` would make it its own
        # cause, and `from None` would hide the error of user code that caused it.
        raise placed from placed.__cause__


async def _call_agent(site: CallSite[Invoke], agent: Agent) -> Value:
    """Call an agent that is a function, and return its answer in the form that the step asks
    for."""
    step = site.step
    linked = site.scope.linked
    _open_agent(site)
    built, arguments = await when_read(partial(_agent_arguments, site))
    if site.run.options.dry:
        return dry.result(step, agent, linked)
    if step.permit is not None:
        await ask_permission(site, arguments["input"])
    schema = linked.schemas[step.gives.text] if step.gives else None
    # The schema that a step names takes precedence over a schema that the definition contains.
    answer_schema = json_schema(schema, linked.schemas) if schema else step.asking.schema
    read_answer = reader_of(agent.name, schema, step.asking.schema, linked.schemas)
    grant = site.scope.grant.narrow(
        agent.tools, named_tools(step, linked, site.scope.grant), identity=step.name.text or None
    )
    registered = {} if step.asking.no_tools else linked.tools_of(step)
    tools = None
    place = choose_place(agent, site.scope.concurrent, site.run.host)
    contact = RunContact(site, place)
    # Offered only to a function with such a parameter: each tool needs a new function.
    if "tools" in agent.takes.parameters:
        listed = [*(agent.tools or ()), *(name.text for name in step.tools or ())]
        tools = tools_for(registered, grant, listed, contact)
    with _errors_at(step, site.frame):
        passed = agent.arguments(
            **arguments, schema=answer_schema, tools=tools, identity=grant.identity
        )
    value = await call(site, agent, "agent", passed, grant, contact=contact)
    with _errors_at(step):
        value = read_answer(value)
    if step.asking.calls:  # the calls that a function makes are not steps
        value = {"answer": value, "calls": None}
    # The arguments as they were built: user code may have changed its copy.
    return ShapeResult(value, built.get("input")) if step.exchange.keep_arguments else value


def _agent_arguments(site: CallSite[Invoke]) -> tuple[dict[str, Value], dict[str, Value]]:
    """The arguments of an agent as they were built, and the copy that it gets."""
    step = site.step
    built = step.args.build(site.frame, schema_of(step, site.scope.linked))
    if "input" not in built:
        return built, built
    # Only the input may be shared with a frame. The other arguments are new texts.
    return built, {**built, "input": copy_value(built["input"], step, "the agent")}


def _open_agent(site: CallSite[Invoke]) -> None:
    """Count an agent that is a function as a session of the run and as an open call."""
    if site.step.asking.counts_as_session:
        site.run.open_session(site.step.span)
    for meter in site.scope.meters:
        meter.open(site.scope.calls + 1)


def tools_for(
    tools: Mapping[str, Tool], grant: Grant, listed: Collection[str], contact: RunContact
) -> dict[str, Callable[..., Any]]:
    """The functions for the tools that an agent function may use, by name. Each checks its arguments
    as a step's call does. ``listed``: the names of the agent's tools; a built-in tool must be among
    them (decision A12). ``contact``: the contact of the agent's call."""

    def offer(tool: Tool) -> Callable[..., Any]:
        contact.may_have_effect |= has_effect(tool)

        def call_checked(**arguments: Value) -> Any:
            # Copied, because user code may keep and change both the value and the result.
            checked = tool.check(isolate(arguments))
            if has_effect(tool):
                contact.begin_effect(tool.name)
            return tool.function(**checked, **contexts_of(tool, contact))

        async def call_approved(**arguments: Value) -> Any:
            await approve_first(tool, arguments, context_of(contact))
            return await call_checked(**arguments)

        offered = call_approved if tool.asks_first else call_checked
        offered.__name__ = offered.__qualname__ = tool.name
        offered.__doc__ = tool.description
        return offered

    return {
        name: offer(tool)
        for name, tool in tools.items()
        if grant.allows(name) and (name in listed or not tool.listed_only)
    }


# --- functions of vendor policies ---


async def _call_policy(site: CallSite[Invoke], bound: BoundPolicy) -> Value:
    """Call a function of a vendor policy, which may call the agents of the definition."""
    policy = bound.policy
    arguments = build_arguments(site, bound.policy)
    if site.run.options.dry:
        return dry.result(site.step, None, site.scope.linked)
    waits_in_kernel = site.run.host.waited and not site.scope.concurrent
    contact = RunContact(site, "kernel" if waits_in_kernel else "thread")
    offered = {
        "config": isolate(dict(bound.config)),
        "input": arguments,
        "agents": {
            alias: _as_function(site, alias, callee, contact)
            for alias, callee in bound.agents.items()
        },
    }
    passed = {name: offered[name] for name in policy.takes}
    return await call(site, policy, "policy", passed, contact=contact)


def _as_function(
    site: CallSite[Invoke], alias: str, callee: Callee, contact: RunContact
) -> Callable[[Value], Value]:
    """The function by which a vendor policy calls an agent: with an input object, on the policy's
    thread or loop. ``contact``: the contact of the policy's call."""
    step = site.step
    scope = site.scope

    def call_agent(input: Value) -> Value:
        # A policy's function runs on a thread and expects an answer at once. A flow or a session
        # would need the loop.
        if not isinstance(callee, Agent):
            message = (
                f"{step.name.text!r} can only call agents that are functions; {alias!r} is "
                f"not a function"
            )
            hint = "the steps of a builder can call anything: @policy(…, builder=True)"
            raise StepError(Diagnostic("step.policy-agent", message, step.name.span, hint))
        _open_agent(site)
        grant = scope.grant.narrow(callee.tools, identity=callee.name)
        tools = None
        if "tools" in callee.takes.parameters:
            tools = tools_for(scope.linked.tools, grant, callee.tools or (), contact)
        arguments = callee.arguments(
            input=isolate(input), alone="input", tools=tools, identity=callee.name
        )
        return granting(grant, callee.function, arguments)

    return call_agent


# --- persons ---


async def _ask(site: CallSite[Invoke], person: Person) -> Value:
    """Ask a person the question of the step."""
    arguments = build_arguments(site, "the question")
    if site.run.options.dry:
        return dry.result(site.step, None, site.scope.linked)
    choices = tuple(map(str, arguments.get("choices", ())))
    question = Question(str(arguments.get("text", "")), choices, where=format_path(site.path))
    return await get_answer(site, question, site.gives_secret(None))


CALL: dict[type, Callable[..., Awaitable[Value]]] = {
    Tool: call_tool,
    Agent: _call_agent,
    Transform: _call_transform,
    BoundPolicy: _call_policy,
    Person: _ask,
    Candidates: _call_chosen,
    Linked: call_linked,
    ModelBinding: request,
    type(None): _call_none,
}
"""The function that calls each kind of callee."""
