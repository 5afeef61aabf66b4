"""Step kinds to shapes: each kind of the language becomes one shape of the common representation.

There is one builder per kind, in a table. The keys were read before, so a builder only puts the
parts together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...flow.declared import Asking
from ...flow.frame import Expr
from ...flow.frame import Target as ResultTarget
from ...flow.steps import Branches, Choose, Compute, Each, Fold, Invoke, Name, Step, every, part
from ...flow.wiring import own_reads
from ...text.nodes import shorten
from ...text.source import Span
from ...text.yamlnodes import Fields, Scalar
from .body import Policy, Reader
from .calls import SHELL
from .scope import Scope
from .takes import Target
from .values import (
    ACC,
    COLLECTED,
    ERRORS,
    ITEM,
    PIPE,
    Arguments,
    Attached,
    Collected,
    Constant,
    Named,
    Store,
    labels,
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
    return BUILD[word](at, given, body)


def _target(given: Given, scope: Scope) -> ResultTarget | None:
    output: Name | None = given.get("output")
    if output is not None:
        return Store(output.text, output.span, scope.top)
    return PIPE if scope.top else None


def _transform(at: At, given: Given, body: Fields) -> Step:
    return Compute(**at._asdict(), label=_label(body, "value"), value=given["value"])


def _tool(at: At, given: Given, body: Fields) -> Step:
    name: Name = given["name"]
    args = given.get("args") or Arguments(())
    label, gives = shorten(name.text), given.get("schema")
    return Invoke(
        **at._asdict(), label=label, kind="tool", name=name, args=args, gives=gives, only_tools=True
    )


def _shell(at: At, given: Given, body: Fields) -> Step:
    command: Expr = given["command"]
    label = (
        shorten(" ".join(command.value))
        if isinstance(command, Constant)
        else _label(body, "command")
    )
    args = Arguments((("command", command.span, command),))
    gives = given.get("schema")
    return Invoke(
        **at._asdict(), label=label, kind="tool", name=Name(SHELL, at.span), args=args, gives=gives
    )


def _agent(at: At, given: Given, body: Fields) -> Step:
    prompt: Expr = given["prompt"]
    model: Name | None = given.get("model")
    attach: Attached | None = given.get("attach")
    args: tuple[tuple[str, Span, Expr], ...] = (("prompt", prompt.span, prompt),)
    if attach is not None and attach.exprs:
        args = (*args, ("attach", attach.span, attach))
    asking = Asking() if model is None else Asking(model.text, span=model.span, wins=True)
    return Invoke(
        **at._asdict(),
        label=_label(body, "prompt"),
        kind="agent",
        name=given.get("identity") or Name(""),
        args=Arguments(args),
        gives=given.get("schema"),
        tools=given.get("capabilities"),
        asking=asking
        if attach is None
        else asking._replace(attach=tuple(one.span for one in attach.exprs)),
    )


def _call(at: At, given: Given, body: Fields) -> Step:
    name: Name = given["pipeline"]
    return _runs(at, Target(at.span, name, given.get("pass") or Arguments(())))


def _runs(at: At, target: Target) -> Invoke:
    return Invoke(
        **at._asdict(),
        label=shorten(target.pipeline.text),
        kind="flow",
        name=target.pipeline,
        args=target.args,
        pipe=Named(target.span, ("pipe",)),
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
    policy: Policy = given["on_error"]
    collect: Step = given["collect"]
    # Failures hold tracebacks with their data: they are kept only for who reads them.
    reads_errors = any(
        ref.path[0] == ERRORS for inner in every(collect) for ref in own_reads(inner)
    )
    return Each(
        **at._asdict(),
        label=label,
        over=over,
        element=ITEM,
        body=given["do"],
        join=Collected(reads_errors),
        collect=collect,
        keeps_failures=reads_errors,
        limit=given.get("max_parallel"),
        on_error=policy.on_error,
        retries=policy.retries,
    )


def _parallel(at: At, given: Given, body: Fields) -> Step:
    policy: Policy = given.get("on_error") or Policy()
    branches: Mapping[str, Step] = given["branches"]
    return Branches(
        **at._asdict(),
        label=shorten(", ".join(branches)),
        branches=branches,
        join=COLLECTED,
        collect=given["collect"],
        on_error=policy.on_error,
        retries=policy.retries,
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
    node = body.fields[key]
    assert isinstance(node, Scalar)
    return shorten(" ".join(node.text[:160].split()))


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
