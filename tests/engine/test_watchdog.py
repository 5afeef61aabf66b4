"""The watchdog outlives every time limit that a run may have."""

from __future__ import annotations

import math
import threading
import time

import pytest

from agf_magics.engine.host.watchdog import Watchdog


@pytest.mark.parametrize("far", [1e10, 1e12, 1e300, math.inf])
def test_a_time_far_away_does_not_end_it(far: float) -> None:
    watchdog, looked = Watchdog(), threading.Event()

    def look() -> bool:
        looked.set()
        return True

    watchdog.watch(lambda: True, time.monotonic() + far)
    watchdog.watch(look, time.monotonic())
    assert looked.wait(60)
