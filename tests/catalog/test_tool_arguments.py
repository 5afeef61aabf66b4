"""Tests the arguments that tools accept, by the rows of tests/vectors/tool_arguments.json."""

from __future__ import annotations

import enum
import json
import typing
from collections.abc import Iterable
from dataclasses import asdict, dataclass, is_dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, TypedDict

import pytest
from annotated_types import Gt
from pandas import DataFrame
from pydantic import BaseModel, BeforeValidator, Field

from agf_magics.catalog import Registry, Tool, tool
from agf_magics.text.diagnostics import StepError


class Colour(enum.Enum):
    RED = "red"
    TWO = 2


@dataclass
class Point:
    x: int
    y: float = 0.0


class Row(TypedDict, total=False):
    sku: typing.Required[str]
    price: float


class Review(BaseModel):
    passed: bool
    notes: str = ""


NAMES = {
    "Annotated": Annotated,
    "Literal": Literal,
    "Optional": Optional,
    "Iterable": Iterable,
    "Gt": Gt,
    "Field": Field,
    "date": date,
    "DataFrame": DataFrame,
    "Colour": Colour,
    "Point": Point,
    "Row": Row,
    "Review": Review,
}
"""What the annotations of the rows name."""


def tool_of(written: str) -> Tool:
    """A tool with these parameters; of a secret one it is said behind them."""
    parameters, secret, _ = written.partition(" (secret)")
    names: dict[str, Any] = {**NAMES}
    exec(f"def t({'' if parameters == 'nothing at all' else parameters}): ...", names)
    registry = Registry()
    tool(names["t"], registry=registry, secret=[parameters.partition(":")[0]] if secret else [])
    return registry.tools["t"]


ROWS = json.loads((Path(__file__).parents[1] / "vectors" / "tool_arguments.json").read_text("utf-8"))["rows"]
FRAME = DataFrame({"a": [1]})


@pytest.mark.parametrize("row", ROWS, ids=[row["title"] for row in ROWS])
def test_arguments_are_what_the_signature_says(row: dict[str, Any]) -> None:
    checked = tool_of(row["tool"])
    arguments = {name: FRAME if value == {"$": "frame"} else value for name, value in row["given"].items()}
    if "ok" in row:
        # As text: Python takes 1, 1.0 and True for equal.
        assert json.dumps(_plain(checked.check(arguments))) == json.dumps(row["ok"])
        return
    with pytest.raises(StepError) as caught:
        checked.check(arguments)
    problem = caught.value.diagnostic
    assert (problem.code, problem.message) == (row["error"], f"tool 't' {row['says']}")
    if "hint" in row:
        assert problem.hint == row["hint"]


def _plain(value: Any) -> Any:
    if value is FRAME:
        return {"$": "frame"}
    if isinstance(value, enum.Enum):
        return {type(value).__name__: value.value}
    if isinstance(value, BaseModel):
        return {type(value).__name__: value.model_dump()}
    if is_dataclass(value):
        return {type(value).__name__: asdict(value)}  # type: ignore[arg-type]
    if isinstance(value, date):
        return {"date": value.isoformat()}
    if isinstance(value, (tuple, set)):
        return {type(value).__name__: list(value)}
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


def test_a_literal_is_refused_where_no_code_of_a_person_decides() -> None:
    registry = Registry()

    def tens(value: object) -> object:
        return {"ten": 10}.get(str(value), value)

    @tool(registry=registry)
    def top(
        limit: int,
        words: Annotated[int, BeforeValidator(tens)],
        sizes: list[float] | None = None,
        by: dict[str, int] | None = None,
        anything: Any = None,
    ) -> int:
        return limit

    top_tool = registry.tools["top"]
    wrong: list[tuple[str, Any]] = [("limit", "ten"), ("limit", True), ("sizes", ["a"]), ("by", {"a": "b"})]
    for name, value in wrong:
        refused = top_tool.refused_literal(name, value)
        assert refused is not None
        assert refused.code == "tool.arguments"
        assert name in refused.message
    fitting: list[tuple[str, Any]] = [("limit", 1), ("sizes", [1]), ("anything", "x")]
    with_code_of_a_person = [("words", "ten"), ("words", "no")]
    for name, value in (*fitting, *with_code_of_a_person, ("sizes", None)):
        assert top_tool.refused_literal(name, value) is None
