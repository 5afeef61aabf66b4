"""Tests of dates, times and durations of any library: their texts and their seconds."""

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from agf_magics.values.no_json import has_no_json
from agf_magics.values.times import duration_seconds, iso_text

UTC = datetime.UTC

TEXTS: list[tuple[Any, str | None]] = [
    (datetime.date(2026, 1, 2), "2026-01-02"),
    (datetime.time(10, 30), "10:30:00"),
    (datetime.datetime(2026, 1, 2, 10, 30, tzinfo=UTC), "2026-01-02T10:30:00+00:00"),
    (pd.Timestamp("2026-01-02T10:30:00.123456789"), "2026-01-02T10:30:00.123456789"),
    (np.datetime64("2026-01-02"), "2026-01-02"),
    (np.datetime64("2026-01-02T10:30", "ms"), "2026-01-02T10:30:00.000"),
    (datetime.timedelta(0), "PT0S"),
    (datetime.timedelta(seconds=1), "PT1S"),
    (datetime.timedelta(seconds=60), "PT1M"),
    (datetime.timedelta(seconds=3_661), "PT1H1M1S"),
    (datetime.timedelta(days=2), "P2D"),
    (datetime.timedelta(days=400, hours=1), "P400DT1H"),
    (datetime.timedelta(milliseconds=1_500), "PT1.5S"),
    (datetime.timedelta(days=1, microseconds=1), "P1DT0.000001S"),
    (-datetime.timedelta(hours=36), "-P1DT12H"),
    (pd.Timedelta(nanoseconds=1_001), "PT0.000001001S"),
    (np.timedelta64(90, "m"), "PT1H30M"),
    (np.timedelta64(3, "W"), "P21D"),
    (np.timedelta64(12, ("m", 5)), "PT1H"),
    (np.timedelta64(-1_500, "ms"), "-PT1.5S"),
    (np.timedelta64(1, "ns"), "PT0.000000001S"),
    (np.timedelta64(7, "as"), "PT0.000000000000000007S"),
    (np.timedelta64(3, "M"), "P3M"),
    (np.timedelta64(-2, "Y"), "-P2Y"),
    (np.timedelta64(2, ("M", 6)), "P12M"),
    (np.timedelta64(5), "5"),
    (np.datetime64("NaT"), None),
    (np.timedelta64("NaT"), None),
    (pd.NaT, None),
    (pd.NA, None),
    (math.nan, None),
    ("2026-01-02", None),
    (np.float64(1), None),
    (decimal.Decimal(1), None),
    ([datetime.date(2026, 1, 2)], None),
]


@pytest.mark.parametrize(("value", "text"), TEXTS, ids=repr)
def test_the_text_of_a_time(value: Any, text: str | None) -> None:
    assert iso_text(value) == text


SECONDS: list[tuple[Any, float | None]] = [
    (np.timedelta64(90, "m"), 5_400.0),
    (np.timedelta64(2, "W"), 1_209_600.0),
    (np.timedelta64(12, ("m", 5)), 3_600.0),
    (np.timedelta64(1, "ms"), 0.001),
    (np.timedelta64(3, "M"), None),
    (np.timedelta64(3, "Y"), None),
    (np.timedelta64(5), None),
    (np.datetime64("2026-01-02"), None),
    (datetime.timedelta(hours=1), None),
    (5, None),
]


@pytest.mark.parametrize(("value", "seconds"), SECONDS, ids=repr)
def test_the_seconds_of_a_duration_of_numpy(value: Any, seconds: float | None) -> None:
    assert duration_seconds(value) == seconds


MISSING: list[tuple[Any, bool]] = [
    *((value, True) for value in (math.nan, math.inf, -math.inf, pd.NaT, pd.NA, np.datetime64("NaT"))),
    *(
        (value, False)
        for value in (0.0, 1.5, 0, None, True, "nan", np.datetime64("2026"), np.timedelta64(0, "s"), [math.nan])
    ),
    (np.float64("nan"), False),  # `settle` makes a float of it first
]


@pytest.mark.parametrize(("value", "missing"), MISSING, ids=repr)
def test_what_no_json_has_is_missing(value: Any, missing: bool) -> None:
    assert has_no_json(value) == missing
