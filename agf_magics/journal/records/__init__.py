"""The rows of a run, read and checked."""
