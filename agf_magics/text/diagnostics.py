"""Diagnostics, which describe a problem in a text with code, span and hint, and the errors that
carry them.

Every layer uses the same `Diagnostic`. Loading collects all problems in `Diagnostics` and
continues, so that one error reports everything; running raises one error. The class of the
exception says whose fault the problem is: `DefinitionError` blames the text, `StepError` a step
that ran; any other exception is a bug of this package.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

from .characters import hint_in, hint_near
from .columns import safe
from .excerpt import excerpt
from .hint_words import hint_words
from .raised import kind_of, text_of
from .source import Span
from .suggestions import join_hints

Severity = Literal["error", "warning", "note"]


MOST_PLACES = 20
"""The largest number of places of equal problems that are listed."""
SHOWN = 20
"""The number of problems that the text of an error lists; its ``diagnostics`` has all of them."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One error, warning or note. ``code`` is stable (``<language or layer>.<name>``) and has an
    entry in docs/reference/errors.
    """

    code: str
    message: str
    """The mistake in the author's words, lower case, names by ``!r``."""
    span: Span | None = None
    """The place of the mistake; None: it has no place in a text."""
    hint: str | None = None
    """The text to write instead, or the possible choices; None: there is no hint."""
    severity: Severity = "error"
    related: tuple[tuple[str, Span], ...] = ()
    """Other places that matter, each with a title: ``("first used here", span)``."""

    also: tuple[Span, ...] = ()
    """The places of other problems that are equal (see `merge_equal`)."""

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """The lines of the report: the message, the excerpt with carets, the related places, the
        hint and the places of equal problems."""
        lines = [f"{safe(self.message)} [{self.code}]", *(excerpt(self.span) if self.span else ())]
        for title, span in self.related:
            lines += [f"  {title}:", *excerpt(span)]
        if self.hint:
            lines.append(f"  = {safe(hint_words.of(self.hint))}")
        if self.also:
            lines.append(f"  = the same in {_places(self.also)}")
        return lines


class Diagnostics:
    """The problems that were found while one text was loaded."""

    def __init__(self) -> None:
        self._problems: list[Diagnostic] = []
        self.error_count = 0
        """The number of problems that are errors. A reader compares it to see whether its part of
        the text had an error."""

    def add(self, diagnostic: Diagnostic) -> None:
        self._problems.append(diagnostic)
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

    def __len__(self) -> int:
        return len(self._problems)

    def take_back(self, count: int) -> None:
        """Forget all problems but the first ``count`` ones."""
        forgotten = self._problems[count:]
        del self._problems[count:]
        self.error_count -= sum(problem.severity == "error" for problem in forgotten)

    def without(self, *codes: str) -> Diagnostics:
        """The problems whose code is not among ``codes``."""
        remaining = Diagnostics()
        remaining.extend(problem for problem in self._problems if problem.code not in codes)
        return remaining

    def without_notes(self) -> Diagnostics:
        """The errors and warnings."""
        remaining = Diagnostics()
        remaining.extend(problem for problem in self._problems if problem.severity != "note")
        return remaining

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(sort_by_place(self._problems))

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        return tuple(d for d in self if d.severity == "error")

    def refuse(self, strict: bool = False) -> None:
        """Raise a DefinitionError with all problems if one of them is an error. ``strict``: a
        warning counts as an error; default False."""
        refused = ("error", "warning") if strict else ("error",)
        if any(d.severity in refused for d in self._problems):
            raise DefinitionError(*self)


def sort_by_place(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """The diagnostics sorted by place, without duplicates. Those without a place come last."""
    unique = list(dict.fromkeys(diagnostics))
    return sorted(unique, key=lambda d: (d.span is None, d.span.start if d.span else 0))


def merge_equal(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Join problems that differ only in their place, for display: the first one gets the places of
    the others in its ``also``."""
    groups: dict[Any, list[Diagnostic]] = {}
    for problem in diagnostics:
        source = problem.span and problem.span.source.name
        key = (
            problem.code,
            problem.message,
            problem.hint,
            problem.severity,
            problem.related,
            source,
        )
        groups.setdefault(key, []).append(problem)
    merged = list[Diagnostic]()
    for first, *equal in groups.values():
        spans = tuple(problem.span for problem in equal if problem.span)
        merged.append(replace(first, also=spans))
    return merged


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
        texts = list(map(str, merged[:SHOWN]))
        if len(merged) > SHOWN:
            texts.append(f"... and {len(merged) - SHOWN:,} more")
        return "\n".join(texts)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {safe(str(self).partition(chr(10))[0])}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """The complete report at the end of a cell; one line inside a list."""
        printer.text(str(self) if len(printer.stack) == 1 else repr(self))


class DefinitionError(AgfError):
    """A definition contains errors. ``diagnostics`` has all of them, sorted by place. If an
    invisible or look-alike character may be the cause, the hint names it."""

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__(*_with_characters(diagnostics))


class StepError(AgfError):
    """A step failed while a flow ran. ``__cause__`` is the exception of user code, if there is
    one."""

    path: tuple[str | int, ...] | None = None
    """The path of the step, element and iteration that failed; the engine sets it."""
    where: str | None = None
    """The path as text: ``steps[1].do#3``."""
    element: Any = None
    """A preview of the element of the innermost fan-out that failed, as JSON; None: there is
    none."""
    place_words: str = ""
    """The step and the element that failed, in the words of views; empty until the run has
    ended."""
    arguments: frozenset[str] = frozenset()
    """The names of the arguments that do not fit, if the error is about the arguments of a call."""
    partial: Any = None
    """The outputs of the parts that had finished before the failure."""
    ended_run: bool = False
    """Whether this error has ended a run. For a tool that started the run, that is a failure like any
    other."""
    arrived: Mapping[str, str] = MappingProxyType({})
    """What had arrived of a model's reply when its request failed: its ``thinking``, ``text`` and
    ``call``, without secrets. The text of a call is ``price(``, then its arguments as JSON."""
    is_unknown_name: bool = False
    """True if the step reads a name that nothing writes. ``on_error`` does not apply to this error:
    the text is wrong, not this element (decision P24)."""

    @property
    def kind(self) -> str:
        """The name of the class of the user's exception, if there is one, else of this error's
        class."""
        return kind_of(self if self.__cause__ is None else self.__cause__)

    @property
    def text(self) -> str:
        """The text of the user's exception, if there is one, else the message. May be empty."""
        return self.diagnostic.message if self.__cause__ is None else text_of(self.__cause__, "")

    @property
    def path_text(self) -> str:
        """The element or iteration that failed, in words: ``in step 'score' (steps[1].do, element
        3)``. Empty for a step that runs once, and for an error that joins several failures."""
        several = len(self.diagnostics) > 1
        if several or not self.where or not re.search("[#/]", self.where):
            return ""
        return f"in {safe(self.place_words or self.where)}"

    def __str__(self) -> str:
        return "\n  ".join(filter(None, (super().__str__(), self.path_text)))


def _with_characters(diagnostics: tuple[Diagnostic, ...]) -> Iterator[Diagnostic]:
    """The problems, with a hint about a look-alike character: in the token of each problem, else
    near the first error that has such a character nearby."""
    has_hint = False
    for number, problem in enumerate(diagnostics):
        hint = None
        if number < SHOWN and problem.span is not None and not problem.span.source.text.isascii():
            hint = hint_in(problem.span)
            if hint is None and not has_hint and problem.severity == "error":
                hint = hint_near(problem.span)
            has_hint = has_hint or hint is not None
        # The problems may come from another error, which has added these hints already.
        is_new = hint is not None and hint not in (problem.hint or "")
        is_new = is_new and problem.code != "magic.character"
        yield replace(problem, hint=join_hints(problem.hint, hint)) if is_new else problem


def _places(spans: Collection[Span]) -> str:
    """``lines 4, 6 and 9``; for more than MOST_PLACES only their number."""
    if len(spans) > MOST_PLACES:
        return f"{len(spans):,} more places"
    *lines, last = dict.fromkeys(str(span.place[0]) for span in spans)
    return f"lines {', '.join(lines)} and {last}" if lines else f"line {last}"


def refused(code: str, message: str, hint: str | None = None) -> DefinitionError:
    """A DefinitionError with one error that has no place."""
    return DefinitionError(Diagnostic(code, message, hint=hint))
