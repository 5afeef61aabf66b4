"""Text to flow: the documents of one pipeline definition.

Everything that the text alone decides is an error here (decision A5). All errors are reported: one
in a step does not hide one in the next step. The linker checks what the registry or the input
decides.
"""

from __future__ import annotations

from typing import Any

from ...flow.frame import Name
from ...flow.step import Step
from ...flow.steps import Declarations, Definition, Dialect, Flow, Origin, Sequence
from ...schemas.schema import Schema, check_schemas
from ...text.diagnostics import Diagnostics
from ...text.source import Source
from ...text.suggestions import suggest
from ...text.yaml.nodes import Fields, Node, shown
from ...text.yaml.reader import Bounds, documents
from ..documents import said
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
    """The pipeline and the schemas in ``source``; errors and warnings go to ``problems``."""
    before = problems.error_count
    nodes = documents(source, problems, bounds)
    loading = _Loading(source, problems)
    for node in nodes:
        loading.document(node)
    flow = loading.flow()
    if loading.schemas:
        check_schemas(loading.schemas, problems)
    if problems.error_count > before:
        flow = None
    elif not nodes:
        hint = "begin with pipeline: NAME"
        problems.error("pipeline.no-pipeline", "there is no pipeline here", source.span(0, 0), hint)
    return Definition(flow, loading.schemas)


class _Loading:
    def __init__(self, source: Source, problems: Diagnostics) -> None:
        self.source, self.problems = source, problems
        self.grammar = Grammar(STEPS, build_step, problems.error_count > 0)
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
            schema = read_schema(node, self.problems, self.schemas)
            if schema is not None:
                self.schemas[schema.name] = schema
        elif "pipeline" in node.fields:
            self.pipelines.append(node)
        else:
            near = suggest(next(iter(node.fields), ""), DOCUMENTS)
            hint = near or "begin with pipeline: NAME or schema: NAME"
            message = "a document must have the key 'pipeline' or 'schema'"
            error("pipeline.document-kind", message, node.head, hint)

    def flow(self) -> Flow | None:
        """The one pipeline; every other one is an error."""
        for other in self.pipelines[1:]:
            hint = "define the other one in a cell or file of its own; a call step runs it"
            self.problems.error(
                "pipeline.two-pipelines",
                "one pipeline: per cell",
                other.keys["pipeline"].span,
                hint,
            )
        if not self.pipelines:
            return None
        given = self.read(self.pipelines[0])
        if self.problems.error_count:
            return None
        name: Name = given["pipeline"]
        steps: tuple[Step, ...] = given["steps"]
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
            declared=Declarations(said(given, "description"), schemas=self.schemas),
            origin=Origin(name.span),
        )

    def read(self, node: Fields) -> dict[str, Any]:
        """The keys of a pipeline document."""
        for name, hint in PLANNED.items():
            if name in node.keys:
                message = f"{name!r} is not yet supported"
                self.problems.error("pipeline.not-supported", message, node.keys[name].span, hint)
        keys = {name: key for name, key in node.keys.items() if name not in PLANNED}
        scope = outermost(frozenset().union(*map(written, node.entries("steps"))))
        span = keys["pipeline"].span
        return Reader(self.problems, self.grammar, "", span, scope).fields(
            DOCUMENTS["pipeline"], node._replace(keys=keys), span
        )
