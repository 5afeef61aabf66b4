"""The values of a pipeline besides R1 expressions, the targets of its results, and its first frame.

The frame of a pipeline is ``{"ctx": stores, "pipe": value}``, with ``item`` and ``acc`` inside a
fan-out or a fold.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ...flow.comparison_warnings import OF_JSON, warn_of_comparison
from ...flow.expressions import Constant, NamedArguments, Stored
from ...flow.flow import named_values
from ...flow.protocols import DROPPED, Args, Expr, FanOutResult, FlowInput, FlowResult, Frame, Ref
from ...schemas.shape_paths import FindShape
from ...schemas.shapes import TEXT, Shape, either, list_of, literal
from ...text.diagnostics import Diagnostic, StepError
from ...text.length import ATOMS, can_write
from ...text.source import Span
from ...values.value import Value, is_json, type_name
from ..descend import MISSING, descend
from .r1 import R1
from .r1.infer import Inference, kinds_of
from .r1.nodes import STORES
from .template import Template


@dataclass(slots=True, eq=False)
class Named:
    """A value by its place in the frame: the incoming pipe, or a name listed in ``pass``."""

    span: Span
    path: tuple[str, ...]

    def evaluate(self, frame: Frame) -> Value:
        value = descend(frame, self.path)
        if value is not MISSING:
            return value
        hint = f"the stores here are {', '.join(frame['ctx']) or 'none'}"
        message = f"cannot pass {self.path[-1]!r}: no store has this name"
        failure = StepError(Diagnostic("pipeline.pass", message, self.span, hint))
        failure.is_unknown_name = True
        raise failure

    def reads(self) -> tuple[Ref, ...]:
        return (Ref(self.path, self.span),)


@dataclass(slots=True, eq=False)
class Command:
    """The expression of a shell step's command. Its value must be a list of texts (decision P8)."""

    span: Span
    expr: Expr

    def evaluate(self, frame: Frame) -> Value:
        value = self.expr.evaluate(frame)
        if type(value) is list and value and all(type(word) is str for word in value):
            return value
        actual = "[]" if type(value) is list and not value else type_name(value)
        if type(value) is list and value:
            actual += f" with {type_name(next(word for word in value if type(word) is not str))}"
        hint = "one text per word: ['ls', '-l', ctx.folder]"
        raise StepError(
            Diagnostic(
                "pipeline.command", f"a command is a list of texts, not {actual}", self.span, hint
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


def store_target(name: str, span: Span | None, pipe: bool) -> Stored:
    """Stores a value under a name in ``ctx``, and passes it on as the pipe at the top level."""

    def write(frame: Frame, value: Value) -> Frame:
        stored = {**frame, "ctx": {**frame["ctx"], name: value}}
        return {**stored, "pipe": value} if pipe else stored

    store = Ref((*STORES, name), span)
    return Stored(write, (store, *_PIPE) if pipe else (store,))


def any_store(pipe: bool) -> Stored:
    """The target of a step whose store is unknown, since its text has errors: it may be any."""
    stores = Ref(STORES)
    return Stored(lambda frame, value: frame, (stores, *_PIPE) if pipe else (stores,))


@dataclass(frozen=True, slots=True)
class Collected:
    """Makes the frame of a ``collect``: the stores, and the results without dropped ones as the
    pipe.

    The frame also tells which elements (`ERRORS`) or which branches (`BRANCH_ERRORS`) are missing,
    so that the rows of two runs can be matched.
    """

    def join(self, frame: Frame, ran: FanOutResult) -> Frame:
        failed = {i: error.diagnostic.message for i, error in sorted(ran.failures.items())}
        if ran.names is None:
            pipe = [value for value in ran.values if value is not DROPPED]
            errors = [{"index": i, "error": message} for i, message in failed.items()]
            return {"ctx": frame["ctx"], "pipe": pipe, ERRORS: errors}
        ended = zip(ran.names, ran.values, strict=True)
        return {
            "ctx": frame["ctx"],
            "pipe": {name: value for name, value in ended if value is not DROPPED},
            BRANCH_ERRORS: {ran.names[i]: message for i, message in failed.items()},
        }

    def writes(self) -> tuple[Ref, ...]:
        return (*_PIPE, Ref((ERRORS,)), Ref((BRANCH_ERRORS,)))


PIPE = Stored(lambda frame, value: {**frame, "pipe": value}, _PIPE)
"""Passes a step's value to the next step."""
ITEM = Stored(lambda frame, value: {**frame, "item": value}, (Ref(("item",)),))
ACC = Stored(lambda frame, value: {**frame, "acc": value}, (Ref(("acc",)),))
ERRORS = "__errors__"
"""The failures in the ``collect`` of a ``for_each``: the index and the error of each dropped
element."""
BRANCH_ERRORS = "__branch_errors__"
"""The failures in the ``collect`` of a ``parallel``: the errors of the dropped branches, by
name."""


def labels(value: Any) -> tuple[str, ...]:
    """The labels that select a value (decision P5): its text in Python, then in JSON.

    >>> labels("a"), labels(True), labels(None), labels(1.0), labels({"k": [1, "x"]})
    (('a',), ('True', 'true'), ('None', 'null'), ('1.0',), ("{'k': [1, 'x']}", '{"k":[1,"x"]}'))
    """
    kind = type(value)
    if kind is str:
        return (value,)
    if kind not in (*ATOMS, list, dict):
        warn_of_comparison(f"{type_name(value)} is not compared with the labels of match", OF_JSON)
        return (type_name(value),)
    if not can_write(value):
        return (type_name(value),)
    try:
        text = str(value)
    except Exception:  # a number of too many digits, or an object inside without a text
        return (type_name(value),)
    if not is_json(value):
        return (text,)
    return tuple(
        dict.fromkeys((text, json.dumps(value, ensure_ascii=False, separators=(",", ":"))))
    )


def start(flow_input: FlowInput) -> Frame:
    """The frame of the first step: the names of the input are its stores."""
    message = "a pipeline's input is a mapping of names to values"
    hint = "its names become the stores: ctx.name"
    stores = named_values(flow_input, "pipeline.input", message, hint)
    return {"ctx": dict(stores), "pipe": flow_input.pipe}


def end(frame: Frame) -> FlowResult:
    return FlowResult(frame["pipe"], frame["ctx"])


def infer(
    read: Expr | Args, look: FindShape, problems: list[Diagnostic], repeated: bool = False
) -> Shape | None:
    """The shape of the value of ``read``; certain errors are added to ``problems``.

    ``repeated``: whether it is evaluated for each item of a list. Then all of it counts as
    evaluated: ``on_error: continue`` would drop the item that comes to the error (decision P24).
    """

    def inside(part: Expr | Args) -> Shape | None:
        return infer(part, look, problems, repeated)

    match read:
        case R1():
            return Inference(read.locate, look, problems, repeated).shape(read.node, certain=True)
        case Constant():
            return literal(read.value)
        case Template():
            for hole in read.holes:
                inside(hole.path)
            return TEXT
        case Command():
            inside(read.expr)
            return list_of(TEXT)
        case Attached():
            return list_of(
                either([_attachment_shape(inside(expr), expr, problems) for expr in read.exprs])
            )
        case Named():
            return look(read.path)[0]
        case NamedArguments():
            for _, expr in read.values:
                inside(expr)
    return None


def _attachment_shape(shape: Shape | None, expr: Expr, problems: list[Diagnostic]) -> Shape | None:
    """The shape of an attachment; a number, an object, null or true is certainly none."""
    if kinds_of(shape).isdisjoint(("text", "list")):
        hint = "give the path of a file as text"
        problems.append(
            Diagnostic(
                "agent.attach", f"an attachment is a path or bytes, not {shape}", expr.span, hint
            )
        )
    return shape
