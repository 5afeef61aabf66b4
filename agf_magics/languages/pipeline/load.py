"""Loads the documents of a pipeline definition into a flow.

Loading reports every error that the text alone shows (decision A5), and an error in one step does
not hide an error in the next step. The linker checks everything that depends on the registry or the
input.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import Any

from ...flow.expressions import NamedArguments
from ...flow.flow import Declarations, Definition, Dialect, Flow, Origin
from ...flow.protocols import Name
from ...flow.step import Step
from ...flow.steps import Invoke, Sequence, every, own_reads
from ...schemas.schema import Schema, check_schemas
from ...text.diagnostics import Diagnostic, Diagnostics
from ...text.source import Source, Span
from ...text.suggestions import misspelled_names, suggest
from ...text.yaml.nodes import Fields, Items, Node, shown
from ...text.yaml.plain_values import CONSTANTS
from ...text.yaml.reader import Bounds, documents
from ..documents import text_at
from .body import Grammar, Reader, written
from .r1.nodes import STORES
from .schema_documents import read_schema
from .scope import outermost
from .steps import build_step
from .values import end, infer, start
from .words import DOCUMENTS, PLANNED, STEPS

DIALECT = Dialect(stores=STORES, infer=infer, reads_are_complete=True)

_BOUNDS = Bounds()


def load(source: Source, problems: Diagnostics, bounds: Bounds = _BOUNDS) -> Definition:
    """The pipeline and the schemas in ``source``; errors and warnings go to ``problems``. What has
    errors is unknown in the pipeline, which has all else as it is, so that its checks go on."""
    return load_named(source, problems, bounds, "")


def load_named(source: Source, problems: Diagnostics, bounds: Bounds, name: str) -> Definition:
    """Load a pipeline. Without ``pipeline:`` it has ``name``, from the line of its cell; a file has
    no such line (decision P28)."""
    before = problems.error_count
    nodes = documents(source, problems, bounds)
    loading = _Loading(source, problems, name)
    for node in nodes:
        loading.document(node)
    flow = loading.flow()
    if loading.schemas:
        check_schemas(loading.schemas, problems)
    errors = problems.error_count - before
    if not nodes and not errors:
        hint = "begin with pipeline: NAME"
        problems.error("pipeline.no-pipeline", "there is no pipeline here", source.span(0, 0), hint)
    return Definition(flow, loading.schemas)


_READS = re.compile(r"(?<![\w.])ctx\.(\w+)")


class _Loading:
    """The loading of one definition: its documents one by one, then the flow."""

    def __init__(self, source: Source, problems: Diagnostics, name: str) -> None:
        self.source = source
        self.problems = problems
        self.name = name
        self.grammar = Grammar(
            STEPS,
            build_step,
            problems.error_count > 0,
            [],
            set(),
            frozenset(_READS.findall(source.text)),
        )
        self.schemas: dict[str, Schema] = {}
        self.pipelines: list[Fields] = []

    def document(self, node: Node) -> None:
        error = self.problems.error
        if not isinstance(node, Fields):
            hint = "begin with pipeline: NAME or schema: NAME"
            error(
                "pipeline.document-shape",
                f"a document must be a mapping, got {shown(node)}",
                node.span,
                hint,
            )
        elif "schema" in node.fields:
            before = self.problems.error_count
            schema = read_schema(node, self.problems, self.schemas)
            if schema is not None:
                self.schemas[schema.name] = schema
            if self.problems.error_count > before:
                self.grammar.refused_schemas.add(node.text_at("schema"))
        elif "pipeline" in node.fields or (self.name and "steps" in node.fields):
            self.pipelines.append(node)
        else:
            first = next(iter(node.fields), "")
            near = suggest(first, DOCUMENTS)
            hint = near or "begin with pipeline: NAME or schema: NAME"
            message = "a document must have the key 'pipeline' or 'schema'"
            error("pipeline.document-kind", message, node.head, hint)
            for kind in misspelled_names([first], DOCUMENTS):  # so that it hides nothing (D287)
                self.document(node.renamed(first, kind))

    def flow(self) -> Flow | None:
        """The pipeline of the documents. A second pipeline is an error."""
        for other in self.pipelines[1:]:
            hint = "define the other one in a cell or file of its own; a call step runs it"
            self.problems.error(
                "pipeline.two-pipelines",
                "one pipeline: per cell",
                _head(other),
                hint,
            )
        if not self.pipelines:
            return None
        fields = self.read(self.pipelines[0])
        name: Name = fields.get("pipeline") or Name(self.name, _head(self.pipelines[0]))
        steps: tuple[Step, ...] = fields.get("steps", ())
        if not steps or self.grammar.yaml_is_broken:
            return None
        self.doubts(steps)
        return Flow(
            name=name.text,
            language="pipeline",
            source=self.source,
            body=Sequence(
                id="steps", word="pipeline", label=name.text, span=name.span, steps=steps
            ),
            start=start,
            end=end,
            dialect=DIALECT,
            declared=Declarations(text_at(fields, "description"), schemas=self.schemas),
            origin=Origin(name.span),
        )

    def doubts(self, steps: tuple[Step, ...]) -> None:
        """Report the texts that are the name of a store that no step reads."""
        if not self.grammar.doubts or self.problems.error_count:  # what is wrong may read it
            return
        depth = len(STORES)
        reads = [ref.path for top in steps for step in every(top) for ref in own_reads(step)]
        stores = {path[depth] for path in reads if path[:depth] == STORES and len(path) > depth}
        words = _plain_words(steps, self.grammar.doubts)
        self.problems.extend(
            problem
            for store, problem in self.grammar.doubts
            if store not in stores and problem.span not in words
        )

    def read(self, node: Fields) -> dict[str, Any]:
        """The keys of a pipeline document."""
        for name, hint in PLANNED.items():
            if name in node.keys:
                message = f"{name!r} is not yet supported"
                self.problems.error("pipeline.not-supported", message, node.keys[name].span, hint)
        keys = {name: key for name, key in node.keys.items() if name not in PLANNED}
        steps = node.fields.get("steps")
        stores = [written(step) for step in steps.items] if isinstance(steps, Items) else []
        first = {name: number for number, names in reversed([*enumerate(stores)]) for name in names}
        scope = outermost(first)
        span = _head(node)
        kind = DOCUMENTS["pipeline"]
        if "pipeline" not in keys:  # the name is given elsewhere
            kind = kind._replace(keys={**kind.keys, "pipeline": _NO_NAME})
        return Reader(self.problems, self.grammar, "", span, scope).fields(
            kind, node._replace(keys=keys), span
        )


_NO_NAME = DOCUMENTS["pipeline"].keys["pipeline"]._replace(required=False)
"""The key of a pipeline whose name is given elsewhere: it may be absent."""


def _plain_words(
    steps: tuple[Step, ...], doubts: list[tuple[str, Diagnostic]]
) -> frozenset[Span | None]:
    """The places of the texts that another call of the same tool shows to be plain words: there the
    same argument is a text that is the name of no store in doubt. `table: stats` beside `table: audit`."""
    stores = {store for store, _ in doubts}
    places = defaultdict[tuple[str, str], list[tuple[Span, bool]]](list)
    for top in steps:
        for step in every(top):
            if isinstance(step, Invoke) and isinstance(step.args, NamedArguments):
                for name, span, value in step.args.literals():
                    is_word = type(value) is str and value not in stores
                    places[step.name.text, name].append((span, is_word))
    return frozenset(
        span
        for literals in places.values()
        if any(is_word for _, is_word in literals)
        for span, _ in literals
    )


def _head(node: Fields) -> Span:
    """The key that says what a document is."""
    return node.keys["pipeline" if "pipeline" in node.keys else "steps"].span


def _scalar(name: str) -> str:
    is_plain = name.isidentifier() and name not in CONSTANTS
    return name if is_plain else json.dumps(name, ensure_ascii=False)


def with_name(text: str, name: str) -> str:
    """The text of a pipeline that got its name elsewhere, with that name. Any other text as it
    is.

    >>> print(with_name("# a\\nsteps: []", "it's"))
    # a
    pipeline: "it's"
    steps: []
    """
    nodes = documents(Source("", text), Diagnostics())
    fields = [node for node in nodes if isinstance(node, Fields)]
    if any("pipeline" in node.fields for node in fields):
        return text
    for node in fields:
        if "steps" in node.fields and "schema" not in node.fields:
            start = node.whole.start
            key = f"pipeline: {_scalar(name)}"
            if text[start] == "{":
                return f"{text[: start + 1]}{key}, {text[start + 1 :]}"
            indent = text[text.rfind("\n", 0, start) + 1 : start]
            return f"{text[:start]}{key}\n{indent}{text[start:]}"
    return text
