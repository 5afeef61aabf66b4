"""Lists the calls of a run, of this process or of the journal, and the calls of a step's
elements."""

from __future__ import annotations

from itertools import pairwise

from ...flow.flow import Flow
from ...flow.graph_steps import Walk
from ...flow.progress.rows import Row
from ...flow.steps import Each, Fold, Repeat, path_to
from ...journal.database.errors import as_definition_errors
from ...journal.run_calls import CallsOfElement, RunCalls
from ..run_internals import place_in_journal
from ..runs.run import Run
from .past_run import PastRun


def calls_of(run: Run | PastRun) -> RunCalls | None:
    """The calls of a run, which raise DefinitionError if the journal cannot be read; None if it is
    not journaled."""
    place = place_in_journal(run)
    return RunCalls(*place, as_definition_errors) if place is not None else None


def elements_of(calls: RunCalls, row: Row, flow: Flow, text: str = "") -> list[CallsOfElement]:
    """The elements of a fan-out, the iterations of a loop, or the sessions of a model (one outside
    of all loops); none for other steps. ``flow``: the flow that has the step. ``text``: only their
    calls with this text."""
    depth = element_depth(row, flow)
    return [] if depth is None else calls.elements(row, depth, text)


def element_depth(row: Row, flow: Flow) -> int | None:
    """How many numbers an element of a step has in its flow; None for a step without elements.
    ``flow``: the flow that has the step."""
    if not isinstance(row.step, Each | Fold | Repeat):
        return None
    loops = sum(
        isinstance(outer, Fold | Repeat | Walk) or (isinstance(outer, Each) and inner is outer.body)
        for outer, inner in pairwise(path_to(flow.body, row.step.id))
    )
    has_numbers = not (isinstance(row.step, Repeat) and row.step.session)
    return loops + has_numbers
