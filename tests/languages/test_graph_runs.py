"""tests/vectors/graph_runs.json: whole graphs, from text to their final state, round by round."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.languages.graph_case import run_case

ROWS = json.loads((Path(__file__).parents[1] / "vectors" / "graph_runs.json").read_text("utf-8"))["rows"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_a_graph_runs_as_its_vector_says(row: dict[str, Any]) -> None:
    wanted = {key: row[key] for key in ("ok", "order", "warnings", "error") if key in row}
    assert _typed(run_case(row)) == _typed(wanted)


def _typed(value: Any) -> Any:
    """Values compared by JSON type: 1 is neither true nor 1.0."""
    if isinstance(value, dict):
        return {key: _typed(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_typed(inner) for inner in value]
    return type(value), value
