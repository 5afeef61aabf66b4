"""What the explorer shows on request only: the steps that an edit made stale, and the state of the
run at each moment.

Their script is not part of the explorer's: the page asks for it when a person opens one of them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ..catalog import default
from ..lifecycle.moments import Moments, find_moments
from ..lifecycle.stale import NeedsUnpickling, find_stale
from ..pictures.difference import MISSING, shorten_pair
from ..pictures.plain import duration, line, plain
from ..pictures.run_page import MOST_STORES
from ..pictures.value_json import value_json
from .explorer_calls import AnyRun, Refused, journal_of, natural
from .explorer_session import Json

SLOW = 1.0
"""Seconds: after a comparison that took longer, only the button compares."""

MOST_MARKS = 2_000
"""Steps that are marked."""

MOST_NEW = 50
"""New and removed steps that are named."""

SCRIPT = Path(__file__).parent / "browser" / "later.js"


@cache
def later_script() -> str:
    """The script of these views."""
    text = SCRIPT.read_text(encoding="utf-8")
    lines = map(str.strip, text.splitlines())
    return "\n".join(one for one in lines if one and not one.startswith("//"))


def _later(run: AnyRun, given: Mapping[str, Any]) -> Json:
    """`later_script`, for the page."""
    return {"code": later_script()}


_took: dict[str, float] = {}
"""Seconds of the last comparison of a run, by its id: of the last runs."""


def _stale(run: AnyRun, given: Mapping[str, Any]) -> Json:
    """The rows of the run that a new run with ``--reuse`` would run again. ``auto``: a person did
    not ask for it, so it unpickles nothing and is skipped if the last comparison was slow."""
    journal_of(run)
    is_auto = given.get("auto") is True
    if is_auto and _took.get(run.run_id, 0.0) > SLOW:
        return {"skipped": "the last comparison was slow"}
    started = time.monotonic()
    try:
        found = find_stale(run, None, default(), unpickles=not is_auto)
    except NeedsUnpickling:
        return {"skipped": "it reads results that are not JSON, as --reuse does"}
    _took[run.run_id] = time.monotonic() - started
    for old in list(_took)[:-20]:
        _took.pop(old, None)
    marks = [
        [number, row["state"], line(row["why"], 200), row["calls"], row["reused"], row["change"]]
        for number, one in enumerate(run.progress.rows.values())
        if (row := found.rows_of_run.get(one.id)) is not None
        and (row["state"] not in ("", "reused") or row["change"])
    ]
    new = [row for row in found if row["change"] == "new" and row["state"]]
    return {
        "edited": found.is_edited,
        "summary": plain(found.summary, 600),
        "marks": marks[:MOST_MARKS],
        "new": [line(f"{row['kind']} {row['label']}", 100) for row in new[:MOST_NEW]],
    }


class _Recent:
    """The moments of the last requested run. They hold its values, so only those of one run are in
    memory."""

    run_id = ""
    found: Moments | None = None


def _moments(run: AnyRun, given: Mapping[str, Any]) -> Json:
    """How many moments there are now."""
    journal_of(run)
    _Recent.found = None
    _Recent.run_id, _Recent.found = run.run_id, (found := find_moments(run))
    return {"total": len(found), "note": plain(found.note, 400)}


def _found_moments(run: AnyRun) -> Moments:
    """The moments at the last count: a running run has more by now."""
    found = _Recent.found
    if found is None or _Recent.run_id != run.run_id:
        _moments(run, {})
        found = _Recent.found
    assert found is not None, "they were just found"
    return found


def _moment(run: AnyRun, given: Mapping[str, Any]) -> Json:
    """The state at the moment ``at``, and how it differs from that at the moment ``since``."""
    journal_of(run)
    found = _found_moments(run)
    at, since = natural(given.get("at")), natural(given.get("since"))
    if max(at, since) >= len(found):
        raise Refused(f"the run has no moment {max(at, since) + 1}")
    state = found.state(at)
    parts, is_more = found.differences(since, at)
    changed = {part.path.split(".")[0].split("[")[0] for part in parts}
    names = sorted(state, key=lambda name: name not in changed)
    return {
        "label": line(found[at].label, 200),
        "took": duration(found[at].seconds),
        "values": [
            [line(name, 60), value_json(state[name]), name in changed]
            for name in names[:MOST_STORES]
        ],
        "more": max(0, len(names) - MOST_STORES),
        "differs": [describe_difference(part.path, part.first, part.other) for part in parts],
        "isMore": is_more,
    }


def describe_difference(path: str, first: Any, other: Any) -> list[str]:
    """A part that differs, as a row of a table."""
    one, two = shorten_pair(
        None if first is MISSING else first, None if other is MISSING else other
    )
    return [line(path, 120), "" if first is MISSING else one, "" if other is MISSING else two]


LATER_REQUESTS = {"later": _later, "stale": _stale, "moments": _moments, "moment": _moment}
