"""Finds the input of a past run, and the flow that is now registered under its name, to run it
again.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...catalog import Registry
from ...flow.flow import Flow
from ...languages.over import OVER
from ...text.diagnostics import refused
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
