""""""

from __future__ import annotations

COUNTERS, LONG = 0.25, 10.0
"""Seconds between two updates if only counters change: an update costs half a kilobyte, whatever is
in it, and the page a frame. Twice as many for a run that takes longer than ``LONG`` seconds."""
