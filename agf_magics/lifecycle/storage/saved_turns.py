"""Restores the turns of a run's model sessions: their requests, and the calls that the replies ask for.

The call of a flow has no record of its own. Its name is in the reply that asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ...flow.progress.progress import Progress
from ...flow.progress.rows import key_of
from ...flow.progress.turns import Turns
from ...flow.step_path import StepPath
from ...flow.steps import Invoke
from ...journal.records.records import Record

Place = StepPath
"""A request in its session: its path without the id of its step. The calls of its reply have the same,
and their number."""


def restore_turns(progress: Progress, records: Iterable[Record]) -> None:
    """Add the turns of the sessions to ``progress``. ``records``: all records of the run."""
    rows = {
        key: (row.turns, row.is_request)
        for key, row in progress.rows.items()
        if row.turns is not None and isinstance(row.step, Invoke)
    }
    if not rows:
        return
    # Each with its own records, and for a call with the records inside of it. The sessions of two
    # nodes of a graph have the same places.
    requests: dict[tuple[Turns, Place], list[Record]] = {}
    calls: dict[tuple[Turns, Place], list[Record]] = {}
    for record in records:
        for at in _calls_around(record.at):
            turns, is_request = rows.get(key_of(at), (None, False))
            if turns is not None:
                kept = requests if is_request else calls
                kept.setdefault((turns, _place_of(at)), []).append(record)
    for (turns, place), outcomes in requests.items():
        _restore(turns, place, "model", "", outcomes)
        # The session goes on after all calls of a reply have ended.
        has_gone_on = (turns, (*place[:-1], int(place[-1]) + 1)) in requests
        for number, tool in enumerate(_tools_in(outcomes[-1].value_shown)):
            inside = calls.pop((turns, (*place, number)), [])
            if inside or (has_gone_on and tool):
                _restore(turns, (*place, number), "tool", tool, inside, has_gone_on)
    for (turns, place), inside in calls.items():  # their reply is not in the journal
        _restore(turns, place, "tool", "", inside)


def _restore(
    turns: Turns,
    place: Place,
    kind: str,
    name: str,
    records: list[Record],
    has_ended: bool = False,
) -> None:
    """Add a request, or a call with all that is known of it. ``name``: the name that the reply has;
    that of the callee counts."""
    outcomes = [record for record in records if _place_of(record.at) == place]
    called = next((record.name for record in outcomes if record.name and kind != "model"), name)
    if kind != "model" and not called:
        return
    turns.begin(place, kind, called)
    if any(record.what in ("failed", "rescued") for record in outcomes):
        turns.fail(place)
    elif has_ended or any(record.what == "finished" for record in outcomes):
        turns.end(place)


def _tools_in(reply: object) -> list[str]:
    """The names of the calls in a reply, which may come from a journal of somebody else."""
    calls = reply.get("calls") if isinstance(reply, Mapping) else None
    listed = calls if isinstance(calls, list) else []
    return [str(call.get("tool") or "") if isinstance(call, Mapping) else "" for call in listed]


def _place_of(path: StepPath) -> Place:
    last = max(place for place, bit in enumerate(path) if isinstance(bit, str))
    return (*path[:last], *path[last + 1 :])


def _calls_around(path: StepPath) -> Iterator[StepPath]:
    """``path`` and the paths of the calls around it, outermost first."""
    for end in range(1, len(path) + 1):
        if end == len(path) or isinstance(path[end], str):
            yield path[:end]
