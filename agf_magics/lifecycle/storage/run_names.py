"""Finds the run that a name means, in magics, Python and the command line (decision RUN1).

A name is either the whole id of a run, or the name of a flow, which means its last run, or a
beginning that only one id has. The name of a flow never counts as the beginning of an id: ``clean``
is not a run of ``clean_all``, and a flow that has not run yet has no run, whatever ids begin with
its name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from ...catalog import default
from ...journal.database.store import Store
from ...journal.runs import list_runs
from ...languages.over import name_over_rows
from ...text.diagnostics import DefinitionError, Diagnostic
from ...text.names import same_name
from ...text.suggestions import suggest
from ...values.value import type_name
from ..runs.live import live, started_at
from ..runs.run import BaseRun

MOST_SHOWN = 5
"""Ids that an error lists."""


class NamedRun(NamedTuple):
    """The names with which a word is compared."""

    run_id: str
    name: str
    """The name of its flow."""
    status: str
    started: float
    """Seconds since 1970."""
    is_journaled: bool = True
    """False for a run of this process that the journal will never have, such as a dry run."""


def named_runs(store: Store | None) -> list[NamedRun]:
    """The runs of this process and those of the journal ``store``, the latest first. Raises
    JournalError."""
    heads = list_runs(store) if store is not None else []
    runs = {
        head.run_id: NamedRun(head.run_id, head.name, head.status, head.started) for head in heads
    }
    for run in live:  # a run that has just begun has no row yet
        is_journaled = run.journal is not None
        named = NamedRun(run.run_id, run.name, run.status, started_at(run), is_journaled)
        runs.setdefault(run.run_id, named)
    return sorted(runs.values(), key=lambda run: run.started, reverse=True)


def journaled_names(store: Store) -> list[NamedRun]:
    """The runs that the journal ``store`` has or will have, the latest first. Raises
    JournalError."""
    return [run for run in named_runs(store) if run.is_journaled]


def runs_of(name: str, runs: Iterable[NamedRun]) -> list[NamedRun]:
    """The runs of the flow of that name; if it has none, those over the rows of a table."""
    listed = [(same_name(run.name), run) for run in runs if run.name]
    normal_name = same_name(name)
    exactly = [run for flow, run in listed if flow == normal_name]
    return exactly or [run for flow, run in listed if flow == name_over_rows(normal_name)]


def word_of(run: object) -> str:
    """The word that names a run: a text as it is, of a run its id. Raises DefinitionError."""
    if isinstance(run, BaseRun):
        return run.run_id
    if isinstance(run, str):
        return run
    message = f"a run is named by a text, not by {type_name(run)}"
    hint = "write its id or the name of its flow"
    raise DefinitionError(Diagnostic("journal.unknown-run", message, hint=hint))


def identify(
    word: str,
    runs: Sequence[NamedRun],
    *,
    where: str = " in the journal",
    code: str = "journal.unknown-run",
    empty: str = "the journal is empty",
    flows: Collection[str] | None = None,
) -> str:
    """The id of the run that ``word`` names, among ``runs``, the latest first.

    ``flows``: the names of flows that are no beginning of an id; default None: those that are
    registered. ``where``, ``code``, ``empty``: parts of the error, namely the place, the code, and
    the hint if there is no run. Raises DefinitionError.
    """
    normal_name = same_name(word)
    run_ids = [run.run_id for run in runs]
    if word in run_ids or normal_name in run_ids:
        return word if word in run_ids else normal_name
    of_flow = runs_of(word, runs)
    if of_flow:
        return of_flow[0].run_id
    is_flow = normal_name in map(same_name, default().flows if flows is None else flows)
    near = (
        []
        if is_flow or not word
        else [run_id for run_id in run_ids if run_id.startswith(normal_name)]
    )
    if len(near) == 1:
        return near[0]
    if near:
        message = f"{len(near):,} runs have ids that begin with {word!r}"
        hint = f"write more of it: {', '.join(near[:MOST_SHOWN])}"
    elif is_flow:
        message = f"there is no run {word!r}{where}"
        hint = f"this flow has no run{where}: {_to_run(word)} runs it"
    else:
        message = f"there is no run {word!r}{where}"
        names = dict.fromkeys(run.name for run in runs if run.name)
        hint = suggest(word, run_ids, "runs") or empty
        # `suggest` names no near id: perhaps the name of a flow is misspelt.
        if hint.startswith("runs are") and (meant := suggest(word, names)):
            hint = f"{meant} {hint}"
    raise DefinitionError(Diagnostic(code, message, hint=hint))


def _to_run(name: str) -> str:
    quoted = name if name.replace("_", "").replace("-", "").isalnum() else repr(name)
    return f"%run_pipeline {quoted}"
