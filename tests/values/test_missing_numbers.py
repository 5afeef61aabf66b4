"""Missing numbers: what JSON has no number for is null wherever a value becomes JSON, whatever class it has."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import pytest

from agf_magics.values.as_json import as_json
from agf_magics.values.json_text import write_json
from agf_magics.values.tables.columns import arrow_column
from agf_magics.values.tables.rows import cell

MISSING: dict[str, Any] = {
    "NaN": math.nan,
    "an infinity": math.inf,
    "NaN of Decimal": Decimal("NaN"),
    "a NaN of Decimal that signals": Decimal("sNaN"),
    "an infinity of Decimal": Decimal("-Infinity"),
}


@pytest.mark.parametrize("kind", MISSING)
def test_a_missing_number_is_null(kind: str) -> None:
    value = MISSING[kind]
    assert cell(value) is None
    assert as_json({"n": [value]}) == {"n": [None]}
    assert json.loads(write_json([value], 100).text) == [None]


@pytest.mark.parametrize("kind", ["NaN of Decimal", "a NaN of Decimal that signals"])
def test_a_missing_number_among_decimals_is_empty_in_a_column(kind: str) -> None:
    assert arrow_column([Decimal("1.5"), MISSING[kind]]).to_pylist() == [Decimal("1.5"), None]


def test_a_decimal_that_is_a_number_stays() -> None:
    assert cell(Decimal("1.50")) == Decimal("1.50")
