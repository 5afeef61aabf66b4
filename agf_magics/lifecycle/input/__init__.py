"""Reads what a person passes to a run: input, workers, answers."""
