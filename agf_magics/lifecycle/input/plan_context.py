"""Chooses the context of a plan's run: the named context itself, a copy of it, or an empty
context."""

from __future__ import annotations

from ...catalog import Context, Registry
from ...flow.flow import Flow


def plan_context(flow: Flow, registry: Registry, copies: bool) -> Context | None:
    """The context of a plan's run: the named context that the plan continues, or with ``copies`` a
    copy of it. Without a named context it is empty, so that a cell that runs twice gives the
    same."""
    name = flow.dialect.context
    if name is None:
        return None
    if not name:
        return Context(flow.name)
    context = registry.contexts.named(name)
    return Context(name, context.log) if copies else context
