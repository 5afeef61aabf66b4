"""R1: the vectors, and rules that they cannot describe: limits, opaque values, and places.

A law holds for all expressions: an expression that is written again is the same expression.
"""

from __future__ import annotations

import json
import pathlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agf_magics as agf
from agf_magics.languages.pipeline.r1 import R1, Names, nodes, parse
from agf_magics.languages.pipeline.r1.account import LONGEST, MOST_WORK
from agf_magics.languages.pipeline.r1.functions import EACH_NAMES
from agf_magics.languages.pipeline.r1.nodes import (
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
)
from agf_magics.languages.pipeline.r1.parse import COMPARING, NOT, POWER, SIGN
from agf_magics.languages.pipeline.r1.written import literal
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
            right = "".join(f" {unary.op} {show(unary.operand, binds + 1)}" for unary in rest)
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
    """A form of a JSON value that differs for different types."""
    if type(value) is dict:
        return {key: strictly(part) for key, part in value.items()}
    return list(map(strictly, value)) if type(value) is list else (type(value).__name__, repr(value))


def names_of(row: dict[str, Any]) -> Names:
    names = row.get("names")
    if names is None:
        return NO_NAMES
    return Names({name: tuple(path) for name, path in names["roots"].items()}, hidden=names.get("hidden", {}))


class Opaque:
    """An object that gives a wrong answer to every operation."""

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
EACH = st.sampled_from(EACH_NAMES)


def larger(part: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(part, OPERATORS, part).map(lambda t: f"({t[0]}) {t[1]} ({t[2]})"),
        st.tuples(st.sampled_from(["not ", "-"]), part).map(lambda t: f"{t[0]}({t[1]})"),
        st.lists(part, max_size=3).map(lambda parts: f"[{', '.join(parts)}]"),
        # Two fields of one name are refused (`r1.duplicate-key`).
        st.lists(st.tuples(WORDS, part), max_size=3, unique_by=lambda field: field[0]).map(
            lambda t: "{" + ", ".join(f"{k}: {v}" for k, v in t) + "}"
        ),
        st.tuples(EACH, part, st.sampled_from("xy"), part).map(lambda t: f"{t[0]}({t[1]}, {t[2]} -> {t[3]})"),
        st.tuples(st.sampled_from(["count", "sum"]), part).map(lambda t: f"{t[0]}({t[1]})"),
        st.tuples(part, TEXTS).map(lambda t: f"join({t[0]}, {show(nodes.Lit(0, t[1]))})"),
        st.tuples(part, PATHS, part).map(lambda t: f"get({t[0]}, '{t[1]}', {t[2]})"),
    )


EXPRESSIONS = st.recursive(PATHS | LITERALS, larger, max_leaves=8)


def value(text: str, **ctx: Any) -> Any:
    return r1(text).evaluate({"ctx": ctx, "pipe": None})


def wrong(text: str, **ctx: Any) -> tuple[str, str]:
    """The code of the error, and the text under the caret."""
    with pytest.raises(agf.AgfError) as caught:
        value(text, **ctx)
    diagnostic = caught.value.diagnostic
    return diagnostic.code, diagnostic.span.text


def test_no_two_vectors_have_one_id() -> None:
    assert len({row["id"] for row in VECTORS}) == len(VECTORS)


@pytest.mark.parametrize("row", [pytest.param(row, id=row["id"]) for row in VECTORS])
def test_the_vectors(row: dict[str, Any]) -> None:
    names = names_of(row)
    if row.get("when") == "load":
        with pytest.raises(agf.DefinitionError) as refused:
            r1(row["expr"], names)
        assert_place(refused.value, row)
        return
    expr = r1(row["expr"], names)
    if "error" in row:
        with pytest.raises(agf.StepError) as caught:
            expr.evaluate(row["ctx"])
        assert_place(caught.value, row)
    else:
        evaluated = expr.evaluate(row["ctx"])
        assert strictly(evaluated) == strictly(row["ok"])
        assert type(evaluated).__name__ == row["type"]
    assert plain(r1(show(expr.node), names).node) == plain(expr.node)
    if "reads" in row:
        assert [[".".join(ref.path), ref.span.text, ref.certain] for ref in expr.reads()] == row["reads"]


def assert_place(error: agf.AgfError, row: dict[str, Any]) -> None:
    span = error.diagnostic.span
    assert (error.code, span and span.text) == (row["error"], row["at"])
    assert error.diagnostic.hint == row.get("hint", error.diagnostic.hint)


# ---- what an error says -------------------------------------------------------------------------------------------


def test_a_missing_field_is_reported_with_the_nearest_name() -> None:
    with pytest.raises(agf.StepError) as caught:
        value("review.pased and 'OK' or 'NO'", review={"passed": True})
    assert str(caught.value).split("\n") == [
        "'review' has no 'pased' [r1.missing-path]",
        "  --> expression, line 1, column 8",
        "   1 | review.pased and 'OK' or 'NO'",
        "     |        ^^^^^",
        "  = did you mean passed? get(review, 'pased', default) gives a default for a missing field",
    ]


def test_the_error_of_an_invisible_name_says_how_to_pass_it() -> None:
    names = Names({"ctx": ("ctx",)}, hidden={"item": "hand it on with pass"})
    with pytest.raises(agf.StepError) as caught:
        r1("item.name", names).evaluate({"ctx": {}})
    assert caught.value.diagnostic.hint == "hand it on with pass"


# ---- reads --------------------------------------------------------------------------------------------------------


# ---- opaque values ------------------------------------------------------------------------------------------------


def test_an_opaque_value_is_passed_on() -> None:
    opaque = Opaque()
    assert value("thing", thing=opaque) is opaque
    assert value("{a: [thing]}", thing=opaque)["a"][0] is opaque
    assert value("find(xs, x -> true)", xs=[opaque]) is opaque


def test_an_opaque_value_equals_only_itself() -> None:
    opaque = Opaque()
    assert value("thing == thing", thing=opaque) is True
    assert value("thing == other", thing=opaque, other=Opaque()) is False
    assert value("thing == 1", thing=opaque) is False
    assert value("thing != 'a'", thing=opaque) is True
    assert value("[thing] == [other]", thing=opaque, other=Opaque()) is False
    assert value("[thing] == [1]", thing=opaque) is False
    assert value("filter(xs, x -> x == null)", xs=[opaque]) == []


def test_an_opaque_value_is_true() -> None:
    opaque = Opaque()
    assert value("not thing", thing=opaque) is False
    assert value("thing and 'yes' or 'no'", thing=opaque) == "yes"
    assert value("thing or 1", thing=opaque) is opaque
    assert value("all(xs, x -> x)", xs=[opaque]) is True
    assert value("filter(xs, x -> x.a)", xs=[{"a": opaque}]) == [{"a": opaque}]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("thing.a", ("r1.not-an-object", "a")),
        ("thing + 1", ("r1.type", "+")),
        ("thing * 2", ("r1.type", "*")),
        ("thing < thing", ("r1.type", "<")),
        ("count(thing)", ("r1.type", "count")),
        ("map(thing, x -> x)", ("r1.type", "map")),
        ("map([thing], x -> x.a)", ("r1.not-an-object", "a")),
        ("filter([thing], x -> x.a > 3)", ("r1.not-an-object", "a")),
        ("map([{a: thing}], x -> x.a + x.a)", ("r1.type", "+")),
        ("sum([thing])", ("r1.type", "sum")),
    ],
)
def test_nothing_looks_inside_an_opaque_value(text: str, error: tuple[str, str]) -> None:
    assert wrong(text, thing=Opaque()) == error
    assert value("get(thing, 'a', 1)", thing=Opaque()) == 1


# ---- bounds -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000,
        "[" * 5_000 + "]" * 5_000,
        "not " * 2_000 + "true",
        "-" * 9_000 + "1",
        "map([1], x -> " * 300 + "1" + ")" * 300,
    ],
)
def test_no_expression_nests_too_deep_to_parse(text: str) -> None:
    assert wrong(text)[0] == "r1.too-deep"


@pytest.mark.parametrize(
    ("part", "operator", "expected"),
    [
        ("1", " + ", 1_000),
        ("n", " - ", -998),
        ("n", " * ", 1),
        ("s", " + ", "a" * 1_000),
        ("xs", " + ", [1] * 1_000),
        ("n", " and ", 1),
        ("z", " or ", 0),
        ("z and 1", " or ", 0),
        ("s + s == s", " or ", False),
    ],
)
def test_a_chain_of_operators_is_not_deep(part: str, operator: str, expected: Any) -> None:
    expr = r1(operator.join([part] * (1_000 if len(part) < 3 else 500)))
    frame = {"ctx": {"n": 1, "z": 0, "s": "a", "xs": [1]}}
    assert expr.evaluate(frame) == expected
    assert r1(show(expr.node)).reads()[-1].path == expr.reads()[-1].path if part != "1" else not expr.reads()


def test_operators_of_different_strength_are_as_deep_as_they_nest() -> None:
    text = "n"
    for _ in range(15):
        text = f"({text} * n + n == n and n or n)"
    assert value(text, n=1) in (1, True)
    for _ in range(20):
        text = f"({text} * n + n == n and n or n)"
    assert wrong(text, n=1)[0] == "r1.too-deep"


def test_a_flat_expression_may_be_long() -> None:
    assert value("[" + ", ".join(["1"] * 2_000) + "]") == [1] * 2_000


def test_an_expression_and_a_number_have_a_length() -> None:
    assert wrong("'" + "a" * 10_000 + "'")[0] == "r1.too-long"
    assert wrong("9" * 1_001)[0] == "r1.too-long"
    assert value("9" * 1_000) == 10**1_000 - 1
    assert wrong("9" * 400 + ".0")[0] == "r1.too-large"


def doubled(start: str, body: str, times: int) -> str:
    for _ in range(times):
        start = f"map({start}, x -> {body})"
    return start


def test_texts_lists_and_numbers_cannot_double_without_end() -> None:
    assert wrong(doubled("[ctx.s]", "x + x", 40), s="text")[0] == "r1.too-large"
    assert wrong(doubled("[ctx.xs]", "x + x", 40), xs=[1, 2])[0] == "r1.too-large"
    assert wrong(doubled("[ctx.n]", "x * x", 40), n=3)[0] == "r1.too-large"
    assert wrong("ctx.s + ctx.s", s="x" * (LONGEST // 2 + 1)) == ("r1.too-large", "+")
    assert wrong("ctx.n * ctx.n", n=10**600) == ("r1.too-large", "*")
    assert wrong("map(ctx.xs, x -> x * x)", xs=[2, 10**600]) == ("r1.too-large", "*")


def test_nested_loops_have_a_bound() -> None:
    assert wrong("map(xs, a -> map(xs, b -> count(map(xs, c -> c + a))))", xs=[1] * 1_000) == ("r1.too-large", "map")
    assert value("count(map(xs, a -> find(xs, b -> b == a)))", xs=[1] * 1_000) == 1_000


def test_values_that_a_lambda_builds_are_counted() -> None:
    assert wrong("map(xs, x -> ctx.s + x)", xs=["a"] * 1_000, s="x" * (MOST_WORK // 500))[0] == "r1.too-large"
    assert wrong("map(xs, x -> text(ctx.s))", xs=[1] * 1_000, s="x" * (MOST_WORK // 500)) == ("r1.too-large", "text")
    assert wrong("map(xs, x -> sum(xs) + x)", xs=[1] * 10_000) == ("r1.too-large", "sum")
    assert wrong("map(xs, x -> join(words, s))", xs=[1] * 1_000, words=["a"] * 1_000, s="x" * 1_000) == (
        "r1.too-large", "join",
    )  # fmt: skip


def test_comparing_values_with_shared_parts_ends() -> None:
    a: Any = [1]
    b: Any = [1]
    for _ in range(60):
        a, b = [a, a], [b, b]
    assert value("a == b", a=a, b=b) is True
    assert value("a == [a]", a=a) is False


def test_comparisons_of_a_lambda_are_counted() -> None:
    long = {"xs": [1] * 1_000, "a": list(range(100_000)), "b": list(range(100_000))}
    assert value("a == b", **long) is True
    assert wrong("map(xs, x -> a == b)", **long) == ("r1.too-large", "==")


def test_a_value_deeper_than_the_stack_can_be_compared() -> None:
    a: Any = []
    b: Any = []
    for _ in range(100_000):
        a, b = [a], [b]
    assert value("a == b", a=a, b=b) is True
    while a:  # taken apart step by step, because freeing it at once would recurse
        a, b = a[0], b[0]


def test_evaluating_changes_nothing() -> None:
    frame = {"ctx": {"xs": [1, 2], "n": 1}, "pipe": None}
    before = json.dumps(frame)
    expr = r1("map(xs, x -> map(xs, y -> x + y + n))")
    assert expr.evaluate(frame) == expr.evaluate(frame) == [[3, 4], [4, 5]]
    assert json.dumps(frame) == before


@pytest.mark.parametrize(
    "text",
    [
        "[" * 49 + "n" + "]" * 49,
        "not " * 90 + "n",
        " + ".join(["n"] * 99),
        " or ".join(["n > 9"] * 90),
        "get(ctx, '" + ".".join("abcdefgh" * 300) + "', n)",
        "[" + ", ".join(["n"] * 2_000) + "]",
        "(n and " * 40 + "n" + " or 1)" * 40,
        "(n or n and " * 30 + "n" + ")" * 30,
    ],
)
def test_all_that_can_be_parsed_has_a_value(text: str) -> None:
    r1(text).evaluate({"ctx": {"n": 1}})


def test_loops_inside_each_other_have_a_value() -> None:
    text, value = "x25", 2
    for level in reversed(range(25)):
        text = f"map([x{level}], x{level + 1} -> {text})"
    nested = r1(text).evaluate({"ctx": {"x0": value}})
    for _ in range(25):
        (nested,) = nested
    assert nested == value


def test_a_full_stack_is_an_error_at_the_expression() -> None:
    expr, frame = r1("not " * 60 + "n"), {"ctx": {"n": 1}}

    def deeper() -> Any:
        expr.evaluate(frame)
        return deeper()

    with pytest.raises(agf.StepError) as caught:
        deeper()
    assert caught.value.code == "r1.too-deep"
    assert expr.evaluate(frame) is True


@pytest.mark.parametrize("frame", [None, 5, [1], "text", Opaque()])
@pytest.mark.parametrize("text", ["a", "a.b + 1", "map([1], x -> a)"])
def test_a_frame_that_is_no_object_has_no_names(text: str, frame: Any) -> None:
    with pytest.raises(agf.StepError, match="there is no 'a' here"):
        r1(text, NO_NAMES).evaluate(frame)


@pytest.mark.parametrize("name", ["__class__", "__builtins__", "frame", "env"])
def test_a_name_of_an_author_is_only_a_name(name: str) -> None:
    text = f"map(xs, {name} -> {name}.{name} + {name}.n) + map([{name}], v3 -> get({{{name}: v3}}, '{name}', 0) + n)"
    assert r1(text).evaluate({"ctx": {"xs": [{name: 1, "n": 2}], "n": 3, name: 4}}) == [3, 7]


def test_an_expression_is_evaluated_by_threads_at_once() -> None:
    expr = r1("map(xs, x -> sum(map(xs, y -> x * y + n)))")

    def evaluate(n: int) -> Any:
        return [expr.evaluate({"ctx": {"xs": list(range(30)), "n": n}}) for _ in range(20)]

    with ThreadPoolExecutor(8) as pool:
        for n, evaluated in enumerate(pool.map(evaluate, range(16))):
            assert evaluated == [[sum(x * y + n for y in range(30)) for x in range(30)]] * 20


# ---- laws ---------------------------------------------------------------------------------------------------------


def plain(node: Any) -> Any:
    """A node without its places."""
    if not hasattr(node, "_fields"):
        return tuple(map(plain, node)) if isinstance(node, tuple) else strictly(node)
    places = ("offset", "end", "key_at", "weight")
    return type(node).__name__, *(plain(getattr(node, name)) for name in node._fields if name not in places)


@given(EXPRESSIONS)
def test_an_expression_written_again_is_the_same_expression(text: str) -> None:
    node = r1(text).node
    assert plain(r1(show(node)).node) == plain(node)


@given(st.text(st.sampled_from("ab1 .,:+-*/()[]{}<>=!'\"\\&|?#é\n")) | st.text(max_size=20))
def test_any_text_is_an_expression_or_one_error_in_its_text(text: str) -> None:
    try:
        r1(text)
    except agf.DefinitionError as error:
        (diagnostic,) = error.diagnostics
        assert diagnostic.code.startswith("r1.")
        assert 0 <= diagnostic.span.start <= diagnostic.span.end <= len(text)
