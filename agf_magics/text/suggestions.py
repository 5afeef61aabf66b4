"""Suggests the names that a misspelled word may mean, within a budget of comparisons."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice

LONGEST_WORD = 96
"""The largest number of characters of an unknown name that is compared."""

COMPARED = 40_000
"""The number of names that `suggest` compares for one text, so that the cost does not grow with the
square of the names."""


_budget: ContextVar[list[int] | None] = ContextVar("budget", default=None)
"""The number of names that may still be compared, in a list of one item, which `spend_comparisons`
counts down; None: no block shares a budget."""


@contextmanager
def share_suggestion_budget() -> Iterator[None]:
    """All suggestions that are made in the block share one budget of COMPARED names."""
    token = _budget.set([COMPARED])
    try:
        yield
    finally:
        _budget.reset(token)


def spend_comparisons(names: int) -> bool:
    """Whether the budget of `share_suggestion_budget` allows comparisons with ``names`` names. If
    it does, they are subtracted."""
    budget = _budget.get()
    if budget is None:
        return names <= COMPARED
    (remaining,) = budget
    if remaining < names:
        return False
    budget[0] = remaining - names
    return True


def suggest(
    word: str, choices: Collection[str], kind: str | None = None, given: Collection[str] = ()
) -> str | None:
    """The hint for an unknown word: the nearest of ``choices``, and all choices if ``kind`` names
    them. ``given``: the words that stand beside it already, which are not suggested.

    >>> suggest("transfrom", ["transform", "tool"], "step kinds")
    'did you mean transform? step kinds are transform, tool'
    >>> suggest("transfrom", ["transform"], "step kinds")
    'did you mean transform?'
    """
    near = _near(word, choices)
    if near in given or near == word:  # the word stands there already
        near = None
    first = list(map(str, islice(choices, 20)))
    parts = [f"did you mean {_printable(near)}?"] if near is not None else []
    # A single choice is not listed again: "did you mean a? names are a".
    if kind and first and first != [near]:
        more = f" and {len(choices) - 20} more" if len(choices) > 20 else ""
        parts.append(f"{kind} are {', '.join(map(_printable, first))}{more}")
    return " ".join(parts) or None


def misspelled_names(unknown: Iterable[str], choices: Iterable[str]) -> set[str]:
    """The choices of which ``unknown`` names are probably misspellings. They are not reported as
    missing as well."""
    names = list(choices)
    return {near for word in unknown if (near := _near(word, names)) is not None}


def slip_of(word: str, names: Collection[str]) -> str | None:
    """The name of which ``word``, which may be a name of its own, is surely a slip of the pen; None:
    there is none.

    A slip is another case or another sign between the parts, or in one part: two letters in the
    wrong order, a letter too many or missing inside, or a wrong letter inside a long part. Names that
    differ at their ends or in a number are two names (doc, docs; x_train, y_train; q1, q2).

    >>> slip_of("ordes", ["orders"]), slip_of("Total_rows", ["total_row", "total_rows"])
    ('orders', 'total_rows')
    >>> slip_of("doc", ["docs"]), slip_of("max_price", ["min_price"]), slip_of("states", ["stats"])
    (None, None, None)
    """
    # A comparison looks at the numbers, the letters and the parts: it costs four simple ones.
    if len(word) > LONGEST_WORD or not spend_comparisons(4 * len(names)):
        return None
    # A slip changes no number.
    numbers = _NUMBERS.findall(word)
    near = [name for name in names if _NUMBERS.findall(name) == numbers]
    core = _core(word)
    same = [name for name in near if _core(name) == core]
    if same and len(core) > 1:
        return same[0]
    parts = _PARTS.findall(word.lower())
    return next((name for name in near if _is_slip(parts, _PARTS.findall(name.lower()))), None)


_NUMBERS = re.compile(r"\d+")
_PARTS = re.compile(r"[^\W\d_]+|[\d_]+|.", re.S)
"""The parts of a name: words, and what stands between them."""


def _is_slip(parts: list[str], of: list[str]) -> bool:
    """Whether exactly one part differs, by one slip."""
    if len(parts) != len(of):
        return False
    differing = [pair for pair in zip(parts, of, strict=True) if pair[0] != pair[1]]
    return len(differing) == 1 and _is_slip_of_letters(*differing[0])


def _is_slip_of_letters(a: str, b: str) -> bool:
    short, long = sorted((a, b), key=len)
    if len(short) < 4 or not a.isalpha() or not b.isalpha() or len(long) - len(short) > 1:
        return False
    start = next(
        (i for i, (x, y) in enumerate(zip(short, long, strict=False)) if x != y), len(short)
    )
    if len(long) > len(short):
        # totals is not total, states is not stats, and users is not uses; but orderss is orders
        is_form = long[start:] == "es" or (short[start:] == "s" and len(short) < 5)
        is_longer = start == len(short) and long[-1] != long[-2]
        return short[start:] == long[start + 1 :] and start > 0 and not (is_form or is_longer)
    if short[start + 1 :] == long[start + 1 :]:
        return 0 < start < len(short) - 1 and len(short) > 6
    swapped = short[start + 1 : start + 2] + short[start] + short[start + 2 :]
    return swapped == long[start:]


def join_hints(*parts: str | None) -> str | None:
    """The hints ``parts`` that are not None, joined to one hint; None if all are None."""
    return "; ".join(filter(None, parts)).replace("?; ", "? ") or None


def nearest(word: str, choices: list[str], alike: float) -> str | None:
    """The choice most similar to ``word``, within the budget of `spend_comparisons`. ``alike``: the
    least similarity, difflib's ratio from 0 to 1."""
    if len(word) > LONGEST_WORD or not spend_comparisons(len(choices)):
        return None
    names = [name for name in choices if len(name) <= 2 * LONGEST_WORD]
    return next(iter(difflib.get_close_matches(word, names, 1, alike)), None)


def _near(word: str, choices: Collection[str]) -> str | None:
    """The choice of which ``word`` is probably a misspelling; None: there is none."""
    if not spend_comparisons(len(choices)):
        return None
    names = list(map(str, choices))
    # The most frequent mistakes are the wrong case, other signs (``__end__``, ``$gte``) and a path
    # before or after the word (``operator.add``). difflib does not recognize them.
    cores = {_core(name): name for name in sorted(names, reverse=True)}
    for part in (word, *reversed(re.split(r"[.\[]", word))):
        if (same := cores.get(_core(part))) is not None:
            return same
    # A weak similarity counts only with the same first letter: round is not count.
    same_begin = [name for name in names if name[:1] == word[:1]]
    near = nearest(word, names, 0.7) or nearest(word, same_begin, 0.6)
    if near is not None or word == word.lower():
        return near
    # Each capital letter makes it less alike: Step is steps.
    in_lower_case = {name.lower(): name for name in reversed(names)}
    same = nearest(word.lower(), list(in_lower_case), 0.8)
    return in_lower_case[same] if same is not None else None


def _core(name: str) -> str:
    """The letters and digits of ``name`` in lower case; ``name`` itself if it has none."""
    return "".join(filter(str.isalnum, name)).lower() or name


def _printable(name: str) -> str:
    return name if name.isprintable() else repr(name)
