"""The name, the counts and the state of a row of a run, in words.

The row of a fan-out has its start and end; the rows below it count its elements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from ..flow.progress.events import Progressed
from ..flow.progress.progress import Progress
from ..flow.progress.rows import Key, Row
from ..flow.progress.turns import Turn, Turns
from ..flow.step_names import callee_name, only_call
from ..flow.steps import Each, Fold, Invoke
from .amounts import cost_words, counted, duration
from .plain import line, plain
from .tally import Tally
from .theme import STATES, state

MOST_TURNS = 8
"""The most turns of a model's session in the name of its row: the last turns."""

TAIL = 400
"""The most characters that are shown of an arriving reply and of prints: the last characters."""
TAIL_LINES = 5
"""The most lines that are shown of an arriving reply and of prints: the last lines."""

FEW = 3
"""Ended elements below which a pace is a guess."""
SOON = 0.5
"""Seconds after the start below which a pace is a guess."""

MARKED = {"printed": "prints: ", "thinking": "thinking: ", "call": "calls "}
"""The words before a tail, by what it is the end of; the text of a reply has none."""

FEW_TOOLS = 3
"""Tools of a session up to which each is named with its calls."""
AGAIN = "↺"
"""Marks results that are reused from another run, or from an earlier session of this run."""


def shown_name(row: Row) -> str:
    """The name of a row in all views: the name of its step. The row of a model's session has what the
    model did: ``request 1 · lookup_order · lookup_customer ✗ · request 2``."""
    turns = turns_of(row)
    if turns is None:
        return _answered(row, row.name)
    if not row.is_request and turns.is_one:  # the row of the requests has the tools
        return _tool_calls(turns)
    if not row.is_request:
        return _tool_turns(turns)
    if row.many:  # those that have a reply, as the header counts them
        others = ((max(0, row.failed - row.retried), "failed"), (row.running, "running"))
        beside = "".join(f" · {count:,} {word}" for count, word in others if count)
        return f"{counted(row.finished, 'request')}{beside}"
    listed = [*turns]
    more = ["…"] if len(listed) > MOST_TURNS else []
    return " · ".join([*more, *map(_turn_words, listed[-MOST_TURNS:])])


def brief_name(row: Row) -> str:
    """`shown_name` where there is no room for it: the first and the last request, whose times the row has,
    ``request 1–5``; and the tools, each before its count, ``price ×3 ✗1``. Empty for every other row."""
    turns = turns_of(row)
    if turns is None or (row.is_request and row.many):
        return ""
    if row.is_request:
        return f"request 1–{turns.requests:,}" if turns.requests > 1 else ""
    return _tool_turns(turns)


def _tool_turns(turns: Turns) -> str:
    """``price ×3 ✗1 · stock``"""
    return " · ".join(_turn_words(Turn(tool, *counts)) for tool, counts in [*turns.tools.items()])


def _tool_calls(turns: Turns) -> str:
    """``3 calls of price, 1 failed``, ``1 call of price · 2 calls of stock``"""
    if len(turns.tools) > FEW_TOOLS:
        counts = list(turns.tools.values())
        calls, failed = (sum(column) for column in zip(*counts, strict=True))
        return _calls_of(counted(len(counts), "tool"), calls, failed)
    return " · ".join(_calls_of(tool, *counts) for tool, counts in turns.tools.items())


def _calls_of(tools: str, calls: int, failed: int) -> str:
    return f"{counted(calls, 'call')} of {tools}" + (f", {failed:,} failed" if failed else "")


def does(row: Row) -> str:
    """What a row does, beside its name: ``tool fetch``, ``for_each ctx.orders``."""
    turns = turns_of(row)
    if turns is not None and not row.is_request:
        return "" if turns.is_one else "tools"
    label = (callee_name(row.step) if isinstance(row.step, Invoke) else "") or row.label
    label = _answered(row, label)
    name = _answered(row, row.name)
    label = "" if label == name else label
    return label if row.word == name and label else f"{row.word} {label}".rstrip()


def _answered(row: Row, text: str) -> str:
    """``text``; if it is the model that the step names, the model that answers in its place."""
    return row.models[1] if row.models is not None and text == row.models[0] else text


def listed(progress: Progress) -> list[Row]:
    """The rows that views list."""
    return [row for row in list(progress.rows.values()) if row.is_listed]


def is_over(progress: Progress) -> bool:
    """Whether nothing more comes. The record of a run that goes on in another process has a last time,
    too."""
    return progress.ended is not None and progress.status != "running"


def never_ran(row: Row) -> bool:
    """Whether a row of a run that `is_over` did not run and a reader expects this: a case that was not
    picked, a step after a failure. A skipped call of a plan is different: it says why it was skipped."""
    return row.state == "pending" or (row.state == "skipped" and not (row.by_need and row.why))


def turns_of(row: Row) -> Turns | None:
    """What the session of a model did, if the row stands for its requests or its tool calls."""
    return row.turns if isinstance(row.step, Invoke) else None


def _turn_words(turn: Turn) -> str:
    """
    >>> _turn_words(Turn("", 2, 0)), _turn_words(Turn("price", 3, 1)), _turn_words(Turn("price", 1, 1))
    ('request 2', 'price ×3 ✗1', 'price ✗')
    """
    failed = f" {STATES['failed'].mark}" if turn.failed else ""
    if not turn.tool:
        return f"request {turn.number:,}{failed}"
    if turn.number == 1:
        return turn.tool + failed
    return f"{turn.tool} ×{turn.number:,}" + (f"{failed}{turn.failed:,}" if failed else "")


def tallies(progress: Progress) -> Mapping[Key, Tally]:
    """The elements of each fan-out that has started."""
    counted = ((row.key, tally_of(row)) for row in list(progress.rows.values()))
    return {key: tally for key, tally in counted if tally is not None}


def tally_of(row: Row) -> Tally | None:
    """The elements of a fan-out that has started; None for another step."""
    if row.width is None or only_call(row.step) is not None:
        return None
    return _tally(row.width, row.elements)


def outer_fans(progress: Progress, tallied: Mapping[Key, Tally]) -> list[tuple[Row, Tally]]:
    """The outermost fan-outs over data that have started, also those in a branch or a called flow.
    Branches are no elements, and neither are the tool calls of a model."""
    rows = ((progress.rows[key], tally) for key, tally in tallied.items())
    return [
        (row, tally)
        for row, tally in rows
        if isinstance(row.step, (Each, Fold)) and row.turns is None and not row.many
    ]


def pace(row: Row, tally: Tally | None, now: float) -> str:
    """How fast the elements of a running fan-out end, and in how many seconds the last one ends:
    ``120/s, 7 s left``, or ``one per 2.0 s``, which is no time of a call: several run at a time. No
    end is given as long as more elements may come. ``now``: the time on the clock of the events."""
    if tally is None or row.when is None or not row.running:
        return ""
    work = _work_of(row, tally)
    seconds = now - row.when
    if work.ended < FEW or seconds < SOON or work.left <= 0:
        return ""
    per_element = seconds / work.done
    speed = f"{1 / per_element:,.0f}/s" if per_element < 0.5 else f"one per {duration(per_element)}"
    if not _has_all(row):
        return speed
    return f"{speed}, {duration(max(1.0, work.left * per_element))} left"


class _Work(NamedTuple):
    """The work of a fan-out in this run."""

    done: float
    """The elements that have ended; of one that runs, the share that has ended."""
    left: float
    """The elements that are still to come."""
    ended: int
    """What was counted for that: the elements, or those of the fan-outs inside."""


def _work_of(row: Row, tally: Tally) -> _Work:
    """Where each element is a fan-out itself, the elements of that are counted, and those that have
    not begun count as many as the others on average: so large elements have a pace before they end."""
    begun = tally.ended + tally.cancelled
    inner = row.fans[0] if len(row.fans) == 1 else None
    counted = tally_of(inner) if inner is not None and inner.width else None
    if inner is None or counted is None:
        # Results that are reused from another run took no time in this run.
        ended = tally.ended - sum(part.earlier for part in row.elements if not part.is_own)
        return _Work(ended, tally.total - begun, ended)
    work = _work_of(inner, counted)
    each = counted.total / inner.times
    coming = tally.total - max(begun, inner.times + inner.skipped)
    return _Work(work.done / each, work.left / each + coming, work.ended)


def _has_all(row: Row) -> bool:
    """Whether no more elements come: the fan-outs around have begun all of theirs."""
    around = row.around
    if not row.many:
        return True
    has_begun = around is not None and row.times + row.skipped >= (around.width or 0)
    return around is not None and has_begun and _has_all(around)


def state_words(row: Row) -> str:
    """The state of a row as a mark and a word: ``✓ ok``."""
    look = state(row.look)
    dropped = f", {row.lost:,} dropped" if row.look == "dropped" else ""
    word = _outcomes(row) if row.look == "kept" else ""
    return f"{look.mark} {word or look.word}{dropped}{_left(row)}{_earlier(row)}"


def _outcomes(row: Row) -> str:
    """``2 ok, 1 failed``, for the tool calls of a model of which some failed; else empty."""
    turns = turns_of(row)
    if turns is None or row.is_request or not turns.tools:
        return ""
    tally = _tool_tally(turns)
    return f"{tally.ok:,} ok, {tally.failed:,} failed" if tally.ok > 0 else ""


def _tool_tally(turns: Turns) -> Tally:
    """The tool calls of a session."""
    calls, failed = (sum(column) for column in zip(*list(turns.tools.values()), strict=True))
    running = sum(turns.open.values())
    return Tally(calls, calls - failed - running, failed, running, 0)


def count_words(row: Row) -> str:
    """How often a row ran: ``812 ok, 3 failed, 8 running``, or why it was skipped. Empty for a row
    that ran once, and for the row of a session, whose name has the counts."""
    if turns_of(row) is not None:
        return ""
    calls = row.timed  # a step that handles a failure is ok, and its call has failed
    if not row.many:
        if row.by_need and row.state == "skipped":
            return line(row.why, 100)
        if row.times <= 1:
            return f"{calls.retried:,} retried" if calls.retried else ""
    lost = calls.failed - calls.retried
    parts = [
        (calls.finished, "ok"),
        (lost, "waiting" if row.asks and not row.running else "failed"),
        (calls.running, "running"),
        (calls.retried, "retried"),
        (calls.cancelled, "cancelled"),
        (0 if row.loops and row.finished else row.skipped, "skipped"),
    ]
    return ", ".join(f"{count:,} {word}" for count, word in parts if count > 0)


def brief_times(row: Row) -> str:
    """`count_words` where there is little room, as `Tally.brief`: ``815 ✗3 ▶8``. The row of a session's
    tool calls has such counts only there, where its name has no room for them."""
    turns = turns_of(row)
    if turns is not None and not row.is_request and turns.tools:
        return _tool_tally(turns).ended_of()
    if row.times <= 1 or row.asks or turns is not None:
        return count_words(row)
    return times_of(row).ended_of()


def reports(row: Row) -> list[Progressed]:
    """The last report of each running call of a row, the call that runs longest first."""
    return list(row.reports.values()) if row.running else []


def activity(row: Row) -> str:
    """What the calls of a row do: ``3 of 10 · page 3``, ``again in 0.3 s (HTTP 429)``, and how many run
    on workers. Of many calls, only the longest running one: ``#7: 3 of 10, and 4 more``."""
    reported = reports(row)
    more = f", and {len(reported) - 1:,} more" if len(reported) > 1 else ""
    shown = [report_text(row, report) + more for report in reported[:1]]
    return " · ".join(filter(None, [*shown, on_workers(row)]))


def report_text(row: Row, report: Progressed) -> str:
    """The report of a call in words: ``#7: 3 of 10 · page 3``."""
    number = f"#{report.at[-1]}: " if row.many and isinstance(report.at[-1], int) else ""
    total = f" of {_amount(report.total)}" if report.total is not None else ""
    amount = f"{_amount(report.done)}{total}" if report.done is not None else ""
    return number + " · ".join(filter(None, [amount, line(report.text, 120)]))


def share_of(row: Row) -> float | None:
    """The share of its work that the call of a row has done; None if it is not known, or if the row
    has many calls."""
    report = next(iter(reports(row)), None)
    if row.many or report is None or report.done is None or not report.total:
        return None
    return min(report.done / report.total, 1.0)


def _amount(number: float) -> str:
    # From 100 on, three digits are a whole number.
    is_whole = number == int(number) or number >= 100
    return f"{number:,.0f}" if is_whole else f"{number:.3g}"


def on_workers(row: Row) -> str:
    """``running 40 on 2 processes``, ``starting 4 workers``; empty without workers."""
    if row.on_workers is None or not row.running:
        return ""
    count, where, starting = row.on_workers
    if starting:
        return f"starting {counted(starting, 'worker')}"
    return f"running {count:,} on {line(where, 60)}"


def old_results(progress: Progress) -> str:
    """``2 results of the old tax were kept``: the results of earlier sessions whose function was
    edited since; ``up to 2``, if several sessions made them: the journal does not say which function each
    had. Empty: there are none."""
    counts = Counter[str]()
    for row in list(progress.rows.values()):
        if row.old and isinstance(row.step, Invoke):
            counts[line(callee_name(row.step), 60)] += row.old
    if not counts:
        return ""
    (first, most), *others = counts.most_common()
    parts = [f"{counted(most, 'result')} of the old {first}"]
    parts += [f"{count:,} of the old {name}" for name, count in others[:FEW_TOOLS]]
    if more := others[FEW_TOOLS:]:
        parts.append(f"{sum(count for _, count in more):,} of others")
    *before, last = parts
    verb = "was" if counts.total() == 1 else "were"
    at_most = "up to " if len(progress.pauses) > 1 else ""
    return at_most + " and ".join(filter(None, (", ".join(before), last))) + f" {verb} kept"


def spent(row: Row) -> tuple[str, ...]:
    """The tokens and the cost of the models that a step asked. Empty for the requests of a session: the
    row of the session has them."""
    used = row.usage
    if used is None or (turns_of(row) is not None and not row.many):
        return ()
    cost = cost_words(used.known_cost, used.requests, used.unpriced)
    return counted(used.tokens, "token"), cost


def tails(row: Row) -> tuple[str, ...]:
    """The end of what a step printed, and of each part of a reply that arrives: ``thinking: …``, the
    text of the reply, the calls of tools."""
    parts = [
        ("printed", row.printed),
        *(row.arriving.parts.copy().items() if row.arriving is not None else ()),
    ]
    return tuple(f"{MARKED.get(part, '')}{_tail(text)}" for part, text in parts if text.strip())


def _tail(text: str) -> str:
    """The last lines of a text. Of a line that is written again and again, such as a progress bar,
    only the last state."""
    lines = text[-TAIL:].strip("\r\n").split("\n")
    last_states = (text.rstrip("\r").rpartition("\r")[2] for text in lines[-TAIL_LINES:])
    shown = "\n".join(last_states)
    return plain(shown if len(text) <= TAIL and len(lines) <= TAIL_LINES else f"…{shown}")


def _left(row: Row) -> str:
    """How many calls were left running when the run ended."""
    return f", {row.left:,} left running" if row.left and row.state != "left" else ""


def took(row: Row, now: float | None = None) -> str:
    """The time of a step; empty if it was not made here. ``now``: until when a running step has run;
    default None: only a step that has ended has a time."""
    if row.is_reused:
        return ""
    return duration(row.seconds if now is None else row.seconds_until(now))


def _earlier(row: Row) -> str:
    """How many results were reused instead of calling again."""
    if row.old:
        return f", {AGAIN} old code"
    earlier, times = row.earlier, row.times
    if row.width:  # a fan-out makes no call itself
        earlier, times = sum(part.earlier for part in row.elements), row.width
    if not earlier:
        return ""
    return f", {AGAIN} reused" if earlier == times else f", {AGAIN} {earlier:,} reused"


def _tally(total: int, parts: tuple[Row, ...]) -> Tally:
    """The counts of the elements, over the rows of the parts of the body."""
    return Tally(
        total=total,
        ok=sum(row.finished for row in parts),
        failed=sum(max(0, row.failed - row.retried) for row in parts),
        running=sum(row.running for row in parts),
        cancelled=sum(row.cancelled for row in parts),
    )


def times_of(row: Row) -> Tally:
    """How often a row ran. A call that waits for an answer has failed so far, and has not ended."""
    tally = _tally(0, (row.timed,))
    if row.asks and not row.running:
        return tally._replace(failed=0, waiting=tally.failed)
    return tally._replace(failed=0) if row.asks else tally


def short(count: int) -> str:
    """
    >>> [short(n) for n in (812, 1000, 12_345, 3_400_000)]
    ['812', '1,000', '12k', '3.4M']
    """
    if count < 10_000:
        return f"{count:,}"
    if count < 1_000_000:
        return f"{count // 1000}k"
    return f"{count / 1e6:.1f}M"
