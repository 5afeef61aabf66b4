"""Calls of a run as rows: written, found again by their digest, reused."""
