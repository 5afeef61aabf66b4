"""The languages a flow can be written in. Text in, flow out: each knows ``text`` and ``flow`` and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ..flow.frame import Expr
from ..flow.steps import Definition
from ..text.diagnostics import Diagnostics
from ..text.source import Source, Text
from ..text.yamlnodes import Bounds

if TYPE_CHECKING:
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
    latent: Callable[[Source, Diagnostics, Bounds, Collection[str]], Definition] | None = None
    """`load`, told the names of tools that nobody does, whose calls have their answers; None: it has none."""


def _pipeline() -> Language:
    from .pipeline import WORDS, load
    from .pipeline.r1 import parse  # `pipeline.parse` is a module to mypy, depending on the order of the files

    return Language("pipeline", load, {"r1": parse}, WORDS)


def _policy() -> Language:
    from . import policy

    return Language("policy", policy.load, {"path": policy.parse}, schema=policy.CELL)


def _plan() -> Language:
    from . import plan

    return Language("plan", plan.load, {"reference": plan.Reading}, schema=plan.SCHEMA, latent=plan.load)


def _graph() -> Language:
    from . import graph

    expressions = {"value": graph.parse_value, "condition": graph.parse_condition}
    return Language("graph", graph.load, expressions, schema=graph.SCHEMA)


MADE: Mapping[str, Callable[[], Language]] = {
    "pipeline": _pipeline,
    "policy": _policy,
    "plan": _plan,
    "graph": _graph,
}

# A regular expression for a line, or the beginning of a JSON text, that only the documents of a language have.
_POLICY = r"(?:schema_version|execution_policy)\"?\s*+:|id\"?\s*+:\s*+[\"']?(?:agf\.|x-)"
_PLAN = (
    r'"?calls"?\s*+:|\{[^\n{]*,\s*+"?calls"?\s*+:'
    r'|(?:[ \t]*+-)?[\[{ \t]*+"?_(?:tool|delegate|outputPath)"?\s*+:'
)
_GRAPH = r"(?:nodes|edges)[ \t]*+\"?[ \t]*+:"


@cache
def _beginnings() -> Mapping[str, tuple[re.Pattern[str], re.Pattern[str]]]:
    # A line begins behind "\n", not at ``^``: a pattern that begins with a letter is looked for four times as fast.
    return {
        "policy": (re.compile(rf"\n(?:{_POLICY})"), re.compile(rf"\A\s*+\{{\s*+\"?(?:{_POLICY})")),
        "plan": (re.compile(rf"\n(?:{_PLAN})"), re.compile(rf"\A\s*+\{{\s*+\"?(?:{_PLAN})")),
        "graph": (re.compile(rf"\n(?:{_GRAPH})"), re.compile(rf"\A\s*+\{{\s*+\"?(?:{_GRAPH})")),
    }


class Languages(Mapping[str, Language]):
    """The languages by name. Each is imported when it is first asked for: a notebook mostly speaks one of them."""

    def __init__(self) -> None:
        self._made: dict[str, Language] = {}

    def __getitem__(self, name: str) -> Language:
        if name not in self._made:
            self._made[name] = MADE[name]()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(MADE)

    def __len__(self) -> int:
        return len(MADE)

    def __contains__(self, name: object) -> bool:
        return name in MADE


LANGUAGES = Languages()


def told(text: str) -> str:
    """The name of the language that a text is written in, as far as its own lines say; else the pipeline's."""
    lines = "\n" + text
    for name, (line, begins) in _beginnings().items():
        if line.search(lines) or begins.match(text):
            return name
    return "pipeline"
