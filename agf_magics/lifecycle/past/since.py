"""Reads a time that a person writes: ``2h`` ago, ``18:30`` today, a date, or a date and a time."""

from __future__ import annotations

import re
import time
from datetime import date, datetime, timedelta
from datetime import time as clock_time

UNITS = {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
"""The seconds of each unit."""
HINT = "write 2h, 3d, 18:30, 2026-11-22 or '2026-11-22 18:30'"

_AGO = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)([mhdw])")


def seconds_of(when: object, now: float | None = None) -> float:
    """Seconds since 1970. ``when``: a text, a date, a time, or how long ago. ``now``: default None,
    the time of the clock. Raises ValueError if it is no time."""
    now = time.time() if now is None else now
    try:
        match when:
            case timedelta():
                return now - when.total_seconds()
            case datetime():
                return when.timestamp()
            case date():
                return datetime.combine(when, clock_time()).timestamp()
            case str() if ago := _AGO.fullmatch(when):
                return now - float(ago[1]) * UNITS[ago[2]]
            case str() if re.fullmatch(r"\d{1,2}:\d\d", when):
                today = datetime.fromtimestamp(now).date()
                hour, minute = map(int, when.split(":"))
                return datetime.combine(today, clock_time(hour, minute)).timestamp()
            case str():
                return datetime.fromisoformat(when).timestamp()
    except (OverflowError, OSError) as error:
        raise ValueError(str(error)) from None
    raise ValueError("not a time")
