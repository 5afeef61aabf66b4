"""Reads and checks the rows of a run."""
