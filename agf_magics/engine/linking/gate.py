"""The static gate: checks a definition that an agent has just written completely, before anything
of it starts.

It reports what the linker finds, and applies two rules more: the definition contains its own
schemas, and all its steps run as its invoker. Every step is checked, also nested ones (decision
P11). Registered definitions that it calls are only linked. Tools need no check, because the run has
the grant of the invoker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...catalog import Tool
from ...flow.steps import WIDTH, Branches, Each, Flow, Invoke, calls, every
from ...schemas.schema import Schema, resolve
from ...text.diagnostics import Diagnostic, Diagnostics
from ...text.suggestions import suggest
from .linked import BoundPolicy, Linked
from .sessions import sessions


def unlimited(flow: Flow, callees: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """Branches that ask many agents at the same time. A for_each, a batch, a map and a session have
    a limit of their own."""
    for step in every(flow.body):
        if not isinstance(step, Branches):
            continue
        asking = sum(sessions(branch, callees) > 0 for branch in step.branches.values())
        if asking > WIDTH:
            message = f"{asking} branches ask agents at the same time, and nothing limits them"
            hint = (
                "a service may refuse so many requests at once: a for_each over the prompts asks "
                f"{WIDTH} at a time, or max_parallel"
            )
            yield Diagnostic("flow.unlimited", message, step.span, hint, "warning")


def repeated_effects(flow: Flow, callees: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """Retries of calls with an effect, which the author of the tool has not allowed."""
    for step in every(flow.body):
        if not isinstance(step, Branches | Each) or not step.failing.retries:
            continue
        parts = step.branches.values() if isinstance(step, Branches) else (step.body,)
        for call in (inner for one in parts for inner in calls(one)):
            tool = callees.get(call.id)
            if not isinstance(tool, Tool) or tool.reuse or (tool.throttle and tool.throttle.retry):
                continue
            message = f"retry repeats {tool.name!r}, which has an effect (reuse=False)"
            hint = "@tool(retry=agf.Retry(…)) says that it may be repeated; else on_error: continue"
            yield Diagnostic("flow.repeated-effect", message, call.name.span, hint, "warning")


WRAPPERS = frozenset({"args", "arguments", "kwargs"})
"""Keys below which other programs write the arguments of a call."""


DELEGATES = frozenset({"delegate_to_agent"})
"""Tools that give work to agents outside the run. A registered flow may call them; a generated one
may not."""


def gate(flow: Flow, findings_of_linker: Diagnostics, invoker: str) -> Diagnostics:
    """Everything that prevents an inline run of ``flow``. ``findings_of_linker``: what the
    linker says of it."""
    findings = Diagnostics()
    findings.extend(findings_of_linker)
    for step in calls(flow.body):
        findings.extend(_check_schemas(step, flow, findings))
        findings.extend(_check_identity(step, invoker))
    return findings


def kernel_bound(linked: Linked) -> Iterator[Diagnostic]:
    """Functions that need the thread that waits for the run, which a background run does not
    have."""
    for callee, span in linked.every_callee:
        outer: Any = callee.policy if isinstance(callee, BoundPolicy) else callee
        if getattr(outer, "where", None) == "kernel":
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
    declared, name = flow.declared.schemas, step.gives.text
    if name in declared:
        _, missing = resolve([name], declared)
        for ref in sorted({field.schema for field in missing}):
            message = f"{name!r} refers to schema {ref!r}, which this definition does not declare"
            yield Diagnostic("gate.schema", message, step.gives.span, _declare(ref, declared))
    elif not any(d.code == "flow.unknown-schema" and d.span == step.gives.span for d in findings):
        message = f"this definition does not declare the schema {name!r}"
        yield Diagnostic("gate.schema", message, step.gives.span, _declare(name, declared))


def _declare(name: str, declared: Mapping[str, Schema]) -> str:
    near = suggest(name, declared)
    bring = f"an inline definition contains its schemas: add a document with schema: {name}"
    return f"{near} {bring}" if near else bring
