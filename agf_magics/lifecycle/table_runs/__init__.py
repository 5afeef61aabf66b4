"""Runs over the rows of a table."""
