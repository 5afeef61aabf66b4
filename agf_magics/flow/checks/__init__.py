"""Checks a flow by its text alone: which step reads which value, and what is wrong."""
