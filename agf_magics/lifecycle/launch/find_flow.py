"""Finds the flow that a person means: a flow, a registered name, a file, or the text of a
definition."""

from __future__ import annotations

from pathlib import Path

from ...catalog import Registry
from ...flow.flow import Flow
from ...languages.ours import recognized_language
from ...text.diagnostics import DefinitionError, Diagnostic
from ...text.suggestions import suggest
from ..definitions.define import load


def find_flow(flow: Flow | str | Path, registry: Registry) -> Flow:
    """The flow itself, or the one with a registered name, of a file, or of a definition's text."""
    if isinstance(flow, Flow):
        return flow
    if isinstance(flow, str) and flow in registry.flows:
        return registry.flows[flow]
    if isinstance(flow, str) and not _is_definition(flow):
        hint = (
            suggest(flow, registry.flows, "registered flows")
            or "define one first: agf.define(…), or %%pipeline"
        )
        from ...workers.sending.losses import is_worker
        from ...workers.sending.unsendable import STAY

        if is_worker():
            hint = f"a worker has no flows of the kernel: {STAY}"
        if flow.endswith((".yaml", ".yml", ".json")):
            hint = f"give a file as a Path: Path({flow!r})"
        raise DefinitionError(
            Diagnostic("flow.unknown-flow", f"no flow {flow!r} is registered", hint=hint)
        )
    return load(flow, registry=registry)


def _is_definition(text: str) -> bool:
    """Whether a text that is not the name of a registered flow is a definition, not a misspelt
    name."""
    return "\n" in text or (
        ":" in text and (text.lstrip()[:1] in ("{", "[") or recognized_language(text) is not None)
    )
