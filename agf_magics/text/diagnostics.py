"""What is wrong, where, and what would be right: one model for every layer.

A Diagnostic is data. Loading collects them (`Diagnostics`) and goes on, so that everything wrong is told at once;
running raises one. The class of the exception says whose fault it is: `DefinitionError` the text's, `StepError` a
step's while it ran; any other exception is a bug of ours.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from .source import Span

Severity = Literal["error", "warning", "note"]

WIDE = 96
"""Cells of a line that an excerpt shows: what fits an output beside a file browser."""

COMPARED = 40_000
"""Names that `suggest` compares with, for one text: of a thousand unknown names among a thousand most are not."""

LONGEST = 2_000
"""Letters of a message or a hint that are told: what somebody's exception says may be a page."""

SHOWN = 20
"""Findings that the text of an error tells; all of them are on it as data."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One error, warning or note. ``code`` is stable (``<language or layer>.<name>``) and has an entry in
    docs/reference/errors.
    """

    code: str
    message: str
    """What is wrong, in the author's words, lower case, names by ``!r``."""
    span: Span | None = None
    hint: str | None = None
    """What would be right; lists the choices."""
    severity: Severity = "error"
    related: tuple[tuple[str, Span], ...] = ()
    """Other places that matter, each with what it is: ``("first used here", span)``."""

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """The message, the place with a caret under the very token, the related places, the hint."""
        lines = [f"{_safe(self.message)} [{self.code}]", *(_excerpt(self.span) if self.span else ())]
        for what, span in self.related:
            lines += [f"  {what}:", *_excerpt(span)]
        if self.hint:
            lines.append(f"  = {_safe(self.hint)}")
        return lines


_left: ContextVar[list[int] | None] = ContextVar("left", default=None)


@contextmanager
def sparing() -> Iterator[None]:
    """All suggestions made within share one bound: what a text costs must not grow with the square of its names."""
    token = _left.set([COMPARED])
    try:
        yield
    finally:
        _left.reset(token)


def spend(names: int) -> bool:
    """Whether so many names may still be looked at; then they count against the bound of what is `sparing`."""
    left = _left.get()
    if left is None:
        return names <= COMPARED
    if left[0] < names:
        return False
    left[0] -= names
    return True


def suggest(word: str, choices: Iterable[str], what: str | None = None) -> str | None:
    """The hint for a word nobody knows: the nearest choice, and all of them where ``what`` names the kind.

    >>> suggest("transfrom", ["transform", "tool"], "step kinds")
    'did you mean transform? step kinds are transform, tool'
    >>> suggest("transfrom", ["transform"], "step kinds")
    'did you mean transform?'
    """
    known = choices if isinstance(choices, Collection) else list(choices)
    near = _near(word, known)
    first = [str(name) for name in islice(known, 20)]
    parts = [f"did you mean {_printable(near)}?"] if near is not None else []
    if what and first and (len(known) > 1 or first != [near]):  # a single one is said once
        shown = ", ".join(map(_printable, first)) + (f" and {len(known) - 20} more" if len(known) > 20 else "")
        parts.append(f"{what} are {shown}")
    return " ".join(parts) or None


def meant(unknown: Iterable[str], known: Iterable[str]) -> set[str]:
    """The known names that unknown ones stand for, it seems: a slip is told once, not again as what is missing."""
    names = list(known)
    return {near for word in unknown if (near := _near(word, names)) is not None}


def hints(*parts: str | None) -> str | None:
    """Several hints as one."""
    said = "; ".join(filter(None, parts)).replace("?; ", "? ")
    return said or None


def nearest(word: str, choices: list[str], alike: float) -> str | None:
    """The choice most like ``word``, within the bound of what is `sparing`."""
    if not choices or len(word) > WIDE or not spend(len(choices)):
        return None
    near = difflib.get_close_matches(word, [name for name in choices if len(name) <= 2 * WIDE], 1, alike)
    return near[0] if near else None


def _near(word: str, known: Collection[str]) -> str | None:
    if not spend(len(known)):
        return None
    names = list(map(str, known))
    # A word in the wrong case is the likeliest slip and difflib does not see it.
    small = word.lower()
    same = min((name for name in names if name.lower() == small), default=None)
    return nearest(word, names, 0.7) if same is None else same


def _printable(name: str) -> str:
    return name if name.isprintable() else repr(name)


class Diagnostics:
    """What loading has found so far."""

    def __init__(self) -> None:
        self._found: list[Diagnostic] = []

    def add(self, diagnostic: Diagnostic) -> None:
        self._found.append(diagnostic)

    def error(self, code: str, message: str, span: Span | None = None, hint: str | None = None) -> None:
        self.add(Diagnostic(code, message, span, hint))

    def warn(self, code: str, message: str, span: Span | None = None, hint: str | None = None) -> None:
        self.add(Diagnostic(code, message, span, hint, "warning"))

    def extend(self, diagnostics: Iterable[Diagnostic]) -> None:
        self._found.extend(diagnostics)

    def without(self, code: str) -> Diagnostics:
        """The same but for what has this code."""
        left = Diagnostics()
        left.extend(found for found in self._found if found.code != code)
        return left

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(in_order(self._found))

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        return tuple(d for d in self if d.severity == "error")

    def refuse(self, strict: bool = False) -> None:
        """Raise a DefinitionError with everything found if something is wrong; ``strict``: if anything was warned
        about.
        """
        if any(d.severity == "error" or (strict and d.severity == "warning") for d in self._found):
            raise DefinitionError(*self)


def in_order(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Sorted by place; those without one come last; no finding twice."""
    unique = list(dict.fromkeys(diagnostics))
    return sorted(unique, key=lambda d: (d.span is None, d.span.start if d.span else 0))


class AgfError(Exception):
    """The base class of all errors about a definition or a run. ``str()`` is the complete report, with places and
    hints.
    """

    def __init__(self, *diagnostics: Diagnostic) -> None:
        assert diagnostics, "an error says what is wrong"
        self.diagnostics = diagnostics
        super().__init__(*diagnostics)

    @property
    def diagnostic(self) -> Diagnostic:
        """The first error among the diagnostics (under ``strict`` it may be a warning)."""
        return next((d for d in self.diagnostics if d.severity == "error"), self.diagnostics[0])

    @property
    def code(self) -> str:
        return self.diagnostic.code

    def __str__(self) -> str:
        shown = [str(d) for d in self.diagnostics[:SHOWN]]
        more = len(self.diagnostics) - SHOWN
        return "\n".join([*shown, *([f"... and {more:,} more"] if more > 0 else [])])

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {_safe(str(self).partition(chr(10))[0])}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """At the end of a cell it is told as where it is raised; in a list of them in a line."""
        printer.text(str(self) if len(printer.stack) == 1 else repr(self))


class DefinitionError(AgfError):
    """A definition contains errors. ``diagnostics`` has all of them, sorted by place."""


class StepError(AgfError):
    """A step failed while a flow ran. ``__cause__`` is the exception of user code, if there was one."""

    path: tuple[str | int, ...] | None = None
    """The moment it failed, and the same as text (``steps[1].do#3``); the engine fills them in."""
    where: str | None = None
    arguments: frozenset[str] = frozenset()
    """The arguments of the call that do not fit, if the error is about arguments."""
    partial: Any = None
    """What had been kept by then: the outputs of the parts that did come to their end."""

    @property
    def path_text(self) -> str:
        """Which element or iteration it was, and in which flow: ``in steps[1].do#3``. Empty where the place in the text
        says it, and where several failed, each of which says it itself."""
        several = len(self.diagnostics) > 1
        return f"in {_safe(self.where)}" if self.where and not several and re.search("[#/]", self.where) else ""

    def __str__(self) -> str:
        return "\n  ".join(filter(None, (super().__str__(), self.path_text)))


def _excerpt(span: Span) -> list[str]:
    line, column = span.place
    text = span.source.line(line)
    cut = max(0, column - 1 - 2 * WIDE)  # a line may be a megabyte: only what may be shown is looked at
    text, column = text[cut : cut + 6 * WIDE], column - cut
    # A caret under the wrong letter is worse than none: wide characters take two cells, tabs are shown as one blank.
    before, marked = text[: column - 1], text[column - 1 : column - 1 + max(1, span.end - span.start)]
    shown, lead, width = _readable(text), _cells(before), max(1, _cells(marked))
    if cut or _cells(shown) > WIDE:  # where an output wraps, the caret points at nothing
        start = max(0, min(len(before) - 30, len(shown) - WIDE + 2))
        more = "…" if len(shown) > start + WIDE - 2 else ""
        lead = _cells(before[start:]) + (start > 0)
        shown = "…" * (start > 0) + shown[start : start + WIDE - 2] + more
        width = min(width, max(1, WIDE - lead))
    gutter = f"{line:>4}"
    return [
        f"  --> {span.source.name}, line {line}, column {column}",
        f"{gutter} | {shown}",
        f"{' ' * len(gutter)} | {' ' * lead}{'^' * width}",
    ]


def _safe(text: str) -> str:
    """Somebody's text as a terminal may be given it: what moves its cursor or turns letters round is named."""
    shown = text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text):,} characters)"
    if shown.isprintable():
        return shown
    return "".join(c if c.isprintable() or c in "\n\t\xa0" else c.encode("unicode_escape").decode() for c in shown)


def _readable(text: str) -> str:
    """A line as it may be printed: what moves a terminal's cursor or turns its letters round is a blank in it."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def _cells(text: str) -> int:
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
