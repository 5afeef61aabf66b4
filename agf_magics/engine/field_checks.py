"""Checks the fields that a flow reads of results and passes to calls against the schemas of its callees.

A schema may be incomplete, so an unknown field is only a warning (AGF-10).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..catalog import Agent, Tool
from ..flow.schema_fields import lacking
from ..flow.steps import Flow, Invoke, every
from ..text.diagnostics import Diagnostic, suggest


def unknown_reads(flow: Flow, callees: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """Fields that the results lack. ``callees``: by the id of the step."""
    for taken in flow.taken:
        callee = callees.get(taken.step)
        gives = getattr(getattr(callee, "flow", callee), "gives", None)
        if found := lacking(gives, [name for name, _ in taken.fields]):
            name, span = taken.fields[found[0]]
            message, hint = f"{taken.whose} has no field {name!r} there", suggest(name, found[1], "its fields")
            yield Diagnostic("flow.unknown-field-read", message, span, hint, "warning")


def unknown_gifts(flow: Flow, callees: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """Fields that the callees do not take."""
    for step in every(flow.body):
        if not isinstance(step, Invoke) or not step.wants or step.pick is not None:
            continue
        callee = callees.get(step.id)
        names = [name for name, _ in step.args.names or ()]
        if isinstance(callee, Agent) and callee.prompt_only and len(names) > 1 and "prompt" not in names:
            message = f"{step.name.text!r} takes only a prompt: it gets {', '.join(names)} as JSON text"
            fix = f"give the function the parameters {', '.join(names)}, or map prompt: PATH"
            yield Diagnostic("flow.unknown-field-given", message, step.name.span, fix, "warning")
        takes = getattr(getattr(callee, "flow", callee), "accepts", None)
        if takes is None or takes.get("additionalProperties", False) is not False:  # {} also means: anything
            continue
        if isinstance(callee, Tool):  # the linker refuses unknown arguments of tools
            continue
        for name, span in step.args.names or ():
            found = lacking(takes, [name])
            if found and name not in getattr(callee, "handed", ()):
                message, hint = f"{step.name.text!r} takes no {name!r}", suggest(name, found[1], "its fields")
                yield Diagnostic("flow.unknown-field-given", message, span, hint, "warning")
