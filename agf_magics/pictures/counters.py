"""The counts and the state of a row of a run, in words.

The row of a fan-out has its start and end; the rows below it count its elements.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..progress.progress import Key, Progress, Row
from .plain import counted, line, money, plain
from .theme import State, state

MOST_NUMBERS = 4

TAIL, TAIL_LINES = 400, 5
"""Characters and lines of an arriving reply, and of prints, that are shown: the last ones."""

MARKED = {"printed": "prints: ", "thinking": "thinking: ", "call": "calls "}

AGAIN = "↺"
"""Marks results that are reused from another run, or from an earlier session of this one."""


class Tally(NamedTuple):
    """The elements of a fan-out."""

    total: int
    ok: int
    failed: int
    running: int
    cancelled: int

    @property
    def ended(self) -> int:
        return self.ok + self.failed + self.cancelled

    def __str__(self) -> str:
        """
        >>> str(Tally(1000, 812, 3, 8, 0))
        '812 ok, 3 failed, 8 running of 1,000'
        """
        parts = [
            (self.ok, "ok"),
            (self.failed, "failed"),
            (self.running, "running"),
            (self.cancelled, "cancelled"),
        ]
        counts = ", ".join(f"{count:,} {word}" for count, word in parts if count or word == "ok")
        return f"{counts} of {self.total:,}"


class Corner(NamedTuple):
    """The state of a step in the corner of its box, short enough for the reserved space: ``▶
    812/1,000``."""

    words: str
    look: State
    shares: tuple[float, float] | None = None
    """The shares of the elements of a fan-out that are ok and that failed."""


def tallies(progress: Progress) -> Mapping[Key, Tally]:
    """The elements of each fan-out that has started."""
    rows = list(progress.rows.values())
    return {row.key: _tally(row.width, row.elements) for row in rows if row.width is not None}


def words(row: Row) -> str:
    """The state of a row as a mark and a word: ``✓ ok``."""
    look = state(row.state)
    return f"{look.mark} {look.word}{_left(row)}{_earlier(row)}"


def corner(row: Row, tally: Tally | None) -> Corner:
    """The corner of the box of a row."""
    look = state(row.state)
    again = f" {AGAIN}" if row.earlier else ""
    if tally is not None and row.state != "pending":
        total = tally.total or 1
        share = (tally.ok / total, tally.failed / total)
        return Corner(f"{look.mark} {_short(tally.ok)}/{_short(tally.total)}", look, share)
    if row.many and row.started:
        of_all = f"/{_short(row.total)}" if row.total is not None else ""
        return Corner(f"{look.mark} {_short(row.finished)}{of_all}{again}", look)
    if row.times > 1:
        return Corner(f"{look.mark} {_short(row.times)}×{again}", look)
    return Corner(f"{look.mark} {look.word.split()[0]}{again}", look)


def paths(progress: Progress) -> Mapping[tuple[str, str, str], list[int]]:
    """The taken edges of the walks of the outermost flow: for walk, source and target the round
    numbers. An edge from START has the number 1."""
    found: dict[tuple[str, str, str], list[int]] = {}
    for at, source, target in list(progress.taken):
        match at:
            case (str(walk), int(rounds)):
                found.setdefault((walk, source, target), []).append(rounds + 1)
    return found


def taken(numbers: list[int]) -> Corner:
    """The label of an edge that was taken: ``1, 4``."""
    few = ", ".join(f"{number:,}" for number in numbers[:MOST_NUMBERS])
    return Corner(
        f"{few}, … {len(numbers):,}×" if len(numbers) > MOST_NUMBERS else few, state("taken")
    )


def times(row: Row) -> str:
    """How often a row ran: ``812 ok, 3 failed, 8 running``, or why it was skipped. Empty for a row
    that ran once."""
    if not row.many:
        if row.by_need and row.state == "skipped":
            return line(row.why, 100)
        if row.times <= 1:
            return f"{row.retried:,} retried" if row.retried else ""
    lost = row.failed - row.retried
    parts = [
        (row.finished, "ok"),
        (lost, "waiting" if row.asks else "failed"),
        (row.running, "running"),
        (row.retried, "retried"),
        (row.cancelled, "cancelled"),
        (0 if row.loops and row.finished else row.skipped, "skipped"),
    ]
    return ", ".join(f"{count:,} {word}" for count, word in parts if count > 0)


def on_workers(row: Row) -> str:
    """``running 40 on 2 processes``, ``starting 4 workers``; empty without workers."""
    if row.placed is None or not row.running:
        return ""
    count, where, starting = row.placed
    if starting:
        return f"starting {counted(starting, 'worker')}"
    return f"running {count:,} on {line(where, 60)}"


def spent(row: Row) -> tuple[str, ...]:
    """The tokens and the cost of the models that a step asked."""
    if row.usage is None:
        return ()
    cost = (money(row.usage.cost),) if row.usage.cost is not None else ()
    return (counted(row.usage.tokens, "token"), *cost)


def tails(row: Row) -> tuple[str, ...]:
    """The end of what a step printed, and of each part of a reply that arrives: ``thinking: …``,
    its text, the calls of tools."""
    parts = [
        ("printed", row.printed),
        *(list(row.arriving.parts.items()) if row.arriving is not None else ()),
    ]
    return tuple(f"{MARKED.get(part, '')}{_tail(text)}" for part, text in parts if text.strip())


def _tail(text: str) -> str:
    """The last lines of a text; of a line that is written again and again, such as a progress bar,
    its last state."""
    lines = text[-TAIL:].strip("\r\n").split("\n")
    shown = "\n".join(one.rstrip("\r").rpartition("\r")[2] for one in lines[-TAIL_LINES:])
    return plain(shown if len(text) <= TAIL and len(lines) <= TAIL_LINES else f"…{shown}")


def _left(row: Row) -> str:
    return f", {row.left:,} left running" if row.left and row.state != "left" else ""


def _earlier(row: Row) -> str:
    """How many results were reused instead of calling again."""
    if not row.earlier:
        return ""
    return f", {AGAIN} reused" if row.earlier == row.times else f", {AGAIN} {row.earlier:,} reused"


def _tally(total: int, parts: tuple[Row, ...]) -> Tally:
    ok = sum(row.finished for row in parts)
    failed = sum(max(0, row.failed - row.retried) for row in parts)
    return Tally(
        total, ok, failed, sum(row.running for row in parts), sum(row.cancelled for row in parts)
    )


def _short(count: int) -> str:
    """
    >>> [_short(n) for n in (812, 1000, 12_345, 3_400_000)]
    ['812', '1,000', '12k', '3.4M']
    """
    return (
        f"{count:,}"
        if count < 10_000
        else f"{count // 1000}k"
        if count < 1_000_000
        else f"{count / 1e6:.1f}M"
    )
