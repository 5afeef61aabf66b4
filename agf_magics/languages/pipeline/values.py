"""Where a pipeline's values come from and where they go: what is no R1 expression, and the targets.

The frame of a pipeline is ``{"ctx": stores, "pipe": value}``, with ``item`` and ``acc`` inside a fan-out or a fold.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...flow.frame import DROPPED, Expr, FanOutResult, FlowInput, FlowResult, Frame, Outcome, Ref
from ...flow.values import ATOMS, Value, is_json, type_name
from ...text.diagnostics import Diagnostic, StepError
from ...text.source import Span
from .scope import STORES


class Constant:
    """A value as the text has it. The engine copies it at the boundary to user code."""

    __slots__ = ("evaluate", "span", "value")

    evaluate: Callable[[Frame], Value]

    def __init__(self, span: Span, value: Value) -> None:
        self.span = span
        self.value = value
        self.evaluate = lambda frame: value

    def reads(self) -> tuple[Ref, ...]:
        return ()


class Named:
    """A value by its place in the frame: the incoming pipe, or a name listed in ``pass``."""

    __slots__ = ("evaluate", "path", "span")

    evaluate: Callable[[Frame], Value]

    def __init__(self, span: Span, path: tuple[str, ...]) -> None:
        self.span = span
        self.path = path
        self.evaluate = self._find

    def _find(self, frame: Frame) -> Value:
        value: Value = frame
        for name in self.path:
            if type(value) is not dict or name not in value:
                stores = ", ".join(frame["ctx"]) or "none"
                message = f"there is nothing named {self.path[-1]!r} to pass"
                raise StepError(Diagnostic("pipeline.pass", message, self.span, f"the stores here are {stores}"))
            value = value[name]
        return value

    def reads(self) -> tuple[Ref, ...]:
        return (Ref(self.path, self.span),)


class Command:
    """A shell step's expression: it must give what P8 allows."""

    __slots__ = ("evaluate", "expr", "span")

    evaluate: Callable[[Frame], Value]

    def __init__(self, expr: Expr) -> None:
        self.expr = expr
        self.span = expr.span
        self.evaluate = self._words

    def _words(self, frame: Frame) -> Value:
        value = self.expr.evaluate(frame)
        if type(value) is list and value and all(type(word) is str for word in value):
            return value
        odd = next((word for word in value if type(word) is not str), None) if type(value) is list else value
        found = type_name(value) if type(value) is not list else f"a list with {type_name(odd)}" if value else "[]"
        hint = "one text per word: ['ls', '-l', ctx.folder]"
        raise StepError(Diagnostic("pipeline.command", f"a command is a list of texts, not {found}", self.span, hint))

    def reads(self) -> tuple[Ref, ...]:
        return self.expr.reads()


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a call is given: a mapping of names to values."""

    given: tuple[tuple[str, Span, Expr], ...]
    """Each with the place of its name."""

    @property
    def names(self) -> tuple[tuple[str, Span | None], ...]:
        return tuple((name, span) for name, span, _ in self.given)

    def build(self, frame: Frame, wanted: object = None) -> dict[str, Value]:
        return {name: expr.evaluate(frame) for name, _, expr in self.given}

    def reads(self) -> tuple[Ref, ...]:
        return tuple(ref for _, _, expr in self.given for ref in expr.reads())

    def of(self, name: str) -> tuple[Ref, ...]:
        """What the argument of that name is read from."""
        return tuple(ref for given, _, expr in self.given if given == name for ref in expr.reads())

    def written_out(self, name: str) -> bool:
        """Whether the argument of that name is read from nowhere, and is something."""
        own = (getattr(expr, "value", name) for given, _, expr in self.given if given == name)
        return not self.of(name) and any(value not in (None, "") for value in own)


_PIPE = (Ref(("pipe",)),)


class Pipe:
    """Hands a step's value to the next one."""

    __slots__ = ()

    def store(self, frame: Frame, outcome: Outcome) -> Frame:
        return {**frame, "pipe": outcome.value}

    def writes(self) -> tuple[Ref, ...]:
        return _PIPE


@dataclass(frozen=True, slots=True)
class Store:
    """Keeps a value under a name in ``ctx``, and hands it on as the pipe where the next step takes it."""

    name: str
    span: Span | None
    pipe: bool

    def store(self, frame: Frame, outcome: Outcome) -> Frame:
        value = outcome.value
        kept = {**frame, "ctx": {**frame["ctx"], self.name: value}}
        if self.pipe:
            kept["pipe"] = value
        return kept

    def writes(self) -> tuple[Ref, ...]:
        kept = Ref((*STORES, self.name), self.span)
        return (kept, *_PIPE) if self.pipe else (kept,)


@dataclass(frozen=True, slots=True)
class Bind:
    """Binds ``item`` or ``acc``."""

    name: str

    def store(self, frame: Frame, outcome: Outcome) -> Frame:
        return {**frame, self.name: outcome.value}

    def writes(self) -> tuple[Ref, ...]:
        return (Ref((self.name,)),)


class Collected:
    """The frame of a ``collect``: outside of every item, the results as its pipe, dropped ones left out."""

    __slots__ = ()

    def join(self, frame: Frame, ran: FanOutResult) -> Frame:
        results: Value
        if ran.names is None:
            results = [value for value in ran.values if value is not DROPPED]
        else:
            results = {name: value for name, value in zip(ran.names, ran.values, strict=True) if value is not DROPPED}
        return {"ctx": frame["ctx"], "pipe": results}

    def writes(self) -> tuple[Ref, ...]:
        return _PIPE


PIPE, COLLECTED, ITEM, ACC = Pipe(), Collected(), Bind("item"), Bind("acc")


def labels(value: Any) -> tuple[str, ...]:
    """The labels a value may stand under (decision P5): its text as Python has it, then as JSON has it.

    >>> labels("a"), labels(True), labels(None), labels(1.0), labels({"k": [1, "x"]})
    (('a',), ('True', 'true'), ('None', 'null'), ('1.0',), ("{'k': [1, 'x']}", '{"k":[1,"x"]}'))
    """
    kind = type(value)
    if kind is str:
        return (value,)
    if kind not in ATOMS and kind is not list and kind is not dict:
        return (type_name(value),)  # what is opaque is not looked into
    text = str(value)
    if not is_json(value):
        return (text,)
    return tuple(dict.fromkeys((text, json.dumps(value, ensure_ascii=False, separators=(",", ":")))))


def start(given: FlowInput) -> Frame:
    """The frame of the first step: the input's names are its stores."""
    stores = {} if given.input is None else given.input
    if type(stores) is not dict or not all(type(name) is str for name in stores):
        found = type_name(stores) if type(stores) is not dict else "one whose names are not all texts"
        message = f"a pipeline's input is a mapping of names to values, not {found}"
        raise StepError(Diagnostic("pipeline.input", message, hint="its names become the stores: ctx.name"))
    return {"ctx": dict(stores), "pipe": given.pipe}


def end(frame: Frame) -> FlowResult:
    return FlowResult(frame["pipe"], frame["ctx"])


def shorten(text: str, most: int = 40) -> str:
    """The beginning of a text, on one line.

    >>> shorten("map(ctx.rows,\\n  r -> r.name)", 20)
    'map(ctx.rows, r -> …'
    """
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most else line[: most - 1] + "…"
