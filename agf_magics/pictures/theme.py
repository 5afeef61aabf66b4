"""The look of each kind of step and of each state, as tables.

All colours work on white and on black. Fills are opaque pastels with dark text, so a box looks the
same in every theme; edges, their labels and frames are mid-tones. A word on a page is mixed of the
mid-tone and the colour of the page's text. A state is a mark and a word,
never a colour alone.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import NamedTuple


class Kind(NamedTuple):
    glyph: str
    fill: str
    """The opaque background of a box."""
    ink: str
    """The colour of a word on the fill, and of the word's border."""
    hue: str
    """The colour of a frame."""


_TOOL = Kind("⚙", "#d6e6fb", "#1d4f91", "#4a90e2")
_PLAIN = Kind("•", "#e6e6e6", "#3f3f3f", "#8a8a8a")
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
    **dict.fromkeys(
        ("plan", "graph", "sequential", "steps"), Kind("◇", "#dfe4ea", "#3d4a5c", "#7b8794")
    ),
    "fold": _AGAIN._replace(glyph="Σ"),
    **dict.fromkeys(("loop", "ticks", "ask again"), _AGAIN),
    **dict.fromkeys(("match", "conditional", "router", "reply"), _CHOICE),
    **dict.fromkeys(("interrupt", "question"), _PERSON),
    "input": _PLAIN._replace(glyph="→", fill="#ececec"),
}
OTHER = Kind("•", "#e9e9e9", "#3f3f3f", "#8a8a8a")
"""The look of a word that is none of `KINDS`."""


class State(NamedTuple):
    mark: str
    word: str
    color: str
    """The mid-tone of a ring or a word on the page."""
    ink: str
    """The dark colour of a word on a pastel fill, and of a fill below a white one."""
    ring: float = 2.2
    """The width of the border of a box: thicker for steps that run or have run."""


STATES = {
    "pending": State("·", "pending", "#7d7d7d", "#666666", 1.1),
    "running": State("▶", "running", "#2b7fd4", "#0b57a4"),
    "ok": State("✓", "ok", "#27894f", "#17683a"),
    "failed": State("✗", "failed", "#d64545", "#a31919"),
    "error": State("✗", "failed", "#d64545", "#a31919"),
    "cancelled": State("■", "cancelled", "#a56c00", "#7d5200"),
    "cancelling": State("■", "cancelling", "#a56c00", "#7d5200"),
    "skipped": State("–", "skipped", "#7d7d7d", "#666666", 1.1),
    "kept": State("!", "failed, handled", "#a56c00", "#7d5200"),
    "dropped": State("!", "ok", "#a56c00", "#7d5200"),
    "lost": State("!", "failed, dropped", "#a56c00", "#7d5200"),
    "waiting": State("?", "waiting", "#2b7fd4", "#0b57a4"),
    "interrupted": State("◐", "interrupted", "#a56c00", "#7d5200"),
    "damaged": State("✗", "damaged", "#d64545", "#a31919"),
    "taken": State("", "taken", "#27894f", "#17683a", 2.4),
    "left": State("◌", "left running", "#a56c00", "#7d5200"),
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
DARK = Roles("#111111", "#e8ebee", "#a3adb8", "#8b96a3", "#f0b071", "#3a2c1c")


class Colours(NamedTuple):
    """The colours of a kind in a picture, mixed from its hue: a new kind needs one hue."""

    box: str
    border: str
    ink: str
    frame: str


def kind(word: str) -> Kind:
    """The look of a word, also of a word after a prefix: ``agf.loop``."""
    return KINDS.get(word) or KINDS.get(word.rpartition(".")[2], OTHER)


def state(name: str) -> State:
    return STATES.get(name) or State("·", name, "#7d7d7d", "#666666")


def look_number(word: str) -> int:
    """The number of a word's look, which the CSS classes of a picture contain."""
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
    """The style sheet that makes a picture with these looks a dark one.

    Its classes, as svg.py has them: p page, t text, d dim text, v value, c tag, w line of a value,
    l other line, a head of a line, h border of a text on the page; and with the number of a look:
    b box, s border, i ink, f frame, h border of a text on the frame."""
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


def _mixed(first: str, other: str, share: float) -> str:
    """A colour between two.

    >>> _mixed("#102030", "#304050", 0.5)
    '#203040'
    """
    parts = [(int(first[i : i + 2], 16), int(other[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in parts)


def width(text: str, points: float, bold: bool = False) -> float:
    """The approximate width of ``text`` in points in Helvetica and Arial, rather too large."""
    return points * (1.10 if bold else 1.03) * sum(map(_advance, text))


def _advance(c: str) -> float:
    for share, letters in _ADVANCES:
        if c in letters:
            return share
    if c.isascii():
        return 0.68 if c.isupper() else 0.556
    if unicodedata.combining(c):
        return 0.0
    if unicodedata.bidirectional(c) == "AL":  # Arabic letters are joined
        return 0.58
    is_letter = unicodedata.category(c)[0] == "L"
    return 0.7 if is_letter and unicodedata.east_asian_width(c) not in "WF" else 1.0


# Letters by their width, as a share of the size of the text.
_ADVANCES = (
    (0.26, "iIjl.,:;'|!"),
    (0.5, "◂▸"),
    (0.33, ' ftr()[]{}"`-/\\'),
    (0.84, "mMWw@%"),
)
_LOOKS = tuple(dict.fromkeys((*KINDS.values(), OTHER)))
