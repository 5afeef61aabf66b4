"""Loads a text by its language, and checks it as far as the text alone allows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from ...flow.checks.rules import check
from ...flow.flow import Definition, Flow
from ...languages import LANGUAGES, Language
from ...schemas.schema import Schema
from ...settings.settings import current
from ...text.diagnostics import DefinitionError, Diagnostic, Diagnostics
from ...text.source import Source
from ...text.suggestions import share_suggestion_budget, suggest


def load_checked(
    source: Source, language: str, latent: Collection[str] = (), name: str | None = None
) -> tuple[Flow | None, Mapping[str, Schema], Diagnostics]:
    """The flow, the schemas and the warnings of a text. ``name``: the name for a text that has
    none. Raises DefinitionError with all errors."""
    flow, schemas, problems = load_parts(source, language, latent, name)
    problems.refuse()
    return flow, schemas, problems


def load_parts(
    source: Source, language: str, latent: Collection[str] = (), name: str | None = None
) -> tuple[Flow | None, Mapping[str, Schema], Diagnostics]:
    """As `load_checked`, with the errors among the problems. The flow of a text with errors, if there
    is one, has what could be read, to find what else is wrong (decision D287)."""
    problems = Diagnostics()
    with share_suggestion_budget():
        definition = load_definition(source, language, problems, latent, name)
        flow = definition.flow
        if flow is not None:
            flow, findings = check(flow)
            spans_of_language = {
                problem.span for problem in problems
            }  # its problem at a place is the more exact one
            problems.extend(
                finding for finding in findings if finding.span not in spans_of_language
            )
    if problems.error_count:  # what is wrong may be what reads a value that nothing seems to read
        problems = problems.without_notes()
    if flow is not None:
        # These depend only on the text. Problems that linking finds depend on the registry, which
        # later cells change.
        flow = replace(flow, warnings=tuple(problems))
    return flow, definition.schemas, problems


def load_definition(
    source: Source,
    language: str,
    problems: Diagnostics,
    latent: Collection[str] = (),
    name: str | None = None,
) -> Definition:
    """The definition in a text. ``name``: the name for a text that has none. Raises DefinitionError
    for a wrong ``latent``."""
    reader = language_of(language)
    if not latent and name and reader.named is not None:
        return reader.named(source, problems, current.settings.bounds, name)
    if not latent:
        return reader.load(source, problems, current.settings.bounds)
    if isinstance(latent, str) or not all(
        isinstance(name, str) and name.strip() for name in latent
    ):
        message, hint = "latent must be a list of names of tools", "latent=['think']"
        raise DefinitionError(Diagnostic("define.latent", message, hint=hint))
    if reader.latent is None:
        message, hint = f"a {language} has no latent tools", "latent= is for plans"
        raise DefinitionError(Diagnostic("define.latent", message, hint=hint))
    return reader.latent(source, problems, current.settings.bounds, latent)


def language_of(name: str) -> Language:
    if name not in LANGUAGES:
        hint = suggest(name, LANGUAGES, "languages")
        raise DefinitionError(
            Diagnostic("define.language", f"unknown language {name!r}", hint=hint)
        )
    return LANGUAGES[name]
