"""Runs flows over the rows of a table."""
