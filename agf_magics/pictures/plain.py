r"""Text that is safe to display: bounded, in one direction, without control characters; and as HTML.

Definitions and results are untrusted text. A bidi mark can show ``deploy`` in reverse, an escape
sequence can rewrite a terminal, a lone surrogate cannot be sent to the browser. They are shown as
Python escapes (``\u202e``).
"""

from __future__ import annotations

import re
from decimal import Decimal
from html import escape

from ..text.columns import cells

# Control characters but newline and tab, soft hyphen, bidi marks, invisible spaces and operators,
# surrogates, tags.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\ufffe\uffff\U000e0000-\U000e007f]"
)
_PILED = re.compile(
    r"([\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{4})[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+"
)


def plain(text: str, most: int = 2_000) -> str:
    """At most ``most`` characters of ``text`` with its lines and tabs; a longer one ends with its
    size.

    >>> plain("to\\u202edo")
    'to\\\\u202edo'
    """
    # Cut first: 10 MB must not be scanned to show a line.
    shown = text[:most]
    if not (shown.isascii() and shown.isprintable()):
        shown = _PILED.sub(r"\1", _UNSAFE.sub(_named, shown))
    return shown if len(text) <= most else f"{shown}… {size(len(text))} in all"


def line(text: str, most: int = 120) -> str:
    """``text`` on one line, shortened by an ellipsis."""
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
    """A fold, of two texts that are HTML."""
    opened = " open" if is_open else ""
    return f"<details{opened}><summary>{title}</summary>{inside}</details>"


def padded(text: str, width: int) -> str:
    """``text`` filled with blanks to ``width`` cells."""
    return text + " " * (width - cells(text))


def size(characters: int) -> str:
    """
    >>> size(10_000_000), size(4_200)
    ('10 MB', '4,200 characters')
    """
    return (
        f"{characters / 1e6:,.0f} MB" if characters >= 1_000_000 else f"{characters:,} characters"
    )


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "step"), counted(1200, "step")
    ('1 step', '1,200 steps')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def duration(seconds: float | None) -> str:
    """
    >>> [duration(s) for s in (None, 0.0001, 0.0042, 1.234, 75.2, 7260)]
    ['', '< 1 ms', '4 ms', '1.2 s', '1 min 15 s', '2 h 1 min']
    """
    if seconds is None:
        return ""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.0005 else "< 1 ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    return (
        f"{whole // 60} min {whole % 60} s"
        if whole < 3600
        else f"{whole // 3600} h {whole % 3600 // 60} min"
    )


def money(dollars: Decimal) -> str:
    """
    >>> [money(Decimal(text)) for text in ("0", "0.00264", "0.5", "12.346", "1234")]
    ['≈ $0', '≈ $0.0026', '≈ $0.50', '≈ $12.35', '≈ $1,234.00']
    """
    if not dollars:
        return "≈ $0"
    digits = 2 if dollars >= Decimal("0.1") else 1 - dollars.adjusted()
    return f"≈ ${dollars:,.{min(digits, 12)}f}"


def _named(found: re.Match[str]) -> str:
    code = ord(found[0])
    return (
        f"\\x{code:02x}"
        if code < 0x100
        else f"\\u{code:04x}"
        if code < 0x10000
        else f"\\U{code:08x}"
    )


def not_saved(name: str, size: int, where: str) -> str:
    """The sentence in the place of a part that is too large for a saved cell. ``where``: the Python
    that gives it."""
    code = f"<code>{html(where)}</code>"
    return f"<p><em>not saved here, {size / 1e3:,.0f} kB: {name} ({code})</em></p>"
