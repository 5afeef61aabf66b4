"""Calls of another flow: under its own limits and a narrower grant, with its steps below the path
of the call.

The shape `Invoke`, for each kind of callee: how its arguments are built and its reply is read.
The call itself is made in call.py; models (requests.py) and flows (subflows.py) have modules of
their own.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from ..catalog import Agent, Tool, Transform
from ..catalog.notebook_files import MAX_FILES, MAX_TOTAL, Attachment, read_attachment, refused
from ..flow import events as ev
from ..flow.events import Question
from ..flow.schemas import json_schema
from ..flow.step import FlowInput, FlowResult, Name
from ..flow.steps import Flow, Invoke, stores_in
from ..flow.values import Value, isolate
from ..text.diagnostics import Diagnostic, Span, StepError, suggest
from . import call as dry
from .call import AsInput, build_arguments, call, call_tool, check_result, copy_value, run_fired
from .failures import RunContact, answer, contexts_of, permitted, with_place
from .host import where, within
from .job import start_background
from .limits import Grant, granting
from .linked import (
    BoundPolicy,
    Callee,
    Candidates,
    Linked,
    ModelBinding,
    Person,
    named_tools,
    reader_of,
    schema_of,
)
from .requests import request
from .runner import CallSite, Scope, ShapeResult, clock, meters_of, within_caps
from .table_rows import call_row


async def _call_linked(site: CallSite[Invoke], linked: Linked) -> Value:
    if site.step.exchange.row is not None:
        return await call_row(site, linked, call_flow)
    return await call_flow(site, linked)


async def call_flow(site: CallSite[Invoke], linked: Linked) -> Value:
    run, step, scope = site.run, site.step, site.scope
    pipe = step.exchange.pipe.evaluate(site.frame) if step.exchange.pipe is not None else None
    arguments = step.args.build(
        site.frame, linked.flow.declared.accepts if step.exchange.wants else None
    )
    # An identity that is a flow counts like any other agent; a session of a model counts itself.
    if step.kind == "agent" and linked.agent is None:
        if step.asking.spawns:
            run.budget.spawn(step.span)
        arguments = arguments.get("input", arguments)
    if step.asking.attach:
        arguments = {**arguments, "attach": []} if run.dry else await attach_files(site, arguments)
    for meter in scope.meters:
        meter.open(scope.calls + 1)
    if step.permit is not None:
        reply = await permitted(site, arguments)
        if reply.result is not None:
            return reply.result[0]
        if reply.arguments:  # of a call with named ones
            arguments = {**arguments, **reply.arguments}
    inner, flow_input = _scope_inside(site, linked), FlowInput(arguments, pipe)
    if not step.awaited and not run.dry:
        start_background(run_fired(site, lambda: _run_silently(site, inner, flow_input)), run.host)
        return None
    if step.exchange.while_waiting is not None:
        # Only now, so that `Runner.reach` costs nothing for all other flows.
        run.watched[inner.before] = {}
    try:
        ended = await _within_limits(step, linked.flow, run.run_flow(inner, flow_input))
    except ev.Unanswered:
        _show_waiting(site, inner)
        raise
    for note in ended.notes:
        run.emit(ev.Warned(clock(), note))
    value = ended.output
    if run.dry:
        value = dry.add_fields(value, step, scope.linked)
    if step.gives is not None:
        check_result(value, step, scope.linked)
    if not step.exchange.keeps:
        return value
    return ShapeResult(value, arguments if linked.agent is None else arguments.get("input"))


def _show_waiting(site: CallSite[Invoke], inner: Scope) -> None:
    """Show stores of a flow that waits for an answer in the stores of the waiting run."""
    show, frame = site.step.exchange.while_waiting, site.run.watched.get(inner.before)
    if show is None or not frame:
        return
    site.run.reach(site.scope, show(site.frame, stores_in(inner.linked.flow, frame)))


def _scope_inside(site: CallSite[Invoke], linked: Linked) -> Scope:
    """The scope of the steps of the called flow."""
    step, scope = site.step, site.scope
    named = named_tools(step, scope.linked, scope.grant)
    grant = scope.grant.narrow(named, linked.uses, asked=linked.asked)
    # The agent's identity narrows the grant further (decision A12).
    if linked.agent is not None:
        grant = grant.narrow(linked.agent.tools, identity=step.name.text or None)
    return scope._replace(
        linked=linked,
        before=site.at,
        grant=grant,
        calls=scope.calls + 1,
        meters=(*scope.meters, *meters_of(linked.flow, scope.calls + 1)),
        # The thread that waits for the run may be gone before a flow ends that is not awaited.
        concurrent=scope.concurrent or not step.awaited,
    )


async def _within_limits(step: Invoke, flow: Flow, work: Awaitable[FlowResult]) -> FlowResult:
    """``work``, within the timeout of the step and the time that the called definition allows
    itself."""

    def late() -> StepError:
        message = f"{step.name.text or step.word!r} took longer than {step.timeout:g} s"
        span = step.place
        return StepError(Diagnostic("step.timeout", message, span, "the step sets this timeout"))

    return await within(step.timeout, within_caps(flow, work), late)


async def _run_silently(site: CallSite[Invoke], scope: Scope, flow_input: FlowInput) -> None:
    """A flow that is not awaited. Its steps are neither emitted nor journaled, because the run may
    end before them. The tokens of its models are those of the call."""
    # The same host, budget and secrets, but no listener, no journal and no rows: the run may have
    # ended, and its page is stored.
    silent = copy.copy(site.run)

    def emit_tokens(event: ev.Event) -> None:
        if type(event) is ev.TokensUsed:
            site.run.emit(event._replace(at=site.at))

    silent.emit, silent.journal, silent.stream = emit_tokens, None, False
    await _within_limits(site.step, scope.linked.flow, silent.run_flow(scope, flow_input))


# --- images and documents for an agent's session ---

READ = "file__read"
"""The tool that an agent must be allowed to use to attach a file."""


async def attach_files(site: CallSite[Invoke], arguments: Mapping[str, Value]) -> dict[str, Value]:
    """The arguments of a session with descriptions of the attachments; their bytes are in
    ``run.models.files``, so that the journal stores no bytes.

    Raises StepError ``agent.attach``, ``tool.file-path``, ``step.not-allowed`` at the expression.
    """
    each = [
        (part, span)
        for value, span in zip(arguments["attach"], site.step.asking.attach, strict=True)
        for part in (value if type(value) is list else [value])
    ]
    attachments, total = list[Attachment](), 0
    # Bounded while they are read: the files of a folder may be larger than the memory.
    for value, span in each:
        if len(attachments) == MAX_FILES:
            raise _placed(
                refused(f"more than {MAX_FILES} attachments", "divide them among several steps"),
                span,
            )
        if type(value) is str and not site.scope.grant.allows(READ):
            message, hint = (
                f"{site.scope.grant.identity!r} may not attach a file",
                f"allow the tool {READ}",
            )
            raise StepError(Diagnostic("step.not-allowed", message, span, hint))
        # On a thread: a file may be large, or on a slow disk.
        ok, read = await site.run.host.call("thread", read_attachment, {"value": value})
        if not ok:
            raise _placed(read, span) if isinstance(read, StepError) else read
        total += len(read.data)
        if total > MAX_TOTAL:
            hint = (
                f"they have at most {MAX_TOTAL:,} bytes: make them smaller, or divide them "
                f"among several steps"
            )
            raise _placed(refused("the attachments are too large together", hint), span)
        attachments.append(read)
    described = [attachment.describe() for attachment in attachments]
    for attachment, about in zip(attachments, described, strict=True):
        site.run.models.files[about["sha256"]] = attachment.data
    return {**arguments, "attach": described}


def _placed(error: StepError, span: Span) -> StepError:
    return StepError(replace(error.diagnostic, span=span))


async def invoke(site: CallSite[Invoke]) -> Value:
    """Call what the linker found for the name of the step."""
    callee = site.scope.linked.callees.get(site.step.id)
    # By the exact class: the linker makes these, and no user makes a subclass.
    return await CALL[type(callee)](site, callee)


async def _call_chosen(site: CallSite[Invoke], candidates: Candidates) -> Value:
    step = site.step
    assert step.pick is not None, "only such a step has a choice"
    name = step.pick.by.evaluate(site.frame)
    callee = candidates.callees.get(name) if isinstance(name, str) else None
    if callee is None:
        hint = (
            suggest(str(name), candidates.callees, "the names to choose from")
            or "there is nothing to choose from"
        )
        raise StepError(
            Diagnostic(
                "step.not-among", f"there is no {step.kind} {name!r} here", step.name.span, hint
            )
        )
    # Messages about the call name the chosen callee.
    chosen = replace(step, name=Name(name, step.name.span))
    if isinstance(callee, Agent):
        # The session that chooses counts itself; its calls of agents are its tools.
        asking = step.asking._replace(spawns=False)
        chosen = replace(chosen, kind="agent", args=AsInput(step.args), asking=asking)
    return await CALL[type(callee)](site.with_step(chosen), callee)


async def _call_none(site: CallSite[Invoke], callee: None) -> Value:
    assert site.run.dry, "only a dry run needs no agent"
    site.run.budget.spawn(site.step.span)
    return dry.result(site.step, callee, site.scope.linked)


async def _call_transform(site: CallSite[Invoke], transform: Transform) -> Value:
    given = build_arguments(site, transform)
    if site.run.dry:
        return dry.result(site.step, None, site.scope.linked)
    return await call(site, of_one(transform), "transform", {"given": given})


@lru_cache(maxsize=256)
def of_one(transform: Transform) -> Transform:
    """The transform with a parameter named ``given``. Cached, because the journal computes one
    digest per object."""
    return replace(transform, function=lambda given: transform.function(given))


# --- agents that are functions ---


async def _call_agent(site: CallSite[Invoke], agent: Agent) -> Value:
    run, step, linked = site.run, site.step, site.scope.linked
    _open_agent(site)
    built = step.args.build(site.frame, schema_of(step, linked))
    arguments = built
    # Only the input may be shared with a frame: all others are texts that `build` has just made.
    if "input" in built:
        arguments = {**built, "input": copy_value(built["input"], step, "the agent")}
    if run.dry:
        return dry.result(step, agent, linked)
    if step.permit is not None:
        await permitted(site, arguments)
    schema = linked.schemas[step.gives.text] if step.gives else None
    # The schema that a step names wins over one that the definition writes out.
    wanted = json_schema(schema, linked.schemas) if schema else step.asking.schema
    conforming = reader_of(agent.name, schema, step.asking.schema, linked.schemas)
    grant = site.scope.grant.narrow(
        agent.tools, named_tools(step, linked, site.scope.grant), identity=step.name.text or None
    )
    registered = {} if step.asking.no_tools else linked.tools_of(step)
    tools, contact = None, RunContact(site, where(agent, site.scope.concurrent, run.host))
    # Only for a function that takes them: to offer them makes a function for each.
    if "tools" in agent.takes.parameters:
        listed = [*(agent.tools or ()), *(name.text for name in step.tools or ())]
        tools = tools_for(registered, grant, listed, contact)
    try:
        passed = agent.arguments(**arguments, schema=wanted, tools=tools, identity=grant.identity)
    except StepError as error:
        placed = with_place(error, step, site.frame)
        # it may be the same error, whose cause is that of user code
        raise placed from placed.__cause__
    try:
        value = await call(site, agent, "agent", passed, grant)
    finally:
        contact.close()
    try:
        value = conforming(value)
    except StepError as error:
        placed = with_place(error, step)
        raise placed from placed.__cause__
    if step.asking.calls:  # the calls of a function are its own
        value = {"answer": value, "calls": None}
    # What was built, because user code may have changed its copy.
    return ShapeResult(value, built.get("input")) if step.exchange.keeps else value


def _open_agent(site: CallSite[Invoke]) -> None:
    """Count an agent that is a function, as a session of the run and as an open call."""
    if site.step.asking.spawns:
        site.run.budget.spawn(site.step.span)
    for meter in site.scope.meters:
        meter.open(site.scope.calls + 1)


def tools_for(
    tools: Mapping[str, Tool], grant: Grant, listed: Collection[str], contact: RunContact
) -> dict[str, Callable[..., Any]]:
    """The tools that an agent function may use; each checks its arguments as the call of a step
    does. ``listed``: the names without which it gets no built-in tool (decision A12); ``contact``:
    that of the agent."""

    def offer(tool: Tool) -> Callable[..., Any]:
        def call(**arguments: Value) -> Any:
            # A copy: user code gave it, and user code gets it.
            given = tool.check(isolate(arguments))
            return tool.function(**given, **contexts_of(tool, contact))

        call.__name__ = call.__qualname__ = tool.name
        call.__doc__ = tool.description
        return call

    return {
        name: offer(tool)
        for name, tool in tools.items()
        if grant.allows(name) and (name in listed or not tool.listed_only)
    }


# --- functions of vendor policies ---


async def _call_policy(site: CallSite[Invoke], bound: BoundPolicy) -> Value:
    """A function of a vendor policy; it may call the agents of the definition."""
    policy, arguments = bound.policy, build_arguments(site, bound.policy)
    if site.run.dry:
        return dry.result(site.step, None, site.scope.linked)
    offered = {
        "config": isolate(dict(bound.config)),
        "input": arguments,
        "agents": {
            alias: _as_function(site, alias, callee) for alias, callee in bound.agents.items()
        },
    }
    return await call(site, policy, "policy", {name: offered[name] for name in policy.takes})


def _as_function(site: CallSite[Invoke], alias: str, callee: Callee) -> Callable[[Value], Value]:
    """An agent as a vendor policy calls it: with an input object, on the thread or loop of the
    policy."""
    step, scope, host = site.step, site.scope, site.run.host
    contact = RunContact(site, "kernel" if host.waited and not scope.concurrent else "thread")

    def call(input: Value) -> Value:
        # A policy's function runs on a thread and gets an answer at once; a flow or a session needs
        # the loop.
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

    return call


# --- persons ---


async def _ask(site: CallSite[Invoke], person: Person) -> Value:
    arguments = build_arguments(site, "the question")
    if site.run.dry:
        return dry.result(site.step, None, site.scope.linked)
    choices = tuple(map(str, arguments.get("choices", ())))
    question = Question(str(arguments.get("text", "")), choices, where=ev.format_path(site.at))
    return await answer(site, question, site.is_secret)


CALL: dict[type, Callable[..., Awaitable[Value]]] = {
    Tool: call_tool,
    Agent: _call_agent,
    Transform: _call_transform,
    BoundPolicy: _call_policy,
    Person: _ask,
    Candidates: _call_chosen,
    Linked: _call_linked,
    ModelBinding: request,
    type(None): _call_none,
}
