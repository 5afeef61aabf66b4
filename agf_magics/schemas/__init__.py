"""Checks values against the schemas and patterns of definitions, and infers types before a run."""
