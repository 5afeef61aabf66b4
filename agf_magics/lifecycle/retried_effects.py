"""Lets a run that retries rows of a table know what an earlier run did for them.

The calls with an effect of a row that failed are not made a second time (decision D300): their
results are reused, and a person is asked where that cannot be certain.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from functools import partial

from ..journal.calls.earlier_effects import EarlierEffects, Effect
from ..journal.codec.identities import Identities
from ..journal.database.errors import as_definition_errors
from ..journal.database.store import Store
from ..journal.records.records import CallKey, Record
from ..journal.runs import RunRow, records
from ..languages.over import BODY, OVER, OverTerms
from .run_internals import definition_of
from .runs.run import Run
from .storage.lookup import find_run
from .storage.manifest import read_manifest
from .storage.stored_results import unpickle, without_foreign_outcomes
from .table_runs.table import terms_of

Row = tuple[int, int]
"""The number of a row, as a person knows it, and the number of its repetition."""


def know_effects(run: Run) -> None:
    """Let ``run`` know the calls with an effect of the rows that it retries, if it retries rows.
    Raises DefinitionError if the run in which they failed cannot be read."""
    journal = run.journal
    if journal is None or definition_of(run)[0] != OVER:
        return
    terms = terms_of(run)
    if terms.retried is None:
        return
    with as_definition_errors():
        row = find_run(journal.store, terms.retried)
    identities = Identities()
    identities.know(run.input)
    read = partial(
        unpickle,
        run_id=row.head.run_id,
        trust=False,
        files=journal.store.files,
        identities=identities,
    )
    journal.effects = EarlierEffects(
        _effects_by_row(journal.store, row, terms), lambda call: _row_of(call.key, terms), read
    )
    if journal.is_resumed:
        for record in _last_records(records(journal.store, journal.num, is_shown=False)):
            journal.effects.forget(record)


def _effects_by_row(store: Store, run: RunRow, retried: OverTerms) -> dict[Row, list[Effect]]:
    """The calls with an effect that a run made for the rows that are ``retried``, in order, without
    calls that failed."""
    terms = OverTerms(**json.loads(read_manifest(run).flows[0].source.text))
    chosen = {retried.number_of(row * retried.repeat) for row in range(retried.total)}
    effects = defaultdict[Row, list[Effect]](list)
    written = records(store, run.head.num, is_shown=False)
    for record in _last_records(without_foreign_outcomes(written, run.head.run_id)):
        row = _row_of(record.key, terms)
        if record.what == "failed" or row is None or row[0] not in chosen:
            continue
        # A result that is not stored cannot be used, and the call must not be made again.
        is_stored = record.what == "finished" and record.result.form != "again"
        record = record if is_stored else record._replace(what="begun")
        effects[row].append(Effect(record, record.name))
    return effects


def _last_records(written: Iterator[Record]) -> list[Record]:
    """The last record of each call with an effect, in the order of their starts."""
    last = dict[CallKey, Record]()
    for record in written:
        if record.what == "begun" or (record.what in ("finished", "failed") and record.key in last):
            last[record.key] = record
    return list(last.values())


def _element(key: CallKey) -> int | None:
    """The element of the table in which a call is; None: it is in none."""
    path = key.at
    if len(path) > 2 and path[0] == BODY and isinstance(path[1], int):
        return path[1]
    return None


def _row_of(key: CallKey, terms: OverTerms) -> Row | None:
    element = _element(key)
    return None if element is None else (terms.number_of(element), element % terms.repeat)
