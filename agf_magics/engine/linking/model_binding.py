"""Binds a step to the model that answers it, and to the tools that the model may call."""

from __future__ import annotations

from dataclasses import replace

from ...catalog import Agent, Model, ModelAgent, Registry, Tool
from ...flow.flow import Flow
from ...flow.protocols import Name
from ...flow.steps import Invoke
from ...text.diagnostics import Diagnostic, Diagnostics
from .linked import ModelBinding
from .server_tools import expand


def model_binding(step: Invoke, registry: Registry, problems: Diagnostics) -> ModelBinding:
    """The model that answers ``step``: the configured model, or else the model that the step names
    (decision B2)."""
    model_object = step.asking.config.get("model_object")
    configured = registry.model
    named = model_object if isinstance(model_object, Model) else registry.named(step.name.text)
    model = configured if configured is not None and model_object is None else named
    span = step.place
    if problem := model.problem():
        problems.add(replace(problem, span=span))
    if model is not named and step.name.text and model.name != named.name:
        message = f"the configured model {model.name} answers instead of {step.name.text!r}"
        problems.add(Diagnostic("model.configured", message, span, severity="note"))
    if step.tools is None:
        return ModelBinding(model, registry.offered)
    names = [pair for name in step.tools for pair in registered_names(step, name, registry)]
    callees = {alias: find_registered(name.text, registry) for alias, name in names}
    # An unknown tool is reported at the step that calls it.
    return ModelBinding(model, {alias: c for alias, c in callees.items() if c is not None})


def find_registered(name: str, registry: Registry) -> Tool | Agent | ModelAgent | Flow | None:
    """The thing that a model calls by ``name``: a tool, else an agent, else a flow; None: there is
    none."""
    shelves = (registry.tools, registry.agents, registry.flows)
    return next((shelf[name] for shelf in shelves if name in shelf), None)


def registered_names(step: Invoke, name: Name, registry: Registry) -> list[tuple[str, Name]]:
    """The aliases that ``name`` stands for, with their registered names (decision B5). There are
    several if it means all tools of an MCP server."""
    # A registered alias means the registered thing, which a definition must not hide.
    if find_registered(name.text, registry) is not None:
        return [(name.text, name)]
    registered = step.lookup.registered.get(name.text, "")
    expanded = expand(name.text, registered, registry)
    return [(alias, Name(text, name.span)) for alias, text in expanded]
