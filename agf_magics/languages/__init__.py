"""The languages a flow can be written in. Text in, flow out: each knows ``text`` and ``flow`` and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..flow.frame import Expr
from ..flow.steps import Definition
from ..text.diagnostics import Diagnostics
from ..text.source import Source, Text
from ..text.yamlnodes import Bounds
from . import graph, pipeline, plan, policy
from .pipeline.words import Words


class Language(NamedTuple):
    """A language, as everything above sees it."""

    name: str
    load: Callable[[Source, Diagnostics, Bounds], Definition]
    """Never raises for what stands in the text: what is wrong is added to the Diagnostics."""
    expressions: Mapping[str, Callable[[Text], Expr]]
    """Its small languages by name, each parsing a text that stands alone and reads its frame itself; a DefinitionError
    if it is none.
    """
    words: Words | None = None
    """Its keys as a table, where it has one."""
    schema: Mapping[str, Any] | None = None
    """The JSON Schema of what a cell may hold, where there is no such table."""
    begins: str = ""
    """A regular expression for a line, or the beginning of a JSON text, that only its documents have; empty: none."""


LANGUAGES: Mapping[str, Language] = {
    language.name: language
    for language in (
        Language("pipeline", pipeline.load, {"r1": pipeline.parse}, pipeline.WORDS),
        Language("policy", policy.load, {"path": policy.parse}, None, policy.CELL, policy.BEGINS),
        Language("plan", plan.load, {"reference": plan.Reading}, schema=plan.SCHEMA, begins=plan.BEGINS),
        Language(
            "graph",
            graph.load,
            {"value": graph.parse_value, "condition": graph.parse_condition},
            schema=graph.SCHEMA,
            begins=graph.BEGINS,
        ),
    )
}


def told(text: str) -> str:
    """The name of the language that a text is written in, as far as its own lines say; else the pipeline's."""
    for language in LANGUAGES.values():
        if language.begins and re.search(
            rf"^(?:{language.begins})|\A\s*\{{\s*\"?(?:{language.begins})", text, re.MULTILINE
        ):
            return language.name
    return "pipeline"
