"""Definitions: a text is loaded, checked and linked to a flow, and `define` registers it."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ...catalog import Agent, Registry, Tool, Transform, default
from ...engine.linking.link import link
from ...engine.linking.linked import Linked, Person
from ...flow.checks.rules import check
from ...flow.protocols import Name
from ...flow.steps import Definition, Flow
from ...languages import LANGUAGES, Language, detect_language
from ...schemas.schema import Schema, check_schemas, resolve
from ...settings.settings import current
from ...text.columns import safe
from ...text.diagnostics import DefinitionError, Diagnostic, Diagnostics
from ...text.files import read_file
from ...text.folder import notebook_folder
from ...text.names import same_name
from ...text.source import UNUSABLE, Source, Text, path_error_reason
from ...text.suggestions import share_suggestion_budget, suggest
from ...text.yaml.nodes import shorten
from ...values.value import type_name
from .files import file_opener


class Defined(NamedTuple):
    """A definition that was loaded."""

    flow: Flow | None
    """None: the text declares only schemas."""
    schemas: Mapping[str, Schema]
    findings: tuple[Diagnostic, ...]
    """Warnings and notes, sorted by place. A problem that linking found is a warning here, and an
    error of a run (decision A5)."""

    @property
    def replacements(self) -> tuple[Diagnostic, ...]:
        """The notes about what another cell or file had defined under its names."""
        return tuple(found for found in self.findings if found.code.endswith(".replaced"))


TEXT = "<text>"
"""The name of a text that comes from neither a cell nor a file, until its flow is known."""


def load(
    text: str | Path | Source,
    language: str | None = None,
    *,
    name: str | None = None,
    strict: bool = False,
    registry: Registry | None = None,
    latent: Collection[str] = (),
) -> Flow:
    """Load and check a definition, and return its flow without registering it.

    Parameters:

    - ``text``: the definition, or the `Path` of a file that contains it. Required.
    - ``language``: ``"pipeline"``, ``"policy"``, ``"plan"`` or ``"graph"``. Default None:
      recognised from the text, else ``"pipeline"``.
    - ``name``: the name of the flow. Default None: the name in the definition, else that of the
      file or the language.
    - ``strict``: whether warnings are errors. Default False.
    - ``registry``: the `Registry` to look names up in. Default None: the registry of this process.
    - ``latent``: names of further latent tools of a plan: tools that are never called. Default:
      none.

    Raises DefinitionError with everything that is wrong.
    """
    file, text = file_name(text), source_of(text)
    language = language or detect_language(text.text)
    name = _checked_name(name)
    defined = check_definition(
        text,
        language,
        strict=strict,
        registry=default(registry),
        latent=latent,
        name="" if file else name,
    )
    flow = _flow_of(defined.flow, file or language, text)
    flow = replace(flow, name=name or flow.name)
    _name_text(text, flow)
    return flow


def define(
    text: str | Path | Source,
    language: str | None = None,
    *,
    name: str | None = None,
    strict: bool = False,
    registry: Registry | None = None,
    latent: Collection[str] = (),
) -> Flow | None:
    """Load and check a definition, and register its flow and its schemas under their names.

    Parameters:

    - ``text``: the definition, or the `Path` of a file that contains it. Required.
    - ``language``: ``"pipeline"``, ``"policy"``, ``"plan"`` or ``"graph"``. Default None:
      recognised from the text, else ``"pipeline"``.
    - ``name``: the name of the flow. Default None: the name in the definition, else that of the
      file.
    - ``strict``: whether warnings are errors. Default False.
    - ``registry``: the `Registry` to register in. Default None: the registry of this process.
    - ``latent``: names of further latent tools of a plan: tools that are never called. Default:
      none.

    Returns the flow, or None if the text declares only schemas. Raises DefinitionError with
    everything that is wrong.
    """
    return register(text, language, name=name, strict=strict, registry=registry, latent=latent).flow


def register(
    text: str | Path | Source,
    language: str | None = None,
    *,
    name: str | None = None,
    on_line: Text | None = None,
    strict: bool = False,
    registry: Registry | None = None,
    origin: str | None = None,
    latent: Collection[str] = (),
    given: Collection[str] = (),
    known: Registry | None = None,
) -> Defined:
    """`define` with its findings.

    ``on_line``: the name on the line of a cell, which must be that of the text if that has one
    (decision P28). ``origin``: the cell's id or the file; if another origin has defined the name,
    there is a note (decision A2). ``known``: the registry to look names up in, if other files are
    defined with this one; default None: the one to register in."""
    registry, file, text = default(registry), file_name(text), source_of(text)
    language = language or detect_language(text.text)
    name = _checked_name(name if on_line is None else on_line.text)
    defined = check_definition(
        text,
        language,
        strict=strict,
        registry=known or registry,
        latent=latent,
        given=given,
        name="" if file else name,
    )
    notes, flow = list[Diagnostic](), defined.flow
    if flow is not None and on_line is not None:
        refuse_two_names(on_line, flow)
    if flow is not None:
        flow = replace(flow, name=name or flow.name or file or "")
        if not flow.name:
            raise DefinitionError(_nameless(flow))
    for schema in defined.schemas.values():
        if replaced := registry.schemas.define(schema, origin):
            notes.append(Diagnostic("schema.replaced", replaced, schema.span, severity="note"))
    if flow is not None:
        _name_text(text, flow)
        if replaced := registry.flows.define(flow, origin):
            notes.append(Diagnostic("flow.replaced", replaced, flow.origin.span, severity="note"))
    return Defined(flow, defined.schemas, (*defined.findings, *notes))


def _name_text(source: Source, flow: Flow) -> None:
    """Name a text after its flow: an error of a called flow must say which one it is in."""
    if source.name == TEXT:
        source.name = f"<text of {safe(shorten(' '.join(flow.name.split())))}>"


def refuse_two_names(on_line: Text, flow: Flow) -> None:
    """Refuse a name on the line of a cell that is not the one in its text (decision P28)."""
    if flow.name and same_name(flow.name) != same_name(on_line.text):
        message = f"the line names it {on_line.text!r}, and the text {flow.name!r}"
        place, named = on_line.locate(0, len(on_line.text)), flow.origin.span
        related = (("named here too", named),) if named is not None else ()
        hint = "remove one of them"
        raise DefinitionError(Diagnostic("define.two-names", message, place, hint, related=related))


def _nameless(flow: Flow) -> Diagnostic:
    hint = f"write %%{flow.language} NAME; in Python: define(…, name='NAME')"
    return Diagnostic("define.no-name", f"this {flow.language} has no name", flow.origin.span, hint)


def find_problems(
    source: Source,
    language: str,
    *,
    name: Text | None,
    registry: Registry,
    latent: Collection[str] = (),
    given: Collection[str] | None = (),
) -> list[Diagnostic]:
    """The findings of `register` for a text that is still written. Nothing is registered, no file
    is read and no code of a user is called. ``name``: on the line of the cell. ``given``: as in
    `check_definition`; None if it is not known."""
    try:
        written = name.text if name is not None and name.text.strip() else None
        flow, schemas, problems = _checked(source, language, latent, written)
        if flow is not None and name is not None and written is not None:
            refuse_two_names(name, flow)
    except DefinitionError as error:
        return list(error.diagnostics)
    _check_refs(schemas, registry, problems)
    if flow is not None:
        with share_suggestion_budget():
            problems.extend(link(flow, registry, passive=True)[1])
        if not (name or flow.name):
            problems.add(_nameless(flow))
    return list(problems.without(UNLESS_GIVEN) if given is None else for_input(problems, given))


def _checked_name(name: str | None) -> str | None:
    """The name that was given; None if none was."""
    if name is not None and not (isinstance(name, str) and name.strip()):
        raise DefinitionError(
            Diagnostic("define.no-name", f"the name of a flow must be text, not {name!r}")
        )
    return same_name(name) if name is not None else None


def check_definition(
    source: Source,
    language: str,
    *,
    strict: bool,
    registry: Registry,
    latent: Collection[str] = (),
    given: Collection[str] = (),
    name: str | None = None,
) -> Defined:
    """Load, check and link a definition, registering nothing. ``given``: the names of the input of
    a run that follows. ``name``: of a text that has none. Raises DefinitionError with everything
    that is wrong."""
    flow, schemas, problems = _checked(source, language, latent, name)
    _check_refs(schemas, registry, problems)
    if flow is not None:
        for problem in link_flow(flow, registry)[1]:
            problems.add(
                replace(problem, severity="warning") if problem.severity == "error" else problem
            )
    findings = Diagnostics()
    findings.extend(for_input(problems, given))
    findings.refuse(strict)
    return Defined(flow, schemas, tuple(findings))


def _check_refs(schemas: Mapping[str, Schema], registry: Registry, problems: Diagnostics) -> None:
    """Check the schemas of a text with those to which they refer: a schema of another cell may
    close a circle."""
    if not schemas:
        return
    used, _ = resolve(schemas, {**registry.schemas, **schemas})
    if len(used) > len(schemas):  # the language has checked those of the text alone
        check_schemas(used, problems)


UNLESS_GIVEN = "pipeline.template-name"
"""The code of a warning about the name at its place, which is void if the input has that name."""


def for_input(findings: Iterable[Diagnostic], given: Collection[str]) -> Iterator[Diagnostic]:
    """The findings that remain when the input has these names."""
    for finding in findings:
        if finding.code != UNLESS_GIVEN or finding.span is None:
            yield finding
        elif finding.span.text not in given:
            yield replace(finding, hint=suggest(finding.span.text, given) or finding.hint)


def _checked(
    source: Source, language: str, latent: Collection[str] = (), name: str | None = None
) -> tuple[Flow | None, Mapping[str, Schema], Diagnostics]:
    problems = Diagnostics()
    with share_suggestion_budget():
        definition = load_definition(source, language, problems, latent, name)
        flow = definition.flow
        if flow is not None:
            flow, findings = check(flow)
            told = {problem.span for problem in problems}  # by the language, which knows more
            problems.extend(finding for finding in findings if finding.span not in told)
    problems.refuse()
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
    """The definition in a text. ``name``: of a text that has none. Raises DefinitionError for a
    wrong ``latent``."""
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


def findings_before_run(defined: Defined, registry: Registry) -> tuple[Diagnostic, ...]:
    """The findings of a definition that is run at once, without the errors of that run."""
    if defined.flow is None:
        return defined.findings
    refusing = {(error.code, error.span) for error in link_flow(defined.flow, registry)[1].errors}
    return tuple(
        finding for finding in defined.findings if (finding.code, finding.span) not in refusing
    )


def link_flow(flow: Flow, registry: Registry) -> tuple[Linked, Diagnostics]:
    """Link ``flow`` with the registry and with the files that it names.

    A flow that is run again is linked again only if the registry has changed: linking takes a third
    of a short run.
    """
    version = registry.version  # before: another thread may register now
    cached: Linked | None = flow.linked.get(version)
    if cached is not None:
        return cached, Diagnostics()
    files, opened = file_opener(_of_file, {}), list[Name]()

    def open_file(name: Name, around: Flow) -> Flow | Tool:
        opened.append(name)
        return files(name, around)

    with share_suggestion_budget():
        linked, problems = link(flow, registry, open_file)
    if not opened and not any(problems) and _depends_on_names(linked):
        flow.linked.clear()
        flow.linked[version] = linked
    return linked, problems


def _depends_on_names(linked: Linked) -> bool:
    """Whether linking it again gives the same if all names mean the same: it has no model, whose
    settings may change, and no policy, whose function may return something else."""
    return linked.agent is None and all(
        _depends_on_names(callee)
        if isinstance(callee, Linked)
        else isinstance(callee, (Tool, Agent, Transform, Person))
        for callee in linked.callees.values()
    )


def _of_file(path: Path) -> Flow:
    """The flow of a file. The caller links it, and finds cycles of files."""
    source = source_of(path)
    language = detect_language(source.text)
    return _flow_of(_checked(source, language)[0], file_name(path) or language, source)


def _flow_of(flow: Flow | None, name: str, source: Source) -> Flow:
    """The flow of a definition, with ``name`` if it has no own. Raises DefinitionError if there are
    only schemas."""
    if flow is not None:
        # A context has a name of the document's: two texts without a name do not share one.
        if flow.name:
            return flow
        dialect = flow.dialect
        return replace(flow, name=name, dialect=replace(dialect, context=dialect.context or None))
    hint = "write a document with pipeline: and steps:"
    raise DefinitionError(
        Diagnostic("pipeline.no-pipeline", "there is no pipeline here", source.span(0, 0), hint)
    )


_FILE_NAME = re.compile(r"[^\n:{}]+\.(?:yaml|yml|json)", re.ASCII)


def source_of(text: str | Path | Source) -> Source:
    """The source of a definition. Raises DefinitionError if its file cannot be read."""
    if isinstance(text, Source):
        return text
    if isinstance(text, Path):
        try:
            body = read_file(text).decode("utf-8")
            return Source(_shown(text), body, folder=text.resolve().parent)
        except UNUSABLE as error:
            message = f"{text} cannot be read: {path_error_reason(error)}"
            hint = current.words.define_folder if os.path.isdir(text) else None
            raise DefinitionError(Diagnostic("define.file", message, hint=hint)) from None
    if not isinstance(text, str):
        raise TypeError(
            f"a definition must be text or the Path of a file, not {type_name(text)}; "
            f"json.dumps(…) makes text of a dict"
        )
    if _FILE_NAME.fullmatch(text):
        hint = f"give a file as a Path: Path({text!r})"
        raise DefinitionError(Diagnostic("define.file", f"{text!r} is text", hint=hint))
    return Source(TEXT, text)


def _shown(file: Path) -> str:
    """The name of the source of a file: as a person wrote it, if that is its place from the
    notebook's folder too. The journal has the name alone."""
    if file.is_absolute() or notebook_folder.path == Path.cwd():
        return str(file)
    place, folder = file.resolve(), notebook_folder.path
    return str(place.relative_to(folder) if place.is_relative_to(folder) else place)


def file_name(text: str | Path | Source) -> str | None:
    """The name of a definition without one, from its file: ``article`` for
    ``team/article.agf.yaml``."""
    return text.name.split(".")[0] or None if isinstance(text, Path) else None


def language_of(name: str) -> Language:
    if name not in LANGUAGES:
        hint = suggest(name, LANGUAGES, "languages")
        raise DefinitionError(
            Diagnostic("define.language", f"unknown language {name!r}", hint=hint)
        )
    return LANGUAGES[name]
