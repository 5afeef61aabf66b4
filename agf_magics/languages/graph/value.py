"""Value expressions: ``{state.score}``, ``{state.n + 1}``, ``Dear {state.name}``.

Parsed once and compiled to closures over the state; the public functions keep what they parsed for the next call with
the same text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from ...flow.frame import Frame, Ref
from ...flow.values import Value
from ...text.diagnostics import Diagnostic, StepError
from ...text.source import Span, Text
from .lookup import ARITHMETIC, LARGE, MISSING, combine, find, reader, written
from .tokens import LONGEST, Bare, Literal, Path, Refused, located
from .value_grammar import Arithmetic, Atom, Hole, One, Operand, Pairs, Sentence, Template, parse_template

Read = Callable[[Any], Value]
"""Given the state. Raises TypeError, ValueError or ZeroDivisionError for what cannot be computed."""

CANNOT = (TypeError, ValueError, KeyError, ZeroDivisionError)
"""What an expression that was accepted may raise."""


def resolve_template(template: Value, state: Mapping[str, Value]) -> Value:
    """The value of a template; anything but a text, and a text without ``{state.…}``, is what it is.

    >>> resolve_template("{state.n + 1}", {"n": 4}), resolve_template("n is {state.n}", {"n": 4})
    (5, 'n is 4')

    Raises ValueError for what no expression can say. A missing path is None.
    """
    if not isinstance(template, str) or "{" not in template:
        return template
    return (_kept if len(template) <= LONGEST else _parsed)(template)(state)


def resolve_state_expression(expr: Value, state: Mapping[str, Value]) -> Value:
    """What stands at the path in braces; anything else is what it is. Raises KeyError where there is nothing.

    >>> resolve_state_expression("{state.rows}", {"rows": [1, 2]}), resolve_state_expression("{rows}", {"rows": [3]})
    ([1, 2], [3])
    """
    if not isinstance(expr, str) or not (expr.startswith("{") and expr.endswith("}")):
        return expr
    path = expr[1:-1].strip().removeprefix("state.")
    found = find(state, tuple(path.split(".")))
    if found is MISSING:
        there = ", ".join(map(str, state)) or "nothing"
        raise KeyError(f"there is no {path!r} in the state; there is {there}")
    return found


def resolve_node_variables(templates: Mapping[str, Value] | None, state: Mapping[str, Value]) -> dict[str, Value]:
    """Each template's value; without templates the whole state but for names that begin with ``_`` and for None.

    >>> resolve_node_variables({"t": "{state.topic}"}, {"topic": "tea"})
    {'t': 'tea'}
    >>> resolve_node_variables(None, {"a": 0, "_b": 1, "c": None})
    {'a': 0}
    """
    if templates:
        return {name: resolve_template(template, state) for name, template in templates.items()}
    return {name: value for name, value in state.items() if not str(name).startswith("_") and value is not None}


def parse_value(text: Text) -> Expression:
    """The expression that a text is when it stands alone: its frame is the state."""
    return expression(text, located(text, parse_template))


def _parsed(template: str) -> Read:
    try:
        return compiled(parse_template(template))
    except Refused as refused:
        told = refused.wrong
        raise ValueError(f"{told.message}: {template!r}{f' ({told.hint})' if told.hint else ''}") from None


_kept = lru_cache(maxsize=512)(_parsed)


class Expression:
    """A parsed text and its closure. An Expr."""

    __slots__ = ("_reads", "evaluate", "span", "text")

    evaluate: Callable[[Frame], Value]

    def __init__(self, text: Text, read: Read, reads: tuple[Ref, ...], root: tuple[str, ...]) -> None:
        self.text, self.span, self._reads = text.text, text.locate(0, len(text.text)), reads

        def of_state(state: Any) -> Value:
            try:
                return read(state)
            except CANNOT as error:
                raise failed(self.text, self.span, error) from error

        def of_frame(frame: Frame) -> Value:
            try:
                return read(frame[key])
            except CANNOT as error:
                raise failed(self.text, self.span, error) from error

        key = root[0] if root else ""
        self.evaluate = of_frame if root else of_state  # what stands between the engine and `read` costs a call more

    def reads(self) -> tuple[Ref, ...]:
        return self._reads


def expression(text: Text, node: Template, root: tuple[str, ...] = ()) -> Expression:
    """A template as the engine evaluates it. ``root``: where in a frame the state is."""
    return Expression(text, compiled(node), tuple(ref(path, text, root) for path in paths(node)), root)


def ref(path: Path, text: Text, root: tuple[str, ...]) -> Ref:
    return Ref((*root, *path.names), text.locate(path.start, path.end), certain=False)


def failed(text: str, span: Span, error: Exception) -> StepError:
    """A value that cannot be computed, as the step's error (decision Y2); the error itself is its cause."""
    said = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    shown = text if len(text) <= 60 else text[:59] + "…"
    return StepError(Diagnostic("graph.value-failed", f"{shown!r} cannot be computed: {said}", span))


def paths(node: Template) -> tuple[Path, ...]:
    """What a template reads, in the order of the text."""
    if isinstance(node, Path):
        return (node,)
    if isinstance(node, Sentence):
        return tuple(part.path for part in node.parts if isinstance(part, Hole))
    right = node.right
    atoms: tuple[Atom, ...]
    match right:
        case One():
            atoms = (right.item,)
        case Pairs():
            atoms = tuple(value for _, value in right.pairs)
        case _:
            atoms = (right,)
    return (node.left, *(atom for atom in atoms if isinstance(atom, Path)))


def compiled(node: Template) -> Read:
    """A template as a closure over the state."""
    if isinstance(node, Sentence):
        return _sentence(node)
    if isinstance(node, Arithmetic):
        return _arithmetic(node)
    return _path(node)


def _path(node: Path) -> Read:
    return reader(node.names)


def _arithmetic(node: Arithmetic) -> Read:
    left, sign, right = _path(node.left), node.operator, _operand(node.right)
    if isinstance(node.right, Literal) and type(node.right.value) in (int, float):
        return _with_number(left, sign, node.right.value)

    def read(state: Any) -> Value:
        value = left(state)
        return None if value is None else combine(sign, value, right(state))

    return read


def _with_number(left: Read, sign: str, number: int | float) -> Read:
    """The commonest arithmetic: a number and a literal. What is no number, or a large one, goes the long way."""
    apply, bound = ARITHMETIC[sign], LARGE

    def read(state: Any) -> Value:
        value = left(state)
        if (type(value) is int and -bound < value < bound) or type(value) is float:
            return apply(value, number)
        return None if value is None else combine(sign, value, number)

    return read if -bound < number < bound else lambda state: _combined(sign, left(state), number)


def _combined(sign: str, value: Value, number: Value) -> Value:
    return None if value is None else combine(sign, value, number)


def _operand(node: Operand) -> Read:
    match node:
        case One():
            item = _atom(node.item)
            return lambda state: [item(state)]
        case Pairs():
            pairs = tuple((key, _atom(value)) for key, value in node.pairs)
            return lambda state: {key: value(state) for key, value in pairs}
    return _atom(node)


def _atom(node: Atom) -> Read:
    match node:
        case Path():
            return _path(node)
        case Literal():
            value = node.value
            return lambda state: value
        case Bare():
            text = node.text
            return lambda state: text


def _sentence(node: Sentence) -> Read:
    parts: list[str | tuple[str, Read]] = [
        part if isinstance(part, str) else (part.written, _path(part.path)) for part in node.parts
    ]
    holes = [part for part in parts if not isinstance(part, str)]
    if not holes:
        whole = "".join(map(str, parts))
        return lambda state: whole
    if len(holes) == 1:
        at = parts.index(holes[0])
        return _with_one_hole("".join(map(str, parts[:at])), *holes[0], "".join(map(str, parts[at + 1 :])))

    def read(state: Any) -> Value:
        return _bounded([part if isinstance(part, str) else _filled(*part, state) for part in parts])

    return read


def _with_one_hole(before: str, hole: str, read: Read, after: str) -> Read:
    """The commonest sentence."""
    room = LONGEST_TEXT - len(before) - len(after)

    def read_sentence(state: Any) -> Value:
        value = read(state)
        if type(value) is str and len(value) <= room:
            return f"{before}{value}{after}"
        return _bounded([before, hole if value is None else written(value), after])

    return read_sentence


def _filled(hole: str, read: Read, state: Any) -> str:
    value = read(state)
    return hole if value is None else written(value)


def _bounded(parts: list[str]) -> str:
    if sum(map(len, parts)) > LONGEST_TEXT:
        raise ValueError(f"a text of more than {LONGEST_TEXT:,} characters")
    return "".join(parts)


LONGEST_TEXT = 1_000 * LONGEST
"""Characters of a text with its placeholders filled."""
