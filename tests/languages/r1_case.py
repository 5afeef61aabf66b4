"""What the tests of R1 share: vectors, generated expressions and values, and an outcome that can be compared."""

from __future__ import annotations

import json
import pathlib
from typing import Any

from hypothesis import strategies as st

from agf_magics.languages.pipeline.r1 import R1, Names, nodes, parse
from agf_magics.languages.pipeline.r1.nodes import (  # fmt: skip
    COMPARING,
    NOT,
    POWER,
    SIGN,
    Arithmetic,
    Call,
    Compare,
    Each,
    Fields,
    Get,
    Items,
    Lit,
    Logic,
    Minus,
    Node,
    Not,
    Path,
    literal,
)
from agf_magics.text.diagnostics import Source, StepError

VECTORS = json.loads((pathlib.Path(__file__).parents[1] / "vectors" / "r1.json").read_text(encoding="utf-8"))["rows"]
NO_NAMES = nodes.NO_NAMES
PIPELINE = Names({"ctx": ("ctx",), "pipe": ("pipe",)})


def r1(text: str, names: Names = PIPELINE) -> R1:
    return parse(Source("expression", text).span(), names)


def show(node: Node, power: int = 0) -> str:
    """The expression written again, with no more parentheses than it needs.

    A literal is one that R1 can write: a negative number is a `Minus`.
    """
    match node:
        case Lit(value=value):
            return literal(value)
        case Path(parts=parts):
            return ".".join(parts)
        case Items(items=items):
            return f"[{', '.join(map(show, items))}]"
        case Fields(fields=fields):
            return "{" + ", ".join(f"{_key(key)}: {show(value)}" for key, value in fields) + "}"
        case Not(operand=operand):
            return _closed(f"not {show(operand, NOT)}", power > NOT)
        case Minus(operand=operand):
            return f"-{show(operand, SIGN)}"
        case Logic(op=op, parts=parts):
            return _closed(f" {op} ".join(show(part, POWER[op] + 1) for part in parts), power > POWER[op])
        case Compare(op=op):
            text = f"{show(node.left, COMPARING + 1)} {op} {show(node.right, COMPARING + 1)}"
            return _closed(text, power > COMPARING)
        case Arithmetic(first=first, rest=rest):
            binds = POWER[rest[0].op]
            right = "".join(f" {one.op} {show(one.operand, binds + 1)}" for one in rest)
            return _closed(show(first, binds + 1) + right, power > binds)
        case Each():
            return f"{node.name}({show(node.base)}, {node.param} -> {show(node.body)})"
        case Call(name=name, args=args):
            return f"{name}({', '.join(map(show, args))})"
        case Get():
            default = "" if node.default is None else f", {show(node.default)}"
            return f"get({show(node.base)}, {literal(node.key)}{default})"


def _closed(text: str, needed: bool) -> str:
    return f"({text})" if needed else text


def _key(key: str) -> str:
    return key if key.isascii() and key.isidentifier() else literal(key)


def strictly(value: Any) -> Any:
    """A form in which JSON values of different types differ."""
    if type(value) is dict:
        return {key: strictly(part) for key, part in value.items()}
    return list(map(strictly, value)) if type(value) is list else (type(value).__name__, repr(value))


def names_of(row: dict[str, Any]) -> Names:
    names = row.get("names")
    if names is None:
        return NO_NAMES
    return Names({name: tuple(path) for name, path in names["roots"].items()}, hidden=names.get("hidden", {}))


class Opaque:
    """Whatever is asked of it, it answers wrongly."""

    def __bool__(self) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0

    def __getitem__(self, key: object) -> int:
        return 7

    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Any:
        return iter([1])

    def __add__(self, other: object) -> int:
        return 7

    __mul__ = __lt__ = __gt__ = __add__


class Text(str):
    """Opaque as well, as all subclasses of JSON types are."""


class Number(int):
    pass


class Object(dict[str, Any]):
    pass


class List(list[Any]):
    pass


OPAQUE = st.builds(Opaque) | st.sampled_from([Text("a"), Text(""), Number(1), Object(a=1, s="a"), List([1]), (1,)])
WORDS = st.sampled_from(["a", "b", "n", "s", "xs", "o", "ctx", "pipe", "x", "y", "map", "true_"])
PATHS = st.lists(WORDS, min_size=1, max_size=3).map(".".join)
TEXTS = st.text(st.sampled_from("ab'\"\\\n\t{é"), max_size=4)
LITERALS = st.one_of(
    st.integers(0, 12).map(str),
    st.sampled_from(["0.5", "2.0", "true", "false", "null", "1000000000000000000000"]),
    TEXTS.map(lambda text: show(nodes.Lit(0, text))),
)
OPERATORS = st.sampled_from(["+", "-", "*", "/", "==", "!=", "<", ">", "<=", ">=", "and", "or"])
EACH = st.sampled_from(nodes.EACH)


def larger(part: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(part, OPERATORS, part).map(lambda t: f"({t[0]}) {t[1]} ({t[2]})"),
        st.tuples(st.sampled_from(["not ", "-"]), part).map(lambda t: f"{t[0]}({t[1]})"),
        st.lists(part, max_size=3).map(lambda parts: f"[{', '.join(parts)}]"),
        st.lists(st.tuples(WORDS, part), max_size=3).map(lambda t: "{" + ", ".join(f"{k}: {v}" for k, v in t) + "}"),
        st.tuples(EACH, part, st.sampled_from("xy"), part).map(lambda t: f"{t[0]}({t[1]}, {t[2]} -> {t[3]})"),
        st.tuples(st.sampled_from(["count", "sum"]), part).map(lambda t: f"{t[0]}({t[1]})"),
        st.tuples(part, TEXTS).map(lambda t: f"join({t[0]}, {show(nodes.Lit(0, t[1]))})"),
        st.tuples(part, PATHS, part).map(lambda t: f"get({t[0]}, '{t[1]}', {t[2]})"),
    )


EXPRESSIONS = st.recursive(PATHS | LITERALS, larger, max_leaves=8)
EXTREMES = st.sampled_from([float("nan"), float("inf"), -0.0, 1e308, 10**30, 10**400, 2**63])
ATOMS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.floats(-2, 2), st.sampled_from(["", "a", "b"]), EXTREMES
)
VALUES = st.recursive(
    ATOMS,
    lambda part: st.lists(part, max_size=3) | st.dictionaries(WORDS, part, max_size=3) | OPAQUE,
    max_leaves=6,
)
ROWS = st.lists(st.fixed_dictionaries({"a": ATOMS, "b": ATOMS}), max_size=4)
CONTEXTS = st.fixed_dictionaries(
    {"a": VALUES, "b": VALUES, "n": st.integers(-2, 3), "s": st.just("text"), "xs": ROWS | VALUES, "o": VALUES}
)


BODIES = st.recursive(
    st.sampled_from(["x", "x.a", "x.b", "x.a.b", "n", "s", "1", "2.5", "'a'", "null", "true"]),
    lambda part: st.tuples(part, OPERATORS, part).map(lambda t: f"({t[0]}) {t[1]} ({t[2]})"),
    max_leaves=4,
)


Texts = st.SearchStrategy[str]


def _two(left: Texts, operators: list[str], right: Texts) -> Texts:
    return st.tuples(left, st.sampled_from(operators), right).map(lambda t: f"({t[0]} {t[1]} {t[2]})")


def _loop(name: str, rows: Texts, body: Texts) -> Texts:
    return st.tuples(rows, st.sampled_from("xy"), body).map(lambda t: f"{name}({t[0]}, {t[1]} -> {t[2]})")


def _chosen(condition: Texts, value: Texts) -> Texts:
    return st.tuples(condition, value, value).map(lambda t: f"({t[0]} and {t[1]} or {t[2]})")


def _typed(depth: int) -> tuple[Texts, Texts, Texts, Texts]:
    """Numbers, texts, conditions and lists of objects, by expressions of at most this depth."""
    number = st.sampled_from(["n", "f", "x.a", "y.a", "x.o.a", "2", "0.5"])
    text = st.sampled_from(["s", "x.s", "y.s", "'a'", "'é'"])
    truth = st.sampled_from(["x.t", "y.t", "o", "x.o", "rows", "true"])
    rows = st.sampled_from(["rows", "x.rows", "[x, y]"])
    if not depth:
        return number, text, truth, rows
    n, s, t, r = _typed(depth - 1)
    return (
        number
        | _two(n, ["+", "-", "*", "/"], n)
        | n.map(lambda part: f"-{part}")
        | r.map(lambda part: f"count({part})")
        | _loop("map", r, n).map(lambda part: f"sum({part})")
        | _chosen(t, n)
        | n.map(lambda part: f"get(x, 'o.a', {part})"),
        text
        | _two(s, ["+"], s)
        | st.tuples(_loop("map", r, s), s).map(lambda t: f"join({t[0]}, {t[1]})")
        | _chosen(t, s)
        | s.map(lambda part: f"get(y, 'o.s', {part})"),
        truth
        | _two(n, ["<", ">", "<=", ">=", "==", "!="], n)
        | _two(s, ["<", ">=", "==", "!="], s)
        | _two(st.sampled_from(["x", "x.o", "rows", "o"]), ["==", "!="], st.sampled_from(["y", "o", "null", "rows"]))
        | _two(t, ["and", "or", "==", "!="], t)
        | t.map(lambda part: f"(not {part})")
        | _loop("all", r, t)
        | _loop("any", r, t),
        rows | _two(r, ["+"], r) | _loop("filter", r, t),
    )


def _any_typed(number: Texts, text: Texts, truth: Texts, rows: Texts) -> Texts:
    objects = st.tuples(number, text, truth).map(lambda t: f"{{n: {t[0]}, s: {t[1]}, t: [{t[2]}]}}")
    return (
        number | text | truth | rows | objects | _loop("find", rows, truth) | _loop("map", rows, number | text | truth)
    )


TYPED = _any_typed(*_typed(3))
"""Expressions that mostly have a value over TYPED_CONTEXTS: what they read is there and has the type they need."""

_NUMBERS = st.integers(-3, 12) | st.floats(-2, 2) | EXTREMES
_OBJECTS = st.fixed_dictionaries({}, optional={"a": _NUMBERS, "s": st.sampled_from(["", "a"]), "b": ATOMS})
_ROW = st.fixed_dictionaries(
    {
        "a": _NUMBERS,
        "s": st.sampled_from(["", "a", "é"]) | st.text(max_size=9) | st.sampled_from([Text("a")]),
        "t": VALUES,
        "o": st.just({"a": 1}) | _OBJECTS,
        "rows": st.just([]),
    }
)
_ROW_OF_ROWS = st.tuples(_ROW, st.lists(_ROW, max_size=2)).map(lambda t: {**t[0], "rows": t[1]})
TYPED_CONTEXTS = st.fixed_dictionaries(
    {
        "n": _NUMBERS,
        "f": st.floats(),
        "s": st.text(max_size=9),
        "o": VALUES,
        "x": _ROW_OF_ROWS,
        "y": _ROW,
        "rows": st.lists(_ROW_OF_ROWS, max_size=4),
    }
)


def outcome(evaluate: Any, frame: Any) -> Any:
    """The value, or all of the error."""
    try:
        return strictly(evaluate(frame))
    except StepError as error:
        return error.diagnostic, error.__context__
