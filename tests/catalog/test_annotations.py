"""Tests of the annotations that notebooks have: of classes, of names that are defined later, of unusable types."""

from __future__ import annotations

import collections
import collections.abc
import datetime
import decimal
import enum
import fractions
import pathlib
import types
import typing
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self, TypedDict, Unpack

import pytest
import typing_extensions
from pydantic import BaseModel, Field, StringConstraints, field_validator
from pydantic_core import core_schema

import agf_magics as agf
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


def test_a_parameter_with_an_alias_has_both_names(registry: Registry) -> None:
    def f(first_name: Annotated[str, Field(alias="firstName")], size: int = Field(1, alias="cm")) -> list[Any]:
        return [first_name, size]

    tool(f, registry=registry)
    assert only(registry).check({"firstName": "Ada"}) == {"first_name": "Ada", "size": 1}
    flow = "{pipeline: p, steps: [{tool: {name: f, args: {first_name: Ada, size: 2}}}]}"
    assert agf.run(flow, registry=registry).output == ["Ada", 2]
    with pytest.raises(StepError, match="needs 'firstName'"):
        only(registry).check({"size": 2})


@pytest.mark.parametrize(
    "annotation",
    [
        Annotated[int, Field(default=7)],
        Annotated[int, Field(default_factory=lambda: 7)],
        "Annotated[int, Field(default=7)]",
        Annotated[Annotated[int, Field(default=7)], "a note"],
    ],
)
def test_a_default_in_an_annotation_makes_an_argument_optional(registry: Registry, annotation: Any) -> None:
    def f(a: int, x=0) -> list[int]:
        return [a, x]

    f.__annotations__["x"] = annotation
    f.__defaults__ = None
    tool(f, registry=registry)
    text = "{pipeline: p, steps: [{tool: {name: f, args: {ARGS}}}]}"
    assert agf.run(text.replace("ARGS", "a: 1"), registry=registry).output == [1, 7]
    assert agf.run(text.replace("ARGS", "a: 1, x: 2"), registry=registry).output == [1, 2]
    with pytest.raises(agf.DefinitionError, match="needs 'a'"):
        agf.run(text.replace("ARGS", ""), registry=registry)


def test_a_field_without_a_default_is_required(registry: Registry) -> None:
    def f(x: Annotated[int, Field(gt=0)]) -> int:
        return x

    tool(f, registry=registry)
    with pytest.raises(agf.DefinitionError, match="needs 'x'"):
        agf.run("{pipeline: p, steps: [{tool: {name: f}}]}", registry=registry)


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


# --- exactly what is written ---


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Factor(float, enum.Enum):
    HALF = 0.5
    TWO = 2.0


class Named(enum.IntEnum):
    ONE = 1

    @classmethod
    def _missing_(cls, value: object) -> Any:
        return cls.ONE if value == "one" else None


REFUSED: Any = "refused"


def shown(value: object) -> str:
    return str(getattr(value, "__name__", value))


EXACT: list[tuple[Any, Any, Any]] = [
    (Level, 1, Level.LOW),
    (Level, 2.0, Level.HIGH),
    (Level, "1", REFUSED),
    (Level, True, REFUSED),
    (Level, Level.LOW, Level.LOW),
    (Factor, 0.5, Factor.HALF),
    (Factor, 2, Factor.TWO),
    (Factor, "0.5", REFUSED),
    (Named, "one", Named.ONE),
    (Named, "1", REFUSED),
    (list[Level], ["1"], REFUSED),
    (Literal[1, True], 1, 1),
    (Literal[1, True], 1.0, 1),
    (Literal[1, True], True, True),
    (Literal[True], 1, REFUSED),
    (Literal[True], 1.0, REFUSED),
    (Literal[1], True, REFUSED),
    (Literal["1", 1], "1", "1"),
    (datetime.timedelta, True, REFUSED),
    (datetime.timedelta, 1, datetime.timedelta(seconds=1)),
    (complex, True, REFUSED),
    (complex, "1+2j", 1 + 2j),
    (fractions.Fraction, False, REFUSED),
    (list[complex], [True], REFUSED),
    (dict[Level, int], {"1": 5}, {Level.LOW: 5}),
    (dict[Level, int], {"01": 5}, REFUSED),
    (dict[Named, int], {"one": 5}, {Named.ONE: 5}),
    (collections.OrderedDict[int, int], {"1": 5}, collections.OrderedDict({1: 5})),
]


@pytest.mark.parametrize(("annotation", "value", "read"), EXACT, ids=shown)
def test_a_value_is_no_other_type_in_a_choice_or_a_number(annotation: Any, value: Any, read: Any) -> None:
    checked = read_as(annotation, value)
    assert checked == read
    assert type(checked) is type(read)


def read_as(annotation: Any, value: Any) -> Any:
    """The checked argument; `REFUSED` if the check refuses it."""
    registry = Registry()

    def f(x): ...

    f.__annotations__ = {"x": annotation}
    tool(f, registry=registry)
    try:
        return only(registry).check({"x": value})["x"]
    except StepError:
        return REFUSED


SAME_KEYS = {
    "date": (datetime.date, "2020-01-01", "2020-01-01T00:00:00"),
    "datetime": (datetime.datetime, "2020-01-01T00:00:00Z", "2020-01-01T01:00:00+01:00"),
    "timedelta": (datetime.timedelta, "PT60S", "PT1M"),
    "Decimal": (decimal.Decimal, "1", "1.0"),
    "UUID": (uuid.UUID, "12345678123456781234567812345678", "12345678-1234-5678-1234-567812345678"),
    "Path": (pathlib.Path, "a/b", "a//b"),
    "float": (float, "1", "1.0"),
    "complex": (complex, "1", "1+0j"),
    "short text": (Annotated[str, StringConstraints(strip_whitespace=True)], "a", " a"),
}


@pytest.mark.parametrize("mapping", [dict, collections.abc.Mapping, collections.OrderedDict, collections.defaultdict])
@pytest.mark.parametrize(("key", "first", "second"), SAME_KEYS.values(), ids=SAME_KEYS.keys())
def test_two_texts_of_one_key_of_a_mapping_are_refused(mapping: Any, key: Any, first: str, second: str) -> None:
    assert read_as(mapping[key, int], {first: 1, second: 2}) is REFUSED
    assert list(read_as(mapping[key, int], {first: 1}).values()) == [1]
    assert list(read_as(mapping[key, int], {second: 2}).values()) == [2]


# --- ``**options`` ---


class Options(TypedDict):
    n: int


class LaterOptions(typing_extensions.TypedDict, total=False):
    n: typing_extensions.Required[int]
    m: str


def takes_options(**options: Unpack[Options]) -> None: ...
def takes_later_options(**options: typing_extensions.Unpack[LaterOptions]) -> None: ...
def takes_numbers(**numbers: int) -> None: ...
def takes_dates(first: str, **dates: datetime.date) -> None: ...
def takes_lists(**lists: list[Level]) -> None: ...
def takes_anything(**options: Any) -> None: ...
def takes_the_untold(**options): ...


# What stands in a cell: the annotations are no texts, unlike those of this file.
AS_OBJECTS = {
    takes_options: Unpack[Options],
    takes_later_options: typing_extensions.Unpack[LaterOptions],
}

OPTIONS: list[tuple[Any, dict[str, Any], Any]] = [
    (takes_options, {"n": 1}, {"n": 1}),
    (takes_options, {"n": "1"}, REFUSED),
    (takes_options, {"n": 1, "zz": 2}, REFUSED),
    (takes_options, {}, REFUSED),
    (takes_later_options, {"n": 1}, {"n": 1}),
    (takes_later_options, {"n": 1, "m": 2}, REFUSED),
    (takes_later_options, {"m": "a"}, REFUSED),
    (takes_numbers, {}, {}),
    (takes_numbers, {"a": 1, "b": 2}, {"a": 1, "b": 2}),
    (takes_numbers, {"a": "1"}, REFUSED),
    (takes_numbers, {"a": True}, REFUSED),
    (takes_numbers, {"**": "1"}, REFUSED),
    (takes_dates, {"first": "x", "d": "2020-01-01"}, {"first": "x", "d": datetime.date(2020, 1, 1)}),
    (takes_dates, {"first": "x", "d": "soon"}, REFUSED),
    (takes_dates, {"d": "2020-01-01"}, REFUSED),
    (takes_lists, {"a": [1]}, {"a": [Level.LOW]}),
    (takes_lists, {"a": ["1"]}, REFUSED),
    (takes_anything, {"a": "1", "b": None}, {"a": "1", "b": None}),
    (takes_the_untold, {"a": "1"}, {"a": "1"}),
]


@pytest.mark.parametrize("as_text", [True, False])
@pytest.mark.parametrize(("function", "arguments", "checked"), OPTIONS, ids=shown)
def test_options_have_the_type_of_their_annotation(
    function: Any, arguments: dict[str, Any], checked: Any, as_text: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = Registry()
    if not as_text:
        resolved = {**typing.get_type_hints(function, include_extras=True)}
        if function in AS_OBJECTS:
            resolved["options"] = AS_OBJECTS[function]
        monkeypatch.setattr(function, "__annotations__", resolved)
    tool(function, registry=registry)
    assert only(registry).warnings == ()
    try:
        assert only(registry).check(arguments) == checked
    except StepError:
        assert checked is REFUSED


def test_the_schema_tells_what_options_may_be(registry: Registry) -> None:
    tool(takes_numbers, registry=registry)
    assert only(registry).accepts == {"type": "object", "properties": {}, "additionalProperties": {"type": "integer"}}
    tool(takes_anything, registry=registry)
    assert registry.tools["takes_anything"].accepts["additionalProperties"] is True


def test_an_option_that_was_checked_is_not_checked_again(registry: Registry) -> None:
    tool(takes_dates, registry=registry)
    checked = only(registry).check({"first": "x", "d": "2020-01-01"})
    changed = only(registry).check(checked, {"e": "2021-01-01"})
    assert changed == {**checked, "e": datetime.date(2021, 1, 1)}
    with pytest.raises(StepError, match="'e'"):
        only(registry).check(checked, {"e": "soon"})


# --- defaults of secrets ---


class Account(BaseModel):
    token: str = "TOPSECRET99"
    default: int = 3


def plain_default(token: str = "TOPSECRET99") -> None: ...
def field_default(token: str = Field("TOPSECRET99")) -> None: ...
def annotated_default(token: Annotated[str, Field(default="TOPSECRET99")]) -> None: ...
def model_default(token: Account = Account()) -> None: ...  # noqa: B008 - the very thing
def models_default(token: list[Account] | None = None) -> None: ...


@pytest.mark.parametrize("function", [plain_default, field_default, annotated_default, model_default, models_default])
def test_the_schema_tells_no_default_of_a_secret(function: Any, registry: Registry) -> None:
    tool(function, secret="token", registry=registry)
    accepts = only(registry).accepts
    assert "TOPSECRET99" not in str(accepts)
    assert accepts["properties"]["token"], "the type of the secret is told"
    if "$defs" in accepts:
        assert accepts["$defs"]["Account"]["properties"]["default"] == {"type": "integer"}
    tool(function, name="open", registry=registry)
    assert ("TOPSECRET99" in str(registry.tools["open"].accepts)) is True
