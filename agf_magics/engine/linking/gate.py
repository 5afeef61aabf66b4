"""The gate for definitions that an agent writes: finds everything that prevents an inline run.

The gate reports the problems of the linker and adds two rules: the definition contains its own
schemas, and all its steps run as its invoker. Every step is checked, nested steps included
(decision P11). Registered definitions that it calls are only linked. Tools need no check, because
the run has the grant of the invoker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...flow.flow import Flow
from ...flow.steps import Invoke, calls
from ...schemas.schema import Schema, resolve
from ...text.diagnostics import Diagnostic, Diagnostics
from ...text.suggestions import suggest

DELEGATES = frozenset({"delegate_to_agent"})
"""Tools that give work to agents outside of the run. A registered flow may call them, but a
generated flow may not."""


def gate(flow: Flow, problems_of_linker: Diagnostics, invoker: str) -> Diagnostics:
    """Everything that prevents an inline run of ``flow``. ``problems_of_linker``: the problems that
    the linker found."""
    problems = Diagnostics()
    problems.extend(problems_of_linker)
    for step in calls(flow.body):
        problems.extend(_check_schemas(step, flow, problems))
        problems.extend(_check_identity(step, invoker))
    return problems


def _check_identity(step: Invoke, invoker: str) -> Iterator[Diagnostic]:
    """The error for a step that runs as another agent than the invoker."""
    name = step.name
    if step.kind == "tool" and name.text in DELEGATES:
        message = f"an inline definition cannot delegate: {name.text!r}"
        yield Diagnostic("gate.delegate", message, name.span, "nest with a call step")
    if step.kind == "agent" and name.text not in ("", invoker):
        message = (
            f"an inline definition runs as {invoker!r}, its invoker, and cannot run as "
            f"{name.text!r}"
        )
        yield Diagnostic(
            "gate.identity", message, name.span, "remove the identity, or register the pipeline"
        )


def _check_schemas(step: Invoke, flow: Flow, problems: Diagnostics) -> Iterator[Diagnostic]:
    """The errors for schemas of a step that the definition does not contain."""
    if step.gives is None:
        return
    declared = flow.declared.schemas
    name = step.gives.text
    if name in declared:
        _, missing = resolve([name], declared)
        for ref in sorted({field.schema for field in missing}):
            message = f"{name!r} refers to schema {ref!r}, which this definition does not declare"
            yield Diagnostic("gate.schema", message, step.gives.span, _declare(ref, declared))
    elif not any(d.code == "flow.unknown-schema" and d.span == step.gives.span for d in problems):
        message = f"this definition does not declare the schema {name!r}"
        yield Diagnostic("gate.schema", message, step.gives.span, _declare(name, declared))


def _declare(name: str, declared: Mapping[str, Schema]) -> str:
    near = suggest(name, declared)
    bring = f"an inline definition contains its schemas: add a document with schema: {name}"
    return f"{near} {bring}" if near else bring
