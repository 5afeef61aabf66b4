"""Writes the calls of a run as rows, finds them by their digests, and reuses their results."""
