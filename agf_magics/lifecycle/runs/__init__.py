"""The handle of a run."""
