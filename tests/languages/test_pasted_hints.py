"""What a hint says to write has the value that the author meant: choices of other languages, texts with holes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

import agf_magics as agf
from tests.languages.loading import load

WRITE = re.compile(
    r"write: (?P<text>.+?)(?: \(for the text itself: (?P<literal>.+)\))?(?:; if its middle .*)?", re.DOTALL
)


def hint_of(text: str) -> str:
    with pytest.raises(agf.DefinitionError) as refused:
        agf.evaluate("r1", text, {})
    return str(refused.value.diagnostics[0].hint)


@pytest.mark.parametrize(
    ("text", "frame", "value"),
    [
        ("a if b else c", {"a": 1, "b": False, "c": 2}, 2),
        ("(a if b else c) + 1", {"a": 5, "b": False, "c": 7}, 8),
        ("(a if b else c) + 1", {"a": 5, "b": True, "c": 7}, 6),
        ("[a if b else c, 2]", {"a": 5, "b": False, "c": 7}, [7, 2]),
        ("{k: a if b else c, l: 2}", {"a": 5, "b": True, "c": 7}, {"k": 5, "l": 2}),
        ("{k: b ? a : c, l: 2}", {"a": 5, "b": False, "c": 7}, {"k": 7, "l": 2}),
        ("map(a, x -> x if x > 1 else 0)", {"a": [1, 2]}, [0, 2]),
        ("map(a, x -> x.p or x.q ? 'y' : 'n')", {"a": [{"p": False, "q": True}, {"p": False, "q": False}]}, ["y", "n"]),
        ("count(a ? [1] : [2, 3]) > 1", {"a": False}, True),
        ("a == 1 ? 'x' : a == 2 ? 'y' : 'z'", {"a": 2}, "y"),
        ("'x' if a == 1 else 'y' if a == 2 else 'z'", {"a": 3}, "z"),
        ("if a or b then 1 else 2", {"a": False, "b": True}, 1),
        ("'see if it else' if b else c", {"b": True, "c": 1}, "see if it else"),
        ("x == 'a ? b : c' ? 1 : 2", {"x": "a ? b : c"}, 1),
        ("0 if a else 1", {"a": True}, 0),
        ("(a or b) ? (c or d) : e", {"a": False, "b": True, "c": 0, "d": 3, "e": 4}, 3),
        ("any(x.ok for x in a)", {"a": [{"ok": False}, {"ok": True}]}, True),
        ("all([x.ok for x in a if x.k])", {"a": [{"ok": False, "k": False}, {"ok": True, "k": True}]}, True),
        ('f"it\'s {a}"', {"a": 1}, "it's 1"),
        ("f'{a + 1} x'", {"a": 1}, "2 x"),
        ("a in (1, 2)", {"a": 2}, True),
        ("a in (b)", {"a": 2, "b": [2]}, True),
        ("a in map(b, y -> y + 1)", {"a": 2, "b": [1]}, True),
        ("a not in [1, 2]", {"a": 3}, True),
    ],
)
def test_a_hint_of_an_expression_has_the_value_that_was_meant(text: str, frame: Mapping[str, Any], value: Any) -> None:
    written = WRITE.fullmatch(hint_of(text))
    assert written is not None
    assert agf.evaluate("r1", written["text"], frame) == value


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("elements", [[0, -1], [-1, 0, -2], [3], [2, 2]])
def test_the_hint_for_the_largest_and_the_least_element_is_right(name: str, elements: list[int]) -> None:
    written = re.match(r"write: (.+?);", hint_of(f"{name}(list)"))
    assert written is not None
    expected = {"max": max, "min": min}[name](elements)
    assert agf.evaluate("r1", written[1], {"list": elements}) == expected


@pytest.mark.parametrize(
    "text",
    [
        "a ? b ? 1 : 2 : 3",
        "0 if a else null",
        "if a then 1",
        "1 if a",
        "? 1 : 2",
        "f'{a:.2f} kg'",
        "f'{a!r}'",
        "f'total: {{a}}'",
        "a in 'xyz'",
        "'x'.upper()",
    ],
)
def test_a_hint_writes_nothing_where_no_expression_is_certain(text: str) -> None:
    assert "write:" not in hint_of(text)


FIRST = "pipeline: p\nsteps:\n- transform: {value: '{b: 1, l: [1]}', output: a}\n"


def warning_of(text: str) -> agf.Diagnostic:
    """The warning about an argument with this text."""
    _, problems = load("pipeline", FIRST + f"- tool: {{name: echo, args: {{x: {json.dumps(text)}}}}}\n")
    [warning] = problems
    assert warning.code == "pipeline.literal-path"
    return warning


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("it's {a.b}", "it's 1"),
        ('say "{a.b}"', 'say "1"'),
        ('it\'s "{a.b}"', 'it\'s "1"'),
        ("back\\slash {a.b}", "back\\slash 1"),
        ("line\n {a.b}\t.", "line\n 1\t."),
        ("{a.b}", 1),
        ("{a.b}: {a.b}", "1: 1"),
        ("a.b + 1", 2),
        ("get(a, 'b')", 1),
        ('get(a, "b")', 1),
        ("text(a.b) + 'x\\n\"'", '1x\n"'),
    ],
)
@pytest.mark.parametrize(
    "step", ["- tool: {{name: echo, args: {{x: {}}}}}\n", "- tool:\n    name: echo\n    args:\n      x: {}\n"]
)
def test_a_text_that_looks_like_an_expression_can_be_pasted_in_both_meanings(text: str, value: Any, step: str) -> None:
    written = WRITE.fullmatch(str(warning_of(text).hint))
    assert written is not None
    for pasted, expected in ((written["text"], value), (written["literal"], text)):
        registry = agf.Registry()
        agf.tool(echo, registry=registry)
        assert agf.run(FIRST + step.format(pasted), registry=registry).output == expected


def echo(x: Any) -> Any:
    return x


@pytest.mark.parametrize("text", ["{a.b:>10}", "{a!r}", "{{ a.b | upper }}", "{a.l[0]} x"])
def test_a_hole_that_is_no_expression_gets_no_expression(text: str) -> None:
    assert (
        warning_of(text).hint == "join the parts with +, each value as text(value); a format or a filter is for a tool"
    )
