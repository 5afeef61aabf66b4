"""Links a flow as it was in an earlier run, from the texts in the run's manifest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...catalog import Registry
from ...engine.linking.link import link
from ...engine.linking.linked import Linked
from ...flow.checks.rules import check
from ...flow.flow import Flow
from ...text.diagnostics import Diagnostics, refused
from ..definitions.define import load
from ..definitions.files import file_opener, in_file
from ..definitions.loading import load_definition
from .manifest import DefinitionText, Manifest


def link_as_it_was(order: Manifest, registry: Registry) -> tuple[Linked, Diagnostics]:
    """The flow of the run, linked with the definitions and schemas of its manifest and everything
    else of ``registry``; and the problems that were found. Raises DefinitionError."""
    then = registry.without("flows", "schemas")
    for language, source in order.schemas:
        for schema in _load(DefinitionText("", language, source, None, {}, made=False))[1].values():
            then.schemas.define(schema, None)
    main, flows = load_texts(order.flows)
    files: dict[Path, Flow] = {}
    for text, flow in zip(order.flows, flows, strict=True):
        if flow is not None and text.file is not None:
            files[Path(text.file)] = in_file(flow, text.file)
        elif flow is not None:
            then.flows.define(flow, None)
    return link(main, then, file_opener(lambda path: load(path, registry=then), files))


def load_texts(texts: Sequence[DefinitionText]) -> tuple[Flow, list[Flow | None]]:
    """The flow of the run and those of all definitions at the time of the run; None for one that a
    builder made. Raises DefinitionError."""
    flows = [None if text.made else _load(text)[0] for text in texts]
    if flows[0] is None:
        raise refused("journal.unreadable", "this run cannot be read: its text defines no flow")
    return flows[0], flows


def _load(text: DefinitionText) -> tuple[Flow | None, Mapping[str, Any]]:
    problems = Diagnostics()
    definition = load_definition(text.source, text.language, problems, text.latent, text.name)
    flow = definition.flow
    if flow is not None:
        for option in text.chosen:
            changed = flow.dialect.with_option(flow, option)
            if changed is None:
                message = f"this run cannot be read: a {text.language} has no option {option!r}"
                raise refused("journal.unreadable", message)
            flow = changed
        flow, findings = check(replace(flow, name=text.name))
        problems.extend(findings)
    problems.refuse()
    return replace(flow, warnings=tuple(problems)) if flow is not None else None, definition.schemas
