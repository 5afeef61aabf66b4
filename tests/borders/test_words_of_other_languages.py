"""Expressions with the habits of other languages: the hint is an expression of R1 that gives the intended value.

Each hint is evaluated, and its value is compared with Python's result.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

import agf_magics as agf

CTX: dict[str, Any] = {"t": True, "f": False, "y": 1, "z": 7, "a": 0, "l": [1, 2], "m": [], "s": "b", "n": None}


class Names:
    """The same input for Python."""

    def __init__(self) -> None:
        self.__dict__.update(CTX)


NAMES = Names()


def hint(expression: str) -> str:
    with pytest.raises(agf.DefinitionError) as caught:
        agf.evaluate("r1", expression, {"ctx": CTX})
    return caught.value.diagnostic.hint or ""


def pasted(expression: str) -> Any:
    """The value of what the hint says to write."""
    match = re.match(r"write: (.*?)(?:; |$)", hint(expression))
    assert match, hint(expression)
    return agf.evaluate("r1", match[1], {"ctx": CTX})


ctx: Any = NAMES
MEANT: list[tuple[str, Any]] = [
    ("ctx.y in [1, 2]", ctx.y in [1, 2]),  # type: ignore[attr-defined]
    ("ctx.z in [1, 2]", ctx.z in [1, 2]),  # type: ignore[attr-defined]
    ("ctx.y in ctx.l", ctx.y in ctx.l),  # type: ignore[attr-defined]
    ("ctx.y + 1 in ctx.l", ctx.y + 1 in ctx.l),  # type: ignore[attr-defined]
    ("'b' in ['a', 'b']", True),
    ("ctx.s in ['a', 'c']", False),
    ("(ctx.y) in (1, 2)", True),
    ("ctx.y in (1, 2)", True),
    ("ctx.t and ctx.y in [1, 2]", True),
    ("ctx.y in [5] or ctx.z in [7]", "left"),
    ("ctx.y in [1, 2] and ctx.f", "left"),
    ("not ctx.y in ctx.l", "left"),
    ("ctx.y not in [1, 2]", ctx.y not in [1, 2]),  # type: ignore[attr-defined]
    ("ctx.z not in ctx.l", ctx.z not in ctx.l),  # type: ignore[attr-defined]
    ("{a: ctx.y in [1]}", "left"),
    ("0 if ctx.t else 5", 0),
    ("0 if ctx.f else 5", 5),
    ("'' if ctx.t else 5", ""),
    ("ctx.t ? false : 5", False),
    ("if ctx.t then null else 5", None),
    ("[] if count(ctx.l) == 2 else ctx.l", []),
    ("5 if ctx.t else 0", 5),
    ("5 if ctx.f else 0", 0),
    ("1 if ctx.t or ctx.f else 2", 1),
    ("1 if ctx.f or ctx.f else 2", 2),
    ("0 if ctx.t or ctx.f else 2", 0),
    ("ctx.a or 3 if ctx.t else 2", 3),
    ("ctx.z if ctx.y == 1 else 2", 7),
]


@pytest.mark.parametrize(("expression", "value"), [each for each in MEANT if each[1] != "left"])
def test_the_hint_gives_what_was_meant(expression: str, value: Any) -> None:
    assert pasted(expression) == value


@pytest.mark.parametrize(
    ("expression", "part"),
    [
        ("ctx.y in [5] or ctx.z in [7]", "any([5], x -> x == ctx.y)"),
        ("ctx.y in [1, 2] and ctx.f", "any([1, 2], x -> x == ctx.y)"),
        ("not ctx.y in ctx.l", "any(ctx.l, x -> x == ctx.y)"),
        ("{a: ctx.y in [1]}", "any([1], x -> x == ctx.y)"),
        ("map(ctx.l, x -> x in [1])", "any([1], each -> each == x)"),
        ("ctx.y is not null", "!="),
        ("ctx.y is null", "=="),
        ("ctx.a if ctx.t else 2", "if its middle may be false: a match step"),
        ("0 if ctx.t else ''", "write a match step"),
        ("1e3", "the number is written: 1000"),
        ("ctx.y + 2.5e3", "the number is written: 2500"),
        ("1_000", "the number is written: 1000"),
        ("0x10", "the number is written: 16"),
    ],
)
def test_the_hint_is_about_this_part(expression: str, part: str) -> None:
    assert part in hint(expression)


def test_no_caution_where_the_middle_is_true() -> None:
    assert hint("'a' if ctx.t else 'b'") == "write: ctx.t and 'a' or 'b'"


DATES = [
    ("2024-01-02", True),
    ("ctx.day == 2024-11-12", True),
    ("[2024-01-02, 1]", True),
    ("ctx.day == '2024-01-02'", False),
    ("2024 - 01 - 02", False),
    ("2024-1-2", False),
    ("ctx.y-10-10", False),
    ("12024-01-02", False),
    ("1-10-10", False),
]


@pytest.mark.parametrize(("expression", "is_told"), DATES)
def test_a_date_without_quotes_is_told(expression: str, is_told: bool) -> None:
    flow = agf.load(f'pipeline: p\nsteps:\n- transform: {{value: "{expression}"}}\n')
    warnings = [warning for warning in flow.warnings if warning.code == "r1.date"]
    assert bool(warnings) is is_told
    for dated in warnings:
        assert dated.hint == f"write: '{dated.span.text if dated.span else ''}'"
