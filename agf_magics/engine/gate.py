"""The static gate of a definition that nobody registered: what an agent has just written is checked in full before
anything of it is started.

It is linking's own list of findings and two rules more: the definition brings its schemas with it, and it names nobody
but its invoker. Every step is looked at, nested ones too (decision P11). What it calls was registered by a person, who
chose those identities, and is looked at by linking alone. That it can never have more tools than its invoker is not
checked: it runs under its invoker's grant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..catalog import Agent, Policy, Tool, Transform
from ..flow.schemas import Field, Schema
from ..flow.steps import Flow, Invoke, every
from ..text.diagnostics import Diagnostic, Diagnostics, suggest
from .linked import Built, Choice, Linked

DELEGATES = frozenset({"delegate_to_agent"})
"""Hand work to somebody outside the run. Who registers a flow may mean a tool of that name; a generated one may not."""


def gate(flow: Flow, found: Diagnostics, invoker: str) -> Diagnostics:
    """Everything that keeps ``flow`` from being run inline; ``found`` is what linking says of it."""
    told = Diagnostics()
    told.extend(found)
    for step in every(flow.body):
        if isinstance(step, Invoke):
            told.extend(_schemas(step, flow, told))
            told.extend(_who(step, invoker))
    return told


def kernel_bound(linked: Linked) -> Iterator[Diagnostic]:
    """What cannot run in the background, where no thread waits for the run: functions that belong on that thread."""
    seen, queue = {id(linked)}, [linked]
    while queue:
        flow = queue.pop()
        steps = {step.id: step for step in every(flow.flow.body) if isinstance(step, Invoke)}
        for step_id, callee in flow.callees.items():
            for one in callee.callees.values() if isinstance(callee, Choice) else (callee,):
                outer = one.policy if isinstance(one, Built) else one
                if isinstance(outer, Linked) and id(outer) not in seen:
                    seen.add(id(outer))
                    queue.append(outer)
                elif isinstance(outer, Tool | Agent | Transform | Policy) and outer.where == "kernel":
                    message = f"{outer.name!r} runs on the thread that waits for a run: in the background none does"
                    hint = "run it here (agf.run, %run_pipeline), or register it without where='kernel'"
                    yield Diagnostic("run.kernel-tool", message, steps[step_id].name.span, hint)


def _who(step: Invoke, invoker: str) -> Iterator[Diagnostic]:
    name = step.name
    if step.kind == "tool" and name.text in DELEGATES:
        message = f"an inline definition cannot delegate: {name.text!r}"
        yield Diagnostic("gate.delegate", message, name.span, "nest with a call step")
    if step.kind == "agent" and name.text not in ("", invoker):
        message = f"an inline definition runs as {invoker!r}, who launches it, and not as {name.text!r}"
        yield Diagnostic("gate.identity", message, name.span, "leave identity out, or register the pipeline")


def _schemas(step: Invoke, flow: Flow, told: Diagnostics) -> Iterator[Diagnostic]:
    if step.gives is None:
        return
    own = flow.schemas
    if step.gives.text in own:
        for ref in _refs(own[step.gives.text], own):
            message = f"{step.gives.text!r} refers to schema {ref!r}, which this definition does not declare"
            yield Diagnostic("gate.schema", message, step.gives.span, _declare(ref, own))
    elif not any(d.code == "flow.unknown-schema" and d.span == step.gives.span for d in told):
        message = f"this definition does not declare the schema {step.gives.text!r}"
        yield Diagnostic("gate.schema", message, step.gives.span, _declare(step.gives.text, own))


def _refs(schema: Schema, own: Mapping[str, Schema]) -> list[str]:
    """The schemas that ``schema`` needs and that are not among ``own``."""
    missing: dict[str, None] = {}
    seen, queue = {schema.name}, [*schema.fields.values()]
    while queue:
        wanted = queue.pop()
        queue += [*wanted.fields.values(), *_of(wanted)]
        if wanted.kind == "ref" and wanted.schema not in own:
            missing[wanted.schema] = None
        elif wanted.kind == "ref" and wanted.schema not in seen:
            seen.add(wanted.schema)
            queue += own[wanted.schema].fields.values()
    return sorted(missing)


def _of(wanted: Field) -> list[Field]:
    return [wanted.of] if wanted.of is not None else []


def _declare(name: str, own: Mapping[str, Schema]) -> str:
    near = suggest(name, own)
    bring = f"an inline definition brings its schemas with it: a document with schema: {name}"
    return f"{near} {bring}" if near else bring
