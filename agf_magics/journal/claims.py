"""Lets one process take over a run, from its dead process or from its end, or end it as cancelled."""

from __future__ import annotations

import time

from .codec.json_texts import encode
from .database.store import ROOM, Store
from .runs import OF_RUN, RunHead

TAKE_OVER = """UPDATE runs SET owner=?, status='running', ended=NULL, pauses=?,
state_crc=agf_checksum(num, ?, ?, 'running', NULL, tokens, cost, dropped, lost, end_crc)
WHERE num=? AND owner=? AND status=? AND pauses=?"""
GIVE_BACK = """UPDATE runs SET owner=?, status=?, ended=?, pauses=?,
state_crc=agf_checksum(num, ?, ?, ?, ?, tokens, cost, dropped, lost, end_crc)
WHERE num=? AND owner=? AND status='running'"""

CANCEL = """UPDATE runs SET status='cancelled', ended=?, error=?,
end_crc=agf_checksum(num, form, output, shown, stores, ?, sign, tree),
state_crc=agf_checksum(num, owner, pauses, 'cancelled', ?, tokens, cost, dropped, lost,
    agf_checksum(num, form, output, shown, stores, ?, sign, tree))
WHERE num=? AND owner=? AND status=? AND pauses=?"""


def claim(store: Store, head: RunHead) -> bool:
    """Take a run over from its dead process or its end; False if another process was first. Raises
    JournalError."""
    status = "running" if head.status == "interrupted" else head.status
    owner = store.owner.name
    # The process that resumes the run writes a new end.
    store.unended.pop(head.num, None)
    before, pauses = encode(head.pauses), encode([*head.pauses, pause(store, head)])
    row = (owner, pauses, owner, pauses, head.num, head.owner, status, before)
    return store.write_now(TAKE_OVER, row) == 1


def pause(store: Store, head: RunHead) -> tuple[float, float]:
    """The time from the last end of a run until now. If its process died, it begins with the end of
    the last call. Raises JournalError."""
    now, ended = time.time(), head.ended
    if ended is None:
        sql = f"SELECT MAX(ended) FROM records WHERE {OF_RUN} AND typeof(ended)='real' AND ended<?"
        with store.reading() as connection:
            (last,) = connection.execute(sql, (head.num, head.num + ROOM, now)).fetchone()
        ended = max([head.started, *(end for _, end in head.pauses), last or 0.0])
    return ended, max(ended, now)


def cancel(store: Store, head: RunHead, error: str) -> bool:
    """Write that a run that waits or was interrupted is cancelled; False if it goes on in another
    process meanwhile. It ended when its last session did. ``error``: its error as JSON. Raises
    JournalError."""
    status = "running" if head.status == "interrupted" else head.status
    ended, _ = pause(store, head)
    values = (ended, error, error, ended, error)
    row = (*values, head.num, head.owner, status, encode(head.pauses))
    return store.write_now(CANCEL, row) == 1


def undo_claim(store: Store, head: RunHead) -> None:
    """Undo `claim` for a run that could not start. Raises JournalError."""
    status = "running" if head.status == "interrupted" else head.status
    pauses = encode(head.pauses)
    before = (head.owner, status, head.ended, pauses, head.owner, pauses, status, head.ended)
    store.write_now(GIVE_BACK, (*before, head.num, store.owner.name))
