"""Fields that a definition reads, compared with a schema that may not list all fields."""

from __future__ import annotations

from typing import Any

import pytest

from agf_magics.schemas.violations import lacking


@pytest.mark.parametrize("properties", [{}, None, [], "a"])
def test_a_schema_that_names_no_properties_lacks_no_field(properties: Any) -> None:
    assert lacking({"type": "object", "properties": properties}, ["a"]) is None
    assert lacking({"type": "object", "properties": {"b": {}}}, ["a"]) == (0, ("b",))
