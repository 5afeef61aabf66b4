"""Annotations with types that a flow converts: scalars of numpy, keys that are numbers, classes of an earlier cell."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Any, Optional

import numpy as np
import pytest

import agf_magics as agf

ACCEPTED: dict[str, tuple[Any, Any, Any]] = {
    # The annotation, the value in the flow, and what the tool gets.
    "float64": (np.float64, 1.5, 1.5),
    "float64 and a whole number": (np.float64, 2, 2.0),
    "float32": (np.float32, 1.5, 1.5),
    "bool_": (np.bool_, True, True),
    "int64": (np.int64, 3, 3),
    "uint8": (np.uint8, 3, 3),
    "str_": (np.str_, "a", "a"),
    "number": (np.number, 3, 3),
    "integer": (np.integer, 3, 3),
    "optional": (Optional[np.float64], None, None),  # noqa: UP045
    "a list": (list[np.float64], [1.0], [1.0]),
    "a union": (np.float64 | str, "x", "x"),
    "datetime64": (np.datetime64, np.datetime64("2024-01-01"), np.datetime64("2024-01-01")),
    "timedelta64": (np.timedelta64, np.timedelta64(1, "h"), np.timedelta64(1, "h")),
    "whole numbers as keys": (dict[int, str], {"1": "a"}, {1: "a"}),
    "numbers as keys": (dict[float, str], {"1.5": "a", "2": "b"}, {1.5: "a", 2.0: "b"}),
    "keys of keys": (dict[int, dict[int, int]], {"1": {"2": 3}}, {1: {2: 3}}),
    "a dict of Python": (dict[int, str], {1: "a"}, {1: "a"}),
}

REFUSED: dict[str, tuple[Any, Any, str]] = {
    "float64": (np.float64, "1.5", "expects a number for 'x', got text '1.5'"),
    "bool_": (np.bool_, 1, "expects true or false for 'x', got the number 1"),
    "int64": (np.int64, 1.5, "expects a whole number for 'x', got the number 1.5"),
    "datetime64": (np.datetime64, 5, "expects a datetime64 for 'x', got the number 5"),
    "a key that is no number": (dict[int, str], {"x": "a"}, "refuses 'x.x': a key is a whole number"),
    "two keys of one number": (dict[int, str], {"01": "a"}, "refuses 'x.01': a key is a whole number"),
}
"""For each annotation: the annotation, a value that does not fit it, and the words of the error."""

CALLS = {
    "pipeline": "{pipeline: p, steps: [{tool: {name: look, args: {x: !expr ctx.v}}}]}",
    "plan": '{"calls": [{"_tool": "look", "x": "†input.v", "_outputPath": "†output.x"}]}',
    "graph": "{name: g, state: {v: any, r: any}, nodes: {a: {type: tool_call, tool: look, args: {x: '{state.v}'}, "
    "state_key: r}}, edges: [{from: START, to: a}]}",
}


def run(annotation: Any, value: Any, language: str = "pipeline") -> list[Any]:
    registry, got = agf.Registry(), list[Any]()

    def look(x: Any) -> int:
        got.append(x)
        return 1

    look.__annotations__["x"] = annotation
    agf.tool(look, registry=registry)
    name = "flow" if language == "plan" else None
    flow = agf.define(CALLS[language], language=language, name=name, registry=registry)
    agf.run(flow, {"v": value}, registry=registry)
    return got


@pytest.mark.parametrize("language", CALLS)
@pytest.mark.parametrize("name", ACCEPTED)
def test_a_tool_gets_the_value_that_its_annotation_means(name: str, language: str) -> None:
    annotation, value, expected = ACCEPTED[name]
    (got,) = run(annotation, value, language)
    assert (type(got), got) == (type(expected), expected)


@pytest.mark.parametrize("name", REFUSED)
def test_a_value_that_does_not_fit_is_reported_in_words_of_the_author(name: str) -> None:
    annotation, value, message = REFUSED[name]
    with pytest.raises(agf.AgfError) as error:
        run(annotation, value)
    assert message in error.value.diagnostic.message


@pytest.mark.parametrize("keys", [["1", "1.0"], ["nan"], ["inf"], ["-inf"], ["01"]])
def test_a_key_that_is_no_number_of_its_own_is_refused(keys: list[str]) -> None:
    def weigh(crates: dict[float, int]) -> int:
        return len(crates)

    registry = agf.Registry()
    agf.tool(weigh, registry=registry)
    text = "pipeline: p\nsteps:\n- tool: {name: weigh, args: {crates: !expr ctx.crates}}\n"
    assert agf.run(text, {"crates": {"1": 1, "2.0": 2}}, registry=registry).output == 2
    with pytest.raises(agf.StepError) as caught:
        agf.run(text, {"crates": dict.fromkeys(keys, 1)}, registry=registry)
    assert caught.value.code == "tool.arguments"


def test_a_model_is_offered_the_types_of_json() -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def weigh(kg: np.float64, fresh: np.bool_, counts: dict[int, np.int64]) -> np.float64:
        return kg

    assert registry.tools["weigh"].accepts["properties"] == {
        "kg": {"type": "number"},
        "fresh": {"type": "boolean"},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
    }


def test_an_enum_of_an_earlier_cell_is_named_as_such() -> None:
    def defined() -> Any:
        class Colour(enum.Enum):
            RED = "r"
            BLUE = "b"

        return Colour

    with pytest.raises(agf.AgfError, match=r"got a Colour of another definition \(from an earlier cell\?\)"):
        run(defined(), defined().RED)


def test_a_path_is_attached_as_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "note.txt").write_text("ripe")
    registry = agf.Registry()
    agf.define(
        "{pipeline: p, steps: [{agent: {prompt: 'Read it.', model: 'test:test', attach: [ctx.file]}}]}",
        registry=registry,
    )
    with pytest.raises(agf.AgfError) as error:
        agf.run("p", {"file": Path("none.txt")}, registry=registry)
    assert error.value.code != "agent.attach" or "opaque" not in error.value.diagnostic.message
    assert "none.txt" in str(error.value)
