"""Names that a misspelled word may mean, within a budget of comparisons."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice

LONGEST_WORD = 96
"""Characters of an unknown name that is compared with known ones."""

COMPARED = 40_000
"""Names that `suggest` compares with in one text, so that its cost does not grow with the square of
the names."""

PLACES = 100
"""Places of equal problems that are listed."""


_budget: ContextVar[list[int] | None] = ContextVar("budget", default=None)


@contextmanager
def share_suggestion_budget() -> Iterator[None]:
    """All suggestions made inside share one budget of COMPARED names."""
    token = _budget.set([COMPARED])
    try:
        yield
    finally:
        _budget.reset(token)


def spend_comparisons(names: int) -> bool:
    """True if the budget (`share_suggestion_budget`) allows comparing with ``names`` names; they are
    subtracted."""
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
    """The hint for an unknown word: the nearest choice that is not among the words ``given`` beside
    it, and all choices if ``kind`` names them.

    >>> suggest("transfrom", ["transform", "tool"], "step kinds")
    'did you mean transform? step kinds are transform, tool'
    >>> suggest("transfrom", ["transform"], "step kinds")
    'did you mean transform?'
    """
    near = _near(word, choices)
    if near in given or near == word:  # it would be there twice, or is there
        near = None
    first = list(map(str, islice(choices, 20)))
    parts = [f"did you mean {_printable(near)}?"] if near is not None else []
    # Not "did you mean a? names are a".
    if kind and first and first != [near]:
        more = f" and {len(choices) - 20} more" if len(choices) > 20 else ""
        parts.append(f"{kind} are {', '.join(map(_printable, first))}{more}")
    return " ".join(parts) or None


def misspelled_names(unknown: Iterable[str], choices: Iterable[str]) -> set[str]:
    """The choices that the unknown names are probably misspellings of: they are not reported as
    missing too."""
    names = list(choices)
    return {near for word in unknown if (near := _near(word, names)) is not None}


def join_hints(*parts: str | None) -> str | None:
    """Several hints as one."""
    return "; ".join(filter(None, parts)).replace("?; ", "? ") or None


def nearest(word: str, choices: list[str], alike: float) -> str | None:
    """The choice most like ``word``, within the budget of `spend_comparisons`; ``alike``: difflib's
    ratio, 0 to 1."""
    if len(word) > LONGEST_WORD or not spend_comparisons(len(choices)):
        return None
    names = [name for name in choices if len(name) <= 2 * LONGEST_WORD]
    return next(iter(difflib.get_close_matches(word, names, 1, alike)), None)


def _near(word: str, choices: Collection[str]) -> str | None:
    """The choice that ``word`` is probably a misspelling of."""
    if not spend_comparisons(len(choices)):
        return None
    names = list(map(str, choices))
    # A word in the wrong case, with other signs (``__end__``, ``$gte``) or with a path before or
    # after it (``operator.add``) is the most frequent mistake, and difflib does not recognize it.
    cores = {_core(name): name for name in sorted(names, reverse=True)}
    for part in (word, *reversed(re.split(r"[.\[]", word))):
        if (same := cores.get(_core(part))) is not None:
            return same
    # A weak likeness counts only with the same first letter: round is not count.
    same_begin = [name for name in names if name[:1] == word[:1]]
    return nearest(word, names, 0.7) or nearest(word, same_begin, 0.6)


def _core(name: str) -> str:
    """The letters and digits of a name, without their case; of one without them the name."""
    return "".join(filter(str.isalnum, name)).lower() or name


def _printable(name: str) -> str:
    return name if name.isprintable() else repr(name)
