r"""Text that is safe to display: bounded, in one direction, without control characters; and as HTML.

Definitions and results are untrusted text. A bidi mark can show ``deploy`` in reverse, an escape
sequence can rewrite a terminal, a lone surrogate cannot be sent to the browser. They are shown as
Python escapes (``\u202e``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

from ..text.columns import cells
from .amounts import size

# Control characters but newline and tab, soft hyphen, bidi marks, invisible spaces and operators,
# surrogates, tags.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\ufffe\uffff\U000e0000-\U000e007f]"
)
# More than four combining marks in a row, which would cover other lines.
_PILED = re.compile(
    r"([\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{4})[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+"
)


def plain(text: str, most: int = 2_000) -> str:
    """At most ``most`` characters of ``text``, with its lines and tabs. A longer text is cut and ends
    with its size.

    >>> plain("to\\u202edo")
    'to\\\\u202edo'
    """
    # Cut first: 10 MB must not be scanned to show a line.
    shown = text[:most]
    if not (shown.isascii() and shown.isprintable()):
        shown = _PILED.sub(r"\1", _UNSAFE.sub(_named, shown))
    return shown if len(text) <= most else f"{shown}… {size(len(text))} in all"


def line(text: str, most: int = 120) -> str:
    """``text`` on one line; a text of more than ``most`` characters is cut and ends with an ellipsis."""
    flat = " ".join(plain(text[: most * 4]).split())
    return flat if len(flat) <= most and len(text) <= most * 4 else flat[: most - 1].rstrip() + "…"


def html(text: str) -> str:
    """Text that went through `plain` or `line`, as HTML."""
    return escape(text, quote=True)


UNTYPESET = '<div class="mathjax_ignore tex2jax_ignore">'
"""The beginning of an output in which no front end reads mathematics."""


def untypeset(page: str) -> str:
    """HTML as the output of a cell: JupyterLab reads ``from $5 to $6`` of any output as mathematics, and
    ``$\\href{…}$`` as a link, unless the outermost element says that it is text."""
    return page if not page or page.startswith(UNTYPESET) else f"{UNTYPESET}{page}</div>"


def details(title: str, inside: str, is_open: bool = False) -> str:
    """An HTML fold; ``title`` and ``inside`` are HTML already."""
    opened = " open" if is_open else ""
    return f"<details{opened}><summary>{title}</summary>{inside}</details>"


def lines_html(inside: str, style: str = "margin:0", name: str = "") -> str:
    """Lines of HTML whose columns stay. ``style``: more of their style. ``name``: their class.

    nbconvert has a proportional font for ``<pre>``, which moves the carets below a line.
    """
    named = f' class="{name}"' if name else ""
    return f'<pre{named} style="{style};font-family:monospace">{inside}</pre>'


def padded(text: str, width: int) -> str:
    """``text`` filled with blanks to ``width`` cells."""
    return text + " " * (width - cells(text))


def _named(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\U{code:08x}"


def not_saved(name: str, characters: int, where: str) -> str:
    """The sentence in the place of a part that is too large for a saved cell. ``where``: the Python
    expression that returns the part."""
    code = f"<code>{html(where)}</code>"
    return f"<p><em>not saved here, {characters / 1e3:,.0f} kB: {name} ({code})</em></p>"


def parts_html(parts: Iterable[tuple[str, str]]) -> str:
    """Parts as HTML, each with its title."""
    return "".join(
        f'<p style="margin:8px 0 2px"><strong>{html(line(title, 300))}</strong></p>{part}'
        for title, part in parts
    )


def parts_text(parts: Iterable[tuple[str, str]]) -> str:
    """Parts as text, each with its title."""
    return "\n\n".join(f"{title}\n{part}".rstrip("\n") for title, part in parts)
