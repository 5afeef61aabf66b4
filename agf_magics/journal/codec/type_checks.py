"""Checks the types of untrusted values, such as the rows of a journal that somebody else wrote."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cache
from itertools import repeat
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)


@cache
def checker(kind: Any) -> Callable[[Any], bool]:
    """A function that tells whether a value has the type ``kind``: a class (exactly this class: a
    boolean is no int), ``object``, a union, a ``Literal``, ``list[…]``, ``dict[str, …]``,
    ``tuple[…]`` for a list with these parts, a TypedDict, or ``Annotated[kind, condition]``.

    >>> is_place = checker(tuple[str, Annotated[int, lambda line: line > 0]])
    >>> is_place(["a", 1]), is_place(["a", True]), is_place(["a", 0])
    (True, False, False)
    """
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return lambda value: isinstance(value, str) and value in parts
    if origin is Annotated:
        is_kind, condition = checker(parts[0]), parts[1]
        return lambda value: is_kind(value) and bool(condition(value))
    if is_typeddict(kind):
        fields, required = get_type_hints(kind, include_extras=True), kind.__required_keys__
        named = {name: checker(part) for name, part in fields.items()}
        return lambda value: (
            type(value) is dict
            and required <= value.keys()
            and all(named[name](value[name]) for name in value.keys() & named.keys())
        )
    if origin in (Union, UnionType):
        # Classes are checked in one step, for speed: a resumed run checks each row.
        classes = frozenset(part for part in parts if isinstance(part, type))
        others = [checker(part) for part in parts if part not in classes]
        return lambda value: (
            type(value) in classes or any(map(operator.call, others, repeat(value)))
        )
    tests = tuple(checker(part) for part in parts)
    if origin is tuple:
        return lambda value: (
            type(value) in (list, tuple)
            and len(value) == len(tests)
            and all(map(operator.call, tests, value))
        )
    if origin is not None:  # the type of a list or a dict
        return lambda value: (
            type(value) is origin
            and all(map(tests[-1], value.values() if origin is dict else value))
        )
    return (lambda value: True) if kind is object else (lambda value: type(value) is kind)
