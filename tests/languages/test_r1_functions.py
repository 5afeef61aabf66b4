"""A function of R1 is one row of a table, and every part of the package that needs functions reads this row."""

from __future__ import annotations

from statistics import median
from typing import Any

import pytest

from agf_magics.catalog import Registry
from agf_magics.editor.body import complete_body
from agf_magics.editor.names import NAMES
from agf_magics.editor.word_help import describe
from agf_magics.languages import LANGUAGES
from agf_magics.languages.pipeline.r1 import R1, Names, parse
from agf_magics.languages.pipeline.r1.functions import FUNCTIONS
from agf_magics.languages.pipeline.r1.infer import Inference
from agf_magics.languages.pipeline.r1.nodes import Call, Each, Get
from agf_magics.languages.pipeline.r1.row import EACH, LIST, Argument, Closure, Env, Function, Kind
from agf_magics.schemas.shapes import NUMBER, Shape, list_of
from agf_magics.text.diagnostics import DefinitionError, Diagnostic, StepError
from agf_magics.text.source import Source
from docs import tables


def _median(node: Call, numbers: Closure, default: Closure) -> Closure:
    def middle(env: Env) -> Any:
        items, otherwise = numbers(env), default(env)
        return median(items) if items else otherwise

    return middle


NEW = (
    Function(
        "median",
        (LIST._replace(of="number"), Argument("default")),
        lambda items, default: NUMBER,
        _median,
        "the middle of a list of numbers, or the default if it is empty",
        foreign=("middle",),
    ),
    Function(
        "reject",
        (LIST, EACH),
        lambda items, body: list_of(items and items.of),
        lambda level, body, test: lambda env, items: [env[level] for env[level] in items if not test(env)],
        "the elements for which the lambda is false",
    ),
)
MORE = {**FUNCTIONS, **{row.name: row for row in NEW}}


def r1(text: str, names: Names = Names({}, ())) -> R1:  # noqa: B008
    return parse(Source("expression", text).span(), names, MORE)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("median(xs, 0)", 2),
        ("median([], 'none')", "none"),
        ("median(reject(xs, x -> x > 2), 0) + 1", 2.5),
        ("map([xs, xs], each -> median(each, 0))", [2, 2]),
    ],
)
def test_a_new_row_is_evaluated(text: str, value: Any) -> None:
    assert r1(text).evaluate({"xs": [1, 2, 3]}) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("median(1, 0)", "median needs a list, not a number"),
        ("median(['a'], 0)", "median needs a list of numbers; element 0 is text"),
        ("reject(1, x -> x)", "reject needs a list, not a number"),
    ],
)
def test_the_types_of_a_new_row_are_checked_while_it_runs(text: str, message: str) -> None:
    with pytest.raises(StepError) as raised:
        r1(text).evaluate({})
    assert raised.value.diagnostic.message == message


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("median()", "median() has too many or too few arguments", "write: median(list, default)"),
        ("median(xs)", "median() has too many or too few arguments", "write: median(list, default)"),
        ("median(xs, 0, 1)", "median() has too many or too few arguments", "write: median(list, default)"),
        ("reject(xs, 1)", "the second argument of reject() is a lambda with one parameter, not '1'",
         "write: reject(xs, x -> expression)"),
        ("medan(xs, 0)", "there is no function 'medan'", "did you mean median? functions are map, filter,"),
    ],
)  # fmt: skip
def test_the_arguments_of_a_new_row_are_checked(text: str, message: str, hint: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        r1(text)
    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.message == message
    assert (diagnostic.hint or "").startswith(hint)


@pytest.mark.parametrize(
    ("text", "shape", "message"),
    [
        ("median(xs, 0)", NUMBER, None),
        ("reject(xs, x -> x > 1)", list_of(NUMBER), None),
        ("median('a', 0)", NUMBER, "median needs a list, not text"),
        ("median(['a'], 0)", NUMBER, "median needs a list of numbers, not of text"),
        ("median(xs, 0) + 'a'", None, "'+' needs two numbers, two texts or two lists, not a number and text"),
    ],
)
def test_the_types_of_a_new_row_are_checked_before_a_run(text: str, shape: Shape | None, message: str | None) -> None:
    problems = list[Diagnostic]()
    expression = r1(text)
    inference = Inference(expression.locate, lambda path: (list_of(NUMBER), None), problems, False)
    assert inference.shape(expression.node, True) == shape
    assert [problem.message for problem in problems] == [message] * (message is not None)


def test_a_new_row_is_completed() -> None:
    names = NAMES["pipeline"]._replace(functions=MORE)
    body = "pipeline: p\nsteps:\n- transform: {value: med"
    offer = complete_body(body, "", (), LANGUAGES["pipeline"].schema or {}, names, Registry())
    assert [choice.text for choice in offer.choices] == ["median("]


def test_a_new_row_is_in_the_reference() -> None:
    page = tables.functions(MORE)
    assert "| `median(list, default)` | the middle of a list of numbers, or the default if it is empty |" in page
    assert "| `reject(list, x -> expression)` | the elements for which the lambda is false |" in page


@pytest.mark.parametrize("row", FUNCTIONS.values(), ids=lambda row: row.name)
def test_shift_tab_shows_the_form_and_the_meaning_of_a_function(row: Function) -> None:
    cell = f"%%pipeline\npipeline: p\nsteps:\n- transform: {{value: {row.name}"
    assert (describe(cell, len(cell), Registry()) or "").split("\n")[-1] == row.help


NODES: dict[Kind | None, type] = {"lambda": Each, "path": Get}


@pytest.mark.parametrize("row", FUNCTIONS.values(), ids=lambda row: row.name)
def test_the_form_of_a_function_is_an_expression(row: Function) -> None:
    """It must be one, because hints paste it."""
    node = r1(row.form).node
    assert type(node) is NODES.get(row.second, Call)
