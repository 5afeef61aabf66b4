"""What is wrong in a text: diagnostics with a code, a span and a hint, and the errors that carry
them.

A Diagnostic is data, one model for every layer. Loading collects them (`Diagnostics`) and
continues, so that one error reports everything; running raises one. The class of the exception says
whose fault it is: `DefinitionError` the text's, `StepError` a step's while it ran; any other
exception is a bug of this package.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from .characters import hint_in, hint_near
from .columns import safe
from .excerpt import excerpt
from .raised import kind_of, text_of
from .source import Span
from .suggestions import PLACES, join_hints

Severity = Literal["error", "warning", "note"]


SHOWN = 20
"""Problems in the text of an error; all of them are in its `diagnostics`."""


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
    """The places of equal problems (see `merge_equal`)."""

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """The message, the place with carets under the token, the related places, the hint, the
        lines of equal problems."""
        lines = [f"{safe(self.message)} [{self.code}]", *(excerpt(self.span) if self.span else ())]
        for what, span in self.related:
            lines += [f"  {what}:", *excerpt(span)]
        if self.hint:
            lines.append(f"  = {safe(self.hint)}")
        if self.also:
            lines.append(f"  = the same in {_places(self.also)}")
        return lines


class Diagnostics:
    """The problems of one loading."""

    def __init__(self) -> None:
        self._problems: list[Diagnostic] = []
        self.error_count = 0
        """The number of problems that are errors, for a reader that asks whether its part was read
        without one."""

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

    def without(self, *codes: str) -> Diagnostics:
        """The problems with other codes."""
        others = Diagnostics()
        others.extend(problem for problem in self._problems if problem.code not in codes)
        return others

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(sort_by_place(self._problems))

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        return tuple(d for d in self if d.severity == "error")

    def refuse(self, strict: bool = False) -> None:
        """Raise a DefinitionError with all problems if one of them is an error; with ``strict``
        also for a warning."""
        refused = ("error", "warning") if strict else ("error",)
        if any(d.severity in refused for d in self._problems):
            raise DefinitionError(*self)


def sort_by_place(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Sorted by place, without duplicates; problems without a place come last."""
    unique = list(dict.fromkeys(diagnostics))
    return sorted(unique, key=lambda d: (d.span is None, d.span.start if d.span else 0))


def merge_equal(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """For display: problems that differ only in their place become one, with the other places in
    its ``also``."""
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
    return [
        replace(first, also=tuple(problem.span for problem in more if problem.span))
        for first, *more in groups.values()
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
    """A definition contains errors. ``diagnostics`` has all of them, sorted by place. Where a
    character that nobody sees may be the cause, the hint names it."""

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__(*_with_characters(diagnostics))


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
        return kind_of(self if self.__cause__ is None else self.__cause__)

    @property
    def text(self) -> str:
        """The text of the user's exception, else the message; empty if the exception has none."""
        return self.diagnostic.message if self.__cause__ is None else text_of(self.__cause__, "")

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


def _with_characters(diagnostics: tuple[Diagnostic, ...]) -> Iterator[Diagnostic]:
    """Problems with the hint about a character that looks like another: in their token, else near
    the first error that has one."""
    has_hint = False
    for number, problem in enumerate(diagnostics):
        hint = None
        if number < SHOWN and problem.span is not None and not problem.span.source.text.isascii():
            hint = hint_in(problem.span)
            if hint is None and not has_hint and problem.severity == "error":
                hint = hint_near(problem.span)
            has_hint = has_hint or hint is not None
        # An error with the problems of another one has these hints already.
        is_new = hint is not None and hint not in (problem.hint or "")
        is_new = is_new and problem.code != "magic.character"
        yield replace(problem, hint=join_hints(problem.hint, hint)) if is_new else problem


def _places(spans: Collection[Span]) -> str:
    """``lines 4, 6 and 9``; of more than PLACES only their number."""
    if len(spans) > PLACES:
        return f"{len(spans):,} more places"
    *lines, last = dict.fromkeys(str(span.place[0]) for span in spans)
    return f"lines {', '.join(lines)} and {last}" if lines else f"line {last}"


def refused(code: str, message: str, hint: str | None = None) -> DefinitionError:
    return DefinitionError(Diagnostic(code, message, hint=hint))
