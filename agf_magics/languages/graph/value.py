"""Value expressions: ``{state.score}``, ``{state.n + 1}``, ``Dear {state.name}``.

Parsed once and compiled to closures over the state; the public functions cache the closure of each
text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from ...flow.frame import Frame, Ref
from ...flow.values import Value
from ...text.diagnostics import Diagnostic, StepError
from ...text.nodes import shorten
from ...text.source import Span, Text
from ..scan import MISSING, Refusal, parse_at
from .lookup import combine, find, format_value, reader
from .tokens import LONGEST, Bare, Literal, Path
from .value_grammar import (
    Arithmetic,
    Atom,
    One,
    Operand,
    Pairs,
    Sentence,
    Template,
    parse_template,
    template_paths,
)

Getter = Callable[[Any], Value]
"""Given the state. Raises TypeError, ValueError or ZeroDivisionError for a value that cannot be
computed."""

CANNOT = (TypeError, ValueError, KeyError, ZeroDivisionError)
"""The exceptions that an accepted expression may raise."""


def resolve_template(template: Value, state: Mapping[str, Value]) -> Value:
    """The value of a template; anything but a text with ``{state.…}`` is its own value.

    >>> resolve_template("{state.n + 1}", {"n": 4}), resolve_template("n is {state.n}", {"n": 4})
    (5, 'n is 4')

    Raises ValueError for an invalid expression. A missing path is None.
    """
    if not isinstance(template, str) or "{" not in template:
        return template
    return (_cached if len(template) <= LONGEST else _compile_text)(template)(state)


def resolve_state_expression(expr: Value, state: Mapping[str, Value]) -> Value:
    """The value at the path in braces; anything else is its own value. Raises KeyError for a
    missing path.

    >>> resolve_state_expression("{state.rows}", {"rows": [1, 2]}), resolve_state_expression("{rows}", {"rows": [3]})
    ([1, 2], [3])
    """
    if not isinstance(expr, str) or not (expr.startswith("{") and expr.endswith("}")):
        return expr
    path = expr[1:-1].strip().removeprefix("state.")
    found = find(state, tuple(path.split(".")))
    if found is MISSING:
        raise KeyError(
            f"the state has no {path!r}; it has {', '.join(map(str, state)) or 'no keys'}"
        )
    return found


def resolve_node_variables(
    templates: Mapping[str, Value] | None, state: Mapping[str, Value]
) -> dict[str, Value]:
    """The value of each template; without templates the whole state except names that begin with
    ``_`` and None.

    >>> resolve_node_variables({"t": "{state.topic}"}, {"topic": "tea"})
    {'t': 'tea'}
    >>> resolve_node_variables(None, {"a": 0, "_b": 1, "c": None})
    {'a': 0}
    """
    if templates:
        return {name: resolve_template(template, state) for name, template in templates.items()}
    return {
        name: value
        for name, value in state.items()
        if not str(name).startswith("_") and value is not None
    }


def parse_value(text: Text) -> Expression:
    """The expression of a text that is used alone: its frame is the state."""
    return Expression(text, parse_at(text, parse_template))


def refused(refusal: Refusal, text: str) -> ValueError:
    """The exception of the public functions for an invalid expression."""
    return ValueError(f"{refusal.message}: {text!r}{f' ({refusal.hint})' if refusal.hint else ''}")


def _compile_text(template: str) -> Getter:
    try:
        return compile_template(parse_template(template))
    except Refusal as refusal:
        raise refused(refusal, template) from None


_cached = lru_cache(maxsize=512)(_compile_text)


class Computed:
    """An Expr made of a function."""

    __slots__ = ("_reads", "evaluate", "span", "text")

    evaluate: Callable[[Frame], Value]

    def __init__(
        self,
        span: Span,
        evaluate: Callable[[Frame], Value],
        reads: tuple[Ref, ...] = (),
        text: str = "",
    ) -> None:
        self.span, self.evaluate, self._reads, self.text = span, evaluate, reads, text

    def reads(self) -> tuple[Ref, ...]:
        return self._reads


class Evaluated(Computed):
    """A parsed text and its closure over the state. ``root``: where in a frame the state is."""

    __slots__ = ()

    def __init__(
        self, text: Text, get: Getter, paths: tuple[Path, ...], root: tuple[str, ...]
    ) -> None:
        span = text.locate(0, len(text.text))
        reads = tuple(
            Ref((*root, *path.names), text.locate(path.start, path.end), False) for path in paths
        )

        def of_state(state: Any) -> Value:
            try:
                return get(state)
            except CANNOT as error:
                raise value_failed(self.text, span, error) from error

        def of_frame(frame: Frame) -> Value:
            try:
                return get(frame[key])
            except CANNOT as error:
                raise value_failed(self.text, span, error) from error

        key = root[0] if root else ""
        # A call between the engine and `get` would cost as much as `get` itself.
        super().__init__(span, of_frame if root else of_state, reads, text.text)


class Expression(Evaluated):
    """A template, with its parsed node."""

    __slots__ = ("node",)

    def __init__(self, text: Text, node: Template, root: tuple[str, ...] = ()) -> None:
        super().__init__(text, compile_template(node), template_paths(node), root)
        self.node = node


def value_failed(text: str, span: Span, error: Exception) -> StepError:
    """The step error for a value that cannot be computed (decision Y2); its cause is the exception
    itself."""
    reason = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    hint = (
        "both sides must be numbers or both texts; to a list anything can be added"
        if type(error) is TypeError
        else None
    )
    return StepError(
        Diagnostic("graph.value-failed", f"{shorten(text)!r} failed: {reason}", span, hint)
    )


def compile_template(node: Template) -> Getter:
    """A template as a closure over the state."""
    if isinstance(node, Sentence):
        return _sentence(node)
    if isinstance(node, Arithmetic):
        return _arithmetic(node)
    return reader(node.names)


def _arithmetic(node: Arithmetic) -> Getter:
    left, sign, right = reader(node.left.names), node.operator, _operand(node.right)

    def compute(state: Any) -> Value:
        value = left(state)
        return None if value is None else combine(sign, value, right(state))

    return compute


def _operand(node: Operand) -> Getter:
    match node:
        case One():
            item = _atom(node.item)
            return lambda state: [item(state)]
        case Pairs():
            pairs = tuple((key, _atom(value)) for key, value in node.pairs)
            return lambda state: {key: value(state) for key, value in pairs}
    return _atom(node)


def _atom(node: Atom) -> Getter:
    match node:
        case Path():
            return reader(node.names)
        case Literal():
            value = node.value
            return lambda state: value
        case Bare():
            text = node.text
            return lambda state: text


def _sentence(node: Sentence) -> Getter:
    parts = [
        part if isinstance(part, str) else (part.text, reader(part.path.names))
        for part in node.parts
    ]
    return lambda state: join_text(
        [part if isinstance(part, str) else _fill(*part, state) for part in parts]
    )


def _fill(placeholder: str, get: Getter, state: Any) -> str:
    value = get(state)
    return placeholder if value is None else format_value(value)


def join_text(parts: list[str]) -> str:
    """The parts as one text, bounded in length."""
    if sum(map(len, parts)) > LONGEST_TEXT:
        raise ValueError(f"the text has more than {LONGEST_TEXT:,} characters")
    return "".join(parts)


LONGEST_TEXT = 1_000 * LONGEST
"""Characters of a text with its placeholders filled."""
