"""The functions `load`, which turns a text into a checked flow, and `define`, which also registers
it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from ...catalog import Registry, default
from ...flow.flow import Flow
from ...languages.ours import detect_language
from ...text.diagnostics import DefinitionError, Diagnostic
from ...text.source import Source, Text
from .checking import Defined, check_definition
from .definition_source import file_name, source_of
from .flow_names import check_flow_name, name_text, refuse_two_names, without_name
from .linking import with_name


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
    name = check_flow_name(name)
    defined = check_definition(
        text,
        language,
        strict=strict,
        registry=default(registry),
        latent=latent,
        name="" if file else name,
        file=name or file,
    )
    flow = with_name(defined.flow, file or language, text)
    flow = replace(flow, name=name or flow.name)
    name_text(text, flow)
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


def _with_name(flow: Flow, name: str | None) -> Flow:
    """Raises DefinitionError if there is no name."""
    if not name:
        raise DefinitionError(without_name(flow))
    return replace(flow, name=name)


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
    names_from: Registry | None = None,
) -> Defined:
    """`define` with its problems.

    ``on_line``: the name on the line of a cell, which must be that of the text if that has one
    (decision P28). ``origin``: the cell's id or the file; if another origin has defined the name,
    there is a note (decision A2). ``names_from``: the registry to look names up in, if other files
    are defined with this one; default None: the one to register in."""
    registry = default(registry)
    file, text = file_name(text), source_of(text)
    language = language or detect_language(text.text)
    name = check_flow_name(name if on_line is None else on_line.text)
    defined = check_definition(
        text,
        language,
        strict=strict,
        registry=names_from or registry,
        latent=latent,
        given=given,
        name="" if file else name,
        file=name or file,
    )
    notes, flow = list[Diagnostic](), defined.flow
    if flow is not None:
        if on_line is not None:
            refuse_two_names(on_line, flow)
        flow = _with_name(flow, name or flow.name or file)
    for schema in defined.schemas.values():
        if replaced := registry.schemas.define(schema, origin):
            notes.append(Diagnostic("schema.replaced", replaced, schema.span, severity="note"))
    if flow is not None:
        name_text(text, flow)
        if replaced := registry.flows.define(flow, origin):
            notes.append(Diagnostic("flow.replaced", replaced, flow.origin.span, severity="note"))
    return Defined(flow, defined.schemas, (*defined.problems, *notes))
