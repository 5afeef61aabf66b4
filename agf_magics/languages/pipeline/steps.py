"""Builds each kind of step of a pipeline as a step of the common representation.

The table `BUILD` has one builder for each kind. The keys were read before, so a builder only puts
the parts together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ...flow.expressions import Computed, Constant, NamedArguments
from ...flow.protocols import DROPPED, Expr, FanOutResult, Name
from ...flow.protocols import Target as ResultTarget
from ...flow.step import FailurePolicy, Step
from ...flow.step_options import Asking, Exchange, Lookup
from ...flow.steps import Branches, Choose, Compute, Each, Fold, Invoke, every, own_reads, part
from ...text.shorten import shorten
from ...text.source import Span
from ...text.yaml.nodes import Fields
from ...values.value import Value
from .body import Reader, refused_value
from .key_values import SHELL
from .scope import Scope
from .takes import Target
from .values import (
    ACC,
    BRANCH_ERRORS,
    ERRORS,
    ITEM,
    PIPE,
    Attached,
    Collected,
    Named,
    any_store,
    labels,
    store_target,
)

FieldValues = Mapping[str, Any]


class StepFields(NamedTuple):
    """The fields that the steps of all kinds have."""

    id: str
    word: str
    span: Span
    target: ResultTarget | None
    title: str = ""


def build_step(reader: Reader, word: str, body: Fields) -> Step:
    """The step of the kind ``word`` whose keys ``reader`` has read. What it could not read is
    unknown; without the callee, or the cases, the whole step is."""
    fields = reader.values
    refused = reader.refused_keys & reader.grammar.kinds[word].keys.keys()
    title: Name = fields.get("title") or Name("")
    target = any_store(reader.scope.top) if "output" in refused else _target(fields, reader.scope)
    step_fields = StepFields(reader.id, word, reader.span, target, title.text)
    for name in refused - {"output"}:
        if name not in REFUSED_VALUES:
            return _refused_step(step_fields)
        fields[name] = REFUSED_VALUES[name](reader)
    step = BUILD[word](step_fields, fields, body)
    failing = fields.get("on_error")
    return (
        _with_failure_policy(step, failing)
        if isinstance(step, Invoke) and failing is not None
        else step
    )


def _only_value(ran: FanOutResult) -> Value:
    """The value of the only branch; null if its call failed and the policy continues."""
    (value,) = ran.values
    return None if value is DROPPED else value


def _with_failure_policy(step: Invoke, failing: FailurePolicy) -> Step:
    """``step``, a call, as the only branch of a step with a policy for failures."""
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


def _target(fields: FieldValues, scope: Scope) -> ResultTarget | None:
    output: Name | None = fields.get("output")
    if output is not None:
        return store_target(output.text, output.span, scope.top)
    return PIPE if scope.top else None


def _transform(step_fields: StepFields, fields: FieldValues, body: Fields) -> Step:
    return Compute(**step_fields._asdict(), label=_label(body, "value"), value=fields["value"])


def _tool(step_fields: StepFields, fields: FieldValues, body: Fields) -> Step:
    name: Name = fields["name"]
    args = fields.get("args") or NamedArguments(())
    label = shorten(name.text)
    gives = fields.get("schema")
    return Invoke(
        **step_fields._asdict(),
        label=label,
        kind="tool",
        name=name,
        args=args,
        gives=gives,
        lookup=Lookup(only_tools=True),
    )


def _shell(step_fields: StepFields, fields: FieldValues, body: Fields) -> Step:
    command: Expr = fields["command"]
    label = (
        shorten(" ".join(command.value))
        if isinstance(command, Constant)
        else _label(body, "command")
    )
    args = NamedArguments(((Name("command", command.span), command),))
    gives = fields.get("schema")
    return Invoke(
        **step_fields._asdict(),
        label=label,
        kind="tool",
        name=Name(SHELL, step_fields.span),
        args=args,
        gives=gives,
    )


def _agent(step_fields: StepFields, fields: FieldValues, body: Fields) -> Step:
    prompt: Expr = fields["prompt"]
    model: Name | None = fields.get("model")
    attach: Attached = fields.get("attach") or Attached(step_fields.span, ())
    args: tuple[tuple[Name, Expr], ...] = ((Name("prompt", prompt.span), prompt),)
    if attach.exprs:
        args = (*args, (Name("attach", attach.span), attach))
    asking = (
        Asking() if model is None else Asking(model.text, span=model.span, overrides_agent=True)
    )
    return Invoke(
        **step_fields._asdict(),
        label=_label(body, "prompt"),
        kind="agent",
        name=fields.get("identity") or Name(""),
        args=NamedArguments(args),
        gives=fields.get("schema"),
        tools=fields.get("capabilities"),
        asking=asking._replace(attach=tuple(expr.span for expr in attach.exprs)),
    )


def _call(step_fields: StepFields, fields: FieldValues, body: Fields) -> Step:
    name: Name = fields["pipeline"]
    return _runs(
        step_fields, Target(step_fields.span, name, fields.get("pass") or NamedArguments(()))
    )


def _runs(step_fields: StepFields, target: Target) -> Step:
    if target.pipeline is None:
        return _refused_step(step_fields)
    return Invoke(
        **step_fields._asdict(),
        label=shorten(target.pipeline.text),
        kind="flow",
        name=target.pipeline,
        args=target.args,
        exchange=Exchange(pipe=Named(target.span, ("pipe",))),
    )


def _match(step_fields: StepFields, fields: FieldValues, body: Fields) -> Step:
    def case(id: str, target: Target) -> Step:
        return _runs(StepFields(f"{step_fields.id}.{id}", "call", target.span, None), target)

    cases: Mapping[str, Target] = fields["cases"]
    default: Target | None = fields.get("default")
    return Choose(
        **step_fields._asdict(),
        label=_label(body, "on"),
        pick=fields["on"],
        labels=labels,
        cases={label: case(f"cases{part(label)}", target) for label, target in cases.items()},
        default=case("default", default) if default else None,
    )


def _fold(step_fields: StepFields, fields: FieldValues, body: Fields) -> Step:
    over, label = _source(step_fields, fields, body)
    return Fold(
        **step_fields._asdict(),
        label=label,
        over=over,
        init=fields["init"],
        element=ITEM,
        acc=ACC,
        body=fields["do"],
        most=fields.get("max_items"),
    )


def _for_each(step_fields: StepFields, fields: FieldValues, body: Fields) -> Step:
    over, label = _source(step_fields, fields, body)
    failing: FailurePolicy = fields["on_error"]
    collect: Step = fields["collect"]
    reads_errors = _reads(collect, ERRORS)
    return Each(
        **step_fields._asdict(),
        label=label,
        over=over,
        element=ITEM,
        body=fields["do"],
        join=Collected(),
        collect=collect,
        failing=failing._replace(keeps_failures=reads_errors),
        limit=fields.get("max_parallel"),
    )


def _reads(collect: Step, name: str) -> bool:
    """Whether ``collect`` reads the store ``name``. Failures hold tracebacks with their data, so
    they are kept only if it does."""
    return any(ref.path[0] == name for inner in every(collect) for ref in own_reads(inner))


def _parallel(step_fields: StepFields, fields: FieldValues, body: Fields) -> Step:
    failing: FailurePolicy = fields.get("on_error") or FailurePolicy()
    branches: Mapping[str, Step] = fields["branches"]
    reads_errors = _reads(fields["collect"], BRANCH_ERRORS)
    return Branches(
        **step_fields._asdict(),
        label=shorten(", ".join(branches)),
        branches=branches,
        join=Collected(),
        collect=fields["collect"],
        failing=failing._replace(keeps_failures=reads_errors),
    )


def _source(step_fields: StepFields, fields: FieldValues, body: Fields) -> tuple[Expr, str]:
    """The source of the list of a for_each or a fold, and its label."""
    if "over" in fields:
        return fields["over"], _label(body, "over")
    if "items" in fields:
        items: Constant | Computed = fields["items"]
        return items, f"{len(items.value)} items" if isinstance(items, Constant) else ""
    return Named(step_fields.span, ("pipe",)), "pipe"


def _refused_step(step_fields: StepFields) -> Step:
    return Compute(**step_fields._asdict(), value=refused_value(step_fields.span))


def _refused_body(reader: Reader) -> Step:
    return Compute(id=f"{reader.id}.refused", word="", value=refused_value(reader.span))


REFUSED_VALUES: Mapping[str, Callable[[Reader], Any]] = {
    **dict.fromkeys(
        ("value", "command", "prompt", "on", "over", "items", "init", "args", "pass"),
        lambda reader: refused_value(reader.span),
    ),
    **dict.fromkeys(("do", "collect"), _refused_body),
    "branches": lambda reader: {},
    "on_error": lambda reader: FailurePolicy(),
    **dict.fromkeys(
        ("schema", "capabilities", "attach", "max_parallel", "max_items"), lambda _: None
    ),
}
"""What stands for the value of a key that could not be read, so that its step is checked all the
same. The step of a key without an entry is unknown."""


def _label(body: Fields, key: str) -> str:
    """The begin of the text of a key on one line."""
    return shorten(" ".join(body.text_at(key)[:160].split()))


BUILD: Mapping[str, Callable[[StepFields, FieldValues, Fields], Step]] = {
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
