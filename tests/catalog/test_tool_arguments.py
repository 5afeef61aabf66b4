"""What a tool's arguments may be: the rows of tests/vectors/tool_arguments.json against the functions below."""

from __future__ import annotations

import enum
import json
import typing
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, is_dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, TypedDict

import pandas as pd
import pytest
from annotated_types import Gt
from pydantic import BaseModel, Field

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


class Table:
    """Functions by how their parameters are written."""

    def __init__(self) -> None:
        self.tools: dict[str, Tool] = {}

    def __call__(self, written: str, secret: tuple[str, ...] = ()) -> Callable[[Callable[..., Any]], None]:
        def keep(function: Callable[..., Any]) -> None:
            registry = Registry()
            tool(function, name="t", registry=registry, secret=secret)
            self.tools[written] = registry.tools["t"]

        return keep


table = Table()


@table("nothing at all")
def _(): ...


@table("anything")
def _(anything): ...


@table("limit: int")
def _(limit: int): ...


@table("price: float")
def _(price: float): ...


@table("name: str")
def _(name: str): ...


@table("deep: bool")
def _(deep: bool): ...


@table("name: str, limit: int = 10")
def _(name: str, limit: int = 10): ...


@table("limit: int = None")
def _(limit: int = None): ...  # noqa: RUF013 - the very thing


@table("limit: Optional[int]")
def _(limit: Optional[int]): ...  # noqa: UP045 - the very thing


@table("key: int | str")
def _(key: int | str): ...


@table("key: int | list[int]")
def _(key: int | list[int]): ...


@table("mode: Literal['fast', 1]")
def _(mode: Literal["fast", 1]): ...


@table("colour: Colour")
def _(colour: Colour): ...


@table("point: Point")
def _(point: Point): ...


@table("row: Row")
def _(row: Row): ...


@table("review: Review")
def _(review: Review): ...


@table("tags: list[str]")
def _(tags: list[str]): ...


@table("rows: list[Row]")
def _(rows: list[Row]): ...


@table("prices: dict[str, float]")
def _(prices: dict[str, float]): ...


@table("pair: tuple[int, str]")
def _(pair: tuple[int, str]): ...


@table("names: set[str]")
def _(names: set[str]): ...


@table("words: Iterable[str]")
def _(words: Iterable[str]): ...


@table("day: date")
def _(day: date): ...


@table("size: Annotated[int, Gt(3)]")
def _(size: Annotated[int, Gt(3)]): ...


@table("size: int = Field(4, gt=3), name: str = Field()")
def _(size: int = Field(4, gt=3), name: str = Field()): ...


@table("frame: DataFrame")
def _(frame: pd.DataFrame): ...


@table("frame: DataFrame | None")
def _(frame: pd.DataFrame | None): ...


@table("**more")
def _(**more): ...


@table("name: str, **more")
def _(name: str, **more): ...


@table("*names, **more")
def _(*names, **more): ...


@table("x: int, /")
def _(x: int, /): ...


@table("*, name: str")
def _(*, name: str): ...


@table("later: Undefined")
def _(later: Undefined): ...  # type: ignore[name-defined]  # noqa: F821 - the very thing


@table("token: str (secret)", secret=("token",))
def _(token: str): ...


@table("keys: list[int] (secret)", secret=("keys",))
def _(keys: list[int]): ...


@table("pin: Annotated[int, Gt(3)] (secret)", secret=("pin",))
def _(pin: Annotated[int, Gt(3)]): ...


ROWS = json.loads((Path(__file__).parents[1] / "vectors" / "tool_arguments.json").read_text("utf-8"))["rows"]
FRAME = pd.DataFrame({"a": [1]})


@pytest.mark.parametrize("row", ROWS, ids=[row["title"] for row in ROWS])
def test_arguments_are_what_the_signature_says(row: dict[str, Any]) -> None:
    checked = table.tools[row["tool"]]
    given = {name: FRAME if value == {"$": "frame"} else value for name, value in row["given"].items()}
    if "ok" in row:
        # As text: Python takes 1, 1.0 and True for equal.
        assert json.dumps(_plain(checked.check(given))) == json.dumps(row["ok"])
        return
    with pytest.raises(StepError) as caught:
        checked.check(given)
    found = caught.value.diagnostic
    assert (found.code, found.message) == (row["error"], f"tool 't' {row['says']}")
    if "hint" in row:
        assert found.hint == row["hint"]


def test_every_function_of_the_table_has_a_row() -> None:
    assert table.tools.keys() == {row["tool"] for row in ROWS}


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
