"""Finds, without running anything, what would run again, and the state of a run at each moment."""
