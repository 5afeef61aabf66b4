"""Builds the node ``map``, whose inner node runs in parallel, once for each item of a list.

Results and failures go to separate keys. An element of the fan-out is ``{as: item, "_map_index":
n}``, which the inner node sees in addition to the state.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from ....flow.expressions import Computed, Stored
from ....flow.protocols import DROPPED, FanOutResult, Frame, Name, Ref
from ....flow.step import ElementLimit, FailurePolicy, Step
from ....flow.steps import Compute, Each, Invoke, Sequence
from ....text.diagnostics import Diagnostic, StepError
from ....text.source import Span
from ....text.suggestions import suggest
from ....text.yaml.nodes import Fields, Items, Node, is_text, plain
from ....values.sequences import Numbered, is_sequence, why_no_sequence
from ....values.unread import opened
from ....values.value import Value
from ...descend import MISSING
from ...keys import Key
from ..expressions.lookup import find
from ..expressions.reading import ROOT, NotBuilt, Reader
from ..expressions.tokens import KEY_NAME
from ..expressions.value_errors import CANNOT, describe, value_failed
from ..takes import OVER
from .builder_contract import BuiltNode, FieldValues, NodeSite, WrittenKey
from .on_error import repeat_failures
from .sessions import CALLED, keep
from .step_fields import at

ITEMS = 100
"""The number of items that a map may have by default."""


def _elements(
    span: Span, name: str, read: Callable[[Frame], Value], reads: tuple[Ref, ...]
) -> Computed:
    """The items of a map, each with its number."""

    def evaluate(frame: Frame) -> Value:
        items = opened(read(frame))
        if type(items) is list:
            return [{name: item, "_map_index": index} for index, item in enumerate(items)]
        if is_sequence(items):
            return Numbered(items, name)
        message = f"over must be a list, got {describe(items)}"
        hint = why_no_sequence(items) or (
            "the node runs for each item of a list; a node before this one can make the list"
        )
        # The cause is the kind of the failure (`StepError.kind`), as ``error_type`` notes it.
        raise StepError(Diagnostic("graph.over", message, span, hint)) from TypeError(message)

    return Computed(span, evaluate, reads)


def _lay_over(frame: Frame, element: Value) -> Frame:
    """The frame of the inner node: the state with the item and its number."""
    return {**frame, "state": {**frame["state"], **element}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gather:
    """The value of a map: its results and its failures, under their keys."""

    node: str
    collect: str
    failures: str
    least: int | float
    """``min_success``: an int is a count of items, a float a share of them."""
    key: str | None
    """The key of the object that a function returns; None: the whole value."""
    tolerated: bool
    """Whether ``on_error: skip`` is set, so that failed items count as accepted."""
    span: Span

    def __call__(self, ran: FanOutResult) -> Value:
        results = list[Value]()
        failed = list[Value]()
        for index, value in enumerate(ran.values):
            error = ran.failures.get(index)
            if value is DROPPED and error is not None:
                failed.append(self.failure(index, error.kind))
            elif value is DROPPED or _says_that_it_failed(value):
                failed.append(self.failure(index, "unknown_error"))
            else:
                results.append(self.result(index, value))
        accepted = len(results) + (len(failed) if self.tolerated else 0)
        self.enough(accepted, len(ran.values), ran)
        return {self.collect: results, self.failures: failed}

    def failure(self, index: int, kind: str) -> Value:
        """The note of the failed item ``index``. ``kind``: its ``error_type``."""
        return {
            "map": self.node,
            "index": index,
            "error_type": kind,
            "node": f"_map_{self.node}_sub",
            "tolerated": self.tolerated,
        }

    def result(self, index: int, value: Value) -> Value:
        """The value of an item with its number."""
        if type(value) is dict and self.key in value:
            value = value[self.key]
        if type(value) is not dict:
            return {"_map_index": index, "value": value}
        # Twice: the number comes first, and an own `_map_index` of the value does not replace it.
        return {"_map_index": index, **value} | {"_map_index": index}

    def enough(self, accepted: int, width: int, ran: FanOutResult) -> None:
        """Raise StepError if too few of the items succeeded."""
        # As written: as binary floats, 0.55 of 100 items would be more than 55.
        needed = self.least if type(self.least) is int else Fraction(str(self.least)) * width
        if accepted >= needed:
            return
        succeeded = "succeeded or were skipped" if self.tolerated else "succeeded"
        message = (
            f"{accepted} of {width} items of {self.node!r} {succeeded}; min_success is {self.least}"
        )
        first = ran.failures[min(ran.failures)] if ran.failures else None
        if first is not None:
            message += f"; the first failure: {first.diagnostic.message}"
        hint = (first.diagnostic.hint if first is not None else None) or (
            "fix the failure, or allow some: min_success: 0.5 for a share, min_success: 2 for "
            "a count"
        )
        raise StepError(Diagnostic("graph.map-incomplete", message, self.span, hint)) from first


def _says_that_it_failed(value: Value) -> bool:
    """Whether the value of an item is an object with its error."""
    if type(value) is not dict or "success" in value:
        return False
    return bool(value.get("error") or value.get("errors"))


BuildNode = Callable[[Reader, Node, NodeSite], BuiltNode | None]
"""Builds a node of any kind; None after an error."""


def build_map(
    build_node: BuildNode, reader: Reader, fields: FieldValues, site: NodeSite
) -> BuiltNode:
    """Build a node that runs its inner node for each item of a list."""
    name: Name = fields["as"]
    inner = build_node(
        reader,
        fields["node"],
        site._replace(id=f"{site.id}.node", inside=True, timeout=fields.get("timeout")),
    )
    over = _over(reader, fields["over"], name.text)
    if inner is None:
        raise NotBuilt
    if fields.get("on_error") == "retry":
        inner = repeat_failures(fields, inner)
    collect: Name = fields["collect"]
    failures: Name = fields.get("failures") or Name(f"{collect.text}_failures")
    gather = _gather(fields, site, inner, failures)
    limit: int = fields.get("max_items") or site.config.get("max_map_items") or ITEMS
    overflow = fields.get("on_overflow") or site.defaults.get("on_overflow") or "error"
    step = Each(
        **at(site),
        label=f"{name.text} in {over.span.text}",
        over=over,
        element=Stored(_lay_over, (Ref((*ROOT, name.text)), Ref((*ROOT, "_map_index")))),
        body=_map_body(inner, site.span),
        gather=gather,
        limit=site.config.get("max_concurrency"),
        failing=FailurePolicy("continue"),
        cut=_element_limit(limit, overflow == "truncate", over.span),
    )
    keys = (
        WrittenKey(collect.text, collect.span, type="list", reducer="sorted_add"),
        WrittenKey(failures.text, failures.span, type="list", reducer="add"),
    )
    return BuiltNode(step, lambda state, value: value, keys, binds=(name.text, "_map_index"))


def _gather(fields: FieldValues, site: NodeSite, inner: BuiltNode, failures: Name) -> Gather:
    node: Fields = fields["node"]
    return Gather(
        node=site.name,
        collect=fields["collect"].text,
        failures=failures.text,
        least=fields.get("min_success", 1.0),
        # Only a function returns keys of the state (decision Y16).
        key=(node.text_at("state_key") or None) if inner.step.word == "python" else None,
        tolerated="skip" in (fields.get("on_error"), node.text_at("on_error")),
        span=site.span,
    )


def _map_body(inner: BuiltNode, span: Span) -> Step:
    """The step of a node as the body of a map: its value is the collected value."""
    step = inner.step
    if not inner.collects:
        return step
    # The inner step needs an id of its own. In a step that is no call, an id that ends in `call` may
    # be that of one of its steps.
    inside = "call" if isinstance(step, Invoke) else "steps"
    call = replace(step, id=f"{step.id}.{inside}", target=keep)
    value = Computed(span, lambda frame: inner.write(frame["state"], frame["called"]), (CALLED,))
    result = Compute(id=f"{step.id}.result", word="result", span=span, value=value)
    return Sequence(id=step.id, word=step.word, label=step.label, span=span, steps=(call, result))


def _element_limit(limit: int, truncate: bool, span: Span) -> ElementLimit:
    """The limit of items. Further items are dropped with a warning, or are an error."""

    def problem(left_out: int) -> Diagnostic:
        hint = f"write max_items: {limit + left_out} to use all"
        if truncate:
            message = f"the map uses the first {limit} items and drops {left_out}"
            return Diagnostic("graph.truncated", message, span, hint, "warning")
        message = f"the map has {limit + left_out} items; the limit is {limit}"
        hint = f"{hint}; on_overflow: truncate uses the first {limit}"
        return Diagnostic("graph.too-many-items", message, span, hint)

    return ElementLimit(limit, problem)


_BRACES = re.compile(r"\{(.+)\}", re.DOTALL)
"""A text that is one placeholder."""


def _over(reader: Reader, node: Node, name: str) -> Computed:
    """The items of ``over``: a list, or one path of the state in braces."""
    if isinstance(node, Items):
        items = plain(node)
        return _elements(node.span, name, lambda frame: items, ())
    braces = _BRACES.fullmatch(node.text)
    if not is_text(node) or braces is None:
        path = node.text.removeprefix("state.")
        named = all(map(KEY_NAME.fullmatch, path.split(".")))
        reader.wrong_type(node, Key("over", OVER), f'over: "{{state.{path}}}"' if named else None)
        raise NotBuilt
    text = braces[1].strip()
    start = braces.end(1) - len(braces[1].lstrip())
    names = tuple(text.removeprefix("state.").split("."))
    span = node.locate(start, start + len(text))
    if not all(map(KEY_NAME.fullmatch, names)):
        hint = "compute the list in a passthrough node, into a key of its own"
        message = "over takes one path, without arithmetic or brackets"
        reader.refuse("graph.over-expression", message, span, hint)

    def read(frame: Frame) -> Value:
        state = frame["state"]
        try:
            read_items = find(state, names)
        except CANNOT as error:
            raise value_failed(text, span, error) from error
        if read_items is not MISSING:
            return read_items
        path = ".".join(names)
        hint = suggest(names[0], state, "keys of the state")
        raise StepError(
            Diagnostic("graph.over", f"the state has no {path!r}", span, hint)
        ) from KeyError(path)

    return _elements(span, name, read, (Ref((*ROOT, *names), span),))
