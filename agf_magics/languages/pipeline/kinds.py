"""The pipeline language as data: the one table for the loader, the hints, completion and the JSON
Schema.

A key that is not here does not exist. takes.py has the kinds of value that a key may take.

Step kinds to shapes: each kind of the language becomes one shape of the common representation.

There is one builder per kind, in a table. The keys were read before, so a builder only puts the
parts together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ...flow.step import DROPPED, Asking, Exchange, Expr, FanOutResult, Lookup, Name, Step
from ...flow.step import Target as ResultTarget
from ...flow.steps import (
    Branches,
    Choose,
    Compute,
    Constant,
    Each,
    Failing,
    Fold,
    Invoke,
    NamedArguments,
    every,
    own_reads,
    part,
)
from ...flow.values import Value
from ...text.diagnostics import Span
from ...text.nodes import Fields, shorten
from ..documents import Json, Key, Kind, kind, kind_schema, mapping_of, reference
from . import takes
from .body import TITLE, Reader
from .r1.nodes import FORMS
from .schema_documents import SCHEMA, TYPES
from .takes import PASS_KEY, PIPELINE_KEY, SHELL, TARGET, Target
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
    labels,
    store_target,
)

_OUTPUT = Key("output", takes.OUTPUT, "The store the result is written to.", null=True)
_SCHEMA = Key(
    "schema",
    takes.SCHEMA_NAME,
    "The schema the result must conform to, else the step fails.",
    null=True,
)
_ON_ERROR = Key(
    "on_error",
    takes.ON_ERROR,
    "What a failure of this call does: continue gives null, retry(N) tries again; an extension of "
    "the language.",
)
_OVER = Key(
    "over",
    takes.EXPRESSION,
    "Gives the list or the sequence; without over and items it is the incoming pipe.",
    null=True,
    explicit=True,
)
_ITEMS = Key("items", takes.LITERALS, "The list itself, as written.", null=True, explicit=True)
STEPS: Mapping[str, Kind] = {
    each.name: each
    for each in (
        kind(
            "transform",
            "Evaluates an expression.",
            Key("value", takes.EXPRESSION, "What the step's result is.", required=True),
            _OUTPUT,
        ),
        kind(
            "tool",
            "Calls a registered tool.",
            Key("name", takes.NAME, "The tool.", required=True),
            Key(
                "args",
                takes.ARGUMENTS,
                "Its arguments: literals, or expressions after !expr.",
                null=True,
            ),
            _SCHEMA,
            _ON_ERROR,
            _OUTPUT,
        ),
        kind(
            "shell",
            "Runs a command with the tool named shell; no shell interprets it.",
            Key("command", takes.COMMAND, "The command and its arguments.", required=True),
            _SCHEMA,
            _ON_ERROR,
            _OUTPUT,
        ),
        kind(
            "agent",
            "Asks an agent.",
            Key(
                "prompt",
                takes.TEMPLATE,
                "What it is asked; {ctx.x}, {pipe} and {item} are replaced.",
                required=True,
            ),
            Key(
                "identity",
                takes.NAME,
                "The registered agent that answers; without it the default agent.",
                null=True,
            ),
            Key("capabilities", takes.TOOLS, "The tools it may use at most.", null=True),
            Key(
                "model",
                takes.NAME,
                "The model that answers, as openai:gpt-4o; an extension of the language.",
                null=True,
            ),
            Key(
                "attach",
                takes.ATTACH,
                "Images and documents for the model: paths or bytes; an extension of the language.",
                null=True,
            ),
            _SCHEMA,
            _ON_ERROR,
            _OUTPUT,
        ),
        kind("call", "Runs another pipeline.", PIPELINE_KEY, PASS_KEY, _ON_ERROR, _OUTPUT),
        kind(
            "match",
            "Runs the pipeline whose label a value has.",
            Key("on", takes.EXPRESSION, "The value whose text selects the case.", required=True),
            Key("cases", takes.CASES, "The pipelines by label.", required=True),
            Key("default", takes.TARGET_OF_CASE, "The pipeline for every other value.", null=True),
            _OUTPUT,
        ),
        kind(
            "fold",
            "Runs a step for one item after the other, with an accumulator.",
            _OVER,
            _ITEMS,
            Key("init", takes.INITIAL, "What acc is before the first item.", required=True),
            Key(
                "do",
                takes.STEP,
                "Runs once per item; its result is the next acc.",
                True,
                binds=("item", "acc"),
            ),
            Key("output", takes.OUTPUT, "The store the last acc is written to.", required=True),
            Key("max_items", takes.COUNT, "Items after this many are left out.", null=True),
        ),
        kind(
            "for_each",
            "Runs a step once per item, several items at a time.",
            _OVER,
            _ITEMS,
            Key(
                "max_parallel",
                takes.COUNT,
                "How many items run at once (8 when left out; with workers, as many as they run).",
                null=True,
            ),
            Key("on_error", takes.ON_ERROR, "What happens when an item fails.", required=True),
            Key("do", takes.STEP, "Runs once per item.", True, binds=("item",)),
            Key(
                "collect",
                takes.STEP,
                "Runs once at the end: pipe is the list of results.",
                required=True,
                binds=(ERRORS,),
            ),
            _OUTPUT,
        ),
        kind(
            "parallel",
            "Runs named steps at the same time.",
            Key(
                "on_error",
                takes.ON_ERROR,
                "What happens when a branch fails (abort when left out).",
            ),
            Key("branches", takes.BRANCHES, "The steps by name; all run at once.", required=True),
            Key(
                "collect",
                takes.STEP,
                "Runs once at the end: pipe maps each branch to its result.",
                required=True,
                binds=(BRANCH_ERRORS,),
            ),
            _OUTPUT,
        ),
    )
}

DOCUMENTS: Mapping[str, Kind] = {
    "pipeline": kind(
        "pipeline",
        "A pipeline.",
        Key(
            "pipeline",
            takes.NAME,
            "Its name, under which it is registered and called.",
            required=True,
        ),
        Key("description", takes.TEXT, "What it does, for people and for agents that may call it."),
        Key("steps", takes.LISTED_STEPS, "What runs, in order.", required=True),
    ),
    "schema": SCHEMA,
}

PLANNED: Mapping[str, str] = {
    "input": "delete it; an expression reads the input as ctx.NAME",
    "defaults": "delete it",
    "refine": "delete it",
}
"""Keys of a pipeline document that the language reserves (decision P9), each with a hint."""

FIELD_TYPES: Mapping[str, str] = {name: each.doc for name, each in TYPES.items()}

FUNCTIONS: Mapping[str, str] = FORMS
"""R1's closed set of combinators."""

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


def document_schema() -> Json:
    """The language as a JSON Schema (Draft 2020-12), for editors: one document of a definition. It
    cannot describe expressions and ``!expr``."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A document of a pipeline definition",
        "oneOf": [reference(f"{name}_document") for name in DOCUMENTS],
        "$defs": {
            **{f"{name}_document": kind_schema(kind) for name, kind in DOCUMENTS.items()},
            "step": {
                "description": "One step: its kind, and under it the kind's keys.",
                "type": "object",
                "properties": {
                    **{name: reference(name) for name in STEPS},
                    TITLE.name: {**TITLE.takes.schema, "description": TITLE.doc},
                },
                "additionalProperties": False,
                "oneOf": [{"required": [name]} for name in STEPS],
            },
            **{name: _step_schema(kind) for name, kind in STEPS.items()},
            "target": kind_schema(TARGET),
            "fields": {**mapping_of(reference("type")), "minProperties": 1},
            "type": {"oneOf": [kind_schema(kind) for kind in TYPES.values()]},
        },
    }


def _step_schema(kind: Kind) -> Json:
    takes_a_list = {"over", "items"} <= kind.keys.keys()
    lists = {"not": {"required": ["over", "items"]}} if takes_a_list else {}
    return {**kind_schema(kind), **lists}
