"""Tests of the data edges of a flow: tests/vectors/wires.json has which step reads the value of which other step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agf_magics.flow.checks.wiring import wires
from tests.languages.loading import load

ROWS = json.loads((Path(__file__).parents[1] / "vectors" / "wires.json").read_text("utf-8"))["rows"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_a_value_flows_from_its_writer_to_its_readers(row: dict[str, Any]) -> None:
    definition, problems = load(row["language"], row["text"])
    assert definition.flow is not None, problems
    assert [[wire.source, wire.dest, wire.name] for wire in wires(definition.flow)] == row["wires"]
