"""The quick check of a JSON Schema agrees with the library, which it saves most processes from importing."""

from __future__ import annotations

import subprocess
import sys
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agf_magics.flow import json_schema
from agf_magics.flow.conforms import Check, conforms, is_surely_a_schema
from agf_magics.flow.json_schema import Violation, judge, schema_violations
from agf_magics.flow.json_schema_keywords import Allowance, TooCostly, budget
from agf_magics.languages.policy import SCHEMA

SIMPLE = ("string", "integer", "number", "boolean", "null", "array", "object")


def value(random: Random, depth: int = 2) -> Any:
    kind = random.randrange(8 if depth else 6)
    if kind == 6:
        return [value(random, depth - 1) for _ in range(random.randrange(4))]
    if kind == 7:
        return {random.choice("abc"): value(random, depth - 1) for _ in range(random.randrange(4))}
    texts, numbers = ["", "a", "ab", "abc", "1"], [-1, 0, 1, 2, 5, 0.0, 1.0, 1.5, float("inf")]
    return random.choice([[None], [True, False], numbers, numbers, texts, texts][kind])


def schema(random: Random, depth: int = 2) -> Any:
    if random.random() < 0.05:
        return random.choice([True, False, {}])

    def inner() -> Any:
        return schema(random, depth - 1) if depth else {"type": random.choice(SIMPLE)}

    def bound() -> Any:
        return random.choice([0, 1, 1.5, 2])

    def count() -> int:
        return random.randrange(3)

    def two() -> list[Any]:
        return [inner(), inner()]

    words = {
        "type": lambda: random.choice([*SIMPLE, ["string", "null"], ["integer", "array"]]),
        "enum": lambda: [value(random, 1) for _ in range(3)],
        "const": lambda: value(random, 1),
        "properties": lambda: {name: inner() for name in random.sample("abc", 2)},
        "required": lambda: random.sample("abc", count()),
        "additionalProperties": inner,
        "patternProperties": lambda: {random.choice(["^a", "b", "."]): inner()},
        "items": inner, "prefixItems": two, "pattern": lambda: random.choice(["^a", "b$", "1"]),
        **dict.fromkeys(("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"), count),
        **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), bound),
        "$ref": lambda: random.choice(["#/$defs/x", "#/$defs/y", "#", "#/$defs/none"]),
        **(dict.fromkeys(("allOf", "anyOf", "oneOf"), two) if depth else {}),
        **(dict.fromkeys(("not", "if", "then", "else"), inner) if depth else {}),
    }  # fmt: skip
    return {word: words[word]() for word in random.sample(sorted(words), random.randrange(1, 4))}


def by_the_library(rule: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(json_schema, "conforms", lambda *_: None)
    found = judge(rule)
    found(None)
    monkeypatch.undo()
    return found


def quick(check: Check, one: Any) -> bool | None:
    token = budget.set(Allowance(one))
    try:
        return check(one)
    except (TooCostly, RecursionError):
        return None
    finally:
        budget.reset(token)


@settings(max_examples=150, deadline=None)
@given(st.randoms(note_method_calls=False))
def test_the_check_agrees_with_the_library(random: Random) -> None:
    rule = {**({} if isinstance(made := schema(random), bool) else made), "$defs": {n: schema(random, 1) for n in "xy"}}
    check = conforms(rule, rule)
    if check is None:
        return
    with pytest.MonkeyPatch.context() as monkeypatch:
        library = by_the_library(rule, monkeypatch)
    for one in (value(random) for _ in range(5)):
        assert quick(check, one) in (library(one) == [], None), (rule, one)


@settings(max_examples=150, deadline=None)
@given(st.randoms(note_method_calls=False))
def test_what_is_surely_a_schema_is_one_for_the_library(random: Random) -> None:
    made = schema(random)
    if isinstance(made, dict) and made and random.random() < 0.5:
        odd = [1, "a", [], {}, None, True, [1], {"a": 1}, -1, ["a", "a"], ["string", "string"], [{}, 1]]
        made[random.choice(sorted(made))] = random.choice(odd)
    if isinstance(made, dict) and is_surely_a_schema(made):
        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setattr(json_schema, "is_surely_a_schema", lambda _: False)
            assert schema_violations(made) == []


def test_the_schema_of_policies_is_checked_without_the_library() -> None:
    assert conforms(SCHEMA, SCHEMA) is not None
    code = (
        "import sys, agf_magics as agf\n"
        "@agf.agent\ndef writer(prompt: str) -> str: return prompt\n"
        "agf.load({'id': 'agf.sequential', 'config': {'steps': [{'agent': 'writer'}]}}.__repr__(), 'policy')\n"
        "print([name for name in sys.modules if name.startswith(('jsonschema', 'referencing'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    "rule",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {"if": {"$ref": "#"}},
        {"oneOf": [{"if": True, "then": {"$ref": "#"}}, {}]},
        {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}},
    ],
)
def test_a_schema_that_applies_itself_to_the_same_value_is_refused(rule: Any) -> None:
    assert conforms(rule, rule) is None
    assert judge(rule)({"a": 1}) == [Violation((), "$ref", None, {"a": 1}, rule=rule)]


def test_a_schema_that_contains_itself_is_no_circle() -> None:
    tree = {"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}, "required": ["n"]}
    assert conforms(tree, tree) is not None
    assert judge(tree)({"n": 1, "left": {"n": 2, "right": {"n": 3}}}) == []
    assert [found.path for found in judge(tree)({"n": 1, "left": {"right": {"n": 3}}})] == [("left",)]


def test_a_reference_with_an_escape_is_left_to_the_library() -> None:
    rule = {"$ref": "#/$defs/a%20b", "$defs": {"a%20b": {"type": "string"}, "a b": {"type": "integer"}}}
    assert conforms(rule, rule) is None
    assert judge(rule)(1) == []
    assert judge(rule)("x")
