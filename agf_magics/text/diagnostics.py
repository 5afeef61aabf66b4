"""A named text and a half-open range of it, and what is wrong there.

Everything parsed has a Span. Its line and column are computed only when needed, which is rare.

The lines of an error: an excerpt of the source with carets, and paragraphs, all at most WIDTH
columns wide.

JupyterLab breaks longer lines anywhere, also inside a word and between a word and its carets.

One model of an error or a warning for every layer: message, place and hint.

A Diagnostic is data. Loading collects them (`Diagnostics`) and continues, so that one error reports
everything; running raises one. The class of the exception says whose fault it is: `DefinitionError`
the text's, `StepError` a step's while it ran; any other exception is a bug of this package.
"""

from __future__ import annotations

import difflib
import re
import textwrap
import unicodedata
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

UNUSABLE = (OSError, ValueError, RuntimeError)
"""The errors for a path that cannot exist: too long, with a NUL or half a surrogate pair, a cycle
of links."""


def path_error_reason(error: Exception) -> str:
    """The reason of an error of UNUSABLE, in a few words."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def unwritable_reason(path: Path) -> str | None:
    """Why no file can be written at ``path``, as far as this is known before it is tried."""
    try:
        if path.is_dir():
            return "it is a folder"
        return None if path.parent.is_dir() else f"there is no folder {str(path.parent)!r}"
    except UNUSABLE as error:
        return path_error_reason(error)


def source_folder(name: str) -> Path:
    """The folder of the file ``name``; the current folder if there is no such file."""
    try:
        file = Path(name)
        return file.resolve().parent if file.is_file() else Path.cwd().resolve()
    except UNUSABLE:
        return Path.cwd().resolve()


@dataclass(slots=True, eq=False)
class Source:
    """A text with the name that errors show (``In[6] %%pipeline``, ``flows/review.yaml``).

    ``first_line`` is the number of the first line in the author's editor: 2 for the body of a cell,
    whose line 1 is the magic. Two sources are equal only if they are the same object. A text
    without a file or a cell gets its name when its flow is known; nothing else changes.
    """

    name: str
    text: str = field(repr=False)
    first_line: int = 1

    def span(self, start: int = 0, end: int | None = None) -> Span:
        """The range from ``start`` to ``end`` (the end of the text)."""
        return Span(self, start, len(self.text) if end is None else end)

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column of ``offset`` as in an editor: columns from 1, lines from
        ``first_line``."""
        starts = _line_starts(self)
        index = bisect_right(starts, offset) - 1
        return index + self.first_line, offset - starts[index] + 1

    def line(self, number: int) -> str:
        """The text of line ``number``, counted from ``first_line``; empty if there is no such
        line."""
        starts = _line_starts(self)
        index = number - self.first_line
        if not 0 <= index < len(starts):
            return ""
        end = starts[index + 1] - 1 if index + 1 < len(starts) else len(self.text)
        return self.text[starts[index] : end].rstrip("\r")


# Cached: it is needed for each finding and each step that is shown.
@lru_cache(maxsize=16)
def _line_starts(source: Source) -> list[int]:
    return [0, *(found.end() for found in re.finditer("\n", source.text))]


class Span(NamedTuple):
    """A half-open range of a source, in characters. A NamedTuple: loading makes thousands."""

    source: Source
    start: int
    end: int

    def __repr__(self) -> str:
        """Without the source's text: a flow has thousands of spans."""
        return f"<{self.source.name}:{self.start}-{self.end}>"

    @property
    def text(self) -> str:
        """The text of the range."""
        return self.source.text[self.start : self.end]

    @property
    def place(self) -> tuple[int, int]:
        """Line and column of its first character."""
        return self.source.place(self.start)

    def locate(self, start: int, end: int) -> Span:
        """The part of this span from ``start`` to ``end``, relative to its beginning."""
        return Span(self.source, self.start + start, self.start + end)


class Text(Protocol):
    """A text with its place, the input of a small language's parser.

    A Span is one; so is a YAML scalar, whose source may have quotes, escapes and folds. ``locate``
    turns offsets in ``text`` into the place that an error points at.
    """

    @property
    def text(self) -> str: ...

    def locate(self, start: int, end: int) -> Span: ...


WIDTH = 78
CONTINUED = "    "
"""The indentation of the second line of a message or a hint."""
AFTER = 12
"""Characters of a long source line that are shown after the marked ones."""
LONGEST = 2_000
"""Characters of a message or a hint that are shown; the text of a foreign exception may be a
page."""


def excerpt(span: Span) -> list[str]:
    """The place of ``span``, its line and the carets below it."""
    line, column = span.place
    gutter = f"{line:>4}"
    shown, lead, carets = _window(
        span.source.line(line), column - 1, span.end - span.start, WIDTH - len(gutter) - 3
    )
    return [
        f"  --> {span.source.name}, line {line}, column {column}",
        f"{gutter} | {shown}",
        f"{' ' * len(gutter)} | {' ' * lead}{'^' * carets}",
    ]


def _window(text: str, at: int, size: int, room: int) -> tuple[str, int, int]:
    """The part of a line that fits into ``room`` cells, the cells before the marked characters, and
    the cells of these.

    Only the characters near the mark are looked at: a line may be a megabyte.
    """
    begin, end = 0, len(text)
    if _fitting(text[: 2 * room], room) < len(text):
        end = min(len(text), at + min(size, room // 2) + AFTER)
        begin = end - _fitting(text[max(0, end - room) : end][::-1], room - 2)
        end = begin + _fitting(text[begin : begin + 2 * room], room - 2)
    cut = "…" * (begin > 0)
    carets = cells(text[at : min(at + size, end)])
    return (
        cut + _readable(text[begin:end]) + "…" * (end < len(text)),
        cells(cut + text[begin:at]),
        max(1, carets),
    )


def _fitting(text: str, room: int) -> int:
    """How many characters of ``text`` fit into ``room`` cells."""
    for count, character in enumerate(text):
        room -= cells(character)
        if room < 0:
            return count
    return len(text)


_WRAPPER = textwrap.TextWrapper(
    WIDTH,
    subsequent_indent=CONTINUED,
    expand_tabs=False,
    replace_whitespace=False,
    break_long_words=False,
    break_on_hyphens=False,
)
_EXCERPT = re.compile(r"  -->| *[0-9]* \| ")


def wrapped(paragraph: str) -> str:
    """``paragraph`` with its long lines broken at blanks. No word is split; the lines of an excerpt
    remain whole."""
    return "\n".join(
        line if _EXCERPT.match(line) else _WRAPPER.fill(line) for line in paragraph.split("\n")
    )


def safe(text: str) -> str:
    """A text of a definition or a tool for a terminal: characters that move its cursor or reverse
    text are named."""
    shown = text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text):,} characters)"
    return "".join(
        c if c.isprintable() or c in "\n\t\xa0" else c.encode("unicode_escape").decode()
        for c in shown
    )


def _readable(text: str) -> str:
    """A line as it can be printed, with a blank for every other character, also for a tab."""
    return "".join(c if c.isprintable() else " " for c in text)


def cells(text: str) -> int:
    """How many columns of a terminal ``text`` takes: two for a wide character."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


Severity = Literal["error", "warning", "note"]

LONGEST_WORD = 96
"""Characters of an unknown name that is compared with known ones."""

COMPARED = 40_000
"""Names that `suggest` compares with in one text, so that its cost does not grow with the square of
the names."""

PLACES = 100
"""Places of equal findings that are listed."""

SHOWN = 20
"""Findings in the text of an error; all of them are in its `diagnostics`."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One error, warning or note. ``code`` is stable (``<language or layer>.<name>``) and has an
    entry in docs/reference/errors.
    """

    code: str
    message: str
    """The mistake in the author's words, lower case, names by ``!r``."""
    span: Span | None = None
    hint: str | None = None
    """What to write instead; lists the choices."""
    severity: Severity = "error"
    related: tuple[tuple[str, Span], ...] = ()
    """Other places that matter, each with a title: ``("first used here", span)``."""

    also: tuple[Span, ...] = ()
    """The places of equal findings (see `merge_equal`)."""

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """The message, the place with carets under the token, the related places, the hint, the
        lines of equal findings."""
        lines = [f"{safe(self.message)} [{self.code}]", *(excerpt(self.span) if self.span else ())]
        for what, span in self.related:
            lines += [f"  {what}:", *excerpt(span)]
        if self.hint:
            lines.append(f"  = {safe(self.hint)}")
        if self.also:
            lines.append(f"  = the same in {_places(self.also)}")
        return lines


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
    """Whether the budget allows comparing with so many names (`share_suggestion_budget`); they are
    subtracted."""
    left = _budget.get()
    if left is None:
        return names <= COMPARED
    if left[0] < names:
        return False
    left[0] -= names
    return True


def suggest(word: str, choices: Collection[str], what: str | None = None) -> str | None:
    """The hint for an unknown word: the nearest choice, and all choices if ``what`` names their
    kind.

    >>> suggest("transfrom", ["transform", "tool"], "step kinds")
    'did you mean transform? step kinds are transform, tool'
    >>> suggest("transfrom", ["transform"], "step kinds")
    'did you mean transform?'
    """
    near = _near(word, choices)
    first = list(map(str, islice(choices, 20)))
    parts = [f"did you mean {_printable(near)}?"] if near is not None else []
    if (
        what and first and (len(choices) > 1 or first != [near])
    ):  # not "did you mean a? names are a"
        shown = ", ".join(map(_printable, first)) + (
            f" and {len(choices) - 20} more" if len(choices) > 20 else ""
        )
        parts.append(f"{what} are {shown}")
    return " ".join(parts) or None


def misspelled_names(unknown: Iterable[str], known: Iterable[str]) -> set[str]:
    """The known names that the unknown ones are probably misspellings of: they are not reported as
    missing too."""
    names = list(known)
    return {near for word in unknown if (near := _near(word, names)) is not None}


def join_hints(*parts: str | None) -> str | None:
    """Several hints as one."""
    return "; ".join(filter(None, parts)).replace("?; ", "? ") or None


def nearest(word: str, choices: list[str], alike: float) -> str | None:
    """The choice most like ``word``, within the budget of `spend_comparisons`; ``alike``: difflib's
    ratio, 0 to 1."""
    if len(word) > LONGEST_WORD or not spend_comparisons(len(choices)):
        return None
    near = difflib.get_close_matches(
        word, [name for name in choices if len(name) <= 2 * LONGEST_WORD], 1, alike
    )
    return near[0] if near else None


def _near(word: str, known: Collection[str]) -> str | None:
    if not spend_comparisons(len(known)):
        return None
    names = list(map(str, known))
    # A word in the wrong case, with other signs (``__end__``, ``$gte``) or with a path before or
    # after it (``operator.add``) is the most frequent mistake, and difflib does not recognize it.
    cores = {_core(name): name for name in sorted(names, reverse=True)}
    for part in (word, *reversed(re.split(r"[.\[]", word))):
        if (same := cores.get(_core(part))) is not None:
            return same
    # A weak likeness counts only with the same first letter: round is not count.
    return nearest(word, names, 0.7) or nearest(
        word, [name for name in names if name[:1] == word[:1]], 0.6
    )


def _core(name: str) -> str:
    """The letters and digits of a name, without their case; of one without them the name."""
    return "".join(filter(str.isalnum, name)).lower() or name


def _printable(name: str) -> str:
    return name if name.isprintable() else repr(name)


class Diagnostics:
    """The findings of one loading."""

    def __init__(self) -> None:
        self._found: list[Diagnostic] = []
        self.error_count = 0
        """How many of the findings are errors, for a reader that asks whether its part was read
        without one."""

    def add(self, diagnostic: Diagnostic) -> None:
        self._found.append(diagnostic)
        self.error_count += diagnostic.severity == "error"

    def error(
        self, code: str, message: str, span: Span | None = None, hint: str | None = None
    ) -> None:
        self.add(Diagnostic(code, message, span, hint))

    def warn(
        self, code: str, message: str, span: Span | None = None, hint: str | None = None
    ) -> None:
        self.add(Diagnostic(code, message, span, hint, "warning"))

    def extend(self, diagnostics: Iterable[Diagnostic]) -> None:
        for diagnostic in diagnostics:
            self.add(diagnostic)

    def without(self, code: str) -> Diagnostics:
        """The findings with any other code."""
        others = Diagnostics()
        others.extend(found for found in self._found if found.code != code)
        return others

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(sort_by_place(self._found))

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        return tuple(d for d in self if d.severity == "error")

    def refuse(self, strict: bool = False) -> None:
        """Raise a DefinitionError with all findings if one of them is an error; with ``strict``
        also for a warning."""
        refused = ("error", "warning") if strict else ("error",)
        if any(d.severity in refused for d in self._found):
            raise DefinitionError(*self)


def sort_by_place(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Sorted by place, without duplicates; findings without a place come last."""
    unique = list(dict.fromkeys(diagnostics))
    return sorted(unique, key=lambda d: (d.span is None, d.span.start if d.span else 0))


def merge_equal(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """For display: findings that differ only in their place become one, with the other places in
    its ``also``."""
    groups: dict[Any, list[Diagnostic]] = {}
    for found in diagnostics:
        source = found.span and found.span.source.name
        key = (found.code, found.message, found.hint, found.severity, found.related, source)
        groups.setdefault(key, []).append(found)
    return [
        replace(one, also=tuple(found.span for found in more if found.span))
        for one, *more in groups.values()
    ]


class AgfError(Exception):
    """The base class of all errors about a definition or a run. ``str()`` is the complete report,
    with places and hints.
    """

    def __init__(self, *diagnostics: Diagnostic) -> None:
        assert diagnostics, "an error has a diagnostic"
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
        merged = merge_equal(self.diagnostics)
        more = len(merged) - SHOWN
        return "\n".join(
            [*map(str, merged[:SHOWN]), *([f"... and {more:,} more"] if more > 0 else [])]
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {safe(str(self).partition(chr(10))[0])}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """The complete report at the end of a cell; one line inside a list."""
        printer.text(str(self) if len(printer.stack) == 1 else repr(self))


class DefinitionError(AgfError):
    """A definition contains errors. ``diagnostics`` has all of them, sorted by place."""


class StepError(AgfError):
    """A step failed while a flow ran. ``__cause__`` is the exception of user code, if there is
    one."""

    path: tuple[str | int, ...] | None = None
    """The step, element and iteration that failed; the engine sets it."""
    where: str | None = None
    """The same as text: ``steps[1].do#3``."""
    arguments: frozenset[str] = frozenset()
    """The arguments of the call that do not fit, if the error is about arguments."""
    partial: Any = None
    """The outputs of the parts that had finished."""
    is_unknown_name: bool = False
    """Whether it is about a name that nothing writes. ``on_error`` does not apply to it: the text
    is wrong, not this element (decision P24)."""

    @property
    def kind(self) -> str:
        """The class of the user's exception, else of this one."""
        return type(self if self.__cause__ is None else self.__cause__).__name__

    @property
    def text(self) -> str:
        """The text of the user's exception, else the message; empty if the exception has none."""
        try:
            return self.diagnostic.message if self.__cause__ is None else str(self.__cause__)
        except Exception:  # the `__str__` of a user's class
            return ""

    @property
    def path_text(self) -> str:
        """The element or iteration and the flow: ``in steps[1].do#3``. Empty for a step that runs
        once, and for several failures, each of which has its own."""
        several = len(self.diagnostics) > 1
        return (
            f"in {safe(self.where)}"
            if self.where and not several and re.search("[#/]", self.where)
            else ""
        )

    def __str__(self) -> str:
        return "\n  ".join(filter(None, (super().__str__(), self.path_text)))


def _places(spans: Collection[Span]) -> str:
    """``lines 4, 6 and 9``; of more than PLACES only their number."""
    if len(spans) > PLACES:
        return f"{len(spans):,} more places"
    *lines, last = dict.fromkeys(str(span.place[0]) for span in spans)
    return f"lines {', '.join(lines)} and {last}" if lines else f"line {last}"
