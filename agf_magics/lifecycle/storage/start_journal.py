"""Opens the journal of a run before the first step."""

from __future__ import annotations

import secrets
from pathlib import Path

from ...engine.runner import clock
from ...engine.threads.rights import rights
from ...flow.progress.events import Warned
from ...flow.progress.usage import PRICE, Usage
from ...journal.database.errors import JournalError, not_journaled
from ...journal.database.store import ROOM, Store
from ...journal.run_journal import Journal
from ...settings.settings import current
from ..runs.state import RunState
from .manifest import write_manifest
from .old_runs import prune_once
from .saved_progress import snapshot_rows


def start_journal(state: RunState, path: Path) -> None:
    """Journal a run from before its first step on. A run that cannot be journaled has a warning
    and continues."""
    try:
        store = Store.at(path)
        prune_once(store)
        most = current.settings.journal_value
        # A random multiple of `ROOM`: the numbers of the rows follow it.
        journal = Journal(store, secrets.randbits(36) * ROOM, state.run_id, most)
        connect_journal(state, journal)
        journal.heading = (state.flow.name, state.flow.language)
        journal.manifest = write_manifest(state, journal, rights().grant)
    except JournalError as error:
        state.journal = None
        state.progress.apply(Warned(clock(), not_journaled(error)))


def connect_journal(state: RunState, journal: Journal) -> None:
    """Give a run its journal, which reads the state and the secrets of the run."""
    state.journal = journal
    journal.summary = lambda: snapshot_rows(state.progress, state.secrets)
    journal.used = lambda: (*_tokens_and_cost(state.progress.usage), state.progress.failed)
    journal.rows.secret = state.secrets
    journal.rows.identities.know(state.flow_input.input)
    state.find_secrets()


def _tokens_and_cost(usage: Usage) -> tuple[int | None, str | None]:
    """The tokens and the cost as the journal lists them."""
    cost = f"{usage.cost:f}" if usage.cost is not None else ""
    tokens = usage.tokens if usage.requests else None
    return tokens, cost if PRICE.fullmatch(cost) else None
