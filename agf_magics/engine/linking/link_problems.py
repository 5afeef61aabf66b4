"""The problems that the linker reports about the name of a callee.

Nothing has the name, or the thing that has it cannot be called here, or its calls have no end. A hint
names the most similar of the right names.
"""

from __future__ import annotations

from collections.abc import Collection

from ...catalog import Registry
from ...flow.flow import Flow
from ...flow.protocols import Name
from ...flow.steps import Invoke
from ...limits.grants import OFFERED
from ...text.diagnostics import Diagnostic
from ...text.suggestions import join_hints, suggest


def unknown_tool(step: Invoke, registry: Registry) -> Diagnostic:
    """No tool has the name of the step, and no flow that the step may call instead."""
    name = step.name.text
    flows, tools = registry.flows, registry.tools
    message = f"no tool {name!r} is registered"
    if name in flows:
        hint: str | None = f"{name!r} is a {flows[name].language}: call: {{pipeline: {name}}}"
    elif (gone := tools.gone(name)) is not None:
        message = f"{message}: {gone.why}"
        hint = gone.hint
    else:
        callable_names = [*tools, *(() if step.lookup.only_tools else flows)]
        hint = join_hints(suggest(name, callable_names), suggest("", tools, "registered tools"))
    return Diagnostic("flow.unknown-tool", message, step.name.span, hint)


def unknown_capability(tool: Name, names: Collection[str]) -> Diagnostic:
    """The tool of an agent is none of ``names``."""
    message = f"no tool {tool.text!r} is registered"
    hint = suggest(tool.text, names, "registered tools")
    return Diagnostic("flow.unknown-capability", message, tool.span, hint)


def unknown_agent(step: Invoke, registry: Registry) -> Diagnostic:
    name = step.name.text
    hint = suggest(name, registry.agents, "registered agents")
    message = f"no agent {name!r} is registered"
    return Diagnostic("flow.unknown-agent", message, step.name.span, hint)


def no_agent(step: Invoke) -> Diagnostic:
    """Nobody answers a step without an identity."""
    message = "no agent is registered to answer this step"
    hint = (
        "@agent def answer(prompt: str) -> str: ... defines one; %config "
        "AgfMagics.model lets a model answer"
    )
    return Diagnostic("flow.no-agent", message, step.span, hint)


def unknown_flow(step: Invoke, registry: Registry) -> Diagnostic:
    name = step.name.text
    near = suggest(name, registry.flows, "registered flows")
    hint = join_hints(near, "define it before you run")
    return Diagnostic("flow.unknown-flow", f"no flow {name!r} is registered", step.name.span, hint)


def launches_a_pipeline(step: Invoke) -> Diagnostic:
    """The name of the step is that of a launch."""
    name = step.name.text
    called = name.removeprefix(OFFERED)
    hint = "nest with a call step"
    if called != name:
        hint += f": call: {{pipeline: {called}}}"
    message = f"a step cannot launch a pipeline: {name!r}"
    return Diagnostic("flow.launch", message, step.name.span, hint)


def needs_model(step: Invoke, answers: str, registry: Registry) -> Diagnostic:
    """A step needs a model and does not get one. ``answers``: the beginning of the message, which
    tells who answers it."""
    if step.asking.overrides_agent:
        key = "model"
        span = step.asking.span
    else:
        key = "attach"
        span = step.asking.attach[0]
    hint = (
        f"remove {key}, or name an agent of agf.model_agent; without an identity the model "
        f"answers itself"
    )
    if not step.asking.model and registry.model is None:
        hint = (
            f"remove {key}; %config AgfMagics.model, or an agent of agf.model_agent, lets a "
            f"model answer"
        )
    return Diagnostic("flow.agent-model", f"{answers} and has no model", span, hint)


def ignores_model(step: Invoke, agent: str) -> Diagnostic:
    """The step names a model, and a function answers it."""
    message = f"{step.asking.model!r} is not asked: the function {agent!r} answers"
    hint = "register no default agent, or name a model with agf.model_agent and identity"
    return Diagnostic("flow.model-ignored", message, step.asking.span, hint, "warning")


def registered_instead(step: Invoke) -> Diagnostic:
    """A registered agent or flow is used instead of what a file defines. A note: a document of the
    seed names a file for each agent, and this is how a notebook runs it (decision D181)."""
    assert step.lookup.file is not None
    message = f"the registered {step.name.text!r} is used, not {step.lookup.file.text!r}"
    place = step.lookup.file.span
    return Diagnostic("flow.registered-instead", message, place, severity="note")


def policy_failed(step: Invoke, policy: str, why: str) -> Diagnostic:
    """The builder of a policy did not return a step."""
    message = f"policy {policy!r} could not be built: {why}"
    hint = "a builder takes config and returns a Step"
    return Diagnostic("flow.policy-failed", message, step.name.span, hint)


def calls_itself(step: Invoke, subject: str, key: str, around: tuple[str, ...]) -> Diagnostic:
    """The step calls a flow or an agent that is open around it. ``subject``: the words for it. ``key``:
    its key among ``around``, the keys of the open flows."""
    chain = " → ".join((*around[around.index(key) :], key))
    return Diagnostic("flow.call-cycle", f"{subject} calls itself: {chain}", step.name.span)


def too_deep(step: Invoke, flow: Flow, most: int) -> Diagnostic:
    message = f"{flow.name!r} would be open inside more than {most} other flows"
    return Diagnostic("flow.too-large", message, step.name.span, "call it from an outer flow")


def too_large(flow: Flow, steps: int, most: int) -> Diagnostic:
    message = (
        f"{flow.name!r} has {steps:,} steps with all that it calls; at most {most:,} are allowed"
    )
    hint = "a for_each or a fold repeats a step without a copy"
    return Diagnostic("flow.too-large", message, flow.origin.span, hint)
