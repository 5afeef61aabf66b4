"""The states of a picture: the corner of each box, and the numbers on the edges of graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..flow.progress.progress import Progress
from ..flow.progress.rows import Row, key_of
from ..flow.session_tools import tool_id
from ..flow.step_path import StepPath
from .row_words import AGAIN, short, times_of, turns_of
from .tally import Tally
from .theme import STATES, State, state

MOST_NUMBERS = 4
"""Rounds of an edge whose numbers are written; of more rounds the count follows."""
LONGEST_COUNTS = 11
"""The most characters of the counts in the corner of a box with their signs: as long as ``▶ cancelled``."""
AS_WHOLE = "✓!"
"""The marks that stand before the counts of a step in its corner: what they say is true of the whole step.
Any other sign stands before a number of its own, or at the end: ``▶ 8/40`` would be eight that run."""


class Corner(NamedTuple):
    """The state of a step in the corner of its box, short enough for the reserved space: ``812/1,000
    ▶8``."""

    words: str
    look: State
    shares: tuple[float, float] | None = None
    """The shares of the elements of a fan-out that are ok and that failed."""


def corner_of(row: Row, tally: Tally | None) -> Corner:
    """The corner of the box of a row."""
    look = state(row.look)
    again = f" {AGAIN}" if row.earlier else ""
    if tally is not None and row.state != "pending":
        total = tally.total or 1
        share = (tally.ok / total, tally.failed / total)
        return Corner(_corner_counts(look, tally, f"/{short(tally.total)}"), look, share)
    if row.many and row.started:
        of_all = f"/{short(row.total)}" if row.total is not None else ""
        times = times_of(row)._replace(total=row.total or 0)
        return Corner(f"{_corner_counts(look, times, of_all)}{again}", look)
    if row.times > 1:
        return Corner(f"{_corner_counts(look, times_of(row), '×')}{again}", look)
    return Corner(f"{look.mark} {_short_word(look)}{again}", look)


def _corner_counts(look: State, tally: Tally, total: str) -> str:
    """The counts of a step in its corner, as `Tally.brief`, with the sign of its state: ``✓ 60/60``,
    ``9/40 ✗2 ▶3``, ``9/40 ■31``. Where they are too long, some that failed say more than of how many:
    ``400 ✗12 ▶8``. ``total``: the text after the number of those that have ended."""
    failed = STATES["failed"].mark
    ended = short(tally.ended)
    lost = f" {failed}{short(tally.failed)}" if tally.failed else ""
    if look.mark in AS_WHOLE:
        if len(ended + total + lost) > LONGEST_COUNTS - 2:
            total = "" if lost or tally.ended == tally.total else total
        return f"{look.mark} {ended}{total}{lost}"
    own = {failed: tally.failed, "▶": tally.running, "■": tally.cancelled, "?": tally.waiting}
    sign = f" {look.mark}{short(own[look.mark]) if own.get(look.mark) else ''}"
    lost = lost if look.mark != failed else ""
    brief = ended if tally.failed else f"{ended}{total}"
    texts = (f"{ended}{total}{lost}{sign}", f"{brief}{lost}{sign}")
    return next(
        (text for text in texts if len(text) <= LONGEST_COUNTS), f"{brief}{lost} {look.mark}"
    )


def _short_word(look: State) -> str:
    """What became of a step in one word: ``handled`` for ``failed, handled``."""
    return look.word.split(", ")[-1].split(" ")[0]


def tool_corners(progress: Progress) -> Mapping[str, Corner]:
    """The corners of the tools that models have called, by the ids of the tools."""
    return {
        tool_id(row.id, tool): tool_corner(row, tool)
        for row in list(progress.rows.values())
        if (turns := turns_of(row)) is not None and not row.is_request
        for tool in list(turns.tools)
    }


def tool_corner(row: Row, tool: str) -> Corner:
    """The corner of one tool of a session: ``✓ ok``, ``2× ▶1``. ``row``: the row of all tool calls."""
    look = state(tool_look(row, tool))
    turns = row.turns
    calls, failed = turns.tools.get(tool, (0, 0)) if turns is not None else (0, 0)
    if turns is None or calls <= 1:
        return Corner(f"{look.mark} {_short_word(look)}", look)
    running = turns.open.get(tool, 0)
    # The box of a tool has the failures that its model handled in its state alone, as a step that was tried again.
    shown = failed if look.mark == STATES["failed"].mark else 0
    tally = Tally(calls, calls - shown - running, shown, running, 0)
    return Corner(_corner_counts(look, tally, "×"), look)


def tool_look(row: Row, tool: str) -> str:
    """The state of one tool of a session. Calls without an outcome have the state of all calls. A call
    that failed was handled: the model got the error."""
    turns = row.turns
    if turns is None or tool not in turns.tools:
        return "pending"
    _, failed = turns.tools[tool]
    if turns.open.get(tool) and row.state in ("running", "waiting", "cancelled", "left"):
        return row.state
    if not failed:
        return "ok"
    return "failed" if row.state == "failed" else "kept"


def taken_edges(
    taken: Sequence[tuple[StepPath, str, str]],
) -> Mapping[tuple[str, str, str], list[int]]:
    """The edges that graphs which run once have taken. The key is the id of the graph's row, the source
    and the target; the value has the numbers of the rounds. An edge from START has the number 1."""
    numbers: dict[tuple[str, str, str], list[int]] = {}
    for path_and_round, source, target in list(taken):
        *path, rounds = path_and_round
        key = key_of(tuple(path))
        if len(key) == len(path) and isinstance(rounds, int):
            numbers.setdefault(("/".join(key), source, target), []).append(rounds + 1)
    return numbers


def numbers_of(numbers: list[int]) -> Corner:
    """The label of an edge that was taken: ``1, 4``."""
    words = ", ".join(f"{number:,}" for number in numbers[:MOST_NUMBERS])
    if len(numbers) > MOST_NUMBERS:
        words += f", … {len(numbers):,}×"
    return Corner(words, state("taken"))


def is_counted(numbers: str) -> bool:
    """Whether the label of an edge has only its first rounds."""
    return numbers.endswith("×")


def count_of(numbers: str) -> str:
    """How often an edge was taken, from its label.

    >>> count_of("1, 4"), count_of("1, 2, 3, 4, … 12×"), count_of("7")
    ('2×', '12×', '1×')
    """
    *others, last = numbers.split(", ")
    if is_counted(last):
        return last.removeprefix("… ")
    return f"{len(others) + 1}×"
