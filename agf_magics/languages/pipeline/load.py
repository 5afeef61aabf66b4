"""Text to flow: the documents of one pipeline definition, and each kind of step as one shape of the
common representation.

Everything that the text alone decides is an error here (decision A5). All errors are reported: one
in a step does not hide one in the next step. The linker checks what the registry or the input
decides.

There is one builder per kind, in the table `BUILD`. The keys were read before, so a builder only
puts the parts together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ...flow.schemas import Schema, check_schemas
from ...flow.step import DROPPED, Asking, Exchange, Expr, FanOutResult, Lookup, Name, Step
from ...flow.step import Target as ResultTarget
from ...flow.steps import (
    Branches,
    Choose,
    Compute,
    Constant,
    Declarations,
    Definition,
    Dialect,
    Each,
    Failing,
    Flow,
    Fold,
    Invoke,
    NamedArguments,
    Origin,
    Sequence,
    every,
    own_reads,
    part,
)
from ...flow.values import Value
from ...text.diagnostics import Diagnostics, Source, Span, suggest
from ...text.nodes import Fields, Node, shorten, shown
from ...text.yamlnodes import Bounds, documents
from ..documents import said
from .body import SHELL, Grammar, Reader, written
from .kinds import DOCUMENTS, PLANNED, STEPS, Target
from .r1.nodes import STORES
from .schema_documents import read_schema
from .texts import (
    ACC,
    BRANCH_ERRORS,
    ERRORS,
    ITEM,
    PIPE,
    Attached,
    Collected,
    Named,
    Scope,
    end,
    infer,
    labels,
    outermost,
    start,
    store_target,
)

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


Given = Mapping[str, Any]


class At(NamedTuple):
    """The fields that all shapes have."""

    id: str
    word: str
    span: Span
    target: ResultTarget | None
    title: str = ""


def build_step(reader: Reader, word: str, body: Fields) -> Step:
    """The step of the kind ``word`` whose keys ``reader`` has read without an error."""
    given = reader.given
    title: Name = given.get("title") or Name("")
    at = At(reader.id, word, reader.span, _target(given, reader.scope), title.text)
    step, failing = BUILD[word](at, given, body), given.get("on_error")
    return _attempted(step, failing) if isinstance(step, Invoke) and failing is not None else step


def _only_value(ran: FanOutResult) -> Value:
    """The value of a call; null if it failed and the policy continues."""
    (value,) = ran.values
    return None if value is DROPPED else value


def _attempted(step: Invoke, failing: Failing) -> Step:
    """A call with a policy for its failures: the only branch of a step that has them."""
    inner = replace(step, id=f"{step.id}.call", target=None, title="")
    return Branches(
        id=step.id,
        word=step.word,
        span=step.span,
        target=step.target,
        title=step.title,
        label=step.label,
        branches={"call": inner},
        gather=_only_value,
        failing=failing,
    )


def _target(given: Given, scope: Scope) -> ResultTarget | None:
    output: Name | None = given.get("output")
    if output is not None:
        return store_target(output.text, output.span, scope.top)
    return PIPE if scope.top else None


def _transform(at: At, given: Given, body: Fields) -> Step:
    return Compute(**at._asdict(), label=_label(body, "value"), value=given["value"])


def _tool(at: At, given: Given, body: Fields) -> Step:
    name: Name = given["name"]
    args = given.get("args") or NamedArguments(())
    label, gives = shorten(name.text), given.get("schema")
    return Invoke(
        **at._asdict(),
        label=label,
        kind="tool",
        name=name,
        args=args,
        gives=gives,
        lookup=Lookup(only_tools=True),
    )


def _shell(at: At, given: Given, body: Fields) -> Step:
    command: Expr = given["command"]
    label = (
        shorten(" ".join(command.value))
        if isinstance(command, Constant)
        else _label(body, "command")
    )
    args = NamedArguments(((Name("command", command.span), command),))
    gives = given.get("schema")
    return Invoke(
        **at._asdict(), label=label, kind="tool", name=Name(SHELL, at.span), args=args, gives=gives
    )


def _agent(at: At, given: Given, body: Fields) -> Step:
    prompt: Expr = given["prompt"]
    model: Name | None = given.get("model")
    attach: Attached = given.get("attach") or Attached(at.span, ())
    args: tuple[tuple[Name, Expr], ...] = ((Name("prompt", prompt.span), prompt),)
    if attach.exprs:
        args = (*args, (Name("attach", attach.span), attach))
    asking = Asking() if model is None else Asking(model.text, span=model.span, wins=True)
    return Invoke(
        **at._asdict(),
        label=_label(body, "prompt"),
        kind="agent",
        name=given.get("identity") or Name(""),
        args=NamedArguments(args),
        gives=given.get("schema"),
        tools=given.get("capabilities"),
        asking=asking._replace(attach=tuple(expr.span for expr in attach.exprs)),
    )


def _call(at: At, given: Given, body: Fields) -> Step:
    name: Name = given["pipeline"]
    return _runs(at, Target(at.span, name, given.get("pass") or NamedArguments(())))


def _runs(at: At, target: Target) -> Invoke:
    return Invoke(
        **at._asdict(),
        label=shorten(target.pipeline.text),
        kind="flow",
        name=target.pipeline,
        args=target.args,
        exchange=Exchange(pipe=Named(target.span, ("pipe",))),
    )


def _match(at: At, given: Given, body: Fields) -> Step:
    def case(id: str, target: Target) -> Step:
        return _runs(At(f"{at.id}.{id}", "call", target.span, None), target)

    cases: Mapping[str, Target] = given["cases"]
    default: Target | None = given.get("default")
    return Choose(
        **at._asdict(),
        label=_label(body, "on"),
        pick=given["on"],
        labels=labels,
        cases={label: case(f"cases{part(label)}", target) for label, target in cases.items()},
        default=case("default", default) if default else None,
    )


def _fold(at: At, given: Given, body: Fields) -> Step:
    over, label = _source(at, given, body)
    return Fold(
        **at._asdict(),
        label=label,
        over=over,
        init=given["init"],
        element=ITEM,
        acc=ACC,
        body=given["do"],
        most=given.get("max_items"),
    )


def _for_each(at: At, given: Given, body: Fields) -> Step:
    over, label = _source(at, given, body)
    failing: Failing = given["on_error"]
    collect: Step = given["collect"]
    reads_errors = _reads(collect, ERRORS)
    return Each(
        **at._asdict(),
        label=label,
        over=over,
        element=ITEM,
        body=given["do"],
        join=Collected(),
        collect=collect,
        failing=failing._replace(kept=reads_errors),
        limit=given.get("max_parallel"),
    )


def _reads(collect: Step, name: str) -> bool:
    """Failures hold tracebacks with their data: they are kept only for who reads them."""
    return any(ref.path[0] == name for inner in every(collect) for ref in own_reads(inner))


def _parallel(at: At, given: Given, body: Fields) -> Step:
    failing: Failing = given.get("on_error") or Failing()
    branches: Mapping[str, Step] = given["branches"]
    reads_errors = _reads(given["collect"], BRANCH_ERRORS)
    return Branches(
        **at._asdict(),
        label=shorten(", ".join(branches)),
        branches=branches,
        join=Collected(),
        collect=given["collect"],
        failing=failing._replace(kept=reads_errors),
    )


def _source(at: At, given: Given, body: Fields) -> tuple[Expr, str]:
    """The source of the list of a for_each or a fold, and its label."""
    if "over" in given:
        return given["over"], _label(body, "over")
    if "items" in given:
        items: Constant = given["items"]
        return items, f"{len(items.value)} items"
    return Named(at.span, ("pipe",)), "pipe"


def _label(body: Fields, key: str) -> str:
    return shorten(" ".join(body.text_at(key)[:160].split()))


BUILD: Mapping[str, Callable[[At, Given, Fields], Step]] = {
    "transform": _transform,
    "tool": _tool,
    "shell": _shell,
    "agent": _agent,
    "call": _call,
    "match": _match,
    "fold": _fold,
    "for_each": _for_each,
    "parallel": _parallel,
}
