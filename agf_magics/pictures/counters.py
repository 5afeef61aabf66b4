"""The look of each kind of step and of each state, as tables.

All colours work on white and on black. Fills are opaque pastels with dark text, so a box looks the
same in every theme; edges, their labels and frames are mid-tones. A state is a mark and a word,
never a colour alone.

The counts and the state of a row of a run, in words.

The row of a fan-out has its start and end; the rows below it count its elements.

The steps of a large run in folds: some hundred short lines each, with their totals in the title.

A page of a run has at most 1 MB, whatever the number of its steps. A row of a table has 600 bytes,
a line of a fold 60.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..flow.events import Progressed
from ..flow.progress import Key, Progress, Row
from .plain import counted, details, duration, html, line, money, plain


class Kind(NamedTuple):
    glyph: str
    fill: str
    """The opaque background of a box."""
    ink: str
    """The colour of a word on that fill, and of its border."""
    hue: str
    """The colour of a frame."""


_TOOL, _PLAIN = (
    Kind("⚙", "#d6e6fb", "#1d4f91", "#4a90e2"),
    Kind("•", "#e6e6e6", "#3f3f3f", "#8a8a8a"),
)
_AGENT = Kind("✦", "#e8dcfb", "#5b2c91", "#9a6ae0")
_VALUE = Kind("ƒ", "#dcf0d6", "#2d6a23", "#5fb04c")
_CALL = _PLAIN._replace(glyph="↗")
_EACH = Kind("⟳", "#fdeec4", "#7a5a00", "#e0a500")
_BESIDE = Kind("∥", "#d3eef2", "#12606c", "#1fa5bb")
_AGAIN = Kind("↻", "#ffe2cf", "#8a3d0c", "#f0822f")
_CHOICE = Kind("?", "#ffdce5", "#8f1d3f", "#e5527f")
_PERSON = Kind("☺", "#fff3b0", "#6b5300", "#d9b300")

# A word has one meaning in all languages; steps that do the same have the same colour.
KINDS = {
    **dict.fromkeys(("tool", "tool_call", "python", "vendor"), _TOOL),
    "shell": Kind("❯", "#d9dfe8", "#33475f", "#64788f"),
    **dict.fromkeys(("agent", "llm", "model", "react", "session"), _AGENT),
    **dict.fromkeys(
        (
            "transform",
            "output_from",
            "passthrough",
            "custom_transform",
            "latent",
            "output",
            "result",
        ),
        _VALUE,
    ),
    "answer": _VALUE,
    **dict.fromkeys(("call", "subgraph", "delegate"), _CALL),
    **dict.fromkeys(("for_each", "batch", "map", "tools"), _EACH),
    "parallel": _BESIDE,
    **dict.fromkeys(("plan", "graph", "sequential"), Kind("◇", "#dfe4ea", "#3d4a5c", "#7b8794")),
    "fold": _AGAIN._replace(glyph="Σ"),
    **dict.fromkeys(("loop", "ticks", "ask again"), _AGAIN),
    **dict.fromkeys(("match", "conditional", "router", "reply"), _CHOICE),
    **dict.fromkeys(("interrupt", "question"), _PERSON),
    "input": _PLAIN._replace(glyph="→", fill="#ececec"),
}
OTHER = Kind("•", "#e9e9e9", "#3f3f3f", "#8a8a8a")


class State(NamedTuple):
    mark: str
    word: str
    color: str
    """The mid-tone of a ring or a word on the page."""
    ink: str
    """The dark colour of a word on a pastel fill."""
    ring: float = 2.2
    """The width of the border of a box: thicker for steps that run or have run."""
    fill: str = "#e9e9e9"
    """The background of the word on a page; the word has the colour `ink`."""


STATES = {
    "pending": State("·", "pending", "#7d7d7d", "#666666", 1.1),
    "running": State("▶", "running", "#2b7fd4", "#0b57a4", fill="#d6e6fb"),
    "ok": State("✓", "ok", "#27894f", "#17683a", fill="#dcf0d6"),
    "failed": State("✗", "failed", "#d64545", "#a31919", fill="#fbdcdc"),
    "error": State("✗", "failed", "#d64545", "#a31919", fill="#fbdcdc"),
    "cancelled": State("■", "cancelled", "#a56c00", "#7d5200", fill="#fdeec4"),
    "skipped": State("–", "skipped", "#7d7d7d", "#666666", 1.1),
    "kept": State("!", "failed, handled", "#a56c00", "#7d5200", fill="#fdeec4"),
    "waiting": State("?", "waiting", "#2b7fd4", "#0b57a4", fill="#d6e6fb"),
    "interrupted": State("◐", "interrupted", "#a56c00", "#7d5200", fill="#fdeec4"),
    "damaged": State("✗", "damaged", "#d64545", "#a31919", fill="#fbdcdc"),
    "taken": State("", "taken", "#27894f", "#17683a", 2.4),
    "left": State("◌", "left running", "#a56c00", "#7d5200", fill="#fdeec4"),
}

LINE = "#77818c"
"""A line in a page that has no theme of its own."""
SANS = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans Condensed', sans-serif"


class Roles(NamedTuple):
    """The colours of a picture that do not depend on the kind of a step."""

    page: str
    text: str
    dim: str
    line: str
    value: str
    chip: str


LIGHT = Roles("#ffffff", "#1b1f24", "#59636e", "#77818c", "#9a4a0b", "#fbeedd")
DARK = Roles("#111417", "#e8ebee", "#a3adb8", "#8b96a3", "#f0b071", "#3a2c1c")


class Colours(NamedTuple):
    """The colours of a kind in a picture, mixed from its hue: a new kind needs one hue."""

    box: str
    border: str
    ink: str
    frame: str


def kind(word: str) -> Kind:
    """The look of a word, also of one after a prefix: ``agf.loop``."""
    return KINDS.get(word) or KINDS.get(word.rpartition(".")[2], OTHER)


def state(name: str) -> State:
    return STATES.get(name) or State("·", name, "#7d7d7d", "#666666")


def number(word: str) -> int:
    """The number of the look of a word, as it stands in the classes of a picture."""
    return _LOOKS.index(kind(word))


def colours(look: Kind, is_dark: bool = False) -> Colours:
    """The colours of a kind on a light or a dark page."""
    if is_dark:
        back, page, hue = "#1c2127", DARK.page, look.hue
        ink = _mixed(hue, "#ffffff", 0.45)
        return Colours(
            _mixed(back, hue, 0.16), _mixed(back, hue, 0.62), ink, _mixed(page, hue, 0.1)
        )
    tints = (_mixed("#ffffff", look.hue, share) for share in (0.09, 0.75, 0.05))
    box, border, frame = tints
    return Colours(box, border, look.ink, frame)


def dark_rules(numbers: Iterable[int]) -> str:
    """The style sheet that makes a picture with these looks a dark one."""
    rules = [
        f".p{{fill:{DARK.page}}}.h{{stroke:{DARK.page}}}.t{{fill:{DARK.text}}}.d{{fill:{DARK.dim}}}",
        f".v{{fill:{DARK.value}}}.c{{fill:{DARK.chip}}}.w{{stroke:{DARK.value}}}",
        f".l{{stroke:{DARK.line}}}.a{{fill:{DARK.line}}}",
    ]
    for place in sorted(set(numbers)):
        dark = colours(_LOOKS[place], is_dark=True)
        rules.append(
            f".b{place}{{fill:{dark.box}}}.s{place}{{stroke:{dark.border}}}.i{place}{{fill:{dark.ink}}}"
            f".f{place}{{fill:{dark.frame}}}.h{place}{{stroke:{dark.frame}}}"
        )
    return "".join(rules)


def _mixed(one: str, other: str, share: float) -> str:
    parts = [(int(one[i : i + 2], 16), int(other[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in parts)


def width(text: str, points: float, bold: bool = False) -> float:
    """About the width of ``text`` in points in Helvetica and Arial, and a little more."""
    return points * (1.10 if bold else 1.03) * sum(map(_advance, text))


def _advance(c: str) -> float:
    for share, letters in _ADVANCES:
        if c in letters:
            return share
    if c.isascii():
        return 0.68 if c.isupper() else 0.556
    return 0.0 if unicodedata.combining(c) else 1.0


_ADVANCES = (
    (0.26, "iIjl.,:;'|!"),
    (0.5, "◂▸"),
    (0.33, ' ftr()[]{}"`-/\\'),
    (0.84, "mMWw@%"),
)
_LOOKS = tuple(dict.fromkeys((*KINDS.values(), OTHER)))

MOST_NUMBERS = 4

TAIL, TAIL_LINES = 400, 5
"""Characters and lines of an arriving reply, and of prints, that are shown: the last ones."""

FEW, SOON = 3, 0.5
"""Ended elements and seconds before which a pace is a guess."""

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

    @property
    def brief(self) -> str:
        """The same where there is little room: how many have ended, which failed, which run.

        >>> Tally(1000, 812, 3, 8, 0).brief
        '815/1,000 ✗3 ▶8'
        """
        return self.ended_of(f"/{self.total:,}")

    def ended_of(self, total: str = "") -> str:
        """``brief`` with another text for the total: that of a loop is not known.

        >>> Tally(0, 1, 0, 1, 0).ended_of()
        '1 ▶1'
        """
        parts = [(self.failed, "failed"), (self.running, "running"), (self.cancelled, "cancelled")]
        marked = (f" {STATES[name].mark}{count:,}" for count, name in parts if count)
        return f"{self.ended:,}{total}{''.join(marked)}"


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


def pace(row: Row, tally: Tally | None, now: float) -> str:
    """How fast the elements of a running fan-out end, and when the last one will: ``120/s, 7 s
    left``. ``now``: on the clock of the events."""
    if tally is None or row.when is None or not row.running:
        return ""
    # What an earlier session did took no time of this one.
    done = tally.ended - sum(part.earlier for part in row.elements)
    left = tally.total - tally.ended
    seconds = now - row.when
    if done < FEW or seconds < SOON or not left:
        return ""
    each = seconds / done
    speed = f"{1 / each:,.0f}/s" if each < 0.5 else f"{duration(each)} each"
    return f"{speed}, {duration(max(1.0, left * each))} left"


def words(row: Row) -> str:
    """The state of a row as a mark and a word: ``✓ ok``."""
    look = state(row.state)
    return f"{look.mark} {look.word}{_left(row)}{_earlier(row)}"


def corner_of(row: Row, tally: Tally | None) -> Corner:
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


def numbers_of(numbers: list[int]) -> Corner:
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
        (lost, "waiting" if row.asks and not row.running else "failed"),
        (row.running, "running"),
        (row.retried, "retried"),
        (row.cancelled, "cancelled"),
        (0 if row.loops and row.finished else row.skipped, "skipped"),
    ]
    return ", ".join(f"{count:,} {word}" for count, word in parts if count > 0)


def brief_times(row: Row) -> str:
    """`times` where there is little room, as `Tally.brief`: ``815 ✗3 ▶8``."""
    if row.times <= 1 or row.asks:
        return times(row)
    return _tally(0, (row,)).ended_of()


def reports(row: Row) -> list[Progressed]:
    """What the running calls of a row have reported last, the longest running one first."""
    return list(row.reports.values()) if row.running else []


def activity(row: Row) -> str:
    """What its calls do: ``3 of 10 · page 3``, ``again in 0.3 s (HTTP 429)``, and how many workers
    make them. Of many calls, the longest running one that reports: ``#7: 3 of 10, and 4 more``."""
    reported = reports(row)
    more = f", and {len(reported) - 1:,} more" if len(reported) > 1 else ""
    shown = [report_text(row, one) + more for one in reported[:1]]
    return " · ".join(filter(None, [*shown, on_workers(row)]))


def report_text(row: Row, report: Progressed) -> str:
    """``#7: 3 of 10 · page 3``"""
    number = f"#{report.at[-1]}: " if row.many and isinstance(report.at[-1], int) else ""
    total = f" of {_amount(report.total)}" if report.total is not None else ""
    done = f"{_amount(report.done)}{total}" if report.done is not None else ""
    return number + " · ".join(filter(None, [done, line(report.text, 120)]))


def share_of(row: Row) -> float | None:
    """The share that the call of a row has done; None if that is not known, or of many calls."""
    done, total = next(((one.done, one.total) for one in reports(row)), (None, None))
    return min(done / total, 1.0) if done is not None and total and not row.many else None


def _amount(number: float) -> str:
    return f"{number:,.0f}" if number == int(number) else f"{number:,.3g}"


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
        *(row.arriving.parts.copy().items() if row.arriving is not None else ()),
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


GROUP = 100
"""Steps of a fold."""
MOST_BYTES = 700_000
"""Bytes of all folds of a page, as UTF-8."""


def totals(rows: Iterable[Row]) -> str:
    """``9,990 ok, 10 failed``"""
    states = Counter(state(row.state).word for row in rows)
    return ", ".join(f"{count:,} {word}" for word, count in states.items())


def folds_html(rows: Sequence[Row]) -> str:
    """``rows`` in folds, until the page is full."""
    found, size = [], 0
    for first in range(0, len(rows), GROUP):
        group = rows[first : first + GROUP]
        fold = _fold(group)
        size += len(fold.encode())
        if size > MOST_BYTES:
            more = counted(len(rows) - first, "more step")
            found.append(
                f"<p><em>… {more} ({html(totals(rows[first:]))}): run.progress.rows</em></p>"
            )
            break
        found.append(fold)
    return "".join(found)


def _fold(rows: Sequence[Row]) -> str:
    title = f"{line(rows[0].id, 60)} … {line(rows[-1].id, 60)} · {totals(rows)}"
    inside = "\n".join(_lines(rows))
    return details(html(title), f'<pre style="margin:0">{html(inside)}</pre>')


def _lines(rows: Iterable[Row]) -> Iterator[str]:
    for row in rows:
        parts = (
            words(row),
            kind(row.word).glyph,
            line(row.word, 24),
            line(row.label, 40),
            times(row),
        )
        yield " " * row.depth + " ".join(
            filter(None, (*parts, duration(row.seconds), line(row.id, 60)))
        )
