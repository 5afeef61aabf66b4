"""Scores, checks and compares runs over a table."""
