"""The journal of this process: where its file is, and that every run writes to it."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from ..engine.linked import Linked
from ..engine.runner import clock
from ..host.rights import rights
from ..journal.errors import JournalError, not_journaled
from ..journal.recorder import Journal
from ..journal.store import ROOM, Store
from ..progress.events import Warned
from ..progress.rows import PRICE, Usage
from ..serialization.codec import key_file
from ..settings import current, user_file
from .manifest import write_manifest
from .retention import forget_old
from .run import Run
from .secret_flow import find_secret_sources, reachable_flows
from .snapshot import snapshot_rows

PROJECT = ("pyproject.toml", ".git", ".agf")
"""Files and folders that mark a project's folder."""


def journal_file() -> Path | None:
    """The file that the settings name, relative to the project that contains the current folder;
    None: no journal."""
    name = current.settings.journal
    if not name:
        return None
    path = Path(name).expanduser()
    # The user chose an absolute path, links included; a link in the project's folder may come with
    # the project.
    return path.parent.resolve() / path.name if path.is_absolute() else _project() / path


def _project() -> Path:
    """The nearest folder above that has a mark of a project, else the current folder."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        for mark in PROJECT:
            if (folder / mark).exists():
                return folder
    return here


def own_files() -> tuple[Path, ...]:
    """The files that only this package may touch: the journal, the user's key and settings."""
    path, user = journal_file(), [user_file()]
    with contextlib.suppress(RuntimeError):  # there is no home folder
        user.append(key_file())
    runs = (
        [path.with_name(path.name + end) for end in ("", "-wal", "-shm", "-journal")]
        if path is not None
        else []
    )
    return (
        *runs,
        *(one.with_name("owners") for one in runs[:1]),
        *(one.parent for one in user if one is not None),
    )


def this_notebook() -> str:
    """The path of the notebook of this kernel, as its server gives it; empty elsewhere."""
    return os.environ.get("JPY_SESSION_NAME", "")


def start_journal(run: Run) -> None:
    """Journal ``run`` from before its first step on, if it can be.

    Not a dry run, which calls nothing, and not a run that a tool starts: it is part of the tool's
    call and is repeated with it. A run that cannot be journaled has a warning and continues.
    """
    mine = rights()
    if run.dry or mine.inside:
        return
    store = _open_store(run)
    if store is None:
        return
    run.journal = Journal(
        store, secrets.randbits(36) * ROOM, run.run_id, current.settings.journal_value
    )
    run.work = write_manifest(run, watch(run), mine.grant, this_notebook())


def watch(run: Run) -> list[Linked]:
    """Connect the journal of a run with the run's state and secrets. Returns the flows that it may
    run."""
    assert run.journal is not None
    flows = reachable_flows(run._linked)
    names, steps = find_secret_sources(flows)
    run.journal.summary = lambda: snapshot_rows(run.progress, run.secrets)
    run.journal.used = lambda: _used(run.progress.usage)
    run.journal.secret = run.secrets
    run.secrets.names = names
    run.secrets.steps = frozenset((id(flows[number].flow), step) for number, step in steps)
    for name in names & set(run.input if isinstance(run.input, dict) else ()):
        run.secrets.learn(run.input[name])
    return flows


def _used(usage: Usage) -> tuple[int | None, str | None]:
    """The tokens and the cost as the journal lists them."""
    cost = f"{usage.cost:f}" if usage.cost is not None else None
    return usage.tokens if usage.requests else None, cost if cost is None or PRICE.fullmatch(
        cost
    ) else None


def _open_store(run: Run) -> Store | None:
    """The journal of this process; if it cannot be opened, the first run has a warning."""
    path = journal_file()
    if path is None:
        return None
    try:
        store = Store.at(path)
        if store.path not in _pruned:
            _pruned.add(store.path)
            forget_old(
                store,
                current.settings.journal_days,
                current.settings.journal_size,
                interrupted=False,
            )
    except JournalError as error:
        if (str(path), error.code) not in _reported:
            _reported.add((str(path), error.code))
            run.progress.apply(Warned(clock(), not_journaled(error)))
        return None
    return store


_pruned: set[Path] = set()
"""Journals whose old runs were deleted: once in a process."""

_reported: set[tuple[str, str]] = set()
"""Journal errors that a run already had as a warning."""
