"""Digests of functions and data, by which results are reused."""
