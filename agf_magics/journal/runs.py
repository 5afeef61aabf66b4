"""Queries the runs of a journal and their records, without writing or unpickling anything."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Annotated, Any, NamedTuple

from ..flow.progress.pauses import Pauses, paused
from ..flow.progress.usage import PRICE
from .calls.changed_objects import CALL, changed_in
from .codec.json_texts import encode
from .codec.searched_text import with_letters
from .codec.signatures import checksum
from .codec.type_checks import checker
from .database.errors import JournalError
from .database.locks import alive
from .database.store import ROOM, Store
from .manifest_parts import read_parts
from .records.fields import Count, Moment, Raw, Text, is_stored
from .records.large_parts import read_stores
from .records.record_reader import read_records
from .records.records import RECORDS, Record

LONGEST_ID = 100
"""The largest number of characters in the id of a damaged run. A longer id is not shown."""


LISTED_VALUES = "SELECT value FROM json_each(?)"
"""The query for the values of a JSON list, because the number of a statement's parameters is
limited."""


ENDED = ("ok", "error", "cancelled")
"""The statuses of a run that has ended and waits for nobody."""

END = "num, form, output, shown, stores, error, sign, tree"
"""The columns of a run's end, whose checksum is ``end_crc``."""


class ListedRow(NamedTuple):
    """The columns of a run in a list, before they are checked."""

    num: Any
    run: Any
    name: Any
    language: Any
    status: Any
    started: Any
    ended: Any
    owner: Any
    pauses: Any
    tokens: Any
    cost: Any
    dropped: Any
    lost: Any
    head_crc: Any
    state_crc: Any
    work_crc: Any
    end_crc: Any


LISTED = ", ".join(ListedRow._fields)

OF_RUN = "line>? AND line<?"
"""The condition for the records of a run. Its values are the run's number, and that plus `ROOM`."""
REUSABLE = "what='finished' AND form!='again' AND typeof(digest)='blob' AND length(digest)>0"
"""The condition for results that another run may reuse."""

STATUSES = (*ENDED, "waiting", "running")
"""The statuses that a row may have."""


class RunHead(NamedTuple):
    """The row of a run in a list."""

    num: int
    run_id: str
    name: str
    language: str
    status: str
    """``ok``, ``error``, ``cancelled``, ``waiting``, ``running``, ``interrupted`` (its process
    died) or ``damaged`` (its row has changed: then only its id is known)."""
    started: float
    """Seconds since 1970, as is ``ended``."""
    ended: float | None
    owner: str
    pauses: Pauses = ()
    """The times between its sessions."""
    tokens: int | None = None
    """The tokens that its models used; None: it used no model, or has not ended."""
    lost: int = 0
    """The number of its calls that could not be written."""
    cost: str | None = None
    """US dollars, a decimal number; None: it is not known, or there is none."""
    dropped: int = 0
    """The number of its elements that failed and were dropped, once it has ended."""

    @property
    def seconds(self) -> float | None:
        """The duration without the pauses between sessions; 0 if the clock was set back meanwhile.
        None: the run has not ended."""
        return self.clock(self.ended) if self.ended is not None else None

    @property
    def times_resumed(self) -> int:
        """The number of times that the run was resumed."""
        return len(self.pauses)

    def clock(self, time: float) -> float:
        """The seconds that the run had run at ``time``, without pauses."""
        return max(0.0, time - self.started - paused(self.pauses, time))


class RunRow(NamedTuple):
    """A run without its calls."""

    head: RunHead
    work: str
    work_sign: bytes | None
    """The signature of the manifest, because a person may resume only their own runs."""
    form: str | None
    """The form of the output, as in `StoredValue`; None: no end was written."""
    output: str | bytes | None
    shown: str | None
    stores: str | None
    error: str | None
    sign: bytes | None
    """The signature of an output that is a pickle; else None."""
    tree: str | None
    parts: tuple[str, ...] = ()
    """The texts to which the manifest refers, as `keep_parts` stored them; empty if one is
    missing."""
    previews: tuple[str, ...] = ()
    """The names of the stores of which ``stores`` has only a preview."""


def list_runs(store: Store, name: str | None = None, most: int = -1) -> list[RunHead]:
    """All runs, last run first, damaged runs included. ``name``: list only the last ``most`` runs
    of this flow; default -1: all of them. Raises JournalError."""
    where = ""
    parameters: tuple[Any, ...] = ()
    if name is not None:
        # Only these rows are read completely and checked, because the journal may be long.
        where = "WHERE num IN (SELECT num FROM runs WHERE name=? ORDER BY started DESC LIMIT ?)"
        parameters = (name, most)
    with store.reading() as connection:
        rows = connection.execute(
            f"SELECT {LISTED} FROM runs {where} ORDER BY started DESC, num", parameters
        ).fetchall()
    # Each process is checked once, although hundreds of runs may belong to it.
    lives: dict[str, bool] = {}
    listed = map(ListedRow._make, rows)
    return [_with_current_status(_head_of(row) or _damaged(row), store, lives) for row in listed]


class StartText(NamedTuple):
    """What a list of runs says of the start of a run, from its manifest."""

    input: str = ""
    """The first `MOST_INPUT` characters of the journaled input as JSON, which has no secrets."""
    note: str = ""


def start_texts(store: Store, run_ids: Iterable[str]) -> dict[str, StartText]:
    """What the manifests of these runs say of their starts. The text is only displayed and searched, so
    no checksum is read. Raises JournalError."""
    with store.reading() as connection:
        rows = connection.execute(_START_TEXTS, (MOST_INPUT, encode([*run_ids])))
        return {run: StartText(_input_text(input), note) for run, input, note in rows}


MOST_INPUT = 1_000
"""The most characters of an input that are searched."""

_START_TEXTS = f"""\
SELECT run, substr(json_extract(work, '$.input.json', '$.input.shown'), 1, ?),
    coalesce(substr(json_extract(work, '$.note'), 1, 1000), '')
FROM runs WHERE run IN ({LISTED_VALUES}) AND typeof(work) = 'text' AND json_valid(work)"""
"""An input is JSON, or else has a preview."""


def _input_text(parts: str) -> str:
    """The input in the list of both parts of a manifest that may have it: ``[{"n":5},null]``. Letters
    stand in it as they are, not as ``\\u00fc``."""
    return with_letters(parts.removesuffix(",null]").removeprefix("[null,").removeprefix("["))


def has_older(store: Store, since: float) -> bool:
    """Whether a run ended before ``since``. Raises JournalError."""
    with store.reading() as connection:
        sql = "SELECT EXISTS (SELECT 1 FROM runs WHERE ended < ?)"
        (exists,) = connection.execute(sql, (since,)).fetchone()
    return bool(exists)


def read_run(store: Store, run_id: str) -> RunRow | None:
    """The run with this id; None if there is none. Raises JournalError, even for a damaged run."""
    with store.reading() as connection:
        row = connection.execute(
            f"SELECT {LISTED}, work, work_sign, part, {END} FROM runs WHERE run=?", (run_id,)
        ).fetchone()
        return _run_row(store, connection, run_id, row) if row is not None else None


def _run_row(
    store: Store, connection: sqlite3.Connection, run_id: str, row: tuple[Any, ...]
) -> RunRow:
    """``row`` as a run, after a check of its checksums. Raises JournalError."""
    width = len(ListedRow._fields)
    listed = ListedRow._make(row[:width])
    work, signature, part, _, *end = row[width:]
    head = _head_of(listed)
    if head is None:
        raise _changed("row", run_id)
    if not _is_work((work, signature)) or checksum(head.num, work, signature) != listed.work_crc:
        raise _changed("manifest", run_id)
    if not _is_end(end) or checksum(head.num, *end) != listed.end_crc:
        raise _changed("end", run_id)
    run = RunRow(_with_current_status(head, store, {}), work, signature, *end)
    stores, previews = read_stores(connection, head.num, run.stores)
    parts = read_parts(connection, part)
    return run._replace(parts=parts, stores=stores, previews=previews)


_is_work = checker(tuple[str, Raw])


def _changed(part: str, run_id: str) -> JournalError:
    message = f"the {part} of run {run_id!r} has changed since it was written"
    return JournalError("journal.damaged", message)


_are_pauses = checker(list[tuple[Moment, Moment]])


_is_head = checker(
    tuple[
        Annotated[int, lambda num: num >= 0 and num % ROOM == 0],
        str,
        str,
        str,
        Annotated[str, STATUSES.__contains__],
        Moment,
        Moment | None,
        str,
        str,
        Count | None,
        Annotated[str, PRICE.fullmatch] | None,
        Count,
        Count,
    ]
)
"""The columns of a `ListedRow` before its checksums."""


def _head_of(row: ListedRow) -> RunHead | None:
    """``row`` as a head; None if it has changed since it was written, or has impossible values."""
    num, run, name, language, status, started, ended, owner, pauses, tokens, cost, *later_cells = (
        row
    )
    dropped, lost, head_crc, state_crc, work_crc, end_crc = later_cells
    states = (num, owner, pauses, status, ended, tokens, cost, dropped, lost, end_crc)
    fixed_cells = (num, run, name, language, status, started, ended, owner)
    is_as_written = (
        checksum(num, run, name, language, started, work_crc) == head_crc
        and checksum(*states) == state_crc
        and _is_head((*fixed_cells, pauses, tokens, cost, dropped, lost))
    )
    times = _pauses(pauses) if is_as_written else None
    if times is None:
        return None
    return RunHead(*fixed_cells, times, tokens, lost, cost, dropped)


def _pauses(text: str) -> Pauses | None:
    """The pauses of a run from their JSON; None if ``text`` is not valid."""
    try:
        times = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return tuple((begin, end) for begin, end in times) if _are_pauses(times) else None


def _damaged(row: ListedRow) -> RunHead:
    """The head of a damaged row. Only its number is used, and its id if a person can type it."""
    num, run = row.num, row.run
    readable = (
        isinstance(run, str)
        and 0 < len(run) <= LONGEST_ID
        and run.isprintable()
        and not set(run) & set(" \t")
    )
    return RunHead(num, run if readable else f"damaged-{num}", "", "", "damaged", 0.0, None, "")


_is_end = checker(
    Annotated[
        tuple[object, object, Text, Text, Text, Raw, Text], lambda end: is_stored(end[0], end[1])
    ]
)
"""The columns of `END` after the number."""


def records(store: Store, num: int, is_shown: bool = True) -> Iterator[Record]:
    """The records of a run, in order. ``is_shown``: see `read_records`. Raises JournalError."""
    with reading_texts(store) as connection, closing(connection.cursor()) as cursor:
        store.refuse_deleted(connection, num)
        cursor.execute(f"{RECORDS} WHERE {OF_RUN} ORDER BY line", (num, num + ROOM))
        yield from read_records(cursor, is_shown)


def had_effects(store: Store, num: int) -> bool:
    """Whether a run has called a tool with an effect, or a tool whose end nobody waits for. Raises
    JournalError."""
    sql = f"SELECT 1 FROM records WHERE {OF_RUN} AND what IN ('begun', 'fired') LIMIT 1"
    with store.reading_run(num) as connection:
        return connection.execute(sql, (num, num + ROOM)).fetchone() is not None


def missing_results(
    connection: sqlite3.Connection, num: int, count: Callable[[bytes], int]
) -> Iterator[Record]:
    """The reusable results of a run; of each call, only those after the first ``count(digest)``.
    Earlier results are not read, because a newer run often has them all."""
    numbers = Counter[bytes]()
    lines = list[int]()
    sql = f"SELECT line, digest FROM records WHERE {OF_RUN} AND {REUSABLE} ORDER BY line"
    for line, digest in connection.execute(sql, (num, num + ROOM)):
        call = digest[:CALL]
        numbers[call] += 1
        if numbers[call] > count(call):
            lines.append(line)
    sql = f"{RECORDS} WHERE line IN ({LISTED_VALUES}) ORDER BY line"
    yield from read_records(connection.execute(sql, (encode(lines),)), is_shown=False)


def changed_objects(connection: sqlite3.Connection, num: int) -> frozenset[bytes]:
    """The keys of the objects that the calls of a run changed (see `Objects`)."""
    sql = f"SELECT DISTINCT digest FROM records WHERE {OF_RUN} AND length(digest)>{CALL}"
    sql += " AND typeof(digest)='blob'"
    return changed_in(digest for (digest,) in connection.execute(sql, (num, num + ROOM)))


@contextmanager
def reading_texts(store: Store) -> Iterator[sqlite3.Connection]:
    """A connection for records. Raises JournalError."""
    with store.reading() as connection:
        # This takes a third of the time of `_text`. A text that is not UTF-8 is an error of this
        # query.
        connection.text_factory = str
        yield connection


def once_each(store: Store, num: int, keys: Iterable[tuple[str, ...]]) -> Iterable[Record]:
    """The last record of each of the steps ``keys``, which run only once. Raises JournalError."""
    where = f"{OF_RUN} AND kind!='' AND at IN ({LISTED_VALUES}) ORDER BY line"
    cells = (num, num + ROOM, encode([encode(key) for key in keys]))
    with store.reading_run(num) as connection:
        rows = connection.execute(f"{RECORDS} WHERE {where}", cells)
        return {record.at: record for record in read_records(rows)}.values()


def _with_current_status(head: RunHead, store: Store, lives: dict[str, bool]) -> RunHead:
    """``head`` with its current status: a run whose process has died is interrupted. ``lives``:
    which processes are alive, by the names of their locks."""
    if head.status != "running":
        return head
    # This process is alive, so its lock would show the run as running.
    if head.num in store.unended and head.owner == store.owner.name:
        return head._replace(status="interrupted", lost=store.unended[head.num])
    if head.owner not in lives:
        lives[head.owner] = alive(store.owners, head.owner)
    return head if lives[head.owner] else head._replace(status="interrupted")
