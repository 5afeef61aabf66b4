"""The look of each kind of step and of each state, as tables.

All colours work on white and on black. Fills are opaque pastels with dark text, so a box looks the
same in every theme; edges, their labels and frames are mid-tones. A state is a mark and a word,
never a colour alone.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple


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

LINE = "#7d7d7d"
DATA = "#b0672a"
TEXT = "#1b1b1b"
SANS = "Helvetica, Arial, 'DejaVu Sans', sans-serif"


def kind(word: str) -> Kind:
    """The look of a word, also of one after a prefix: ``agf.loop``."""
    return KINDS.get(word) or KINDS.get(word.rpartition(".")[2], OTHER)


def state(name: str) -> State:
    return STATES.get(name) or State("·", name, "#7d7d7d", "#666666")


def width(text: str, points: float, bold: bool = False) -> float:
    """The greatest width of ``text`` in points, in any sans-serif font that a reader may have."""
    return points * (1.11 if bold else 1.0) * sum(_advance(c) for c in text)


def fitted(text: str, points: float, room: float, bold: bool = True) -> str:
    """``text``, in bold by default, shortened by an ellipsis to fit ``room`` points."""
    if width(text, points, bold) <= room:
        return text
    while text and width(text + "…", points, bold) > room:
        text = text[:-1]
    return text.rstrip() + "…"


def fitted_names(names: str, points: float, room: float) -> str:
    """Names with commas between them, to fit ``room`` points. First the paths lose their
    beginnings, which are alike.

    >>> fitted_names("†state.draft", 10, 50)
    '…draft'
    """
    if width(names, points) > room:
        names = ", ".join(
            f"…{one.rpartition('.')[2]}" if "." in one else one for one in names.split(", ")
        )
    return fitted(names, points, room, bold=False)


def wrapped(text: str, points: float, room: float, most: int) -> tuple[str, ...]:
    """``text`` in bold in at most ``most`` lines, broken after a blank or a dot, and shortened if
    it is longer."""
    lines = [""]
    for piece in re.split(r"(?<=[ .])", text):
        longer = lines[-1] + piece
        if len(lines) == most or not lines[-1] or width(longer.rstrip(), points, bold=True) <= room:
            lines[-1] = longer
        else:
            lines.append(piece)
    return tuple(fitted(one.rstrip(), points, room) for one in lines)


def _advance(c: str) -> float:
    if c in "iIjl.,:;'|!":
        return 0.34
    if c in ' ftr()[]{}"`-/\\':
        return 0.42
    if c in "mwMW@%":
        return 0.98
    if c.isascii():
        return 0.70 if c.isupper() else 0.62
    return (
        0.0
        if unicodedata.combining(c)
        else 1.05
        if unicodedata.east_asian_width(c) in "WF"
        else 0.82
    )
