"""Whole expressions that are short: ``ctx.n``, ``ctx.n + 1``, ``'Hello, ' + ctx.name``, ``ctx.ok and 'a' or 'b'``.

They are what most steps are made of. Calling one more closure, or one that catches around it, would cost half of them
again; so each is one closure that reads what it needs itself and ends in the walk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....flow.values import Value, is_true
from .nodes import NOT_CONSTANT, And, Arithmetic, Compare, Get, Node, Or, Path, constant
from .operators import LITERAL, Fast
from .walk import NUMBERS


def compile_short(node: Node, walk: Fast) -> Fast | None:
    """The closure over the frame, if ``node`` is one of these. Its paths all begin with the stores."""
    recognise = _KINDS.get(type(node))
    return recognise and recognise(node, walk)


def _pair(node: Node) -> tuple[Any, Any] | None:
    return (node.read[0], node.read[1]) if type(node) is Path and len(node.read) == 2 else None


def _path(node: Path, walk: Fast) -> Fast | None:
    pair = _pair(node)
    return pair and _stored(*pair, walk)


def _operator(node: Arithmetic | Compare, walk: Fast) -> Fast | None:
    left, right = node.left, constant(node.right)
    pair = _pair(left)
    if pair and type(right) in NUMBERS and node.op in LITERAL:
        return _number(node.op, *pair, right, walk)
    if node.op != "+":
        return None
    after = ""
    if type(right) is str and type(left) is Arithmetic and left.op == "+":  # 'before' + pair + 'after'
        after, node = right, left
    before, pair = constant(node.left), _pair(node.right)
    return _text(before, *pair, after, walk) if pair and type(before) is str else None


def _or(node: Or, walk: Fast) -> Fast | None:
    left, no = node.left, constant(node.right)
    if type(left) is not And or type(left.left) is not Path or len(left.left.read) > 3:
        return None
    yes = constant(left.right)
    chosen = yes is not NOT_CONSTANT and no is not NOT_CONSTANT and yes
    return _choice(left.left.read, yes, no, walk) if chosen and len(left.left.read) > 1 else None


def _get(node: Get, walk: Fast) -> Fast | None:
    default = None if node.default is None else constant(node.default)
    if type(node.base) is not Path or len(node.base.read) > 1 or default is NOT_CONSTANT:
        return None
    return _got(str(node.base.read[0]), node.key.split("."), default, walk)


_KINDS: dict[type, Callable[[Any, Fast], Fast | None]] = {
    Path: _path, Arithmetic: _operator, Compare: _operator, Or: _or, Get: _get,
}  # fmt: skip


def _stored(store: str, name: str, walk: Fast) -> Fast:
    def run(frame: Any) -> Value:
        try:
            return frame[store][name]
        except Exception:
            pass
        return walk(frame)

    return run


def _number(op: str, store: str, name: str, number: int | float, walk: Fast) -> Fast:
    apply = LITERAL[op]

    def run(frame: Any) -> Value:
        try:
            a = frame[store][name]
            kind = type(a)
            if kind is int or kind is float:
                return apply(a, number)
        except Exception:
            pass
        return walk(frame)

    return run


def _text(before: str, store: str, name: str, after: str, walk: Fast) -> Fast:
    def run(frame: Any) -> Value:
        try:
            a = frame[store][name]
            if type(a) is str:
                return before + a + after
        except Exception:
            pass
        return walk(frame)

    return run


def _choice(names: tuple[Any, ...], yes: Value, no: Value, walk: Fast) -> Fast:
    store, name, *rest = names
    field = rest[0] if rest else None

    def run(frame: Any) -> Value:
        try:
            a = frame[store][name]
            if field is not None:
                if type(a) is not dict:
                    return walk(frame)
                a = a[field]
            return yes if a is True or (a is not False and is_true(a)) else no
        except Exception:
            pass
        return walk(frame)

    return run


def _got(store: str, keys: list[str], default: Value, walk: Fast) -> Fast:
    def run(frame: Any) -> Value:
        try:
            value = frame[store]
            for key in keys:
                if type(value) is not dict or key not in value:
                    return default
                value = value[key]
            return value
        except Exception:
            pass
        return walk(frame)

    return run
