"""The environment of Jinja2 prompts: the operations, filters, tests and methods that a template may
use.

It imports jinja2, which is an extra: only a graph with such a prompt imports it. Jinja2's own
sandbox has a list of dangerous operations; here an operation is allowed only if it is in a table,
and it is charged.
"""

from __future__ import annotations

import functools
import html
import json
import operator
from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import StrictUndefined, Undefined, pass_context
from jinja2.filters import FILTERS
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import SandboxedEnvironment
from jinja2.tests import TESTS

from ...flow.values import type_name
from ..scan import MISSING
from .jinja_bounds import (
    MAX_TEXT,
    MAX_TURNS,
    Budget,
    TooMuch,
    charge,
    check_count,
    check_length,
    weigh,
)
from .lookup import find

LOOP = (
    "index",
    "index0",
    "revindex",
    "revindex0",
    "first",
    "last",
    "length",
    "depth",
    "previtem",
    "nextitem",
)


class Missing(StrictUndefined):
    """A name without a value: false where it is tested, an error where it is written or computed
    with."""

    __slots__ = ()

    @property
    def _undefined_message(self) -> str:
        return f"{self._undefined_name!r} has no value"

    def __bool__(self) -> bool:  # type: ignore[override]
        return False

    def __eq__(self, other: object) -> bool:  # type: ignore[override]
        return other is None or isinstance(other, Missing)

    def __ne__(self, other: object) -> bool:  # type: ignore[override]
        return not self == other

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(Missing)


class Method:
    """A method that is named but not called: only a test such as ``{% if d.keys %}`` can use it."""

    def __init__(self, name: str) -> None:
        self.name = name


class Environment(SandboxedEnvironment):
    """Data only: keys of mappings, elements of lists, attributes of objects that are not methods
    (decision Y5)."""

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%"})

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        left, right = _known(left), _known(right)
        if operator == "%" and isinstance(left, str | bytes):
            raise TypeError("% is for numbers: ~ joins texts")
        if operator == "*":
            for one, other in ((left, right), (right, left)):
                if isinstance(one, str | bytes) and isinstance(other, int):
                    check_length(len(one) * other)
                elif isinstance(one, list | tuple) and isinstance(other, int):
                    check_count(len(one) * other)
        if operator == "+" and isinstance(left, list | tuple) and isinstance(right, list | tuple):
            check_count(len(left) + len(right))
        weigh(left)
        weigh(right)
        return charge(super().call_binop(context, operator, left, right))

    def getattr(self, obj: Any, attribute: str) -> Any:
        found = self.getitem(obj, attribute)
        # ``{% if glossary.keys %}`` is true for a mapping, as in Jinja2.
        if isinstance(found, Undefined) and attribute in methods_of(obj):
            return Method(attribute)
        return found

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Data first: a key named like a method of dict is the key."""
        if isinstance(obj, Undefined):
            return obj
        found: Any = MISSING
        if isinstance(obj, LoopContext):
            found = getattr(obj, argument) if argument in LOOP else MISSING
        elif isinstance(obj, dict):
            found = obj.get(argument, MISSING)
        elif isinstance(obj, list | tuple | str) and type(argument) is int:
            found = obj[argument] if -len(obj) <= argument < len(obj) else MISSING
        elif type(argument) is str and not argument.startswith("_"):
            found = find(obj, (argument,))
        return self.undefined(obj=obj, name=argument) if found is MISSING else found

    def is_safe_callable(self, obj: Any) -> bool:
        return obj in CALLS.values() or getattr(obj, "__func__", None) is Budget.each


def _known(value: Any) -> Any:
    """``value``. Raises jinja2's UndefinedError if it has none."""
    if isinstance(value, Undefined):
        str(value)
    return value


# --- what the checked tree calls in place of Jinja2's own operations ---


def make_range(*bounds: Any) -> Any:
    """``range``"""
    found = range(*bounds)
    if len(found) > MAX_TURNS:
        raise TooMuch(f"loops more than {MAX_TURNS:,} times")
    return charge(list(found))


def cut(value: Any, *bounds: Any) -> Any:
    """``value[start:stop:step]``"""
    if not isinstance(_known(value), list | tuple | str):
        raise TypeError(f"{type_name(value)} cannot be sliced")
    return charge(value[slice(*bounds)])


def compare_values(sign: str, left: Any, right: Any) -> bool:
    if sign not in ("eq", "ne"):
        _known(left)
        _known(right)
    weigh(left)
    weigh(right)
    charge(0)
    return bool(SIGNS[sign](left, right))


SIGNS: Mapping[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "lteq": operator.le,
    "gt": operator.gt,
    "gteq": operator.ge,
    "in": lambda one, held: one in held,
    "notin": lambda one, held: one not in held,
}


def call_method(value: Any, name: str, *args: Any, **named: Any) -> Any:
    """``value.name(…)``, for the methods of the tables."""
    table = methods_of(_known(value))
    if isinstance(value, LoopContext) and name == "cycle":
        cycle: Callable[..., Any] = value.cycle
        return cycle(*args)
    if name not in table:
        raise TypeError(f"{type_name(value)} has no method {name!r}")
    for one in (*args, *named.values()):
        weigh(_known(one))
    return charge(table[name](value, *args, **named))


def methods_of(value: Any) -> Mapping[str, Callable[..., Any]]:
    return (
        TEXT_METHODS
        if isinstance(value, str)
        else MAPPING_METHODS
        if isinstance(value, dict)
        else {}
    )


def join(value: Any, d: Any = "", attribute: Any = None) -> str:
    """The filter ``join``, and ``~``: the length is counted before the text is made."""
    parts, size, glue = list[str](), 0, str(d)
    for one in value:
        part = text(one if attribute is None else ENVIRONMENT.getitem(one, attribute))
        size += len(part) + len(glue)
        check_length(size)
        parts.append(part)
    return glue.join(parts)


def replace(value: Any, old: Any, new: Any, count: int | None = None) -> str:
    whole, old, new = text(value), text(old), text(new)
    check_length(len(whole) + whole.count(old) * len(new))
    return whole.replace(old, new, -1 if count is None else count)


def indent(value: Any, width: Any = 4, first: bool = False, blank: bool = False) -> str:
    whole, step = text(value), width if isinstance(width, str) else " " * min(int(width), MAX_TEXT)
    check_length(len(whole) + (whole.count("\n") + 1) * len(step))
    head, *rest = whole.split("\n")
    lines = [step + line if blank or line.strip() else line for line in rest]
    return "\n".join([step + head if first else head, *lines])


def round_number(value: Any, precision: int = 0, method: str = "common") -> Any:
    """jinja2's own takes minutes for a large precision."""
    return FILTERS["round"](value, max(-300, min(int(precision), 300)), method)


def add_up(value: Any, attribute: Any = None, start: Any = 0) -> Any:
    """A sum of numbers; jinja2's own takes quadratic time for lists."""
    total = start
    for one in value:
        found = one if attribute is None else ENVIRONMENT.getitem(one, attribute)
        if not isinstance(_known(found), int | float) or not isinstance(total, int | float):
            raise TypeError(f"sum adds numbers, not {type_name(found)}")
        total += found
    return total


def text(value: Any) -> str:
    """A value as it is written."""
    if isinstance(value, Method):
        raise TypeError(f"{value.name!r} is a method: write {value.name}()")
    return value if type(value) is str else str(weigh(_known(value)))


def _split(value: str, sep: str | None = None, maxsplit: int = -1) -> list[str]:
    check_count(value.count(sep) if sep else len(value) // 2)
    return value.split(sep, maxsplit)


CALLS: Mapping[str, Callable[..., Any]] = {
    "__range": make_range,
    "__cut": cut,
    "__compare": compare_values,
    "__method": call_method,
    "__join": join,
}
"""By names that no template can write."""

TEXT_METHODS: Mapping[str, Callable[..., Any]] = {
    "replace": replace,
    "split": _split,
    **{
        name: getattr(str, name)
        for name in ("upper", "lower", "title", "strip", "startswith", "endswith", "capitalize")
    },
}
MAPPING_METHODS: Mapping[str, Callable[..., Any]] = {
    "keys": list,
    "values": lambda held: list(held.values()),
    "items": lambda held: list(held.items()),
    "get": lambda held, key, default=None: held.get(key, default),
}
METHODS = frozenset({*TEXT_METHODS, *MAPPING_METHODS, "cycle"})

_FILTERS = (
    "abs capitalize count d default dictsort first float int items last length list lower map max "
    "min reject rejectattr"
    " reverse select selectattr sort title trim truncate unique upper wordcount"
)
_TESTS = (
    "boolean defined divisibleby eq equalto even false float ge gt greaterthan in integer "
    "iterable le lessthan lower lt"
    " mapping ne none number odd sequence string true undefined upper"
)
_OWN: Mapping[str, Callable[..., Any]] = {
    "e": lambda value: html.escape(text(value)),
    "escape": lambda value: html.escape(text(value)),
    "indent": indent,
    "join": join,
    "replace": replace,
    "round": round_number,
    "safe": text,
    "string": text,
    "sum": add_up,
    "tojson": lambda value, indent=None: json.dumps(
        weigh(value), ensure_ascii=False, indent=None if indent is None else min(int(indent), 8)
    ),
}


def _guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter or a test that gets and gives nothing that is too large."""

    @functools.wraps(function)  # with the marks of jinja2
    def call(*args: Any, **named: Any) -> Any:
        for one in (*args, *named.values()):
            weigh(one)
        return charge(function(*args, **named))

    return call


@pass_context  # so that nothing is computed when a template is loaded
def _written(context: Context, value: Any) -> str:
    return text(value)


ENVIRONMENT = Environment(
    undefined=Missing,
    autoescape=False,
    keep_trailing_newline=True,
    optimized=False,
    finalize=_written,
    cache_size=0,
)
_BUILT_IN: Mapping[str, Callable[..., Any]] = {name: FILTERS[name] for name in _FILTERS.split()}
ENVIRONMENT.globals = {}
ENVIRONMENT.filters = {name: _guarded(function) for name, function in {**_BUILT_IN, **_OWN}.items()}
_ALL_TESTS: Mapping[str, Any] = TESTS
ENVIRONMENT.tests = {
    name: _guarded(function)
    for name, function in _ALL_TESTS.items()
    if name in _TESTS.split() or not name.isidentifier()
}
