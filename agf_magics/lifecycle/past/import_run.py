"""Opens the file of a shared run as a past run, in a temporary journal and not in the project's."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from pathlib import Path

from ...journal.database.errors import JournalError
from ...journal.database.store import Store
from ...journal.records.records import UNREADABLE
from ...journal.runs import read_run
from ...journal.shared_runs import paste
from ...pictures.plain import line
from ...text.diagnostics import DefinitionError, refused
from ...text.files import read_file
from ...text.source import path_error_reason
from .past_run import PastRun

MOST_IMPORTED = 500_000_000
"""Bytes of a file that is imported, because the whole file is read into memory."""


def import_run(path: str | Path) -> PastRun:
    """Open a run that ``%runs RUN --export FILE`` or `PastRun.export` wrote, perhaps on another
    computer: its steps, values, picture, calls and costs, as those of a past run.

    The run is not in the journal of this project: it cannot be resumed, and no run reuses its
    results. Values that are not JSON are only shown.

    ``path``: the file. Required.

    Raises DefinitionError ``run.import`` if the file is not an exported run.
    """
    path = Path(path)
    try:
        if path.stat().st_size > MOST_IMPORTED:
            raise ValueError(f"it has more than {MOST_IMPORTED:,} bytes")
        whole = json.loads(read_file(path))
        if not isinstance(whole, dict) or not isinstance(whole.get("journal"), dict):
            raise ValueError("it has no key 'journal'")
        folder = Path(tempfile.mkdtemp(prefix="agf-import-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        store = Store.at(folder / "runs.sqlite")
        row = read_run(store, paste(store, whole["journal"]))
        assert row is not None, "it was written"
        past = PastRun(store, row, path.name)
        # These read the whole run, so that a damaged file is refused here and not in a view.
        _ = past.order, past.error, past.progress
        return past
    except (OSError, *UNREADABLE, JournalError, DefinitionError) as error:
        why = path_error_reason(error) if isinstance(error, OSError) else _first_line(error)
        message = f"{path.name!r} cannot be opened as a run: {why}"
        hint = "write it with %runs RUN --export FILE (in Python: agf.runs(ID).export(FILE))"
        raise refused("run.import", message, hint) from None


def _first_line(error: Exception) -> str:
    if isinstance(error, DefinitionError):
        return error.diagnostics[0].message
    if isinstance(error, json.JSONDecodeError):
        return f"it is not JSON: {error}"
    if isinstance(error, KeyError):
        return f"it has no key {error.args[0]!r} in 'journal'"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return line(str(error), 200) or type(error).__name__
