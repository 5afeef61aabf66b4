"""A scene as graphviz text, with boxes of fixed size: graphviz places them and measures no text.

So the layout is the same for every graphviz, every font and every state of a run. The text has the
labels, colours and states too: any ``dot`` can draw it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from ..flow.steps import Flow
from ..progress.progress import Progress
from . import theme as look
from .boxes import Arrow, Box, Frame, Scene, way
from .counters import Corner, corner, paths, taken, tallies
from .plain import line
from .scene import scene

States = Mapping[str, Corner]
"""By the ids of the boxes."""

Places = Mapping[str, int]

STYLES = {
    "control": ["weight=8"],
    "below": ["style=invis", "weight=8"],
    "right": ["style=invis"],
    "again": ["dir=back", "weight=1"],
    "back": ["dir=back", "weight=1"],
    "beside": ["dir=back", "weight=1", "tailport=e", "headport=e"],
    "exit": ["style=dashed", "weight=1"],
    "wire": ["style=dashed", f'color="{look.DATA}"', f'fontcolor="{look.DATA}"', "weight=2"],
    "data": ["style=dashed", f'color="{look.DATA}"', f'fontcolor="{look.DATA}"'],
}

_HEAD = """\
  graph [rankdir=TB, compound=true, newrank=true, remincross=false, nodesep=0.3, ranksep=RANKS,
  margin=0, pad=0.1,
         splines=true, nslimit=4, nslimit1=4, bgcolor=transparent,
         fontname="Helvetica,Arial,sans-serif"]
  node [shape=box, fixedsize=true, style="rounded,filled", penwidth=1.2, fontcolor="#1b1b1b",
  fontsize=11,
        fontname="Helvetica,Arial,sans-serif"]
  edge [color="#7d7d7d", fontcolor="#7d7d7d", arrowsize=0.7, penwidth=1.2, fontsize=12,
        fontname="Helvetica,Arial,sans-serif"]"""


def dot(flow: Flow, progress: Progress | None = None) -> str:
    """``flow`` as graphviz text; with ``progress`` in the colours of the run, on the same
    layout."""
    return scene_dot(scene(flow), states(progress) if progress else {})


def states(progress: Progress) -> States:
    """The corners of the boxes and the numbers of the edges of a run."""
    counted = tallies(progress)
    found = {
        key[0]: corner(row, counted.get(key)) for key, row in progress.rows.items() if len(key) == 1
    }
    return found | {way(*edge): taken(numbers) for edge, numbers in paths(progress).items()}


def scene_dot(drawn: Scene, shown: States, without: Collection[int] = ()) -> str:
    """Boxes are ``n0, n1, …``, frames ``cluster_0, …``, arrows ``e0, …`` in the order of the scene:
    a step's id may contain any text, and graphviz has its own rules for names. ``without``: the
    places of arrows that are left out."""
    boxes = {box.id: place for place, box in enumerate(drawn.boxes)}
    frames = {frame.id: place for place, frame in enumerate(drawn.frames)}
    ranks = (
        "0.5" if any(arrow.way for arrow in drawn.arrows) else "0.3"
    )  # room for the numbers of the edges
    lines = [f"digraph {_quoted(line(drawn.name, 80))} {{", _HEAD.replace("RANKS", ranks)]
    for part in drawn.parts:
        lines += _part(part, boxes, frames, shown, "  ")
    kept = [(place, arrow) for place, arrow in enumerate(drawn.arrows) if place not in without]
    lines += [_arrow(arrow, place, boxes, frames) for place, arrow in kept]
    return "\n".join([*lines, "}", ""])


def _part(
    part: Box | Frame, boxes: Places, frames: Places, shown: States, indent: str
) -> Iterator[str]:
    if isinstance(part, Box):
        yield f"{indent}n{boxes[part.id]} {_box(part, shown.get(part.id))}"
        return
    kind = look.kind(part.word)
    yield f"{indent}subgraph cluster_{frames[part.id]} {{"
    yield (
        f'{indent}  graph [margin=14, style="rounded", color="{kind.hue}90", '
        f'bgcolor="{kind.hue}1c", label=""]'
    )
    for inner in part.parts:
        yield from _part(inner, boxes, frames, shown, indent + "  ")
    yield f"{indent}}}"


def _box(box: Box, shown: Corner | None) -> str:
    kind = look.kind(box.word)
    corner = f"   {shown.words}" if shown and not box.small else ""
    lines = [text for text in (box.kicker + corner, *box.lines, box.note) if text]
    facts = [
        f"label={_quoted(*lines)}",
        f"tooltip={_quoted(line(box.id, 80))}",
        f"width={(box.width + box.stack) / 72:.4f}",
        f"height={(box.height + box.stack) / 72:.4f}",
        f'fillcolor="{kind.fill}"',
        f'color="{shown.look.color if shown else kind.ink}"',
        *([f"penwidth={shown.look.ring}"] if shown else []),
    ]
    return f"[{', '.join(facts)}]"


def _arrow(arrow: Arrow, place: int, boxes: Places, frames: Places) -> str:
    tail, head, end = boxes[arrow.tail], boxes[arrow.head], "ltail"
    facts = [f"id=e{place}", *STYLES[arrow.line]]
    if arrow.line in (
        "again",
        "back",
        "beside",
    ):  # written downwards, or graphviz puts the picture upside down
        tail, head, end = head, tail, "lhead"
    elif arrow.line == "data":
        facts.append(
            "constraint=false" if tail >= head else f"weight={8 if head == tail + 1 else 0}"
        )
    if arrow.carries:
        facts.append(f'color="{look.LINE}:{look.DATA}", fontcolor="{look.DATA}"')
    if arrow.label or arrow.carries:
        room = "      " if arrow.way else ""  # for the number on the line
        facts.append(f"label={_quoted(f'{room}  {arrow.label or arrow.carries}   {room[2:]}')}")
    if arrow.leaves:
        facts.append(f"{end}=cluster_{frames[arrow.leaves]}")
    edge = f"n{tail} -> n{head} [{', '.join(facts)}]"
    # Branches in the order of the text: graphviz keeps it only for an edge within a rank.
    return f"  {{rank=same {edge}}}" if arrow.line == "right" else f"  {edge}"


def _quoted(*lines: str) -> str:
    """A string of graphviz, in which backslashes and ampersands begin escapes."""
    return '"' + "\\n".join(_escaped(text) for text in lines) + '"'


def _escaped(text: str) -> str:
    for raw, written in (
        ("\\", "\\\\"),
        ("&", "&amp;"),
        ("<", "&lt;"),
        (">", "&gt;"),
        ('"', '\\"'),
    ):
        text = text.replace(raw, written)
    return text
