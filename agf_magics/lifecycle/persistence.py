"""Where runs are kept, and that a run which begins is."""

from __future__ import annotations

import contextlib
import secrets
from pathlib import Path

from ..engine.runner import clock
from ..host.rights import rights
from ..journal.errors import JournalError
from ..journal.recorder import Journal, lost
from ..journal.store import ROOM, Store
from ..progress.events import Warned
from ..serialization.codec import key_file
from ..settings import current, user_file
from .manifest import write_manifest
from .retention import prune
from .run import Run
from .secret_flow import hidden_by, reached, secret_paths
from .snapshot import summary

PROJECT = ("pyproject.toml", ".git", ".agf")
"""What the folder of a project has."""


def journal_file() -> Path | None:
    """The file that the settings name, relative to the project that the notebook's folder is in; None: nowhere."""
    name = current.settings.journal
    if not name:
        return None
    path = Path(name).expanduser()
    # A link in a path that the person wrote out is the person's; one in the project's folder may be anybody's.
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
    """What this package has on the disk, for itself alone: the journal, the user's key and settings."""
    path, user = journal_file(), [user_file()]
    with contextlib.suppress(RuntimeError):  # there is no home
        user.append(key_file())
    runs = [path.with_name(path.name + end) for end in ("", "-wal", "-shm", "-journal")] if path is not None else []
    return (*runs, *(one.with_name("owners") for one in runs[:1]), *(one.parent for one in user if one is not None))


def keep(run: Run) -> None:
    """Let ``run`` be kept, from before its first step on.

    Not a dry run, which calls nothing; nor one that a tool starts: that is part of its tool's call, and is made again
    with it. Where nothing can be kept the run says so and goes on.
    """
    mine = rights()
    if run.dry or mine.inside:
        return
    store = opened(run)
    if store is None:
        return
    settings, linked = current.settings, run.linked
    run.journal = Journal(store, secrets.randbits(36) * ROOM, run.run_id, settings.journal_value)
    watch(run)
    context, extension = run.context, run.flow.extension
    said = ("", None) if context is None else (context.name, list(context.log or ()))
    if context is not None and context.log is not None and extension is not None:
        paths = secret_paths(linked)
        if paths or run.secrets.active:
            said = (context.name, list(extension.without_secrets(context.log, paths, run.secrets.holds_any)))
    run.work = write_manifest(
        linked, run.input, said, run.limits, mine.grant, run.run_id, settings.journal_value, run.secrets
    )


def watch(run: Run) -> None:
    """Tell the journal of a run what it must know besides the calls."""
    assert run.journal is not None
    names, steps = hidden_by(run.linked)
    flows = reached(run.linked)
    run.journal.summary = lambda: summary(run.progress, run.secrets)
    run.journal.tokens = lambda: run.progress.usage.tokens if run.progress.usage.requests else None
    run.journal.secret = run.secrets
    run.secrets.names = names
    run.secrets.steps = frozenset((id(flows[number].flow), step) for number, step in steps)
    for name in names & set(run.input if isinstance(run.input, dict) else ()):
        run.secrets.learn(run.input[name])


def opened(run: Run) -> Store | None:
    """The journal of this kernel; where it cannot be had, the first run that would need it says why."""
    path = journal_file()
    if path is None:
        return None
    try:
        store = Store.at(path)
        if store.path not in _pruned:
            _pruned.add(store.path)
            prune(store, current.settings.journal_days, current.settings.journal_size, cut=False)
    except JournalError as trouble:
        if (str(path), trouble.code) not in _told:
            _told.add((str(path), trouble.code))
            run.progress.apply(Warned(clock(), lost(trouble)))
        return None
    return store


_pruned: set[Path] = set()
"""Files that were looked through for runs to forget: once a process."""

_told: set[tuple[str, str]] = set()
"""Which troubles were told: not once a run."""
