"""A flow as boxes and lines, without positions."""
