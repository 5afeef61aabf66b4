"""R1's second tier: its laws (it means what the walk means, its bounds too), what may be generated, and when."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import agf_magics
import agf_magics.languages.pipeline.r1 as package
from agf_magics.languages.pipeline.r1 import COMPILED_AFTER, R1, WORK, Names, codegen, emitter, walk
from agf_magics.languages.pipeline.r1.codegen import generate
from agf_magics.languages.pipeline.r1.emitter import FRAME, HELPERS, LEFT, RUN, WALK
from agf_magics.text.diagnostics import StepError
from tests.languages.r1_case import (
    ATOMS,
    BODIES,
    CONTEXTS,
    EACH,
    EXPRESSIONS,
    PIPELINE,
    ROWS,
    TYPED,
    TYPED_CONTEXTS,
    VECTORS,
    Number,
    Opaque,
    Text,
    compiled,
    names_of,
    outcome,
    r1,
    strictly,
)

# ---- the tiers agree -----------------------------------------------------------------------------------------------


def assert_tiers_agree(text: str, ctx: dict[str, Any], names: Names | None = PIPELINE) -> None:
    expr = r1(text, names)
    frame = {"ctx": ctx, "pipe": ctx.get("o"), **ctx}
    expected = outcome(expr.walk, frame)
    assert outcome(expr.evaluate, frame) == expected
    assert outcome(compiled(expr, names), frame) == expected


@given(EXPRESSIONS, CONTEXTS, st.sampled_from([PIPELINE, None]))
@example("get(o, 'a.a', {a: 1})", {"o": {}}, PIPELINE)
@example("a == count(xs)", {"a": 1, "xs": [1]}, PIPELINE)
@example("join(xs, '')", {"xs": [Text("a")]}, PIPELINE)
@example("sum(xs)", {"xs": [Number(1)]}, PIPELINE)
@example("[a == a, a == b, a != a]", {"a": float("nan"), "b": float("nan")}, PIPELINE)
@example("n and s or b", {"n": 1, "s": "", "b": 2}, PIPELINE)
@example("[n, o and n * 1, n * 2]", {"n": "ab", "o": False}, PIPELINE)
@example("a + b", {"a": "x", "b": Text("a")}, PIPELINE)
@example("a * 0 + (a * 0)", {"a": float("inf")}, PIPELINE)
@settings(max_examples=300)
def test_any_expression_means_the_same_in_both_tiers(text: str, ctx: dict[str, Any], names: Names | None) -> None:
    assert_tiers_agree(text, ctx, names)


@given(TYPED, TYPED_CONTEXTS)
@settings(max_examples=200)
def test_an_expression_with_a_value_means_the_same_in_both_tiers(text: str, ctx: dict[str, Any]) -> None:
    assert_tiers_agree(text, ctx)


@given(EACH, BODIES, ROWS | st.lists(ATOMS, max_size=4), ATOMS)
@settings(max_examples=400)
def test_a_loop_means_the_same_in_both_tiers(name: str, body: str, xs: list[Any], n: Any) -> None:
    assert_tiers_agree(f"{name}(xs, x -> {body})", {"xs": xs, "n": n, "s": "b"})


@given(TYPED, TYPED_CONTEXTS, st.integers(20, 200), st.integers(0, 8))
@example("map(rows, x -> s + s)", {"rows": [1, 1], "s": "aaaaa"}, 20, 1)
@example("map(rows, x -> s + s)", {"rows": [1, 1], "s": "aaaaa"}, 20, 6)
@example("map(rows, x -> s + 'a' + s + 'a' + s)", {"rows": [1], "s": "aaaaa"}, 50, 1)
@example("map(rows, x -> join([s, s], s))", {"rows": [1, 1], "s": "aaaaa"}, 30, 1)
@example("map(rows, x -> join([], s))", {"rows": [1, 1], "s": "a" * 40}, 30, 1)
@example("map(rows, x -> sum(rows))", {"rows": [1] * 6}, 60, 1)
@example("map(rows, x -> rows == o)", {"rows": [1] * 6, "o": [1] * 6}, 60, 1)
@example("map(rows, x -> map(rows, y -> y))", {"rows": [1] * 6}, 60, 1)
@example("n * n", {"n": 11}, 60, 1)
@example("-n * n", {"n": 11}, 60, 1)
@example("s + s", {"s": "a" * 31}, 60, 1)
@settings(max_examples=200)
def test_the_bounds_hold_in_both_tiers(text: str, ctx: dict[str, Any], most: int, short: int) -> None:
    bounds = {"LONGEST": most, "MOST_WORK": most, "WORK": most, "SHORT": short, "LARGEST": 100}
    with pytest.MonkeyPatch.context() as patch:
        for module in (package, walk, emitter, codegen):
            for name in bounds.keys() & vars(module).keys():
                patch.setattr(module, name, bounds[name])
        assert_tiers_agree(text, ctx)


def refused(frame: Any) -> Any:
    raise AssertionError("left to the walk")


@pytest.mark.parametrize("row", [pytest.param(row, id=row["id"]) for row in VECTORS if "ok" in row])
def test_the_function_itself_finds_every_value_of_the_vectors(row: dict[str, Any]) -> None:
    names = names_of(row)
    run = codegen.compile_expression(r1(row["expr"], names).node, names and names.stores, refused)
    if row["id"] == "column-empty":  # what an empty list would read of the frame is not there
        with pytest.raises(AssertionError):
            run(row["ctx"])
    else:
        assert strictly(run(row["ctx"])) == strictly(row["ok"])


@pytest.mark.parametrize(
    "text", ["map(xs, x -> x.s + x.s)", "map(xs, x -> join([x.s], x.s))", "map(xs, x -> ctx.xs + xs)"]
)
def test_long_texts_and_lists_in_a_lambda_are_not_left_to_the_walk(text: str) -> None:
    expr = r1(text)
    run = codegen.compile_expression(expr.node, PIPELINE.stores, refused)
    frame = {"ctx": {"xs": [{"s": "long" * 100}] * 300}}
    assert run(frame) == expr.walk(frame)


@pytest.mark.parametrize(
    "text",
    ["[o and n, n]", "[o and n or 1, n + 1, n]", "map(xs, x -> [o and x.a, x.a])", "map(xs, x -> x.a or missing)"],
)
def test_what_only_one_branch_reads_is_read_again_after_it(text: str) -> None:
    expr = r1(text)
    frame = {"ctx": {"o": False, "n": 1, "xs": [{"a": 1}]}}
    assert codegen.compile_expression(expr.node, PIPELINE.stores, refused)(frame) == expr.walk(frame)


@pytest.mark.parametrize("frame", [None, 5, [1], "text", Opaque()])
@pytest.mark.parametrize("text", ["a", "a.b + 1", "map([1], x -> x)", "'a' + 'b'", "map([1], x -> a)"])
def test_a_frame_that_is_no_object_has_no_names(text: str, frame: Any) -> None:
    expr = r1(text, None)
    expected = outcome(expr.walk, frame)
    assert outcome(expr.evaluate, frame) == outcome(compiled(expr, None), frame) == expected
    if " a" in text or text[0] == "a":
        with pytest.raises(StepError, match="there is no 'a' here"):
            expr.evaluate(frame)


# ---- what is generated ---------------------------------------------------------------------------------------------

NODES = {
    ast.Module, ast.FunctionDef, ast.arguments, ast.arg, ast.Try, ast.ExceptHandler, ast.Pass, ast.Return, ast.Raise,
    ast.Assign, ast.If, ast.For, ast.Break, ast.Continue, ast.Expr,
    ast.Name, ast.Load, ast.Store, ast.Constant, ast.Call, ast.Subscript, ast.List, ast.Dict, ast.Set, ast.Starred,
    ast.IfExp,
    ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub,
    ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod,
    ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.Gt, ast.LtE, ast.GtE, ast.Is, ast.IsNot, ast.In, ast.NotIn,
}  # fmt: skip
"""All of Python that may be generated: no attribute, no import, no definition but the one function."""


def assert_harmless(expr: R1, names: Names | None) -> None:
    """Walk all of the tree: its nodes, its names and its constants."""
    tree = generate(expr.node, names and names.stores)
    (function,) = tree.body
    assert isinstance(function, ast.FunctionDef)
    assert function.name == RUN
    assert sum(isinstance(node, ast.FunctionDef) for node in ast.walk(tree)) == 1
    variables = set[str]()
    for node in ast.walk(tree):
        assert type(node) in NODES
        if isinstance(node, ast.Name):
            assert type(node.id) is str
            if isinstance(node.ctx, ast.Store):
                variables.add(node.id)
            else:
                assert node.id in {*HELPERS, WALK, FRAME, LEFT} or re.fullmatch("v[0-9]+", node.id)
        elif isinstance(node, ast.Constant):
            assert type(node.value) in (str, int, float, bool, type(None))
        elif isinstance(node, ast.Call):
            assert isinstance(node.func, ast.Name)
            assert not node.keywords
            assert node.func.id in {*HELPERS, WALK} or re.fullmatch("v[0-9]+", node.func.id)
        elif isinstance(node, ast.arguments):
            assert [arg.arg for arg in node.args] == [FRAME]
        elif isinstance(node, ast.ExceptHandler):
            assert node.name is None
    assert all(name == LEFT or re.fullmatch("v[0-9]+", name) for name in variables)


@pytest.mark.parametrize("row", [pytest.param(row, id=row["id"]) for row in VECTORS if row.get("when") != "load"])
def test_of_the_vectors_only_harmless_code_is_generated(row: dict[str, Any]) -> None:
    assert_harmless(r1(row["expr"], names_of(row)), names_of(row))


@given(EXPRESSIONS | TYPED, st.sampled_from([PIPELINE, None]))
@settings(max_examples=200)
def test_of_any_expression_only_harmless_code_is_generated(text: str, names: Names | None) -> None:
    assert_harmless(r1(text, names), names)


HOSTILE = [
    "__class__",
    "__builtins__",
    "__import__",
    "frame",
    "walk",
    "left",
    "run",
    "v1",
    "v2",
    "Unusual",
    "type",
    "exec",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_of_an_author_is_no_name_of_the_function(name: str) -> None:
    text = f"map(xs, {name} -> {name}.{name} + {name}.n) + map([{name}], v3 -> get({{{name}: v3}}, '{name}', 0) + n)"
    expr, frame = r1(text), {"ctx": {"xs": [{name: 1, "n": 2}], "n": 3, name: 4}}
    assert expr.evaluate(frame) == compiled(expr, PIPELINE)(frame) == [3, 7]
    assert_harmless(expr, PIPELINE)


def test_the_function_has_no_builtins() -> None:
    run = compiled(r1("n + 1"), PIPELINE)
    assert isinstance(run, FunctionType)
    assert run.__builtins__ == {}
    assert set(run.__globals__) == {*HELPERS, WALK, RUN, "__builtins__"}


def dynamic(tree: ast.AST) -> Iterator[str]:
    """What makes code of data, wherever it is named."""
    makers = {"exec", "eval", "compile", "__import__"}
    patterns = {"re.compile", "re2.compile"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in makers:
            yield node.id
        elif isinstance(node, ast.Attribute) and node.attr in makers and ast.unparse(node) not in patterns:
            yield ast.unparse(node)


def test_the_package_makes_code_at_one_place() -> None:
    package = Path(agf_magics.__file__).parent
    found = {
        str(path.relative_to(package)): names
        for path in sorted(package.rglob("*.py"))
        if (names := list(dynamic(ast.parse(path.read_text("utf-8")))))
    }
    assert found == {"languages/pipeline/r1/codegen.py": ["exec", "compile"]}


# ---- when it is compiled -------------------------------------------------------------------------------------------


def is_compiled(expr: R1) -> bool:
    return isinstance(expr.evaluate, FunctionType)


def test_an_expression_is_compiled_when_it_has_been_evaluated_often() -> None:
    expr, frame = r1("n + 1"), {"ctx": {"n": 41}}
    for _ in range(COMPILED_AFTER):
        assert expr.evaluate(frame) == 42
        assert not is_compiled(expr)
    assert expr.evaluate(frame) == 42
    assert is_compiled(expr)


def test_what_fails_is_compiled_as_late_as_what_does_not() -> None:
    expr, frame = r1("n + m"), {"ctx": {"n": 41}}
    errors = [outcome(expr.evaluate, frame) for _ in range(COMPILED_AFTER)]
    assert not is_compiled(expr)
    errors += [outcome(expr.evaluate, frame) for _ in range(COMPILED_AFTER)]
    assert is_compiled(expr)
    assert all(error == errors[0] for error in errors)


@pytest.mark.parametrize(
    "text", ["map(xs, x -> x)", "count(map([1], y -> map(xs, x -> x)))", "count(xs) + count(map(xs, x -> x))"]
)
def test_a_long_list_is_enough_to_compile(text: str) -> None:
    few, many = r1(text), r1(text)
    few.evaluate({"ctx": {"xs": [1] * 10}})
    many.evaluate({"ctx": {"xs": [1] * WORK}})
    assert (is_compiled(few), is_compiled(many)) == (False, True)


def test_the_elements_of_all_evaluations_are_counted() -> None:
    expr, frame = r1("filter(xs, x -> x > 1)"), {"ctx": {"xs": [1] * 20}}
    evaluations = 0
    while not is_compiled(expr):
        expr.evaluate(frame)
        evaluations += 1
    assert 5 < evaluations < 30


def test_what_python_cannot_compile_is_walked() -> None:
    """Twenty loops inside each other are more than Python allows."""
    text = "x25"
    for level in reversed(range(25)):
        text = f"map([x{level}], x{level + 1} -> {text})"
    expr, frame = r1(text), {"ctx": {"x0": 2}}
    expected = expr.walk(frame)
    assert [expr.evaluate(frame) for _ in range(2 * COMPILED_AFTER)] == [expected] * 2 * COMPILED_AFTER
    assert expr.evaluate == expr.walk


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
def test_all_that_can_be_parsed_can_be_compiled(text: str) -> None:
    expr, frame = r1(text), {"ctx": {"n": 1}}
    run = compiled(expr, PIPELINE)
    assert isinstance(run, FunctionType)
    assert run(frame) == expr.walk(frame)
