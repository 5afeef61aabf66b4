"""Runs over data are scored, checked and compared."""
