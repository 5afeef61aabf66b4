"""What the tests of R1 share: vectors, generated expressions and values, and an outcome that can be compared."""

from __future__ import annotations

import json
import pathlib
from typing import Any

from hypothesis import strategies as st

from agf_magics.languages.pipeline.r1 import R1, Names, nodes, parse
from agf_magics.languages.pipeline.r1.nodes import (
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
from agf_magics.text.source import Source

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
