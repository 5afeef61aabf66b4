"""Finds the input of a past run, its flow of now, and the messages before it, to run it again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ...catalog import Context, Registry
from ...flow.flow import Flow
from ...languages.over import OVER
from ...text.diagnostics import Diagnostic, refused
from ...values.value import Value, type_name
from ..run_internals import input_of, linked_flow
from ..runs.run import Run
from ..storage.given_again import check_given
from .past_run import PastRun


def input_again(run: Run | PastRun, more: Mapping[str, Value] | None) -> Value:
    """The input of a run for another run of its flow, with the fields of ``more`` instead. It is read
    as the run had it, from a pickle that this user has signed, never as its preview.

    Raises DefinitionError if a part is neither known nor given, or if the input has no fields to
    replace.
    """
    fields = dict(more or {})
    if isinstance(run, PastRun):
        check_given(run.order, fields, run.run_id)
        if run.order.unkept:
            return fields  # the journal has none of it: this is the whole input, as for a resume
    input = input_of(run)
    if isinstance(input, dict):
        return {**input, **fields}
    if fields:
        names = ", ".join(map(repr, fields))
        message = f"the input of run {run.run_id!r} is {type_name(input)}: it has no field {names}"
        raise refused("journal.other-input", message, "leave it out, or start another run")
    return input


class ContextBefore(NamedTuple):
    """The context of a run that is made again, with its messages from before that run."""

    context: Context
    warnings: tuple[Diagnostic, ...]
    """A warning if the run writes to a copy."""
    later: Any
    """The messages that the context had until now."""

    def undo(self) -> None:
        """Give the context its messages back: the run is not made."""
        self.context.log = self.later


def context_before(name: str, log: Any, registry: Registry, run_id: str) -> ContextBefore:
    """The named context with its messages ``log`` from before the run ``run_id``: the kernel's own,
    or a copy if another run has added to that one since."""
    registered = registry.contexts.named(name)
    changed = registered.log is not None and registered.last != run_id
    context = Context(name) if changed else registered
    later, context.log = context.log, log
    message = f"context {name!r} has changed since; this run writes to a copy"
    warning = Diagnostic("journal.context", message, severity="warning")
    return ContextBefore(context, (warning,) if changed else (), later)


def find_registered(earlier: Run | PastRun, registry: Registry) -> Flow:
    """The flow that is registered now under the name of an earlier run's. Nobody registers the
    definition of a run over a table: it is that of the run, and calls the registered flow. Raises
    DefinitionError."""
    name = earlier.name
    if name in registry.flows:
        return registry.flows[name]
    flow = linked_flow(earlier).flow
    if flow.language == OVER:
        return flow
    hint = "define it again: run the cell of its definition"
    raise refused("flow.unknown-flow", f"no flow {name!r} is registered", hint)
