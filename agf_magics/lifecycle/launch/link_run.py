"""Prepares a run from a flow and its input, and reports everything that is wrong before the first
step."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from ...catalog import Context, default
from ...engine.linking.background_checks import kernel_bound
from ...engine.linking.gate import gate
from ...engine.linking.linked import Linked
from ...engine.recording import replaying
from ...engine.run_options import RunOptions
from ...engine.threads.rights import rights
from ...flow.flow import Flow
from ...flow.protocols import FlowInput
from ...text.diagnostics import Diagnostic, Diagnostics
from ...values.value import Value
from ..definitions.checking import for_input
from ..definitions.linking import link_flow as link_with_files
from ..input.fields import (
    fields_of,
    missing_fields,
    missing_of_callees,
    settle_input,
    unused_fields,
)
from ..input.plan_context import plan_context
from ..input.workers import find_workers
from ..runs.run import Run
from ..runs.state import RunState

OF_DRY_RUNS = ("flow.no-agent", "model.none", "model.no-key", "model.not-installed")
"""Problems that a dry run does not have: it asks no agent and no model."""

OF_REPLAYS = ("model.no-key", "model.not-installed")
"""Problems that a replayed run does not have: only a request meets them."""


def link_run(
    flow: Flow, input: Value, options: RunOptions, copies: bool, context: Context | None = None
) -> Run:
    """A run of ``flow`` that is not started and has no journal.

    ``copies``: whether a plan gets a copy of its named context. ``context``: the context that it
    gets; default None: that of its name. Raises DefinitionError with all problems.
    """
    registry = default(options.registry)
    options = _with_recording(options)
    linked, of_links = link_with_files(flow, registry)
    is_given = context is not None
    context = context or plan_context(flow, registry, copies)
    flow_input = FlowInput(settle_input(input, flow), context=context)
    problems = _problems(linked, of_links, flow_input, options)
    problems.refuse()
    workers, about_workers = find_workers(options, linked)
    warnings = _new_warnings(flow, flow_input, problems, options)
    if context is not None and not copies and not is_given:
        registry.contexts.add(context)
    state = RunState(linked, flow_input, options, warnings, workers=workers)
    if options.recording is not None:
        state.find_secrets()
    for warning in about_workers:
        state.progress.apply(warning)
    return Run(state)


def _with_recording(options: RunOptions) -> RunOptions:
    """``options`` with the recording that the run replays: the recording in the options, or else
    the recording of the `replay` block around the start."""
    recording = options.recording or replaying.get()
    if recording is None:
        return options
    return replace(options, recording=recording, notes=recording.notes)


def _problems(
    linked: Linked, of_links: Diagnostics, flow_input: FlowInput, options: RunOptions
) -> Diagnostics:
    """Everything that is wrong with this run of the flow. ``of_links``: what the linker says."""
    flow = linked.flow
    problems = Diagnostics()
    problems.extend(gate(flow, of_links, rights().grant.identity) if options.inline else of_links)
    if options.background:
        problems.extend(kernel_bound(linked))
    fields = fields_of(flow_input.input)
    problems.extend(missing_fields(flow, fields))
    problems.extend(missing_of_callees(linked, fields))
    return problems.without(*_absent_problems(options))


def _absent_problems(options: RunOptions) -> Collection[str]:
    """The codes of problems that a run with these options does not have."""
    if options.dry:
        return OF_DRY_RUNS
    return OF_REPLAYS if options.recording is not None else ()


def _new_warnings(
    flow: Flow, flow_input: FlowInput, problems: Iterable[Diagnostic], options: RunOptions
) -> Iterator[Diagnostic]:
    """The warnings of the run that the person has not already seen."""
    fields = fields_of(flow_input.input)
    warnings = (
        *for_input(flow.warnings, fields),
        *options.input_warnings,
        *unused_fields(flow, fields),
        *problems,
    )
    # A cell that runs a flow leaves its notes, such as the model that answers, to the page of the
    # run.
    shown = (problem for problem in options.shown_warnings if problem.severity == "warning")
    seen = {(warning.code, warning.span) for warning in shown}
    return (warning for warning in warnings if (warning.code, warning.span) not in seen)
