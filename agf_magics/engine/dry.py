"""A dry run's answers: what a tool or an agent would give, made from its schemas instead of by calling it."""

from __future__ import annotations

from ..flow.schemas import json_schema, sample
from ..flow.steps import Invoke
from ..flow.values import Value
from ..registry import Agent, Tool
from .link import Linked


def result(step: Invoke, callee: Tool | Agent | None, linked: Linked) -> Value:
    """A value of the step's own schema, else of the function's return annotation, else null (a text for an agent).

    ``callee``: None where nobody is registered yet to answer an agent step.
    """
    if step.gives is not None:
        return sample(json_schema(linked.schemas[step.gives.text], linked.schemas, all_required=True))
    if isinstance(callee, Tool) and callee.gives is not None:
        return sample(callee.gives)
    if isinstance(callee, Tool):
        return None
    return f"(a reply of {callee.name})" if callee is not None else "(a reply)"
