"""Amounts in words: characters, counted things, durations, dollars, moments."""

from __future__ import annotations

import math
from datetime import datetime
from decimal import Decimal


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
    """The words for a duration. The function of the same name in the page's script says the same.

    >>> [duration(s) for s in (None, 0.0001, 0.0042, 1.234, 75.2, 7260)]
    ['', '< 1 ms', '4 ms', '1.2 s', '1 min 15 s', '2 h 1 min']
    """
    if seconds is None:
        return ""
    # A half is rounded up, as in JavaScript: `round` takes the even number.
    if (milliseconds := math.floor(seconds * 1000 + 0.5)) < 1000:
        return f"{milliseconds} ms" if milliseconds > 0 else "< 1 ms"
    if (tenths := math.floor(seconds * 10 + 0.5)) < 600:
        return f"{tenths / 10:.1f} s"
    whole = math.floor(seconds + 0.5)
    return (
        f"{whole // 60} min {whole % 60} s"
        if whole < 3600
        else f"{whole // 3600} h {whole % 3600 // 60} min"
    )


LONGEST_FLOAT = 10
"""Characters of the longest number that is shown without rounding."""


def number(value: float) -> str:
    """A float among other values: without the digits behind the 15th, which are the error of binary
    fractions, and a long one rounded to 6 digits, or to 2 behind the point (decision D275).

    >>> [number(value) for value in (0.1 + 0.2, 2.5, 1 / 3, 1e-9 / 3, 123456789.125, 1e10, 1e22)]
    ['0.3', '2.5', '≈ 0.333333', '≈ 3.33333e-10', '≈ 123456789.12', '10000000000.0', '1e+22']
    """
    near = float(f"{value:.15g}")
    if len(repr(near)) <= LONGEST_FLOAT:
        return repr(near)
    rounded = float(f"{value:.6g}")
    if 1 <= abs(value) < 1e16:
        rounded = round(value, max(2, 6 - len(str(int(abs(value))))))
    return repr(rounded) if rounded in (value, near) else f"≈ {rounded!r}"


def money(dollars: Decimal) -> str:
    """
    >>> [money(Decimal(text)) for text in ("0", "0.00264", "0.5", "12.346", "1234")]
    ['≈ $0', '≈ $0.0026', '≈ $0.50', '≈ $12.35', '≈ $1,234.00']
    """
    if not dollars:
        return "≈ $0"
    digits = 2 if dollars >= Decimal("0.1") else 1 - dollars.adjusted()
    return f"≈ ${dollars:,.{min(digits, 12)}f}"


UNKNOWN = "unknown"
"""The cost of models of which no price is known."""


def cost_text(known: Decimal, replies: int, unpriced: int) -> str:
    """What models cost, as far as their prices are known. ``known``: US dollars for the replies with a
    known price. ``unpriced``: how many of the ``replies`` have none.

    >>> [cost_text(Decimal("0.5"), 2, unpriced) for unpriced in (0, 1, 2)]
    ['≈ $0.50', 'at least ≈ $0.50', 'unknown']
    """
    if not unpriced:
        return money(known)
    return UNKNOWN if unpriced == replies else f"at least {money(known)}"


def cost_words(known: Decimal, replies: int, unpriced: int) -> str:
    """`cost_text` beside other facts, where no heading says what is unknown.

    >>> cost_words(Decimal(0), 1, 1)
    'cost unknown'
    """
    text = cost_text(known, replies, unpriced)
    return f"cost {text}" if text == UNKNOWN else text


def moment(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M:%S}"
