"""The sources of a pipeline's values besides R1 expressions, and the targets of its results.

The frame of a pipeline is ``{"ctx": stores, "pipe": value}``, with ``item`` and ``acc`` inside a
fan-out or a fold.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ...flow.step import DROPPED, Expr, FanOutResult, FlowInput, FlowResult, Frame, Outcome, Ref
from ...flow.values import ATOMS, Value, is_json, type_name
from ...text.diagnostics import Diagnostic, StepError
from ...text.source import Span
from .texts import STORES


@dataclass(slots=True, eq=False)
class Named:
    """A value by its place in the frame: the incoming pipe, or a name listed in ``pass``."""

    span: Span
    path: tuple[str, ...]

    def evaluate(self, frame: Frame) -> Value:
        value: Value = frame
        for name in self.path:
            if type(value) is not dict or name not in value:
                stores = ", ".join(frame["ctx"]) or "none"
                message = f"cannot pass {self.path[-1]!r}: no store has this name"
                failure = StepError(
                    Diagnostic("pipeline.pass", message, self.span, f"the stores here are {stores}")
                )
                failure.is_unknown_name = True
                raise failure
            value = value[name]
        return value

    def reads(self) -> tuple[Ref, ...]:
        return (Ref(self.path, self.span),)


@dataclass(slots=True, eq=False)
class Command:
    """A shell step's expression: its value must be what P8 allows."""

    span: Span
    expr: Expr

    def evaluate(self, frame: Frame) -> Value:
        value = self.expr.evaluate(frame)
        if type(value) is list and value and all(type(word) is str for word in value):
            return value
        odd = (
            next((word for word in value if type(word) is not str), None)
            if type(value) is list
            else value
        )
        found = (
            type_name(value)
            if type(value) is not list
            else f"a list with {type_name(odd)}"
            if value
            else "[]"
        )
        hint = "one text per word: ['ls', '-l', ctx.folder]"
        raise StepError(
            Diagnostic(
                "pipeline.command", f"a command is a list of texts, not {found}", self.span, hint
            )
        )

    def reads(self) -> tuple[Ref, ...]:
        return self.expr.reads()


@dataclass(slots=True, eq=False)
class Attached:
    """The expressions of ``attach``: a list of their values."""

    span: Span
    exprs: tuple[Expr, ...]

    def evaluate(self, frame: Frame) -> Value:
        return [expr.evaluate(frame) for expr in self.exprs]

    def reads(self) -> tuple[Ref, ...]:
        return tuple(ref for expr in self.exprs for ref in expr.reads())


_PIPE = (Ref(("pipe",)),)


class Pipe:
    """Passes a step's value to the next step."""

    __slots__ = ()

    def store(self, frame: Frame, outcome: Outcome) -> Frame:
        return {**frame, "pipe": outcome.value}

    def writes(self) -> tuple[Ref, ...]:
        return _PIPE


@dataclass(frozen=True, slots=True)
class StoreTarget:
    """Stores a value under a name in ``ctx``, and passes it on as the pipe at the top level."""

    name: str
    span: Span | None
    pipe: bool

    def store(self, frame: Frame, outcome: Outcome) -> Frame:
        stores = {**frame["ctx"], self.name: outcome.value}
        return (
            {**frame, "ctx": stores, "pipe": outcome.value}
            if self.pipe
            else {**frame, "ctx": stores}
        )

    def writes(self) -> tuple[Ref, ...]:
        store = Ref((*STORES, self.name), self.span)
        return (store, *_PIPE) if self.pipe else (store,)


@dataclass(frozen=True, slots=True)
class Bind:
    """Binds ``item`` or ``acc``."""

    name: str

    def bind(self, frame: Frame, value: Value) -> Frame:
        return {**frame, self.name: value}

    def store(self, frame: Frame, outcome: Outcome) -> Frame:
        return {**frame, self.name: outcome.value}

    def writes(self) -> tuple[Ref, ...]:
        return (Ref((self.name,)),)


@dataclass(frozen=True, slots=True)
class Collected:
    """The frame of a ``collect``: no item, and the results without the dropped ones as its pipe.

    ``errors``: also which elements are missing, as `ERRORS`, so that the rows of two runs can be
    matched; or which branches, as `BRANCH_ERRORS`.
    """

    errors: bool = False

    def join(self, frame: Frame, ran: FanOutResult) -> Frame:
        collected: Frame = {"ctx": frame["ctx"]}
        if ran.names is None:
            collected["pipe"] = [value for value in ran.values if value is not DROPPED]
        else:
            ended = zip(ran.names, ran.values, strict=True)
            collected["pipe"] = {name: value for name, value in ended if value is not DROPPED}
        failed = sorted(ran.failures.items()) if self.errors else []
        if self.errors and ran.names is None:
            collected[ERRORS] = [
                {"index": i, "error": error.diagnostic.message} for i, error in failed
            ]
        elif self.errors and ran.names is not None:
            collected[BRANCH_ERRORS] = {
                ran.names[i]: error.diagnostic.message for i, error in failed
            }
        return collected

    def writes(self) -> tuple[Ref, ...]:
        return (*_PIPE, Ref((ERRORS,)), Ref((BRANCH_ERRORS,)))


PIPE, ITEM, ACC = Pipe(), Bind("item"), Bind("acc")
ERRORS = "__errors__"
"""In the ``collect`` of a ``for_each``: the index and the error of each element that was
dropped."""
BRANCH_ERRORS = "__branch_errors__"
"""In the ``collect`` of a ``parallel``: the errors of the branches that were dropped, by name."""


def labels(value: Any) -> tuple[str, ...]:
    """The labels that select a value (decision P5): its text in Python, then in JSON.

    >>> labels("a"), labels(True), labels(None), labels(1.0), labels({"k": [1, "x"]})
    (('a',), ('True', 'true'), ('None', 'null'), ('1.0',), ("{'k': [1, 'x']}", '{"k":[1,"x"]}'))
    """
    kind = type(value)
    if kind is str:
        return (value,)
    if kind not in ATOMS and kind is not list and kind is not dict:
        return (type_name(value),)  # opaque
    text = str(value)
    if not is_json(value):
        return (text,)
    return tuple(
        dict.fromkeys((text, json.dumps(value, ensure_ascii=False, separators=(",", ":"))))
    )


def start(given: FlowInput) -> Frame:
    """The frame of the first step: the names of the input are its stores."""
    stores = {} if given.input is None else given.input
    if type(stores) is not dict or not all(type(name) is str for name in stores):
        found = (
            type_name(stores) if type(stores) is not dict else "one whose names are not all texts"
        )
        message = f"a pipeline's input is a mapping of names to values, not {found}"
        raise StepError(
            Diagnostic("pipeline.input", message, hint="its names become the stores: ctx.name")
        )
    return {"ctx": dict(stores), "pipe": given.pipe}


def end(frame: Frame) -> FlowResult:
    return FlowResult(frame["pipe"], frame["ctx"])
