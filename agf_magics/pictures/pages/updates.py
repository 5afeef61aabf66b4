"""A run as messages for a page: the tree of its steps once, then only what changed.

All words, marks and colours come from here, so that the page knows no language. An update is JSON. A
page that applies all updates in their order has the same rows as one that gets `Updates.complete` now, except
the rates of fan-outs, which are as old as their last element.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...flow.progress.progress import Progress
from ...flow.progress.question import Question
from ...flow.progress.rows import Key, Row
from ...flow.question_text import long_arguments, other_answers, question_digest
from ...flow.session_tools import drawn_tools, tool_id
from ...flow.steps import Invoke
from .. import row_words, theme
from ..call_words import asker_words, open_questions
from ..corners import Corner, corner_of, numbers_of, taken_edges, tool_corner, tool_look
from ..plain import line
from ..row_words import (
    activity,
    brief_name,
    brief_times,
    count_words,
    does,
    is_over,
    never_ran,
    pace,
    share_of,
    shown_name,
    spent,
    state_words,
    tails,
    tallies,
    turns_of,
)
from ..tally import Tally
from .parts import LONGEST_ARGUMENT, count_elements, counts, shown_status, unstopped
from .wire import StateRow, StepRow, UpdateRow

STATE_NAMES = tuple(theme.STATES)
"""The states of rows and runs; an update has their numbers."""

MOST_QUESTIONS = 5
"""The most open questions of an update."""

MOST_CHOICES = 100
"""Choices of a question that are offered; a text field takes all others."""

LONGEST_TAIL = 200
"""Characters of the end of what a step printed, or of a reply that arrives."""

MADE_AGAIN = "made again: the time of all attempts"
"""What stands beside a call whose time is not only that of the attempt that gave its result."""

Update = dict[str, Any]


def describe_tree(progress: Progress) -> dict[str, Any]:
    """What never changes during a run: the table of states, and a row for each step."""
    return {
        "name": line(progress.name, 80),
        "states": [
            StateRow(name, one.mark, one.word, one.color, one.ink, one.ring)
            for name, one in theme.STATES.items()
        ],
        "rows": [
            *(_described(row) for row in list(progress.rows.values())),
            *(_described_tool(row, tool) for row, tool in session_tools(progress)),
        ],
    }


def session_tools(progress: Progress) -> list[tuple[Row, str]]:
    """The tools that models may call, each with the row of all tool calls of its session. Each has a
    box in a picture and no row in a list, so a page gets a row for it after all others."""
    return [
        (row, tool)
        for row in list(progress.rows.values())
        if (turns := turns_of(row)) is not None and not row.is_request
        for tool in drawn_tools(turns.offered)
    ]


def _described_tool(row: Row, tool: str) -> StepRow:
    glyph = theme.kind(row.word).glyph
    name = line(tool, 200)
    return StepRow(tool_id(row.id, tool), 0, glyph, name, "tool", repeats=False, is_inner=True)


def _described(row: Row) -> StepRow:
    kind = theme.kind(row.word)
    repeats = bool(row.elements) or row.many or row.again
    return StepRow(
        id=row.id,
        depth=row.depth,
        glyph=kind.glyph,
        name=line(row.name, 200),
        does=line(does(row), 200),
        repeats=repeats,
        is_inner=row.is_inner or turns_of(row) is not None,
    )


class Updates:
    """The updates of one run. Not for several threads at a time."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._session_tools = session_tools(progress)
        self._facts_sent: dict[int, tuple[Any, ...]] = {}
        """The facts of each row at its last update, by its number: a row whose facts are the same is
        not compared further."""
        # What the last update had, to which the next one is compared.
        self._sent: dict[int, UpdateRow] = {}
        self._head: tuple[Any, ...] = ()
        self._edge_count = -1
        self._last_edge: object = None

    def complete(self, now: float) -> Update:
        """The update with all rows. ``now``: the time on the clock of the events."""
        self._facts_sent.clear()
        self._sent.clear()
        self._edge_count = -1
        return self.changes(now) or {}

    def changes(self, now: float, counters: bool = True) -> Update | None:
        """The rows that differ from those of the last update, and the state of the run; None if
        nothing changed. ``counters``: whether the change of a counter alone is a change; else it waits
        for a later update."""
        progress = self._progress
        tallied = tallies(progress)
        rows = self._rows(tallied, counters, now)
        edges = self._paths() if counters else None
        head = self._state(counters)
        if not rows and edges is None and head == self._head[: len(head)]:
            return None
        if not counters:  # the header has all counts, so the rows have them too
            rows += self._rows(tallied, True, now)
        self._head = self._state(True)
        begun = progress.when if progress.when is not None else now
        ended = progress.ended
        steps, *others = counts(progress)
        return {
            "now": round((ended if ended is not None else now) - begun, 3),
            "live": ended is None,
            "status": shown_status(progress),
            "counts": [
                *unstopped(progress),
                steps,
                *count_elements(progress, now, tallied),
                *others,
            ],
            "dropped": progress.failed,
            "old": row_words.old_results(progress),
            "questions": [
                _question(question, asker_words(progress.rows, path))
                for path, question in open_questions(progress)[:MOST_QUESTIONS]
            ],
            "rows": rows,
            **({} if edges is None else {"edges": edges}),
        }

    def rows(self, now: float) -> list[list[Any]]:
        """The rows that differ from those of the last update, without the state of the run."""
        return self._rows(tallies(self._progress), True, now)

    def _state(self, counters: bool) -> tuple[Any, ...]:
        """The facts on which the head of an update depends; with ``counters`` its counts follow at
        the end, so that both lengths can be compared."""
        progress = self._progress
        state = shown_status(progress), len(progress.open_questions), progress.ended
        return (*state, progress.failed, progress.usage) if counters else state

    def _rows(self, tallied: Mapping[Key, Tally], counters: bool, now: float) -> list[list[Any]]:
        """The rows that differ from the rows that were sent last."""
        changed = []
        for number, row in enumerate(list(self._progress.rows.values())):
            facts = self._facts(row)
            if self._facts_sent.get(number) == facts:
                continue
            before = self._sent.get(number)
            if not counters and before is not None and before.state == STATE_NAMES.index(row.look):
                continue
            self._facts_sent[number] = facts
            shown = self._row(number, row, tallied.get(row.key), now)
            if before != shown:
                self._sent[number] = shown
                changed.append(shown.sent())
        return changed + self._tools(counters)

    def _tools(self, counters: bool) -> list[list[Any]]:
        """The tools of sessions that differ from what was sent last: their boxes have no other row."""
        changed = []
        for number, (row, tool) in enumerate(self._session_tools, len(self._progress.rows)):
            look = tool_look(row, tool)
            corner = tool_corner(row, tool).words
            shown = UpdateRow(number, STATE_NAMES.index(look), corner, "", "", None, None, "")
            before = self._sent.get(number)
            if before == shown or (
                not counters and before is not None and before.state == shown.state
            ):
                continue
            self._sent[number] = shown
            changed.append(shown.sent())
        return changed

    def _row(self, number: int, row: Row, tally: Tally | None, now: float) -> UpdateRow:
        """A row in words, marks and numbers. ``tally``: the counts of a fan-out's elements."""
        shown = corner_of(row, tally)
        start, end = self._times(row)
        ok, failed = _shares(row, shown)
        numbers = count_words(row) if tally is None else str(tally)
        brief_numbers = brief_times(row) if tally is None else tally.brief
        if not numbers and self._is_made_again(row):
            numbers = brief_numbers = MADE_AGAIN
        others = (pace(row, tally, now), activity(row), *spent(row))
        counted = " · ".join(filter(None, (numbers, *others)))
        brief = " · ".join(filter(None, (brief_numbers, *others)))
        tail = " · ".join(line(text[-LONGEST_TAIL:], LONGEST_TAIL) for text in tails(row)[-1:])
        return UpdateRow(
            number=number,
            state=STATE_NAMES.index(row.look),
            corner=shown.words,
            words=state_words(row),
            counted=counted,
            start=start,
            end=end,
            tail=tail,
            ok_share=ok,
            failed_share=failed,
            brief=brief if brief != counted else None,
            name=line(shown_name(row), 200) if turns_of(row) and row.is_listed else None,
            brief_name=line(brief_name(row), 200) or None if row.is_listed else None,
            is_unused=self._is_unused(row) or None,
            has_attempts=self._has_attempts(row) or None,
            idle=round(row.timed.idle, 6) or None,
            old=row.old or None,
            is_reused=row.is_reused or None,
        )

    def _facts(self, row: Row) -> tuple[Any, ...]:
        """Everything on which the update of a row depends, except the time that passes: the rate of a
        fan-out is sent again with its next element."""
        timed = row.timed
        return (
            *_counts_of(row),
            tails(row),
            row.usage,
            row.width,
            row.on_workers,
            tuple(row_words.reports(row)),
            row.total,
            row.why,
            timed.when,
            timed.ended,
            self._progress.when,
            self._is_unused(row),
            self._has_attempts(row),
            *map(_counts_of, row.elements),
            *_facts_inside(row),
        )

    def _is_unused(self, row: Row) -> bool:
        """Whether the run has ended without the row."""
        return is_over(self._progress) and never_ran(row)

    def _has_attempts(self, row: Row) -> bool:
        """Whether the row had a call that was made again: in this session, or after an earlier one."""
        was_cut = row.key in self._progress.earlier and row.is_made
        calls = row.timed
        return bool(calls.retried or was_cut or (calls.failed and calls.finished))

    def _is_made_again(self, row: Row) -> bool:
        """Whether the one call of a row was made in an earlier session of the run, and again in this one:
        its time is that of both (decision D237)."""
        is_call = isinstance(row.step, Invoke) and not row.elements and turns_of(row) is None
        is_once = not row.many and row.times == 1 and not row.earlier
        return is_call and is_once and row.is_made and row.key in self._progress.earlier

    def _times(self, row: Row) -> tuple[float | None, float | None]:
        """When a row started and ended, in seconds since the run began."""
        row = row.timed
        begun = self._progress.when if self._progress.when is not None else row.when
        if begun is None:
            return None, None
        start = round(row.when - begun, 6) if row.when is not None else None
        has_ended = row.ended is not None and not row.running
        return start, round(row.ended - begun, 6) if has_ended else None  # type: ignore[operator]

    def _paths(self) -> dict[str, str] | None:
        """The numbers on the edges of the walks, by the key of the edge; None if they are as
        before."""
        edges = self._progress.taken_edges
        last = edges[-1] if edges else None
        count = len(edges)
        if self._edge_count == count and self._last_edge is last:
            return None
        self._edge_count = count
        self._last_edge = last
        return {
            f"{walk}: {source} → {target}": numbers_of(numbers).words
            for (walk, source, target), numbers in taken_edges(edges).items()
        }


def _shares(row: Row, corner: Corner) -> tuple[float | None, float | None]:
    """The shares of a row that are ok and that failed: of the elements of a fan-out, of what a call
    reports, or of the runs of a step that has failed ones."""
    shares = corner.shares
    if shares is None and (reported := share_of(row)) is not None:
        shares = (reported, 0)
    elif shares is None and row.many and row.timed.failed:
        # As long as the fan-out goes on, a part of the bar is left for its other elements.
        runs = max(row.timed.started, row.total or 0)
        shares = (row.timed.finished / runs, row.timed.failed / runs)
    if shares is None:
        return None, None
    ok, failed = shares
    return round(ok, 3), round(failed, 3)


def _question(question: Question, step: str) -> dict[str, Any]:
    """An open question: its choices, and what else the answer may be. ``step``: the words for the step
    that asks."""
    choices = ["yes", "no"]
    if not question.approval:
        choices = [line(choice, 100) for choice in question.choices[:MOST_CHOICES]]
    return {
        "text": line(question.text.replace("\n", " · "), 500),
        "call": long_arguments(question, LONGEST_ARGUMENT),
        "mark": question_digest(question),
        "where": line(question.where, 100),
        "step": step,
        "choices": choices,
        "approval": question.approval,
        "more": len(question.choices) > MOST_CHOICES,
        "change": other_answers(question),
    }


def _facts_inside(row: Row) -> tuple[Any, ...]:
    """The counters of the fan-outs inside a fan-out, which have a part in its pace."""
    parts = [(fan.width, *map(_counts_of, fan.elements), *_facts_inside(fan)) for fan in row.fans]
    return tuple(parts)


def _counts_of(row: Row) -> tuple[Any, ...]:
    """The counters of one row, without the counters of the rows of its elements."""
    return (
        row.started,
        row.finished,
        row.failed,
        row.cancelled,
        row.left,
        row.skipped,
        row.dropped,
        row.retried,
        row.earlier,
        row.is_made,
        row.asks,
        row.excused,
        row.fatal,
        row.rescues,
        row.lost,
        row.turns.changes if row.turns is not None else 0,
    )
