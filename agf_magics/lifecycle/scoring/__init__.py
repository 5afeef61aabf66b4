"""Runs over a table are scored, checked and compared."""
