"""The parts of a picture: boxes, frames around them, arrows between them; without states and
places.

Every step is one box. A step that contains steps is a frame with that box as its head, so that an
arrow into a step always ends at a box, and no edge crosses the texts of the head (source, limit,
policy, counters).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ..flow.frame import Expr
from ..flow.steps import WIDTH, Branches, Each, Fold, Invoke, Repeat, Step
from . import theme as look
from .dataflow import DataFlow
from .plain import line

Line = Literal["control", "data", "wire", "again", "back", "beside", "exit", "below", "right"]
"""``data``: a value that flows; ``wire``: the same in a plan, where only values decide the order.
``again``: to the head of a frame for the next element or iteration. ``back``: to an earlier node of
a graph, ``beside`` if only one edge leads down from that. ``exit``: from a node that reached its
limit. ``below`` and ``right`` are invisible and keep a box in its place."""
HIDDEN = frozenset({"below", "right"})

INPUT = "input"
"""The id of the box of the run's input."""

POINTS_WORD = 10.0
POINTS_NAME = 12.5
_CORNER = 92.0
"""Room for a state in the corner of every box: the layout must not change during a run."""
LEADING = 15.0
LONGEST = 230.0
LINES = 3
"""Lines of a longer name; the tooltip has all of it."""
WHOLE = 200
"""Characters of a name before it is broken into lines."""
NOTE = 60
TOOLTIP = 500
SHORT_ID = 28
CONDITION = 52
"""Characters of a condition that are shown."""
LABEL = 40
"""Characters of the label of an arrow to a branch or a case: these are next to each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    id: str
    word: str
    kicker: str
    """The small first line: the kind, the role in its frame, who is asked, the id if the name is
    not unique."""
    name: str
    """The bold lines below."""
    note: str = ""
    """The small last line: how a fan-out runs, the tools of an agent, the output."""
    tooltip: str = ""
    head: bool = False
    many: bool = False
    """Inside a fan-out or a fold: drawn as a stack."""
    small: bool = False
    """Only its kicker: the start and the end of a graph."""
    step: Step | None = None

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines of the name."""
        return look.wrapped(self.name, POINTS_NAME, LONGEST, LINES) if self.name else ()

    @property
    def width(self) -> float:
        if self.small:
            return round(look.width(self.kicker, POINTS_WORD) + 28)
        corner = _CORNER if self.step is not None else 0.0
        lines = (
            look.width(self.kicker, POINTS_WORD) + corner,
            *(look.width(one, POINTS_NAME, bold=True) for one in self.lines),
            look.width(self.note, POINTS_WORD),
        )
        return round(max(72.0, *lines) + 24)

    @property
    def height(self) -> float:
        if self.small:
            return 26.0
        return (60.0 if self.note and self.name else 44.0) + LEADING * max(0, len(self.lines) - 1)

    @property
    def stack(self) -> float:
        """The additional size of a stack, to the right and above."""
        return 6.0 if self.many else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    id: str
    word: str
    parts: tuple[Box | Frame, ...]


class Arrow(NamedTuple):
    tail: str
    head: str
    line: Line = "control"
    label: str = ""
    leaves: str | None = None
    """The frame at whose border it begins."""
    carries: str = ""
    """The values that flow along a control arrow, from a step to the next one."""
    way: str = ""
    """The key of a graph's edge among the states (see `way`)."""


def way(walk: str, source: str, target: str) -> str:
    """The key of a graph's edge among the states of a run."""
    return f"{walk}: {source} → {target}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    name: str
    parts: tuple[Box | Frame, ...]
    arrows: tuple[Arrow, ...]

    @property
    def boxes(self) -> Iterator[Box]:
        yield from within(self.parts)

    @property
    def frames(self) -> Iterator[Frame]:
        """Outer ones first."""
        yield from _frames(self.parts)


def make_box(
    step: Step,
    data: DataFlow,
    many: bool,
    *,
    part: str = "",
    head: bool = False,
    note: str = "",
    name: str = "",
) -> Box:
    """The box of ``step``. ``part``: its role in its frame; ``note``: of its place there; ``name``:
    its name there, if that is not its label."""
    if name and step.label != name:
        part = line(step.label, 32)
    place = step.id if data.is_repeated(step) and not name else ""
    kicker = " · ".join(filter(None, (_kind(step), part, line(_asked(step), 32), _short_id(place))))
    notes = (how(step), note, _tools(step), data.summary(step))
    return Box(
        id=step.id,
        word=step.word,
        kicker=kicker,
        name=line(name or step.label, WHOLE),
        note=line(" · ".join(filter(None, notes)), NOTE),
        tooltip=_tooltip(step, name, data, (how(step), note, _tools(step, 50))),
        head=head,
        many=many,
        step=step,
    )


def _kind(step: Step) -> str:
    return f"{look.kind(step.word).glyph} {line(step.word, 24)}"


def _asked(step: Step) -> str:
    """The identity that an agent's step asks, unless it is the label."""
    if isinstance(step, Invoke) and step.kind == "agent" and step.name.text != step.label:
        return step.name.text
    return ""


def _short_id(id: str) -> str:
    return line(id if len(id) <= SHORT_ID else f"…{id[1 - SHORT_ID :]}", SHORT_ID)


def _tools(step: Step, most: int = 3) -> str:
    """The tools that an agent or a model may use: ``tools: search, load``."""
    if isinstance(step, Invoke) and step.kind in ("agent", "model") and step.tools is not None:
        names = [name.text for name in step.tools]
        more = f" and {len(names) - most} more" if len(names) > most else ""
        return f"tools: {', '.join(names[:most])}{more}" if names else "no tools"
    return ""


def _tooltip(step: Step, name: str, data: DataFlow, notes: Iterable[str]) -> str:
    reads, writes = data.reads(step), data.writes(step)
    facts = (
        f"{step.id}: {step.word} {name}".rstrip(),
        step.label if step.label != name else "",
        *notes,
    )
    flows = (f"reads {reads}" if reads else "", f"writes {writes}" if writes else "")
    return "\n".join(line(fact, TOOLTIP) for fact in dict.fromkeys((*facts, *flows)) if fact)


def how(step: Step) -> str:
    """How a step repeats and fails: ``4 at once · on error: retry(2)``, ``until score >= 0.8 · at
    most 5 times``."""
    bits = []
    match step:
        case Each():
            bits.append(f"{step.limit or WIDTH} at once")
            bits += [_bound(step, step.most)] if step.most is not None else []
        case Fold() if step.most is not None:
            bits.append(f"at most {step.most:,}")
        case Repeat():
            bits += [f"until {condition(step.until)}"] if step.until is not None else []
            bits.append(
                f"at most {step.limit:,} times"
                if step.until is not None or step.session
                else f"{step.limit:,} times"
            )
    if isinstance(step, (Each, Branches)) and (
        step.retries or (step.on_error == "continue" and step.gather is None)
    ):
        bits.append(f"on error: {f'retry({step.retries})' if step.retries else step.on_error}")
    if isinstance(step, Invoke) and step.permit is not None:
        bits.append("asks before")
    if step.rescue is not None:
        bits.append("continues if it fails")
    return " · ".join(bits)


def _bound(step: Each, most: int) -> str:
    refuses = step.cut is not None and step.cut(1).severity == "error"
    return f"{'at most' if refuses else 'the first'} {most:,}"


def condition(expr: Expr) -> str:
    """An expression as its language shows it (its ``text``), else its source."""
    return line(getattr(expr, "text", None) or expr.span.text, CONDITION)


def within(parts: tuple[Box | Frame, ...]) -> Iterator[Box]:
    """The boxes in ``parts``."""
    for part in parts:
        if isinstance(part, Box):
            yield part
        else:
            yield from within(part.parts)


def _frames(parts: tuple[Box | Frame, ...]) -> Iterator[Frame]:
    for part in parts:
        if isinstance(part, Frame):
            yield part
            yield from _frames(part.parts)
