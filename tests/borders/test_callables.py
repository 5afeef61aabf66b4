"""Functions whose arguments do not go by name alone: with a dispatch by type, or with options as a typed dict."""

from __future__ import annotations

import functools
from typing import Any, NotRequired, TypedDict, Unpack

import pytest

import agf_magics as agf


@functools.singledispatch
def value_text(value: Any, width: int = 0) -> str:
    """Show a value."""
    return f"any {value} {width}"


@value_text.register
def _(value: int, width: int = 0) -> str:
    return f"int {value} {width}"


def run(registry: agf.Registry, args: str) -> agf.Run:
    text = f"{{pipeline: q, steps: [{{tool: {{name: t, args: {args}}}}}]}}"
    return agf.run(text, registry=registry, raises=False)


@pytest.mark.parametrize(
    ("function", "args", "result"),
    [
        (value_text, "{value: 3}", "int 3 0"),
        (value_text, "{value: a, width: 2}", "any a 2"),
        (functools.partial(value_text, width=4), "{value: 3}", "int 3 4"),
    ],
    ids=["int", "text", "partial"],
)
def test_a_function_that_dispatches_is_called_by_names(function: Any, args: str, result: str) -> None:
    registry = agf.Registry()
    agf.tool(function, name="t", registry=registry)
    assert run(registry, args).output == result


class Options(TypedDict):
    unit: str
    digits: NotRequired[int]


class Loose(TypedDict, total=False):
    type: str


def convert(value: float, **options: Unpack[Options]) -> str:
    return f"{value} {options}"


def loosely(value: float, **options: Unpack[Loose]) -> str:
    return f"{value} {options}"


def outcome(registry: agf.Registry, args: str) -> str:
    try:
        ended = run(registry, args)
    except agf.DefinitionError as error:
        return str(error)
    return str(ended.error or ended.output)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ("{value: 1.5, unit: kg}", "1.5 {'unit': 'kg'}"),
        ("{value: 1.5, unit: kg, digits: 2}", "1.5 {'unit': 'kg', 'digits': 2}"),
        ("{value: 1.5}", "needs 'unit'"),
        ("{value: 1.5, unit: 3}", "expects text for 'unit', got the number 3"),
        ("{value: 1.5, unit: kg, digit: 2}", "has no argument 'digit'"),
    ],
)
def test_options_of_a_typed_dict_are_checked(args: str, says: str) -> None:
    registry = agf.Registry()
    agf.tool(convert, name="t", registry=registry)
    assert says in message_of(registry, args)


def message_of(registry: agf.Registry, args: str) -> str:
    try:
        ended = run(registry, args)
    except agf.DefinitionError as error:
        return str(error)
    return str(ended.error or ended.output)


def test_options_of_a_typed_dict_are_offered_and_described() -> None:
    registry = agf.Registry()
    agf.tool(convert, name="t", registry=registry)
    agf.tool(loosely, name="loose", registry=registry)
    assert registry.tools["t"].takes == "value (number), unit (text), digits (whole number, optional)"
    assert registry.tools["loose"].takes == "value (number), type (text, optional)"
    assert registry.tools["t"].accepts["additionalProperties"] is False
    assert registry.tools["t"].warnings == ()
    assert (
        agf.run("{pipeline: q, steps: [{tool: {name: loose, args: {value: 1.5}}}]}", registry=registry).output
        == "1.5 {}"
    )
