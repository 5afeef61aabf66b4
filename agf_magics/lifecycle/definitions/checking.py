"""Finds the problems of a definition: loads, checks and links it, without registering anything."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from ...catalog import Registry
from ...engine.linking.link import link
from ...engine.linking.linked import Linked
from ...flow.flow import Flow
from ...schemas.schema import Schema, check_schemas, resolve
from ...text.diagnostics import DefinitionError, Diagnostic, Diagnostics
from ...text.source import Source, Text
from ...text.suggestions import share_suggestion_budget, suggest
from ..input.fields import missing_fields, missing_of_callees
from .flow_names import refuse_two_names, without_name
from .linking import link_flow
from .loading import load_parts


class Defined(NamedTuple):
    """A definition that was loaded."""

    flow: Flow | None
    """The flow; None: the text declares only schemas."""
    schemas: Mapping[str, Schema]
    problems: tuple[Diagnostic, ...]
    """Warnings and notes, sorted by place. A problem that linking found is a warning here, and an
    error of a run (decision A5)."""

    @property
    def replacements(self) -> tuple[Diagnostic, ...]:
        """The notes about what another cell or file had defined under its names."""
        return tuple(problem for problem in self.problems if problem.code.endswith(".replaced"))


class WrittenText(NamedTuple):
    """A text that is still written, as far as its language alone can read it."""

    flow: Flow | None = None
    """The flow; None: the text declares only schemas, or it is refused. The flow of a
    refused text has what could be read."""
    schemas: Mapping[str, Schema] = {}
    problems: tuple[Diagnostic, ...] = ()
    is_refused: bool = False
    """Whether the text has an error."""


def read_written(
    source: Source, language: str, *, name: Text | None, latent: Collection[str] = ()
) -> WrittenText:
    """Read a text that is still written; no registry is asked. ``name``: the name on the line of
    the cell."""
    try:
        written = name.text if name is not None and name.text.strip() else None
        flow, schemas, problems = load_parts(source, language, latent, written)
        if flow is not None and name is not None and written is not None:
            refuse_two_names(name, flow)
    except DefinitionError as error:
        return WrittenText(problems=tuple(error.diagnostics), is_refused=True)
    if problems.error_count:
        refusal = DefinitionError(*problems)  # it adds the hints about characters
        return WrittenText(flow, {}, refusal.diagnostics, is_refused=True)
    return WrittenText(flow, schemas, tuple(problems))


def problems_in(
    text: WrittenText,
    registry: Registry,
    *,
    name: str | None,
    given: Collection[str] | None = (),
    runs: bool = False,
) -> list[Diagnostic]:
    """The problems that `register` would report for a loaded text. Nothing is registered, no file
    is read and no user code is called. ``name``: the name on the line or of the file. ``given``: as
    in `check_definition`; None: unknown. ``runs``: whether the text is run with this input."""
    if text.is_refused and text.flow is None:
        return list(text.problems)
    problems = Diagnostics()
    missing: Collection[Diagnostic] = ()
    problems.extend(text.problems)
    _check_refs(text.schemas, registry, problems)
    if text.flow is not None:
        # The flow gets its name here, so that a call of the flow by itself is reported at the call.
        flow = replace(text.flow, name=text.flow.name or name or "")
        with share_suggestion_budget():
            linked, of_links = link(flow, registry, passive=True)
            problems.extend(_besides(problems, of_links))
            missing = _missing(linked, given) if runs and given is not None else ()
        if name is None and not flow.name:
            problems.add(without_name(text.flow))
    if given is None:
        return list(problems.without(UNLESS_GIVEN))
    places = {error.span for error in missing}
    return [*missing, *(one for one in for_input(problems, given) if one.span not in places)]


def _missing(linked: Linked, given: Collection[str]) -> list[Diagnostic]:
    """An error for each field that a run with an input of these names lacks."""
    fields = dict.fromkeys(given)
    return [*missing_fields(linked.flow, fields), *missing_of_callees(linked, fields)]


def check_definition(
    source: Source,
    language: str,
    *,
    strict: bool,
    registry: Registry,
    latent: Collection[str] = (),
    given: Collection[str] = (),
    name: str | None = None,
    file: str | None = None,
) -> Defined:
    """Load, check and link a definition, registering nothing. ``given``: the names of the input of
    a run that follows. ``name``: the name for a text that has none. ``file``: the name that its file
    gives it otherwise. Raises DefinitionError with everything that is wrong."""
    flow, schemas, problems = load_parts(source, language, latent, name)
    if flow is None:
        problems.refuse()
    _check_refs(schemas, registry, problems)
    if flow is not None:
        # With its name, so that a call of the flow by itself, also by way of others, is reported.
        named = replace(flow, name=flow.name or name or file or "")
        for problem in _besides(problems, link_flow(named, registry)[1]):
            problems.add(
                replace(problem, severity="warning") if problem.severity == "error" else problem
            )
    remaining = Diagnostics()
    remaining.extend(for_input(problems, given))
    remaining.refuse(strict)
    return Defined(flow, schemas, tuple(remaining))


def _besides(problems: Diagnostics, linking: Iterable[Diagnostic]) -> list[Diagnostic]:
    """What linking found in a text with ``problems``. If they have errors, it is without notes, and
    without the unknown names of which an error is told already."""
    if not problems.error_count:
        return list(linking)
    wrong = {error.span for error in problems.errors}
    return [
        found
        for found in linking
        if found.severity != "note" and not ("unknown" in found.code and found.span in wrong)
    ]


def _check_refs(schemas: Mapping[str, Schema], registry: Registry, problems: Diagnostics) -> None:
    """Check the schemas of a text with those to which they refer: a schema of another cell may
    close a circle."""
    if not schemas:
        return
    used, _ = resolve(schemas, {**registry.schemas, **schemas})
    if len(used) > len(schemas):  # the language has checked those of the text alone
        check_schemas(used, problems)


UNLESS_GIVEN = "pipeline.template-name"
"""The code of a warning about the name at its place, which is void if the input has that name. It is
not given if the input is unknown."""
VOID_IF_GIVEN = (UNLESS_GIVEN, "flow.unwritten")
"""The codes of all warnings about the name at their place that are void if the input has it."""


def for_input(problems: Iterable[Diagnostic], given: Collection[str]) -> Iterator[Diagnostic]:
    """The problems that remain when the input has these names."""
    for problem in problems:
        if problem.code not in VOID_IF_GIVEN or problem.span is None:
            yield problem
        elif problem.span.text not in given:
            yield replace(problem, hint=suggest(problem.span.text, given) or problem.hint)


def problems_before_run(defined: Defined, registry: Registry) -> tuple[Diagnostic, ...]:
    """The problems of a definition that is run at once, without the errors of that run."""
    if defined.flow is None:
        return defined.problems
    refusing = {(error.code, error.span) for error in link_flow(defined.flow, registry)[1].errors}
    return tuple(
        problem for problem in defined.problems if (problem.code, problem.span) not in refusing
    )
