"""Stores the outcomes of a run's calls on disk, so that a run can be resumed and its results
reused."""
