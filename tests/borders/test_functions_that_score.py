"""Functions as scores: the arguments that they get, the functions that are refused before a row runs, and valid values.

Each row of a table is a function as people write them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from tests.engine import kept

ROWS = [{"x": number} for number in (1, 2, 3)]


@pytest.fixture(autouse=True)
def _flow(tmp_path: Path) -> Iterator[None]:
    with kept.journal_in(tmp_path):
        agf.define("pipeline: same\nsteps:\n- transform: {value: ctx.x}\n")
        yield
    agf.registry.flows.remove("same")


def scored(*functions: Any) -> Any:
    return agf.score_over(agf.run("same", over=ROWS), *functions, seed=1)


def one(output: int) -> float:
    return float(output)


def with_option(output: int, tolerance: float = 0.5) -> float:
    return output + tolerance


def with_row(output: int, row: Any) -> float:
    return output + float(row["x"])


def with_optional_row(output: int, row: Any = None) -> float:
    return output + float(row["x"])


def with_any(*arguments: Any) -> float:
    return float(len(arguments))


def with_required_and_option(output: int, row: Any, tolerance: float = 10) -> float:
    return output + float(row["x"]) + tolerance


class Callable1:
    def __call__(self, output: int, row: Any) -> float:
        return with_row(output, row)


CALLED: list[tuple[Any, float]] = [
    (one, 2),
    (with_option, 2.5),
    (with_row, 4),
    (with_optional_row, 4),
    (with_any, 2),
    (with_required_and_option, 14),
    (Callable1(), 4),
    (functools.partial(with_option, tolerance=1), 3),
    (functools.partial(with_row, row={"x": 5}), 7),
    (abs, 2),
    (math.sqrt, (1 + math.sqrt(2) + math.sqrt(3)) / 3),
]


@pytest.mark.parametrize(("function", "mean"), CALLED)
def test_a_score_gets_the_row_where_it_takes_one(function: Any, mean: float) -> None:
    [summary] = scored(function).values()
    assert summary.mean is not None
    assert not summary.faults
    assert summary.mean.mean == pytest.approx(mean)


async def later(output: int) -> int:
    return output


def no_parameters() -> int:
    return 1


def three(a: int, b: int, c: int) -> int:
    return 1


def by_name(*, output: int, row: Any) -> int:
    return 1


REFUSED: list[tuple[Any, str]] = [
    (later, "it is async"),
    (no_parameters, "it cannot be called with the output"),
    (three, "it cannot be called with the output"),
    (by_name, "it cannot be called with the output"),
    (5, "it is a number"),
]


@pytest.mark.parametrize(("function", "why"), REFUSED)
def test_a_function_that_cannot_score_is_refused_before_a_row_runs(function: Any, why: str) -> None:
    calls: list[int] = []

    def counted(x: int) -> int:
        calls.append(x)
        return x

    registry = agf.Registry()
    agf.tool(counted, registry=registry)
    flow = agf.load("pipeline: p\nsteps:\n- tool: {name: counted, args: {x: !expr ctx.x}}\n", registry=registry)
    with pytest.raises(agf.DefinitionError, match=why) as caught:
        agf.check_over(flow, ROWS, score=function, registry=registry)
    assert (caught.value.code, calls) == ("score.kind", [])


DOUBLE: list[tuple[list[Any], str]] = [
    ([lambda output: 1, lambda output: 2], "<lambda>"),
    ([one, one], "one"),
    ([functools.partial(with_option, tolerance=1), functools.partial(with_option, tolerance=2)], "partial"),
    (["same", "same"], "same"),
    ([Callable1(), Callable1()], "Callable1"),
]


@pytest.mark.parametrize(("functions", "name"), DOUBLE)
def test_no_score_replaces_another_one(functions: list[Any], name: str) -> None:
    with pytest.raises(agf.DefinitionError, match=f"two scores are called '{name}'") as caught:
        scored(*functions)
    assert caught.value.code == "score.double"
    with pytest.raises(agf.DefinitionError, match="two scores"):
        agf.check_over("same", ROWS, score=functions)


NO_VALUES: list[tuple[Callable[[int], Any], str]] = [
    (lambda output: math.nan, "the score is NaN"),
    (lambda output: math.inf, "the score is infinite"),
    (lambda output: -math.inf, "the score is infinite"),
    (lambda output: 10**400, "too large for a mean"),
    (lambda output: [output], "the score is a list"),
    (lambda output: output if output < 3 else "high", "the score is text, and those of other rows are numbers"),
    (lambda output: "low" if output < 3 else 3, "the score is a number, and those of other rows are labels"),
    (lambda output: output if output < 3 else math.nan, "the score is NaN"),
]


@pytest.mark.parametrize(("function", "why"), NO_VALUES)
def test_a_wrong_value_is_named_in_the_error(function: Any, why: str) -> None:
    summaries = scored(function)
    assert why in summaries.faults[0][2].message
    if "those of other rows" not in why:
        assert "other rows" not in summaries.faults[0][2].message
    for summary in summaries.values():
        assert summary.mean is None or math.isfinite(summary.mean.mean)


def test_a_least_number_of_a_score_without_numbers_says_so() -> None:
    with pytest.raises(agf.DefinitionError, match="the score '<lambda>' has no numbers"):
        agf.check_over("same", ROWS, score=lambda output: "a label", at_least={"<lambda>": 0.5})


def fail(output: Any) -> float:
    raise ValueError("no score")


@pytest.mark.parametrize("function", [fail, lambda output: math.nan, lambda output: None])
def test_a_score_that_no_row_has_is_0(function: Any) -> None:
    with pytest.raises(agf.CheckFailed) as error:
        agf.check_over("same", ROWS, score=function, at_least={function.__name__: 0.5})
    assert error.value.report.figures[function.__name__] == 0


@pytest.mark.parametrize("least", [0.5, {"one": "0.5"}, {"one": math.nan}, {"one": math.inf}, {"one": None}, ["one"]])
def test_a_wrong_least_number_is_refused(least: Any) -> None:
    with pytest.raises(ValueError, match="at_least is a mapping of scores to numbers"):
        agf.check_over("same", ROWS, score=one, at_least=least)


def test_one_seed_is_shown_once() -> None:
    text = repr(scored(lambda output: {"a": output, "b": output > 1, "c": 1}))
    assert text.endswith("seed of the intervals: 1")
