"""The static gate: checks a definition that an agent has just written completely, before anything
of it starts.

It reports what the linker finds, and applies two rules more: the definition contains its own
schemas, and all its steps run as its invoker. Every step is checked, also nested ones (decision
P11). Registered definitions that it calls are only linked. Tools need no check, because the run has
the grant of the invoker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..catalog import Agent, Policy, Tool, Transform
from ..flow.schemas import Schema
from ..flow.steps import Flow, Invoke, every
from ..text.diagnostics import Diagnostic, Diagnostics, suggest
from .linked import Built, Linked, every_callee

DELEGATES = frozenset({"delegate_to_agent"})
"""Tools that give work to agents outside the run. A registered flow may call them; a generated one
may not."""


def gate(flow: Flow, found: Diagnostics, invoker: str) -> Diagnostics:
    """Everything that prevents an inline run of ``flow``; ``found``: the findings of the linker."""
    findings = Diagnostics()
    findings.extend(found)
    for step in every(flow.body):
        if isinstance(step, Invoke):
            findings.extend(_check_schemas(step, flow, findings))
            findings.extend(_check_identity(step, invoker))
    return findings


def kernel_bound(linked: Linked) -> Iterator[Diagnostic]:
    """Functions that need the thread that waits for the run, which a background run does not
    have."""
    for callee, span in every_callee(linked):
        outer = callee.policy if isinstance(callee, Built) else callee
        if isinstance(outer, Tool | Agent | Transform | Policy) and outer.where == "kernel":
            message = (
                f"{outer.name!r} needs the caller's thread (where='kernel'), which a "
                f"background run lacks"
            )
            hint = (
                "run it in the foreground (agf.run, %run_pipeline), or register it without "
                "where='kernel'"
            )
            yield Diagnostic("run.kernel-tool", message, span, hint)


def _check_identity(step: Invoke, invoker: str) -> Iterator[Diagnostic]:
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


def _check_schemas(step: Invoke, flow: Flow, findings: Diagnostics) -> Iterator[Diagnostic]:
    if step.gives is None:
        return
    own, name = flow.schemas, step.gives.text
    if name in own:
        for ref in _missing_refs(own[name], own):
            message = f"{name!r} refers to schema {ref!r}, which this definition does not declare"
            yield Diagnostic("gate.schema", message, step.gives.span, _declare(ref, own))
    elif not any(d.code == "flow.unknown-schema" and d.span == step.gives.span for d in findings):
        message = f"this definition does not declare the schema {name!r}"
        yield Diagnostic("gate.schema", message, step.gives.span, _declare(name, own))


def _missing_refs(schema: Schema, own: Mapping[str, Schema]) -> list[str]:
    """The schemas that ``schema`` needs and ``own`` lacks."""
    missing = set[str]()
    seen, queue = {schema.name}, [*schema.fields.values()]
    while queue:
        field = queue.pop()
        queue += [*field.fields.values(), *([field.of] if field.of is not None else [])]
        if field.kind == "ref" and field.schema not in own:
            missing.add(field.schema)
        elif field.kind == "ref" and field.schema not in seen:
            seen.add(field.schema)
            queue += own[field.schema].fields.values()
    return sorted(missing)


def _declare(name: str, own: Mapping[str, Schema]) -> str:
    near = suggest(name, own)
    bring = f"an inline definition contains its schemas: add a document with schema: {name}"
    return f"{near} {bring}" if near else bring
