"""Links a flow with the registry and with the files that it names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ...catalog import Agent, Registry, Tool, Transform
from ...engine.linking.link import link
from ...engine.linking.linked import Linked, Person
from ...flow.flow import Flow
from ...flow.protocols import Name
from ...languages.ours import detect_language
from ...text.diagnostics import DefinitionError, Diagnostic, Diagnostics
from ...text.source import Source
from ...text.suggestions import share_suggestion_budget
from .definition_source import file_name, source_of
from .files import file_opener
from .loading import load_checked


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
    """Whether a linked flow stays valid as long as its names mean the same things: it has no model,
    whose settings may change, and no policy, whose function may return something else."""
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
    return with_name(load_checked(source, language)[0], file_name(path) or language, source)


def with_name(flow: Flow | None, name: str, source: Source) -> Flow:
    """The flow of a definition, with ``name`` if the text names none. Raises DefinitionError if the
    text declares only schemas."""
    if flow is not None:
        # A context is named only by the document, so two texts without a name share no context.
        if flow.name:
            return flow
        dialect = flow.dialect
        return replace(flow, name=name, dialect=replace(dialect, context=dialect.context or None))
    hint = "write a document with pipeline: and steps:"
    raise DefinitionError(
        Diagnostic("pipeline.no-pipeline", "there is no pipeline here", source.span(0, 0), hint)
    )
