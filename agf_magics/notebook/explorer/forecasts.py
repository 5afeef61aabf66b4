"""What the explorer computes on request only: which steps an edit made stale, and the state at each
moment.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ...catalog import default
from ...lifecycle.forecasts.before_step import again_before
from ...lifecycle.forecasts.moments import Difference, Moments, find_moments
from ...lifecycle.forecasts.stale import find_stale, shows_edit
from ...lifecycle.forecasts.unread_results import NeedsUnpickling
from ...pictures.amounts import duration
from ...pictures.difference import MISSING, shorten_pair
from ...pictures.pages.run_page import MOST_STORES
from ...pictures.pages.wire import DifferenceRow, StaleRow, StoreRow
from ...pictures.plain import line, plain
from ...pictures.row_words import shown_name
from ...pictures.values import value_brief, value_json
from .arguments import calls_or_refuse, natural
from .edited_cells import refuse_edited
from .request_types import AnyRun, Json, Refused

SLOW = 1.0
"""Seconds of a comparison; after a slower one a run is compared again only if a person asks for it."""

MOST_MARKS = 2_000
"""The most steps that are marked."""

MOST_NEW = 50
"""The most new steps that are named."""

MOST_NAMED = 3
"""The most steps before a step that are named beside the button that runs from it on."""

MAY_RUN = "Something was edited since this run, so it may also run steps before this one again."
"""What is said of the steps before a step if only an edit is known."""

_took: dict[str, float] = {}
"""Seconds of the last comparison of a run, by its id."""


def answer_stale(run: AnyRun, arguments: Mapping[str, Any]) -> Json:
    """The rows of the run that a new run with ``--reuse`` would run again. ``auto``: no person asked, so
    nothing is unpickled, and the comparison is skipped if the last one was slow. ``step``: instead, what
    a run from this step on makes again before it. ``cells``: see `refuse_edited`."""
    calls_or_refuse(run)
    refuse_edited(run, arguments.get("cells"), default())
    if "step" in arguments:
        return {"before": _words_before(run, str(arguments["step"]))}
    is_auto = arguments.get("auto") is True
    if is_auto and _took.get(run.run_id, 0.0) > SLOW:
        return {"skipped": "the last comparison was slow"}
    started = time.monotonic()
    try:
        stale = find_stale(run, None, default(), unpickles=not is_auto)
    except NeedsUnpickling:
        why = "results that are not JSON are read only for a person who asks"
        return {"skipped": why, "edited": shows_edit(run, default())}
    _took[run.run_id] = time.monotonic() - started
    marks = [
        StaleRow(
            number=number,
            state="retry" if row["is_retry"] else row["state"],
            why=line(_sentence(row), 400),
            change=row["change"],
        )
        for number, shown_row in enumerate(run.progress.rows.values())
        if (row := stale.rows_of_run.get(shown_row.id)) is not None
        and (row["state"] not in ("", "reused") or row["change"])
    ]
    new = [row for row in stale if row["change"] == "new" and row["state"]]
    return {
        "edited": stale.is_edited,
        "summary": plain(stale.summary, 600),
        "marks": marks[:MOST_MARKS],
        "new": [line(f"{row['kind']} {row['name']}", 100) for row in new[:MOST_NEW]],
    }


def _words_before(run: AnyRun, step: str) -> str:
    """``Before this step it also runs advice again: its function cannot be compared.``; empty: nothing.
    If it takes too long or needs objects to be read, only an edit is known."""
    if _took.get(run.run_id, 0.0) > SLOW:
        return MAY_RUN if shows_edit(run, default()) else ""
    try:
        again = again_before(run, step, default(), unpickles=False)
    except NeedsUnpickling:
        return MAY_RUN if shows_edit(run, default()) else ""
    if not again:
        return ""
    rows = {row.id: row for row in run.progress.rows.values()}
    names = [shown_name(rows[id]) for id in again]
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    why = next(iter(again.values()))
    words = f"Before this step it also runs {', '.join(names[:MOST_NAMED])}{more} again: {why}."
    return line(words, 400)


def _sentence(row: Mapping[str, Any]) -> str:
    """What a new run does with a step, and why: ``The code of its function was edited. A new run with
    --reuse makes 12 of its 15 calls again.``"""
    calls, reused = row["calls"], row["reused"]
    which = "its call" if calls + reused == 1 else f"{calls:,} of its {calls + reused:,} calls"
    does = {
        "again": f"A new run with --reuse makes {which} again." if calls + reused else "",
        "depends": "A new run with --reuse makes its calls again unless that has the same result.",
        "unknown": "So it is not known whether a new run makes its calls again.",
    }.get(row["state"], "")
    why = row["why"][:1].upper() + row["why"][1:]
    return f"{why}. {does}".strip()


class _LastMoments:
    """The moments of the last requested run. Moments hold the values of a run, so only one run's moments
    are in memory."""

    run_id = ""
    moments: Moments | None = None


def answer_moments(run: AnyRun, arguments: Mapping[str, Any]) -> Json:
    """How many moments the run has now."""
    moments = _moments_of(run, again=True)
    return {"total": len(moments), "note": plain(moments.note, 400)}


def _moments_of(run: AnyRun, again: bool = False) -> Moments:
    """The moments of a run as they were counted last; a running run may have more. ``again``: count
    them now."""
    calls_or_refuse(run)
    moments = _LastMoments.moments if _LastMoments.run_id == run.run_id and not again else None
    if moments is None:
        _LastMoments.moments = None
        moments = _LastMoments.moments = find_moments(run)
        _LastMoments.run_id = run.run_id
    return moments


def answer_moment(run: AnyRun, arguments: Mapping[str, Any]) -> Json:
    """The state at the moment ``at``, and how it differs from the state at the moment ``since``. ``rows``:
    whether the page paints its picture as it was then."""
    moments = _moments_of(run)
    at, since = natural(arguments.get("at")), natural(arguments.get("since"))
    if max(at, since) >= len(moments):
        raise Refused(f"the run has no moment {max(at, since) + 1}")
    state = moments.state(at)
    parts, is_more = moments.differences(since, at)
    changed = {part.path.split(".")[0].split("[")[0] for part in parts}
    names = sorted(state, key=lambda name: name not in changed)
    then = (
        {"rows": moments.rows.rows(at), "edges": moments.rows.edges(at)}
        if arguments.get("rows")
        else {}
    )
    return {
        **then,
        "label": line(moments[at].label, 200),
        "took": duration(moments[at].seconds),
        "step": line(next(iter(moments[at].steps), ""), 200),
        "next": line(moments.step_after(at), 200),
        "values": [
            StoreRow(
                line(name, 60),
                value_json(
                    value, is_reply=run.progress.is_reply(value), replies=run.progress.is_reply
                ),
                name in changed,
                value_brief(value),
            )
            for name, value in ((name, state[name]) for name in names[:MOST_STORES])
        ],
        "more": max(0, len(names) - MOST_STORES),
        "differs": [_difference_row(part) for part in parts],
        "isMore": is_more,
    }


def _difference_row(part: Difference) -> DifferenceRow:
    """A part that differs between two moments. A list or an object that is too long for its cell is
    named by its size: below the cells each value is whole, a list of rows as a table."""
    row = describe_difference(part.path, part.first, part.other)
    first, other = (
        value_brief(value) if type(value) in (list, dict) and text.endswith("…") else text
        for value, text in ((part.first, row.first), (part.other, row.other))
    )
    return row._replace(first=first, other=other)


def describe_difference(path: str, first: Any, other: Any) -> DifferenceRow:
    """A part that differs, as a row of a table."""
    texts = zip((first, other), shorten_pair(first, other), strict=True)
    return DifferenceRow(
        line(path, 120), *("" if value is MISSING else text for value, text in texts)
    )
