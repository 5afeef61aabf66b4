"""Tests of the annotations that notebooks have: of classes, of names that are defined later, of unusable types."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Self, TypedDict

import pytest
from pydantic import BaseModel, field_validator
from pydantic_core import core_schema

from agf_magics.catalog import Registry, Tool, tool
from agf_magics.text.diagnostics import StepError


@pytest.fixture
def registry() -> Registry:
    return Registry()


def only(registry: Registry) -> Tool:
    (name,) = registry.tools
    return registry.tools[name]


def test_an_annotation_that_a_later_cell_defines_is_used_from_then_on(registry: Registry) -> None:
    def f(row): ...

    cell: dict[str, Any] = {}  # what the notebook has defined so far
    of_a_cell = types.FunctionType(f.__code__, cell)
    of_a_cell.__annotations__ = {"row": "Row"}
    tool(of_a_cell, registry=registry)
    registered = only(registry)
    assert registered.check({"row": 3}) == {"row": 3}
    (warning,) = registered.warnings
    assert (warning.code, warning.severity) == ("tool.annotation", "warning")
    assert "'row'" in warning.message
    assert "name 'Row' is not defined" in warning.message
    cell["Row"] = dict[str, int]
    assert registered.warnings == ()
    with pytest.raises(StepError, match="expects an object for 'row', got the number 3"):
        registered.check({"row": 3})


def test_annotations_that_mean_nothing_are_warned_about_and_accept_anything(registry: Registry) -> None:
    def f(a: 5, b: 1 / 2, c: "not valid!", d: int): ...  # type: ignore[valid-type] # noqa: F722 - the very thing

    tool(f, registry=registry)
    assert sorted(warning.message.split("'")[3] for warning in only(registry).warnings) == ["a", "b", "c"]
    assert only(registry).check({"a": "x", "b": [], "c": None, "d": 1})["c"] is None


@dataclass
class Unfinished:
    part: NotThere  # type: ignore[name-defined]  # noqa: F821 - the very thing


@dataclass
class Tree:
    size: int
    inner: list[Tree] = field(default_factory=list)


class Even(BaseModel):
    number: int

    @field_validator("number")
    @classmethod
    def _even(cls, number: int) -> int:
        if number % 2:
            raise ValueError("The number must be even")
        return number


class Leaf(TypedDict):
    size: int


def test_classes_that_are_not_finished_and_self_are_warned_about(registry: Registry) -> None:
    def f(a: Unfinished, b: Self): ...  # type: ignore[misc]

    tool(f, registry=registry)
    unfinished, of_self = (warning.message for warning in only(registry).warnings)
    assert "'a' cannot be used" in unfinished
    assert unfinished.endswith("not defined")
    assert "'b' cannot be used" in of_self


def test_a_class_is_a_tool_that_makes_one_of_it(registry: Registry) -> None:
    tool(Tree, registry=registry)
    registered = only(registry)
    assert registered.takes == "size (whole number), inner (list, optional)"
    assert registered.function(**registered.check({"size": 1, "inner": [{"size": 2}]})) == Tree(1, [Tree(2)])
    with pytest.raises(StepError, match=r"expects a whole number for 'inner\[0\]\.size', got true"):
        registered.check({"size": 1, "inner": [{"size": True}]})


def test_a_class_that_refuses_a_value_is_quoted(registry: Registry) -> None:
    def f(even: Even): ...

    tool(f, registry=registry)
    with pytest.raises(StepError, match=r"tool 'f' refuses 'even\.number': the number must be even") as caught:
        only(registry).check({"even": {"number": 3}})
    assert caught.value.__context__ is None


def test_a_validator_that_breaks_is_a_failed_check_and_tells_no_secret(registry: Registry) -> None:
    class Broken:
        @classmethod
        def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
            return core_schema.no_info_plain_validator_function(cls.check)

        @staticmethod
        def check(value: Any) -> Any:
            raise ZeroDivisionError(f"cannot divide by {value}")

    def f(x): ...

    f.__annotations__["x"] = Broken
    tool(f, registry=registry)
    tool(f, name="hidden", secret="x", registry=registry)
    with pytest.raises(StepError, match="'f' cannot check its arguments: ZeroDivisionError: cannot divide by 7"):
        registry.tools["f"].check({"x": 7})
    with pytest.raises(StepError, match=r"'hidden' cannot check its arguments: ZeroDivisionError \["):
        registry.tools["hidden"].check({"x": 7})


def test_a_default_that_contains_itself_is_not_told(registry: Registry) -> None:
    endless: list[Any] = []
    endless.append(endless)

    def f(x=endless): ...

    tool(f, registry=registry)
    assert only(registry).accepts["properties"] == {"x": {}}


def test_typed_dicts_are_found_inside_other_annotations(registry: Registry) -> None:
    def f(a: Leaf | None, b: dict[str, list[Leaf]]): ...

    tool(f, registry=registry)
    assert only(registry).warnings == ()
    assert only(registry).check({"a": None, "b": {"x": [{"size": 1}]}}) == {"a": None, "b": {"x": [{"size": 1}]}}
    with pytest.raises(StepError, match=r"needs 'a.size'; expects a whole number for 'b.x\[0\].size', got text '1'"):
        only(registry).check({"a": {}, "b": {"x": [{"size": "1"}]}})


def test_the_words_for_what_is_taken(registry: Registry) -> None:
    def f(a: Literal["x", 1], b: Literal[2], c: Callable[[], int], d: Tree, e: int | str | None, **more): ...

    tool(f, registry=registry)
    assert only(registry).takes == (
        "a ('x' or 1), b (2), c (anything), d (Tree), e (whole number or text or null), any other"
    )


def test_a_value_of_a_class_that_a_cell_defined_again_is_told_so(registry: Registry) -> None:
    @dataclass
    class Point:
        x: int

    def f(point): ...

    f.__annotations__["point"] = Point
    tool(f, registry=registry)
    again = dataclass(type("Point", (), {"__annotations__": {"x": int}}))  # type: ignore[var-annotated]
    with pytest.raises(StepError, match="got a Point of another definition"):
        only(registry).check({"point": again(1)})
