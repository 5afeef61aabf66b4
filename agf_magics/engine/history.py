"""What runs there are in a journal, and what became of them. Nothing is unpickled here."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from .pickles import encode
from .records import COLUMNS, Record, read_records
from .store import ROOM, Store, crc
from .troubles import Trouble

ENDED = ("ok", "error", "cancelled")

BEGINS = '[{"tokens":'
"""How the tree of a run begins whose models were asked: see `summary`."""

LISTED = f"""num, run, name, language, status, started, ended, owner, taken,
CASE WHEN substr(tree, 1, {len(BEGINS)})='{BEGINS}' THEN CAST(substr(tree, {len(BEGINS) + 1}, 20) AS INTEGER) END"""
OF_RUN = "line>? AND line<?"
CLAIM = """UPDATE runs SET owner=?, status='running', ended=NULL, taken=taken+1 WHERE num=? AND owner=? AND status=?"""
LEAVE = """UPDATE runs SET owner=?, status=?, ended=?, taken=?
WHERE num=? AND owner=? AND taken=? AND status='running'"""


class Listed(NamedTuple):
    """A run as a list shows it."""

    num: int
    run_id: str
    name: str
    language: str
    status: str
    """ok, error, cancelled, waiting; running, where a process that lives runs it; interrupted, where that one died."""
    started: float
    """Seconds since 1970, as is ``ended``."""
    ended: float | None
    owner: str
    taken: int
    """How often it was taken up again."""
    tokens: int | None = None
    """What its models took by its end; None: none was asked, or it has no end."""


class Told(NamedTuple):
    """All that is known of a run besides its calls."""

    listed: Listed
    work: str
    form: str | None
    output: str | bytes | None
    shown: str | None
    stores: str | None
    error: str | None
    sign: bytes | None
    tree: str | None


def listed(store: Store) -> list[Listed]:
    """Every run, the last one first. Raises Trouble."""
    store.flush()
    with store.reading() as connection:
        rows = connection.execute(f"SELECT {LISTED} FROM runs ORDER BY started DESC, num").fetchall()
    lives: dict[str, bool] = {}
    return [_as_it_is(Listed(*row), store, lives) for row in rows]


def told(store: Store, run_id: str) -> Told | None:
    """A run by its id; None where there is none. Raises Trouble."""
    store.flush()
    with store.reading() as connection:
        row = connection.execute(
            f"SELECT {LISTED}, work, crc, form, output, shown, stores, error, sign, tree FROM runs WHERE run=?",
            (run_id,),
        ).fetchone()
    if row is None:
        return None
    one, (work, checked, *rest) = Listed(*row[:10]), row[10:]
    if crc(run_id, work) != checked:
        raise Trouble("journal.damaged", f"the work order of {run_id!r} is not what was written")
    return Told(_as_it_is(one, store, {}), work, *rest)


def records(store: Store, num: int) -> Iterator[Record]:
    """What was kept of a run, in its order. Raises Trouble."""
    store.flush()
    with store.reading() as connection, closing(connection.cursor()) as cursor:
        cursor.execute(f"SELECT {COLUMNS}, crc FROM records WHERE {OF_RUN} ORDER BY line", (num, num + ROOM))
        yield from read_records(cursor)


def once_each(store: Store, num: int, ats: Iterable[tuple[str, ...]]) -> Iterator[Record]:
    """The calls that were made at these moments of steps that run once, the last one of each. Raises Trouble."""
    store.flush()
    wanted = [encode(at) for at in ats]
    found: dict[str, Record] = {}
    with store.reading() as connection:
        for start in range(0, len(wanted), 500):
            some = wanted[start : start + 500]
            these = ",".join("?" * len(some))
            sql = f"SELECT {COLUMNS}, crc FROM records WHERE {OF_RUN} AND kind!='' AND at IN ({these}) ORDER BY line"
            for record in read_records(connection.execute(sql, (num, num + ROOM, *some))):
                found[encode(record.at)] = record
    yield from found.values()


def claim(store: Store, one: Listed) -> bool:
    """Take a run over from a process that died, or from its end; False when somebody else was first. Raises Trouble."""
    status = "running" if one.status == "interrupted" else one.status
    return store.write_now(CLAIM, (store.owner.name, one.num, one.owner, status)) == 1


def leave(store: Store, one: Listed) -> None:
    """Undo `claim` of a run that could not be begun: it is what it was. Raises Trouble."""
    status = "running" if one.status == "interrupted" else one.status
    store.write_now(LEAVE, (one.owner, status, one.ended, one.taken, one.num, store.owner.name, one.taken + 1))


def forget(store: Store, nums: list[int]) -> None:
    """Delete runs with all that was kept of them. Raises Trouble."""
    with store.reading() as connection:
        connection.execute("PRAGMA secure_delete=ON")
        connection.execute("BEGIN IMMEDIATE")
        for num in nums:
            connection.execute(f"DELETE FROM records WHERE {OF_RUN}", (num, num + ROOM))
            connection.execute("DELETE FROM runs WHERE num=?", (num,))
        connection.execute("COMMIT")


def shrink(store: Store) -> int:
    """Give room that is not needed back to the disk; how many bytes the file has then. Raises Trouble."""
    with store.reading() as connection:
        try:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.OperationalError as error:  # somebody writes; the next time it will
            if "lock" not in str(error):
                raise
    return size(store.path)


def size(path: Path) -> int:
    """Bytes of the file with what belongs to it."""
    return sum(one.stat().st_size for one in (path, Path(f"{path}-wal")) if one.exists())


def sizes(store: Store) -> dict[int, int]:
    """About how many bytes each run takes. Raises Trouble."""
    sql = f"""SELECT r.num, length(r.work) + coalesce(length(r.output), 0) + coalesce(length(r.stores), 0) + coalesce(
        (SELECT sum(80 + length(at) + coalesce(length(given), 0) + coalesce(length(value), 0)) FROM records
         WHERE line > r.num AND line < r.num + {ROOM}), 0) FROM runs r"""
    with store.reading() as connection:
        return dict(connection.execute(sql).fetchall())


def _as_it_is(one: Listed, store: Store, lives: dict[str, bool]) -> Listed:
    if one.status != "running":
        return one
    if one.owner not in lives:
        lives[one.owner] = store.is_alive(one.owner)
    return one if lives[one.owner] else one._replace(status="interrupted")
