"""The whole input as the value of one argument: it arrives, whatever the names of its fields are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from tests.engine import kept


def same(x: Any, y: Any = None) -> Any:
    return [x, y]


@pytest.fixture(autouse=True)
def _tool(tmp_path: Path) -> Iterator[None]:
    agf.tool(same)
    with kept.journal_in(tmp_path):
        yield
    agf.registry.tools.remove("same")


@pytest.mark.parametrize("input", [{}, {"z": 6}, {"x": 5}, {"y": 1, "z": 2}])
@pytest.mark.parametrize(
    ("expression", "whole"),
    [("ctx", lambda input: input), ("[ctx]", lambda input: [input]), ("{a: ctx}", lambda input: {"a": input})],
)
def test_the_input_is_there(input: dict[str, Any], expression: str, whole: Any) -> None:
    step = f'tool: {{name: same, args: {{x: !expr "{expression}"}}}}'
    run = agf.run(f"pipeline: p\nsteps:\n- {step}\n", dict(input))
    assert run.output == [whole(input), None]
    fan = (
        "pipeline: p\nsteps:\n- for_each:\n    items: [1, 2]\n    on_error: abort\n"
        f"    do: {{{step}}}\n    collect: {{transform: {{value: pipe}}}}\n"
    )
    assert agf.run(fan, dict(input)).output == [[whole(input), None]] * 2


def test_a_name_that_is_missing_is_still_told() -> None:
    with pytest.raises(agf.DefinitionError, match="reads 'q', which the input lacks") as caught:
        agf.run("pipeline: p\nsteps:\n- tool: {name: same, args: {x: !expr ctx, y: !expr ctx.q}}\n", {"z": 1})
    assert len(caught.value.diagnostics) == 1
