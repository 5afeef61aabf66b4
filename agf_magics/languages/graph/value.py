"""Reading and computing with values of the state: paths, arithmetic, comparisons, writing a value
into a text.

The state is never changed: a sum of lists is a new list. Of an object only attributes that are not
methods and do not begin with ``_`` are read (decision Y5), of the parts of a program (`CLOSED`)
none. No result exceeds a bound, however often a loop computes it.

Value expressions: ``{state.score}``, ``{state.n + 1}``, ``Dear {state.name}``.

Parsed once and compiled to closures over the state; the public functions cache the closure of each
text.
"""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from functools import lru_cache
from typing import Any

from ...flow.step import Ref
from ...flow.steps import Computed
from ...flow.values import ATOMS, LARGEST, Value, equal, is_json, type_name
from ...text.diagnostics import Diagnostic, StepError
from ...text.nodes import shorten
from ...text.source import Span, Text
from ..documents import MISSING, Refusal, descend, parse_at
from .value_grammar import (
    LONGEST,
    Arithmetic,
    Atom,
    Literal,
    One,
    Operand,
    Pairs,
    Path,
    Sentence,
    Template,
    parse_template,
    template_paths,
)

LARGE = 1 << 64
"""Integers below it are computed with at once; above it the size of the result is checked."""
MOST_BITS = 100_000
"""Bits of an integer that arithmetic may give."""
LONGEST_WRITTEN = 1_000_000
"""Parts and characters of a value that is written into a text."""


def find(value: Value, names: tuple[str, ...]) -> Value:
    """The value at a path; MISSING if there is none.

    >>> find({"d": {"n": 1}}, ("d", "n")), find({"d": {}}, ("d", "keys"))
    (1, MISSING)
    """
    return descend(value, names, _attribute)


def reader(names: tuple[str, ...]) -> Callable[[Any], Value]:
    """A function that reads a path of the state; None if there is no value."""

    def read(state: Any) -> Value:
        value = find(state, names)
        return None if value is MISSING else value

    return read


CLOSED = (
    types.ModuleType,
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    functools.partial,
    property,
    types.CodeType,
    types.CellType,
    types.FrameType,
    types.TracebackType,
    types.GeneratorType,
    types.CoroutineType,
    types.AsyncGeneratorType,
    Generator,
    Coroutine,
    AsyncGenerator,
)
"""The parts of a program. Their attributes lead to variables of the notebook that no definition was
given: a generator has its frame, a module all its imports. The last three are any class of that
kind (Cython has its own)."""


def _attribute(value: Value, name: str) -> Value:
    if isinstance(value, dict):
        return value.get(name, MISSING)
    if not name or name.startswith("_") or isinstance(value, CLOSED):
        return MISSING
    try:
        found = getattr(value, name, MISSING)
    except Exception as error:  # a property is user code
        raise ValueError(
            f"cannot read {name!r} of {type_name(value)}: {type(error).__name__}: {error}"
        ) from error
    return MISSING if callable(found) else found


_PYTHON = (*ATOMS, list, dict, tuple, set, frozenset, bytes, complex)
_SIZED = (str, list, tuple, bytes)


def combine(sign: str, left: Value, right: Value) -> Value:
    """``left sign right`` as in Python, except that anything added to a list is appended."""
    if sign == "+" and type(left) is list:
        added = right if type(right) is list else [right]
        _check_size(len(left) + len(added))
        return left + added
    for side in (left, right):
        if type(side) not in _PYTHON:  # decision A1: an opaque value is not looked into
            raise TypeError(f"unsupported operand for {sign}: {type_name(side)}")
    _check_result(sign, left, right)
    try:
        return ARITHMETIC[sign](left, right)
    except OverflowError as error:
        raise ValueError(f"{sign}: {error}") from error
    except TypeError as error:
        raise TypeError(f"cannot compute {describe(left)} {sign} {describe(right)}") from error


def describe(value: Value) -> str:
    """A value with its type, as an error names it.

    >>> describe("four"), describe(4), describe([1])
    ("the text 'four'", 'the number 4', 'a list')
    """
    if type(value) is str:
        return f"the text {shorten(value)!r}"
    if type(value) in (int, float):
        return (
            f"the number {value}" if abs(value) < LARGE else "a large number"
        )  # the text of an int has a limit
    return type_name(value)


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def _check_result(sign: str, left: Any, right: Any) -> None:
    sizes = [len(side) for side in (left, right) if isinstance(side, _SIZED)]
    numbers = [side for side in (left, right) if isinstance(side, int)]
    if len(sizes) == 2:
        _check_size(sum(sizes))
    elif sign == "*" and len(numbers) == 2:
        if sum(map(int.bit_length, numbers)) > MOST_BITS:
            raise ValueError("the product is too large")
    elif sign == "*" and len(sizes) == len(numbers) == 1:
        _check_size(sizes[0] * numbers[0])


def _check_size(size: int) -> None:
    if size > LARGEST:
        raise ValueError(f"the result has {size:,} parts; the limit is {LARGEST:,}")


def compare(sign: str, left: Value, right: Value) -> bool:
    """A comparison. Ordering is False for a missing left side and for values that have no order."""
    if sign in ("==", "!="):
        return equal(left, right) is (sign == "==")
    if left is None or not (_ordered(left) and _ordered(right)):
        return False
    try:
        return bool(COMPARE[sign](left, right))
    except (TypeError, RecursionError):
        return False


COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _ordered(value: Value) -> bool:
    if type(value) in ATOMS:
        return True
    try:
        return type(value) is list and is_json(value)
    except RecursionError:
        return False


def format_value(value: Value) -> str:
    """A value as it is written into a text: as Python's ``str`` does."""
    if type(value) is str:
        return value
    if type(value) in (list, dict):
        check_length(value)
    try:
        return str(value)
    except RecursionError as error:
        raise ValueError("the value nests too deeply to be written into a text") from error
    except Exception as error:  # ``__str__`` of an object is user code
        raise ValueError(f"cannot write {type_name(value)} into a text: {error}") from error


def check_length(value: Value) -> None:
    """A small value with shared parts can have a long text."""
    queue, room = [value], LONGEST_WRITTEN
    while queue and room >= 0:
        part = queue.pop()
        if type(part) is dict:
            queue += part.values()
            room -= len(part) + sum(len(key) for key in part if type(key) is str)
        elif type(part) is list:
            queue += part
            room -= len(part)
        else:
            room -= len(part) if type(part) is str else 1
    if room < 0:
        raise ValueError(f"cannot write a value of more than {LONGEST_WRITTEN:,} parts into a text")


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
    return _cached(template)(state)


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


@lru_cache(maxsize=512)
def _cached(template: str) -> Getter:
    try:
        return compile_template(parse_template(template))
    except Refusal as refusal:
        raise refused(refusal, template) from None


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

        def evaluate(frame: Any) -> Value:
            try:
                return get(frame[key] if key else frame)
            except CANNOT as error:
                raise value_failed(self.text, span, error) from error

        key = root[0] if root else ""
        super().__init__(span, evaluate, reads, text.text)


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
    if isinstance(node, Path):
        return reader(node.names)
    value = node.value if isinstance(node, Literal) else node.text
    return lambda state: value


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
