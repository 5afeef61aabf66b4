"""Tests of the JSON that is written for others: in prompts, in results for a model, in files."""

from __future__ import annotations

import datetime
import decimal
import json
import math
from typing import Any

import numpy as np
import pytest

from agf_magics.values.json_text import TooLong, write_json
from agf_magics.values.value import OTHER_KEYS

DAY = datetime.date(2026, 1, 2)
NAT = np.datetime64("NaT")

WRITTEN: dict[str, tuple[Any, str, bool]] = {
    "a text": ('é\n"', '"é\\n\\""', False),
    "a mapping": ({"a": [1, True, None, 1.5]}, '{"a":[1,true,null,1.5]}', False),
    "nothing": ({}, "{}", False),
    "a number that is none": (math.nan, "null", True),
    "numbers that are none": ([1, math.inf, -math.inf], "[1,null,null]", True),
    "a number that is none, of a key": ({"a": math.nan, "b": 1}, '{"a":null,"b":1}', True),
    "NaT": (NAT, "null", True),
    "NaT in a list": ([NAT, 1], "[null,1]", True),
    "null after a number that is none": ([math.nan, None], "[null,null]", True),
    "null after NaT": ({"a": NAT, "b": None}, '{"a":null,"b":null}', True),
    "texts that look so": (
        ["NaN", "Infinity", "null", "-Infinity", "any"],
        '["NaN","Infinity","null","-Infinity","any"]',
        False,
    ),
    "keys that look so": ({"NaN": 1, "null": 2}, '{"NaN":1,"null":2}', False),
    "a date": ([DAY], '["2026-01-02"]', False),
    "a duration": (datetime.timedelta(hours=1), '"PT1H"', False),
}
"""For each case: a value, its text, and whether a number became null."""


@pytest.mark.parametrize("case", WRITTEN)
def test_a_value_is_written(case: str) -> None:
    value, text, has_nulls = WRITTEN[case]
    assert write_json(value, 1_000) == (text, has_nulls)
    assert json.loads(write_json(value, 1_000, compact=False).text) == json.loads(text)


def test_a_text_for_people_has_blanks() -> None:
    assert write_json({"a": [1, 2]}, 1_000, compact=False).text == '{"a": [1, 2]}'


@pytest.mark.parametrize("value", ["x" * 8, [1, 1, 1, 1], {"a": "bcd"}, [math.nan, 12]])
def test_a_text_has_at_most_so_many_characters(value: Any) -> None:
    longest = len(write_json(value, 1_000).text)
    assert len(write_json(value, longest).text) == longest
    with pytest.raises(TooLong, match=f"has more than {longest - 1} characters"):
        write_json(value, longest - 1)


def test_a_small_value_that_is_a_large_text_is_given_up() -> None:
    value: Any = "x" * 10
    for _ in range(40):
        value = [value, value]
    with pytest.raises(TooLong, match="more than 100,000 characters"):
        write_json(value, 100_000)


def test_an_opaque_value_is_refused_by_the_name_of_its_type_or_written_otherwise() -> None:
    value = {"a": [decimal.Decimal(1), DAY, NAT]}
    with pytest.raises(TypeError, match=r"^an opaque Decimal$"):
        write_json(value, 1_000)
    assert write_json(value, 1_000, lambda part: f"<{part}>") == ('{"a":["<1>","2026-01-02",null]}', True)


SHARED = [1]


@pytest.mark.parametrize("value", [{1: "a"}, [{"a": {None: 1}}], {"a": [[{True: 1}]]}, [{1: "a"}, SHARED, SHARED]])
def test_a_mapping_with_other_keys_than_texts_is_refused(value: Any) -> None:
    with pytest.raises(TypeError) as refused:
        write_json(value, 1_000)
    assert str(refused.value) == OTHER_KEYS


def test_a_shared_part_is_written_in_each_of_its_places() -> None:
    part = {"a": 1}
    assert write_json([part, [part], part], 1_000).text == '[{"a":1},[{"a":1}],{"a":1}]'
